// The protocol between recorders, on words that all of them map. Nothing here is a lock that a killed process
// could leave locked: a page's state changes by one compare-and-swap, and holders that are dead are noticed
// by those who wait for them.
#include "record/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/error.h"
#include "base/fd.h"
#include "base/hot.h"
#include "base/room_for_fds.h"
#include "engine/entry.h"
#include "record/body_hot.h"
#include "record/life.h"
#include "record/rights.h"
#include "record/shared_words.h"
#include "record/turns.h"
#include "recording/shared_folder.h"

namespace backstep::recorder {
namespace {

using layout::kPage;
constexpr uint64_t kMostPages = SharedHeader::kMostPages;
constexpr uint64_t kPagesAt = sizeof(SharedHeader) + SharedHeader::kChunks;
constexpr uint64_t kUsualPages = 1 << 24;  // 64 GB: for so many the control file is mapped at least
static_assert(SharedHeader::kChunk == SparsePages<int>::kChunk);

uint64_t entry_at(uint64_t page) {
  return kPagesAt + page * sizeof(SharedPage);
}
constexpr uint32_t kForeign = 0x3f'fffe;  // instead of the pid of a foreign process

bool foreign = false;

uint32_t own_name() {
  return foreign ? kForeign : static_cast<uint32_t>(getpid());
}

uint32_t own_user() {
  return has_capability(CAP_KILL) ? 0 : 1 + getuid();
}

bool allocate_part(int control, uint64_t from, uint64_t to) {
  if (int err = posix_fallocate(control, static_cast<off_t>(from), static_cast<off_t>(to - from)); err) {
    errno = err;
    return false;
  }
  return true;
}

// The entries for these bytes: a store into a sparse mapping of a full disk would be a SIGBUS. Of very long
// mappings few pages are used: those get theirs one chunk at a time (SharedObject::entry).
bool allocate(int control, uint64_t from, uint64_t bytes) {
  constexpr uint64_t kLong = 4ull << 30;
  const uint64_t last = bytes / kPage + 1;
  if (!allocate_part(control, 0, sizeof(SharedHeader) + last / SharedHeader::kChunk + 1)) return false;
  const uint64_t first = bytes - from > kLong ? last - 1 : from / kPage;
  return allocate_part(control, entry_at(first), entry_at(last));
}

}  // namespace

// To the thread that runs the guest, which is the first: a body could do nothing about it.
bool signal_runner(uint32_t pid) {
  if (foreign || pid == kForeign) {
    errno = EPERM;
    return false;
  }
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  info.si_signo = SIGTRAP;
  info.si_code = SI_QUEUE;
  info.si_pid = bs_wakeups.pid;
  info.si_value.sival_ptr = reinterpret_cast<void*>(kShareSignal);
  return syscall(SYS_rt_tgsigqueueinfo, pid, pid, SIGTRAP, &info) == 0;
}

// By a signal, or, if it is another user's, by the bell.
void call(uint32_t pid, const std::string& control) {
  if (signal_runner(pid) || errno != EPERM) return;
  const recording::Place place(control);
  utimensat(place.folder, place.name.c_str(), nullptr, 0);
}

void live_in_foreign_namespace() {
  foreign = true;
}

bool is_foreign() {
  return foreign;
}

std::string control_name(uint64_t dev, uint64_t inode) {
  return fmt::format("shared-{:x}-{:x}", dev, inode);
}

SharedObject::SharedObject(const std::string& folder, std::string name, int fd, uint64_t from, uint64_t bytes,
                           void* alias)
    : folder_(folder), name_(std::move(name)), me_(own_name()) {
  if (alias) {
    alias_ = static_cast<unsigned char*>(alias);
    bytes_ = (bytes + kPage - 1) & ~(kPage - 1);
    local_.grow(bytes_ / kPage);
  } else {
    extend(fd, from, bytes);
  }
  join(from, bytes);
  // If nobody else has it, it is ours alone. Others may come at any time: they count themselves in first and
  // then look who is alone, we the other way round.
  if (load(header_->attached) == 1) {
    __atomic_store_n(&header_->alone, me_, __ATOMIC_SEQ_CST);
    alone_ = load(header_->attached) == 1;
    if (alone_) return;
    swap(header_->alone, me_, 0u);
    wake(&header_->alone);
  }
  // The one that had it to itself must begin to share.
  if (foreign || load(header_->alone) == kForeign) {
    open_to_all();
    return;
  }
  for (;;) {
    const uint32_t other = load(header_->alone);
    if (other == 0) return;
    if (is_gone(other)) {
      swap(header_->alone, other, 0u);
      continue;
    }
    ask(0, other);
    wait_for_change(&header_->alone, other);
  }
}

void SharedObject::open_to_all() {
  shared_control::open_to_writer(path());
  const int64_t until = monotonic_ns() + kForeignPatience;
  for (uint32_t other; (other = load(header_->alone)) != 0 && other != me_ && monotonic_ns() < until;) {
    call(other, path());
    wait_for_change(&header_->alone, other);
  }
}

bool SharedObject::open_control(uint64_t from, uint64_t bytes) {
  Fd control(recording::make_shared_file(path(), O_RDWR | O_CLOEXEC));
  uint64_t pages = kUsualPages;
  while (pages <= bytes / kPage) pages *= 2;
  const uint64_t size = entry_at(pages);
  void* p = MAP_FAILED;
  if (control && allocate(control.get(), from, bytes))
    p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, control.get(), 0);
  if (p == MAP_FAILED) return false;
  if (header_) munmap(header_, control_bytes_);
  header_ = static_cast<SharedHeader*>(p);
  control_bytes_ = size;
  used_ = reinterpret_cast<uint8_t*>(header_ + 1);
  pages_ = reinterpret_cast<SharedPage*>(used_ + SharedHeader::kChunks);
  return true;
}

