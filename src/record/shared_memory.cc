#include "record/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "base/fd.h"

namespace backstep::recorder {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMostPages = 1 << 24;  // 64 GB; the control file is sparse
constexpr uint64_t kControlSize = sizeof(SharedHeader) + kMostPages * sizeof(SharedPage);
constexpr uint32_t kNone = ~0u;

void wait_for_change(uint32_t* word, uint32_t value) {
  timespec most{0, 5'000'000};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &most, nullptr, 0);
}
void wake(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
uint32_t load(const uint32_t& word) {
  return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
}
bool is_gone(uint32_t pid) {
  return kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

// The entries for so many bytes: a store into a sparse mapping of a full disk would be a SIGBUS.
bool allocate(int control, uint64_t bytes) {
  const uint64_t size = sizeof(SharedHeader) + (bytes / kPage + 1) * sizeof(SharedPage);
  if (int err = posix_fallocate(control, 0, static_cast<off_t>(size)); err) {
    errno = err;
    return false;
  }
  return true;
}

}  // namespace

SharedObject::SharedObject(const std::string& control_path, int fd, uint64_t bytes, void* alias)
    : path_(control_path) {
  Fd control(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  void* p = MAP_FAILED;
  if (control && allocate(control.get(), bytes) && ftruncate(control.get(), kControlSize) == 0)
    p = mmap(nullptr, kControlSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, control.get(), 0);
  if (p == MAP_FAILED) throw Error(fmt::format("cannot make {}: {}", path_, errno_text(errno)));
  header_ = static_cast<SharedHeader*>(p);
  pages_ = reinterpret_cast<SharedPage*>(header_ + 1);
  if (alias) {
    alias_ = static_cast<unsigned char*>(alias);
    bytes_ = (bytes + kPage - 1) & ~(kPage - 1);
    seen_.resize(bytes_ / kPage, kNone);
    owned_.resize(bytes_ / kPage);
  } else {
    extend(fd, bytes);
  }
  const auto me = static_cast<uint32_t>(getpid());
  if (__atomic_fetch_add(&header_->attached, 1, __ATOMIC_SEQ_CST) == 0) {
    __atomic_store_n(&header_->alone, me, __ATOMIC_SEQ_CST);
    alone_ = true;
    return;
  }
  // The one that had it to itself must begin to share.
  for (;;) {
    uint32_t other = load(header_->alone);
    if (other == 0) return;
    if (is_gone(other)) {
      take(header_->alone, other, 0);
      continue;
    }
    ask(other);
    wait_for_change(&header_->alone, other);
  }
}

SharedObject::~SharedObject() {
  if (header_) munmap(header_, kControlSize);
  if (alias_) munmap(alias_, bytes_);
}

void SharedObject::extend(int fd, uint64_t bytes) {
  bytes = (bytes + kPage - 1) & ~(kPage - 1);
  if (bytes <= bytes_) return;
  if (bytes / kPage > kMostPages) throw Error("a shared mapping of more than 64 GB is not supported");
  if (bytes_) {
    Fd control(open(path_.c_str(), O_RDWR | O_CLOEXEC));
    if (control && !allocate(control.get(), bytes))
      throw Error(fmt::format("cannot make {} larger: {}", path_, errno_text(errno)));
  }
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED) p = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED) throw Error("cannot map a shared file a second time: " + errno_text(errno));
  if (alias_) munmap(alias_, bytes_);
  alias_ = static_cast<unsigned char*>(p);
  bytes_ = bytes;
  seen_.resize(bytes / kPage, kNone);
  owned_.resize(bytes / kPage);
}

bool SharedObject::take(uint32_t& word, uint32_t expected, uint32_t wanted) {
  return __atomic_compare_exchange_n(&word, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

void SharedObject::ask(uint32_t pid) const {
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  info.si_signo = SIGTRAP;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_ptr = reinterpret_cast<void*>(kShareSignal);
  syscall(SYS_rt_sigqueueinfo, pid, SIGTRAP, &info);
}

bool SharedObject::wanted(uint64_t page) const {
  return load(pages_[page].wanted) != 0;
}

bool SharedObject::must_leave_alone() const {
  return alone_ && load(header_->attached) > 1;
}

bool SharedObject::acquire(uint64_t page, const std::function<void()>& meanwhile) {
  SharedPage& p = pages_[page];
  const auto me = static_cast<uint32_t>(getpid());
  if (!owns(page)) {
    __atomic_fetch_add(&p.wanted, 1, __ATOMIC_SEQ_CST);
    for (;;) {
      uint32_t owner = load(p.owner);
      if (owner == me || (owner == 0 && take(p.owner, 0, me))) break;
      if (owner == 0) continue;
      if (is_gone(owner)) {
        if (take(p.owner, owner, me)) {
          __atomic_fetch_add(&p.version, 1, __ATOMIC_SEQ_CST);
          break;
        }
        continue;
      }
      ask(owner);
      wait_for_change(&p.owner, owner);
      meanwhile();
    }
    __atomic_fetch_sub(&p.wanted, 1, __ATOMIC_SEQ_CST);
    owned_[page] = true;
    owned_list_.push_back(page);
  }
  const uint32_t version = load(p.version);
  const bool changed = !alone_ && seen_[page] != version;
  seen_[page] = version;
  return changed;
}

void SharedObject::release(uint64_t page) {
  if (!owned_[page]) return;
  owned_[page] = false;
  std::erase(owned_list_, page);
  SharedPage& p = pages_[page];
  seen_[page] = __atomic_add_fetch(&p.version, 1, __ATOMIC_SEQ_CST);
  __atomic_store_n(&p.owner, 0, __ATOMIC_SEQ_CST);
  wake(&p.owner);
}

void SharedObject::release_all() {
  while (!owned_list_.empty()) release(owned_list_.back());
}

void SharedObject::leave_alone() {
  if (!alone_) return;
  for (uint64_t i = 0; i < seen_.size(); i++)
    seen_[i] = __atomic_add_fetch(&pages_[i].version, 1, __ATOMIC_SEQ_CST);
  alone_ = false;
  __atomic_store_n(&header_->alone, 0, __ATOMIC_SEQ_CST);
  wake(&header_->alone);
}

void SharedObject::attach_child() {
  __atomic_fetch_add(&header_->attached, 1, __ATOMIC_SEQ_CST);
}

void SharedObject::detach() {
  release_all();
  leave_alone();
  if (__atomic_sub_fetch(&header_->attached, 1, __ATOMIC_SEQ_CST) == 0) unlink(path_.c_str());
}

}  // namespace backstep::recorder