SharedPage& SharedObject::entry(uint64_t page) {
  uint8_t& used = used_[page / SharedHeader::kChunk];
  if (!load(used)) {
    const uint64_t first = page / SharedHeader::kChunk * SharedHeader::kChunk;
    RoomForFds room;
    Fd control(recording::open_file(path(), O_RDWR | O_CLOEXEC));
    if (control && !allocate_part(control.get(), entry_at(first), entry_at(first + SharedHeader::kChunk)))
      throw Error(fmt::format("cannot make {} larger: {}", path(), errno_text(errno)));
    __atomic_store_n(&used, 1, __ATOMIC_SEQ_CST);
  }
  return pages_[page];
}

uint32_t SharedObject::version(uint64_t page) const {
  return load(used_[page / SharedHeader::kChunk]) ? load(pages_[page].version) : 0;
}

SharedObject::Local& SharedObject::local(uint64_t page) {
  return local_.get(
      page, [&](uint64_t index, Local& fresh) { fresh.seen = index < others_until_ ? others_seen_ : kNone; });
}

void SharedObject::for_each_page(uint64_t first, uint64_t last,
                                 const std::function<void(uint64_t page)>& f) const {
  constexpr uint64_t kLong = 1 << 16;
  const bool all = last - first <= kLong;
  for (uint64_t page = first; page < last;) {
    if (!all && !load(used_[page / SharedHeader::kChunk])) {
      page = (page / SharedHeader::kChunk + 1) * SharedHeader::kChunk;
      continue;
    }
    f(page++);
  }
}

bool SharedObject::count_in() {
  for (uint32_t count = load(header_->attached); count != SharedHeader::kGivenUp;)
    if (__atomic_compare_exchange_n(&header_->attached, &count, count + 1, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
      return true;
  return false;
}

void SharedObject::join(uint64_t from, uint64_t bytes) {
  constexpr int kPatience = 1000;
  for (int tries = 0;; tries++) {
    if (!open_control(from, bytes)) throw Error(fmt::format("cannot make {}: {}", path(), errno_text(errno)));
    tell_extent();
    sit_down();
    if (count_in()) return;
    // Who has given it up removes it, unless that one was killed just then.
    if (tries == kPatience) recording::remove_file(path());
    usleep(100);
  }
}

SharedObject::~SharedObject() {
  if (view_) munmap(view_, view_bytes_);
  if (header_) munmap(header_, control_bytes_);
  if (alias_) munmap(alias_, bytes_);
}

void SharedObject::sit_down() {
  seat_ = -1;
  if (foreign) return;
  const uint64_t started = life_of(me_).started;
  const uint32_t user = own_user();
  for (bool of_the_dead : {false, true})
    for (int i = 0; i < SharedHeader::kSeats; i++) {
      Seat& seat = header_->seats[i];
      const uint32_t pid = load(seat.pid);
      if (pid != 0 && pid != me_ && !(of_the_dead && is_gone(pid))) continue;
      // What its last owner held for reading, if it was killed, looks like ours then: that costs a question.
      if (!swap(seat.pid, pid, me_)) continue;
      __atomic_store_n(&seat.asleep, 0, __ATOMIC_SEQ_CST);
      __atomic_store_n(&seat.viewing, 0, __ATOMIC_SEQ_CST);
      __atomic_store_n(&seat.stopping, kNotStopping, __ATOMIC_SEQ_CST);
      __atomic_store_n(&seat.taken_count, 0, __ATOMIC_SEQ_CST);
      __atomic_store_n(&seat.started, started, __ATOMIC_SEQ_CST);
      __atomic_store_n(&seat.user, user, __ATOMIC_SEQ_CST);
      seat_ = i;
      return;
    }
}

void SharedObject::extend(int fd, uint64_t from, uint64_t bytes) {
  bytes = (bytes + kPage - 1) & ~(kPage - 1);
  if (bytes / kPage >= kMostPages)
    throw Error("a shared mapping that ends beyond 4 TB of its file is not supported");
  if (header_) {
    Fd control(recording::open_file(path(), O_RDWR | O_CLOEXEC));
    if (control && !allocate(control.get(), from, bytes))
      throw Error(fmt::format("cannot make {} larger: {}", path(), errno_text(errno)));
    if (entry_at(bytes / kPage + 1) > control_bytes_ && !open_control(from, bytes))
      throw Error(fmt::format("cannot map {}: {}", path(), errno_text(errno)));
  }
  if (bytes <= bytes_) return;
  void* p = MAP_FAILED;
  if (fd < 0) {
    p = mremap(alias_, bytes_, bytes, MREMAP_MAYMOVE);
  } else {
    p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED) p = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  }
  if (p == MAP_FAILED) throw Error("cannot map a shared file a second time: " + errno_text(errno));
  if (alias_ && fd >= 0) munmap(alias_, bytes_);
  alias_ = static_cast<unsigned char*>(p);
  bytes_ = bytes;
  local_.grow(bytes / kPage);
  if (header_) tell_extent();
  if (!view_) return;
  p = bytes <= view_most_ ? mremap(view_, view_bytes_, bytes, MREMAP_MAYMOVE) : MAP_FAILED;
  if (p == MAP_FAILED) throw Error("cannot make the view of shared memory larger");
  view_ = static_cast<unsigned char*>(p);
  view_bytes_ = bytes;
}

void SharedObject::tell_extent() {
  const auto mine = static_cast<uint32_t>(local_.size());
  for (uint32_t most = load(header_->extent); most < mine;)
    if (__atomic_compare_exchange_n(&header_->extent, &most, mine, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      return;
}

bool SharedObject::exists(uint64_t page) const {
  unsigned char probe;
  return bs_guarded_copy(&probe, contents(page), 1);
}

uint64_t SharedObject::existing_pages() const {
  uint64_t there = 0, beyond = local_.size();
  while (there < beyond) {
    const uint64_t middle = there + (beyond - there) / 2;
    if (exists(middle))
      there = middle + 1;
    else
      beyond = middle;
  }
  return there;
}

uint32_t SharedObject::sum_of(uint64_t page) const {
  return exists(page) ? hot::crc32c(0, contents(page), kPage) : 0;
}

Seat* SharedObject::seat_of(uint32_t pid) const {
  for (Seat& seat : header_->seats)
    if (load(seat.pid) == pid) return &seat;
  return nullptr;
}

bool SharedObject::is_gone(uint32_t pid) const {
  // Who cannot be looked at is waited for, but not for ever.
  if (foreign || pid == kForeign) {
    const auto [first, fresh] = waited_for_.try_emplace(pid, monotonic_ns());
    return monotonic_ns() - first->second > kForeignPatience;
  }
  const Seat* seat = seat_of(pid);
  return is_dead(pid, seat ? load(seat->started) : 0);
}

// For some microseconds: nobody waits for anything while it has it.
void SharedObject::lock() const {
  for (unsigned tries = 1;; tries++) {
    uint32_t holder = 0;
    if (__atomic_compare_exchange_n(&header_->lock, &holder, me_, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      return;
    sched_yield();
    if (tries % 1024 == 0 && is_gone(holder)) swap(header_->lock, holder, 0u);
  }
}

void SharedObject::ask(uint64_t page, uint32_t pid) {
  if (Seat* seat = seat_of(pid)) {
    const uint32_t at = __atomic_fetch_add(&seat->mail_count, 1, __ATOMIC_SEQ_CST);
    if (at < Seat::kMail)
      __atomic_store_n(&seat->pages[at], static_cast<uint32_t>(page + 1), __ATOMIC_SEQ_CST);
  }
  // A pid that is another process's by now must not get the signal: it would die of it. Pids are not used
  // again within milliseconds.
  constexpr int64_t kSure = 10'000'000;
  const int64_t now = monotonic_ns();
  auto& sure_until = alive_until_[pid];
  if (sure_until < now) {
    if (is_gone(pid)) return;
    sure_until = now + kSure;
  }
  call(pid, path());
}

std::vector<uint64_t> SharedObject::asked() {
  if (seat_ < 0) return held_;
  Seat& seat = header_->seats[seat_];
  const uint32_t count = __atomic_exchange_n(&seat.mail_count, 0, __ATOMIC_SEQ_CST);
  if (count > Seat::kMail) return held_;
  std::vector<uint64_t> pages;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t page = __atomic_exchange_n(&seat.pages[i], 0, __ATOMIC_SEQ_CST);
    if (page == 0) return held_;  // it is being written
    if (page <= local_.size()) pages.push_back(page - 1);
  }
  return pages;
}

bool SharedObject::must_leave_alone() const {
  return alone_ && load(header_->attached) > 1;
}

SharedObject::Hold SharedObject::leaves(uint64_t page) const {
  if (!load(used_[page / SharedHeader::kChunk])) return Hold::Write;
  const SharedPage& p = pages_[page];
  if (load(p.waiting) == 0) return Hold::Write;
  return load(p.want_write) || seat_ < 0 ? Hold::None : Hold::Read;
}

bool SharedObject::contested(uint64_t page) const {
  return hold(page) > leaves(page);
}

// True: we have it.
bool SharedObject::take(SharedPage& p, bool write) {
  for (;;) {
    const uint64_t state = load(p.state);
    const uint32_t writer = writer_of(state);
    if (writer == me_) return (state & kReaders) == 0;
    if (writer) return false;
    if (!write && seat_ >= 0) {
      if (swap(p.state, state, state | bit())) return true;
    } else {
      swap(p.state, state, with_writer(state & ~bit(), me_));
    }
  }
}

// The holder waits in the kernel and does not look at its memory: its page can be had without asking. It is
// kept from waking up meanwhile.
bool SharedObject::rob(uint64_t page, SharedPage& p, uint32_t pid, bool write) {
  Seat* seat = seat_of(pid);
  if (!seat || !swap(seat->asleep, 1u, me_)) return false;
  const uint64_t theirs = 1ull << (seat - header_->seats);
  for (;;) {
    const uint64_t state = load(p.state);
    uint64_t next = state & ~theirs;
    const bool wrote = writer_of(state) == pid;
    if (wrote) next = with_writer(next, 0) | (write ? 0 : theirs);
    if (!wrote && !(state & theirs)) break;
    if (!swap(p.state, state, next)) continue;
    if (wrote) __atomic_fetch_add(&p.version, 1, __ATOMIC_SEQ_CST);
    const uint32_t at = __atomic_fetch_add(&seat->taken_count, 1, __ATOMIC_SEQ_CST);
    if (at < Seat::kMail)
      __atomic_store_n(&seat->taken[at], static_cast<uint32_t>(page + 1), __ATOMIC_SEQ_CST);
    break;
  }
  __atomic_store_n(&seat->asleep, 1, __ATOMIC_SEQ_CST);
  return true;
}

// Holders that were killed.
void SharedObject::bury(SharedPage& p) {
  const uint64_t state = load(p.state);
  const uint32_t writer = writer_of(state);
  if (writer && writer != me_ && writer != kOpen && is_gone(writer) &&
      swap(p.state, state, with_writer(state, 0))) {
    __atomic_fetch_add(&p.version, 1, __ATOMIC_SEQ_CST);
    return;
  }
  for (int i = 0; i < SharedHeader::kSeats; i++) {
    if (!(state >> i & 1) || i == seat_) continue;
    const uint32_t pid = load(header_->seats[i].pid);
    if (pid == 0 || is_gone(pid)) __atomic_fetch_and(&p.state, ~(1ull << i), __ATOMIC_SEQ_CST);
  }
}

// False: the page is open.
bool SharedObject::wait_for(uint64_t page, bool write, const std::function<void()>& meanwhile) {
  SharedPage& p = entry(page);
  constexpr int64_t kPatience = 1'000'000;  // ns until somebody is asked again
  uint64_t asked = 0;                       // readers, and the writer's pid
  int64_t asked_ns = 0;
  bool got = true;
  __atomic_fetch_add(&p.waiting, 1, __ATOMIC_SEQ_CST);
  if (write) __atomic_fetch_add(&p.want_write, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    const uint32_t changes = load(p.changes);
    if (take(p, write)) break;
    const int64_t now = monotonic_ns();
    if (asked_ns && now - asked_ns > kPatience) {
      bury(p);
      asked = 0;
    }
    const uint64_t state = load(p.state);
    const uint32_t writer = writer_of(state);
    if (writer == kOpen) {
      got = false;
      break;
    }
    if (writer && writer != me_ && writer != writer_of(asked) && !rob(page, p, writer, write)) {
      ask(page, writer);
      asked = with_writer(asked, writer);
      asked_ns = now;
    }
    if (writer == me_)
      for (int i = 0; i < SharedHeader::kSeats; i++) {
        if (!((state & ~asked) >> i & 1)) continue;
        const uint32_t pid = load(header_->seats[i].pid);
        if (pid && rob(page, p, pid, true)) continue;
        if (pid) ask(page, pid);
        asked |= 1ull << i;
        asked_ns = now;
      }
    if (take(p, write)) break;
    wait_for_change(&p.changes, changes);
    meanwhile();
  }
  if (write) __atomic_fetch_sub(&p.want_write, 1, __ATOMIC_SEQ_CST);
  __atomic_fetch_sub(&p.waiting, 1, __ATOMIC_SEQ_CST);
  return got;
}

void SharedObject::set_hold(uint64_t page, Hold hold) {
  Local& mine = local(page);
  if (mine.hold == Hold::None && hold != Hold::None) {
    mine.place = static_cast<uint32_t>(held_.size());
    held_.push_back(page);
  } else if (mine.hold != Hold::None && hold == Hold::None) {
    local(held_.back()).place = mine.place;
    held_[mine.place] = held_.back();
    held_.pop_back();
  }
  mine.hold = hold;
}

bool SharedObject::acquire(uint64_t page, Hold wanted, const std::function<void()>& meanwhile) {
  Local& mine = local(page);
  if (seat_ < 0) wanted = Hold::Write;
  if (hold(page) < wanted) {
    // A page that was read and then written would change hands twice.
    mine.hinted = wanted == Hold::Read && mine.migrates;
    if (mine.hinted) wanted = Hold::Write;
    if (mine.hold == Hold::Read) mine.migrates = true;
    if (!wait_for(page, wanted == Hold::Write, meanwhile)) return false;
    set_hold(page, wanted);
    if (mine.hinted) mine.sum = sum_of(page);
  }
  if (alone_) return false;
  const uint32_t version = this->version(page);
  const bool changed = mine.seen != version;
  before_ = mine.seen != kNone && mine.copied == mine.seen ? mine.copy.get() : nullptr;
  if (changed) mine.copied = kNone;
  mine.seen = version;
  if (wanted == Hold::Write) mine.copied = kNone;
  return changed;
}

void SharedObject::keep_copy(uint64_t page) {
  Local& mine = local(page);
  if (!mine.copy) mine.copy = std::make_unique<Page>();
  // What has been cut off is zero if it comes back.
  if (!bs_guarded_copy(mine.copy->data(), contents(page), kPage)) mine.copy->fill(0);
}

void SharedObject::lower(uint64_t page, Hold to, const std::function<void()>& meanwhile) {
  Local& mine = local(page);
  SharedPage& p = entry(page);
  if (mine.hold == Hold::None && load(p.state) & bit()) {
    // The one that had our seat before was killed with it.
    __atomic_fetch_and(&p.state, ~bit(), __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&p.changes, 1, __ATOMIC_SEQ_CST);
    wake(&p.changes);
  }
  if (mine.hold <= to) return;
  const bool wrote = mine.hold == Hold::Write;
  set_hold(page, to);
  meanwhile();
  const bool copied = to == Hold::None && mine.copied == kNone && copies_;
  if (copied) keep_copy(page);
  if (mine.hinted && mine.sum == sum_of(page)) mine.migrates = false;
  mine.hinted = false;
  if (wrote) {
    const uint32_t version = __atomic_add_fetch(&p.version, 1, __ATOMIC_SEQ_CST);
    if (mine.seen != kNone) mine.seen = version;
  }
  if (copied) mine.copied = mine.seen;
  for (;;) {
    const uint64_t state = load(p.state);
    uint64_t next = state & ~bit();
    if (wrote) next = with_writer(next, 0);
    if (to == Hold::Read) next |= bit();
    if (swap(p.state, state, next)) break;
  }
  __atomic_fetch_add(&p.changes, 1, __ATOMIC_SEQ_CST);
  if (load(p.waiting)) wake(&p.changes);
}

void SharedObject::release_all() {
  // Copies of so many pages would take longer than logging those whole that change hands.
  constexpr size_t kFew = 512;
  copies_ = held_.size() <= kFew;
  while (!held_.empty()) lower(held_.back(), Hold::None, [] {});
  copies_ = true;
}

void SharedObject::leave_alone() {
  if (!alone_) return;
  // All that is in them is known to a replay, also where others had written before we were alone.
  others_seen_ = 0;
  others_until_ = ~0ull;
  for (uint64_t chunk = 0; chunk * SharedHeader::kChunk < local_.size(); chunk++)
    if (load(used_[chunk])) local(chunk * SharedHeader::kChunk);
  local_.for_each(0, [&](uint64_t page, Local& mine) { mine.seen = version(page); });
  alone_ = false;
  __atomic_store_n(&header_->alone, 0, __ATOMIC_SEQ_CST);
  wake(&header_->alone);
}

bool SharedObject::return_alone() {
  if (load(header_->attached) != 1 || is_open()) return false;
  __atomic_store_n(&header_->alone, me_, __ATOMIC_SEQ_CST);
  if (load(header_->attached) == 1) {
    alone_ = true;
    while (!held_.empty()) set_hold(held_.back(), Hold::None);
    local_.for_each(0, [](uint64_t, Local& mine) { mine.copied = kNone; });
    return true;
  }
  __atomic_store_n(&header_->alone, 0, __ATOMIC_SEQ_CST);
  wake(&header_->alone);
  return false;
}

std::vector<uint64_t> SharedObject::stale(size_t most) const {
  std::vector<uint64_t> pages;
  for (uint64_t i = 0; i < local_.size() && pages.size() < most; i++) {
    const Local* mine = local_.find(i);
    const uint32_t seen = mine ? mine->seen : i < others_until_ ? others_seen_ : kNone;
    if (seen != version(i)) {
      pages.push_back(i);
    } else if (!mine && !load(used_[i / SharedHeader::kChunk]) && seen == 0) {
      const uint64_t chunk_end = (i / SharedHeader::kChunk + 1) * SharedHeader::kChunk;
      i = std::max(i, std::min(chunk_end, others_until_) - 1);
    }
  }
  return pages;
}

void SharedObject::forget_all() {
  if (!alone_) others_seen_ = kNone;
  local_.for_each(0, [&](uint64_t, Local& mine) {
    if (mine.hold == Hold::None && !alone_) mine.seen = kNone;
    mine.known = false;
  });
}

void SharedObject::forget_from(uint64_t page) {
  others_until_ = std::min(others_until_, page);
  local_.for_each(page, [](uint64_t, Local& mine) {
    mine.seen = mine.copied = kNone;
    mine.known = false;
  });
}

void SharedObject::set_open() {
  if (__atomic_exchange_n(&header_->open, 1, __ATOMIC_SEQ_CST)) return;
  for (const Seat& seat : header_->seats)
    if (const uint32_t pid = load(seat.pid); pid && pid != me_) ask(0, pid);
}

// What a replay has in these pages is not known here (a copy of all of them would take long, and outsiders
// may be at work already): the first access to each logs it whole.
// The file behind it is as large as it can ever become (and empty), so that no descriptor of it must be kept,
// which the guest could see or close: more of it is mapped by mremap.
void SharedObject::make_view() {
  release_all();
  leave_alone();
  if (view_) munmap(view_, view_bytes_);
  RoomForFds room;
  Fd fd(memfd_create("backstep-view", MFD_CLOEXEC));
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  view_most_ = std::max(bytes_, std::min<uint64_t>(kMostPages * kPage, limit.rlim_cur));
  void* p = MAP_FAILED;
  if (fd && ftruncate(fd.get(), static_cast<off_t>(view_most_)) == 0)
    p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (p == MAP_FAILED) throw Error("cannot make a view of shared memory: " + errno_text(errno));
  view_ = static_cast<unsigned char*>(p);
  view_bytes_ = bytes_;
  local_.for_each(0, [](uint64_t, Local& mine) { mine.known = false; });
  if (seat_ >= 0) __atomic_store_n(&header_->seats[seat_].viewing, 1, __ATOMIC_SEQ_CST);
}

bool SharedObject::show_view(uint64_t at, uint64_t offset, uint64_t bytes) const {
  void* to = reinterpret_cast<void*>(at);
  // Of a length of 0 a second mapping of the same memory is made.
  return mremap(view_ + offset, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to &&
         mprotect(to, bytes, PROT_NONE) == 0;
}

void SharedObject::open_page(uint64_t page, const std::function<void()>& meanwhile) {
  SharedPage& p = entry(page);
  if (writer_of(load(p.state)) == kOpen) return;
  if (!wait_for(page, true, meanwhile)) return;
  __atomic_store_n(&p.state, with_writer(0, kOpen), __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&p.changes, 1, __ATOMIC_SEQ_CST);
  wake(&p.changes);
}

void SharedObject::fall_asleep() {
  if (seat_ < 0 || alone_) return;
  for (uint64_t page : robbed_) {
    Local& mine = local(page);
    if (mine.hold == Hold::None || mine.copied != kNone) continue;
    keep_copy(page);
    // If nobody takes it we go on writing, and the copy is nothing: awake() says so.
    mine.copied = mine.seen;
  }
  __atomic_store_n(&header_->seats[seat_].asleep, 1, __ATOMIC_SEQ_CST);
}

std::vector<uint64_t> SharedObject::awake() {
  if (seat_ < 0 || alone_) return {};
  Seat& seat = header_->seats[seat_];
  bool all = false;
  for (int i = 0; load(seat.asleep) != 0;) {
    if (swap(seat.asleep, 1u, 0u)) break;
    if (++i % 1000 != 0) continue;
    const uint32_t thief = load(seat.asleep);
    if (thief > 1 && is_gone(thief)) {
      all = true;
      swap(seat.asleep, thief, 1u);
    }
  }
  const uint32_t taken = __atomic_exchange_n(&seat.taken_count, 0, __ATOMIC_SEQ_CST);
  std::vector<uint64_t> mail = asked();
  if (all || taken > Seat::kMail)
    mail = held_;
  else
    for (uint32_t i = 0; i < taken; i++) mail.push_back(load(seat.taken[i]) - 1);
  for (uint64_t page : mail) {
    Local& mine = local(page);
    const uint64_t state = load(entry(page).state);
    const bool wrote = mine.hold == Hold::Write;
    if (mine.hold == Hold::None || (wrote ? writer_of(state) == me_ : (state & bit()) != 0)) continue;
    if (!mine.robbed) {
      mine.robbed = true;
      robbed_.push_back(page);
    }
    // Taken from a writer: the version that others see is one more than ours, with our contents.
    if (wrote) {
      if (mine.copied != kNone) mine.copied++;
      if (mine.seen != kNone) mine.seen++;
    }
    set_hold(page, state & bit() ? Hold::Read : Hold::None);
  }
  for (uint64_t page : robbed_)
    if (local(page).hold == Hold::Write) local(page).copied = kNone;
  return mail;
}

void SharedObject::expect_stop() {
  if (seat_ >= 0) swap(seat().stopping, uint32_t{kStopAsked}, uint32_t{kStopAwaited});
}

// Only who asked ends it, unless that one was killed: then nothing comes.
void SharedObject::await_stop() {
  if (seat_ < 0) return;
  constexpr int64_t kMost = 3'000'000'000;
  uint32_t& stopping = seat().stopping;
  for (int64_t until = monotonic_ns() + kMost; load(stopping) != kNotStopping;) {
    // Somebody asks again, or somebody else does.
    if (swap(stopping, uint32_t{kStopAsked}, uint32_t{kStopAwaited})) until = monotonic_ns() + kMost;
    wait_for_change(&stopping, kStopAwaited);
    if (monotonic_ns() > until) swap(stopping, uint32_t{kStopAwaited}, uint32_t{kNotStopping});
  }
}

void SharedObject::tell_change() {
  constexpr uint32_t kAnybody = ~0u;
  if (seat_ >= 0) __atomic_store_n(&header_->seats[seat_].user, kAnybody, __ATOMIC_SEQ_CST);
  for (const Seat& seat : header_->seats)
    if (const uint32_t pid = load(seat.pid); pid && pid != me_ && !is_gone(pid)) signal_runner(pid);
}

void SharedObject::tell_user() {
  if (seat_ >= 0) __atomic_store_n(&header_->seats[seat_].user, own_user(), __ATOMIC_SEQ_CST);
}

bool SharedObject::needs_bell() const {
  const uint32_t mine = 1 + getuid();
  return std::any_of(std::begin(header_->seats), std::end(header_->seats), [&](const Seat& seat) {
    const uint32_t pid = load(seat.pid), user = load(seat.user);
    return pid && pid != me_ && user && user != mine;
  });
}

void SharedObject::pass_on() const {
  for (const Seat& seat : header_->seats)
    if (const uint32_t pid = load(seat.pid);
        pid && pid != me_ && load(seat.mail_count) && !load(seat.asleep) && !is_gone(pid))
      signal_runner(pid);
}

void SharedObject::attach_child() {
  __atomic_fetch_add(&header_->attached, 1, __ATOMIC_SEQ_CST);
}

void SharedObject::no_child() {
  __atomic_fetch_sub(&header_->attached, 1, __ATOMIC_SEQ_CST);
}

void SharedObject::become_child() {
  me_ = own_name();
  sit_down();
}

void SharedObject::leave() {
  release_all();
  leave_alone();
  if (seat_ >= 0) __atomic_store_n(&header_->seats[seat_].pid, 0, __ATOMIC_SEQ_CST);
  __atomic_fetch_sub(&header_->attached, 1, __ATOMIC_SEQ_CST);
}

void SharedObject::return_to() {
  if (count_in())
    sit_down();
  else
    join(bytes_, bytes_);
}

void SharedObject::detach() {
  leave();
  if (swap(header_->attached, 0u, SharedHeader::kGivenUp)) recording::remove_file(path());
}

}  // namespace backstep::recorder
