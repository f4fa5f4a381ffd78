// System calls that change the guest's memory map.
//
// What they do to memory is a function of the guest's own books (guest/process.h), so a replay computes it
// again. What it cannot compute are the kernel's errors: limits, the rights that a file was opened with, the
// number of mappings. A call that fails is therefore answered from the log, and if it had changed a part of
// what it was asked to change, events behind it say what: a Map with kRights or kGone, or Memory.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/error.h"
#include "base/room_for_fds.h"
#include "guest/buffers.h"
#include "record/descriptors.h"
#include "record/recorder.h"
#include "recording/writers.h"

namespace backstep::recorder {

using namespace guest;
using recording::EventKind;

namespace {

using layout::kPage;
constexpr uint64_t kDroppable = 8;  // MAP_DROPPABLE
using layout::page_up;

// The kernel allows a process so many mappings (vm.max_map_count), and counts ours. A replay has some that a
// recorder has not, so it would come to the limit earlier, with a call that succeeded then. A program that
// goes for it is therefore met by a recorder that has more than enough of them.
void leave_room_for_replay(const MemoryMap& map) {
  constexpr unsigned kEvery = 2048;  // calls, each of which can make two
  constexpr size_t kMany = 4000, kRoom = 1000;
  static unsigned calls = 0;
  static bool done = false;
  if (done || ++calls % kEvery) return;
  size_t count = 0;
  map.for_each([&](const Region&) { count++; });
  if (count < kMany) return;
  done = true;
  void* at = mmap(nullptr, kRoom * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return;
  for (size_t i = 0; i < kRoom; i += 2) mprotect(static_cast<char*>(at) + i * kPage, kPage, PROT_READ);
}

}  // namespace

std::string Recorder::keep(int fd, const recording::Extent& mapped, bool times_tell) {
  // A limit on file sizes (ulimit -f) must end as an error here, not as a signal for the program.
  struct Quiet {
    sighandler_t before = std::signal(SIGXFSZ, SIG_IGN);
    Recorder& recorder;
    explicit Quiet(Recorder& r) : recorder(r) {}
    ~Quiet() {
      if (recorder.started_ns_) {
        recorder.set_real_action(SIGXFSZ);
      } else {
        std::signal(SIGXFSZ, before);
      }
    }
  } quiet(*this);
  std::string key = times_tell ? store_.add(fd, mapped) : store_.insert(fd, mapped);
  if (!detached_ && keys_.insert(key).second) recording_.add_key(key);
  return key;
}

void Recorder::log_map(const Region& r, const std::string& key, uint8_t event_flags) {
  if (!log_.reserve(256 + r.name.size() + key.size())) return;
  recording::Appender& log = log_.appender();
  uint8_t* at = log.begin(EventKind::Map, event_flags, 0);
  for (uint64_t v :
       {r.start, r.end - r.start, static_cast<uint64_t>(r.prot), static_cast<uint64_t>(r.flags), r.offset})
    at = recording::put_varint(at, v);
  for (const std::string& text : {r.name, key}) {
    at = recording::put_varint(at, text.size());
    std::memcpy(at, text.data(), text.size());  // NOLINT(bugprone-not-null-terminated-result)
    at += text.size();
  }
  at = recording::put_varint(at, r.dev);
  at = recording::put_varint(at, r.inode);
  log.commit(at);
}

// madvise was refused, perhaps in the middle (at a page that is locked): what it had discarded before that
// shows in the contents.
void Recorder::log_discarded(uint64_t start, uint64_t end) {
  constexpr uint64_t kMost = 64 << 20;
  if (start % kPage || end <= start + kPage) return;
  for (const Region* r = process_.map.next(start); r && r->start < end; r = process_.map.next(r->end)) {
    const uint64_t from = std::max(start, r->start), to = std::min(end, r->end);
    if (!(r->prot & PROT_WRITE) || (r->flags & MAP_SHARED)) continue;
    if (to - from > kMost) return log_.stop("madvise failed on a large range");
    log_memory(from, to - from);
  }
}

// A file of pages of 2 MB or 1 GB?
static bool has_huge_pages(int fd, const struct stat& st) {
  struct statfs fs {};
  return st.st_blksize >= 2 << 20 && fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC;
}

// The address is ours to choose; file contents come from the store's copy, so that what the guest sees later
// is what the recording has, whatever becomes of the file. Shared mappings are the real thing if the program
// can write to them, if somebody has the file open for writing, if it was changed lately, or if it could be
// changed without a trace (most that are mapped so are caches of libraries, which nobody changes).
int64_t Recorder::do_mmap(const uint64_t args[6]) {
  leave_room_for_replay(process_.map);
  const Syscall& row = syscall_row(SYS_mmap);
  auto logged = [&](int64_t result) {
    log_call(row, SYS_mmap, args, result, false);
    return result;
  };
  uint64_t hint = args[0], length = args[1], flags = args[3], offset = args[5];
  auto prot = static_cast<int>(args[2]);
  auto fd = static_cast<int>(args[4]);
  uint64_t type = flags & MAP_TYPE;
  const bool anonymous = flags & MAP_ANONYMOUS, shared = type == MAP_SHARED || type == MAP_SHARED_VALIDATE;
  // Errors in the order in which the kernel finds them.
  if (offset % kPage) return logged(-EINVAL);
  struct stat st {};
  Fd theirs;
  if (!anonymous) {
    if (has_own_files_as_lodger()) {
      theirs = file_of_lodger(fd);
      fd = theirs.get();
    }
    const int opened = is_our_fd(args[4]) ? -1 : fcntl(fd, F_GETFL);
    if (opened < 0 || opened & O_PATH || fstat(fd, &st) != 0) return logged(-EBADF);
  }
  if (length == 0) return logged(-EINVAL);
  const uint64_t size = page_up(length);
  if (size == 0 || size > layout::kDataEnd) return logged(-ENOMEM);
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
    if (hint > 0x7fff'ffff'f000 - size) return logged(-ENOMEM);
    if (hint % kPage) return logged(-EINVAL);
    if (layout::overlaps_engine(hint, hint + size)) return logged(-ENOMEM);
    if ((flags & MAP_FIXED_NOREPLACE) && !process_.map.is_free(hint, hint + size)) return logged(-EEXIST);
  }
  if (anonymous) {
    if (type != MAP_SHARED && type != MAP_PRIVATE && type != kDroppable) return logged(-EINVAL);
    if (type != MAP_PRIVATE && flags & MAP_GROWSDOWN) return logged(-EINVAL);
  }
  const bool huge = flags & MAP_HUGETLB || (!anonymous && has_huge_pages(fd, st));
  if (huge || type == kDroppable || !(S_ISCHR(st.st_mode) || anonymous)) {
    // The kernel's own verdict, somewhere else: what is there already stays if it refuses.
    constexpr uint64_t kPlace = MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_POPULATE | MAP_LOCKED;
    const uint64_t how = (flags & ~kPlace) | (huge ? 0 : MAP_NORESERVE);
    const long probe = hot::syscall6(SYS_mmap, 0, static_cast<long>(size), prot, static_cast<long>(how), fd,
                                     static_cast<long>(offset));
    if (hot::is_error(probe)) return logged(probe);
    auto* const there = reinterpret_cast<void*>(probe);
    if (!huge) {
      munmap(there, size);
    } else {
      // A replay may be where there are none. So it is as if all were taken, which programs know how to live
      // with.
      for (const uint64_t page : {2ull << 20, 1ull << 30})
        if (munmap(there, (size + page - 1) / page * page) == 0) break;
      note_once(
          "pages of 2 MB or 1 GB are not given to recorded programs (mmap: ENOMEM, as if all were taken)");
      return logged(-ENOMEM);
    }
  }
  if (!may_be_executable(0, 0, args[2])) return logged(-EACCES);
  // Where
  uint64_t at;
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
    at = hint;
  } else {
    bool low = (prot & PROT_EXEC) && size <= 64 << 20;
    if (!anonymous && S_ISREG(st.st_mode) && !shared && size <= 256 << 20) {
      char magic[4] = {};
      low |= pread(fd, magic, 4, 0) == 4 && std::memcmp(magic, "\177ELF", 4) == 0;
    }
    // Threads' stacks; small ones (of coroutines, of signal handlers) may be many, and lie close together.
    const bool stack = anonymous && (flags & MAP_STACK) && size >= 1 << 20;
    const Zone zone = low ? Zone::Images : stack ? Zone::Stacks : Zone::Data;
    auto place = process_.map.find_free(size, hint, zone, flags & MAP_32BIT);
    if (!place) return logged(-ENOMEM);
    at = *place;
  }
  if (!process_.room_for_mapping(at, at + size, is_data(prot, static_cast<int>(type))))
    return logged(-ENOMEM);
  // The kernel has no room (for the number of mappings, perhaps): what was there is gone all the same.
  const bool occupied = process_.map.mapped_bytes(at, at + size) != 0;
  auto refused = [&](long err) {
    logged(err);
    if (occupied) log_map({at, at + size, 0, 0, 0, "", 0, 0}, "", recording::kGone);
    return static_cast<int64_t>(err);
  };
  // What
  Region r{at,
           at + size,
           prot & 7,
           static_cast<int>((shared ? MAP_SHARED : MAP_PRIVATE) | (flags & (MAP_ANONYMOUS | MAP_GROWSDOWN))),
           anonymous ? 0 : offset,
           "",
           0,
           0};
  int extra = static_cast<int>(
      flags & (MAP_NORESERVE | MAP_POPULATE | MAP_STACK | MAP_LOCKED | MAP_HUGETLB | 0xfc000000));
  if (anonymous && shared && !(flags & MAP_HUGETLB)) {
    // As a memory file: children may share it, and that is how we tell.
    Fd memory(memfd_create("backstep-shared", MFD_CLOEXEC));
    if (!memory || ftruncate(memory.get(), static_cast<off_t>(size)) != 0) return logged(-ENOMEM);
    fstat(memory.get(), &st);
    r.dev = st.st_dev;
    r.inode = st.st_ino;
    r.name = "/dev/zero (deleted)";
    if (long err = process_.map_region(r, memory.get(), extra)) return refused(err);
    logged(static_cast<int64_t>(at));
    log_map(r, "");
    if (attach(r, memory.get())) share(r, false);
    return static_cast<int64_t>(at);
  }
  if (anonymous) {
    if (long err = process_.map_region(r, -1, extra)) return refused(err);
    logged(static_cast<int64_t>(at));
    log_map(r, "");
    return static_cast<int64_t>(at);
  }
  char path[4096];
  ssize_t n = readlink(fmt::format("/proc/thread-self/fd/{}", fd).c_str(), path, sizeof path);
  if (n > 0) r.name.assign(path, static_cast<size_t>(n));
  r.dev = st.st_dev;
  r.inode = st.st_ino;
  if (long err = process_.map_region(r, fd, extra & ~MAP_POPULATE)) return refused(err);
  std::string key;
  bool live = false;
  const bool read_only = !(prot & PROT_WRITE) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
  constexpr int64_t kHour = 3600;
  auto has_writers = [&] { return recording::writers_of(fd) == recording::Writers::Some; };
  const bool writable_share = shared && (!read_only || ::time(nullptr) - st.st_mtim.tv_sec < kHour ||
                                         !recording::times_tell(fd, st) || has_writers());
  const bool attached = writable_share && S_ISREG(st.st_mode) && attach(r, fd);
  if (S_ISREG(st.st_mode)) {
    RoomForFds room;
    try {
      // What is written through a mapping that somebody of us has need not have changed the file's times.
      const bool written_silently =
          writable_share || (tree_.shared_files() && access(control_path(r.dev, r.inode).c_str(), F_OK) == 0);
      key = keep(fd, {offset, offset + size}, !written_silently);
      if (recording::is_sparse_key(key)) partly_kept_.insert({r.dev, r.inode});
      if (!writable_share) {
        Fd copy(store_.open(key));
        Region snapshot = r;
        snapshot.flags &= ~MAP_SHARED;
        snapshot.flags |= MAP_PRIVATE;
        note_kept(snapshot, key);
        if ((live = map_live(snapshot, key))) {
          r = snapshot;
        } else {
          snapshot.content = content_of(key);
          if (process_.map_region(snapshot, copy.get(), extra) == 0) r = snapshot;
        }
        if ((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR || written_files_.count({r.dev, r.inode}))
          bs_record.shared_files = true;  // calls that write need a look
        fstat(copy.get(), &st);
      } else if (Fd copy(store_.open(key)); copy) {
        fstat(copy.get(), &st);  // it may have grown meanwhile
      }
    } catch (const Error& e) {
      log_.stop(e.what());  // without the contents nothing behind this point can be replayed
    }
    if (writable_share) {
      shared_[{r.dev, r.inode}] = static_cast<uint64_t>(st.st_size);
      bs_record.shared_files = true;
    }
  } else if (r.name != "/dev/zero") {
    note_once(fmt::format("{} is mapped and is not a regular file: what it changes in memory is not recorded",
                          r.name));
  }
  logged(static_cast<int64_t>(at));
  log_map(r, key, live ? recording::kLive : 0);
  if (live) log_live_size({r.dev, r.inode}, static_cast<uint64_t>(st.st_size), 0, {});
  if (attached) share(r, !read_only || has_writers());
  return static_cast<int64_t>(at);
}

int64_t Recorder::do_munmap(const uint64_t args[6]) {
  leave_room_for_replay(process_.map);
  const Region* first = process_.map.next(args[0]);
  const uint64_t start = first ? std::max(args[0], first->start) : 0;
  const int64_t result = process_.sys_munmap(args[0], args[1]);
  if (!objects_.empty() && !vfork_) drop_unmapped();
  log_call(syscall_row(SYS_munmap), SYS_munmap, args, result, false);
  // The part in front of where it failed.
  if (const Region* rest = process_.map.next(args[0]); result == -ENOMEM && rest && rest->start > start)
    log_map({start, rest->start, 0, 0, 0, "", 0, 0}, "", recording::kGone);
  return result;
}

int64_t Recorder::do_mprotect(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  leave_room_for_replay(process_.map);
  int64_t result = -EINVAL;
  uint64_t changed = 0;
  if (nr != SYS_pkey_mprotect || static_cast<int>(args[3]) == -1)
    result = may_be_executable(args[0], args[0] + args[1], args[2])
                 ? process_.sys_mprotect(args[0], args[1], args[2], &changed)
                 : -EACCES;
  check_shared(args[0], args[0] + args[1]);
  log_call(row, nr, args, result, false);
  // The part in front of where it failed.
  if (hot::is_error(result) && changed)
    log_map({args[0], args[0] + changed, static_cast<int>(args[2] & 7), 0, 0, "", 0, 0}, "",
            recording::kRights);
  return result;
}

int64_t Recorder::do_madvise(const Syscall& row, const uint64_t args[6]) {
  const int64_t result = process_.sys_madvise(args[0], args[1], args[2]);
  log_call(row, SYS_madvise, args, result, false);
  const bool discards = args[2] == MADV_DONTNEED || args[2] == MADV_FREE || args[2] == MADV_REMOVE ||
                        args[2] == MADV_DONTNEED_LOCKED;
  if (discards && hot::is_error(result) && result != -ENOMEM) log_discarded(args[0], args[0] + args[1]);
  return result;
}

// In a child, behind the fork: what its parent did not want it to have (madvise).
void Recorder::leave_behind() {
  std::vector<Region> regions;
  process_.map.for_each([&](const Region& r) {
    if (r.advice) regions.push_back(r);
  });
  for (Region& r : regions) {
    if (r.advice & kDontFork) {
      process_.sys_munmap(r.start, r.end - r.start);
      log_map(r, "", recording::kGone);
    } else if (process_.map_region(r, -1, MAP_NORESERVE) == 0) {
      log_map(r, "");
    }
  }
  if (!regions.empty() && !objects_.empty()) drop_unmapped();
}

// process_vm_writev of a process to itself. The kernel would write wherever something is mapped, also into
// what is ours: it is told of no more than the guest's memory, up to the first byte that is not. What it has
// changed is logged behind the call.
int64_t Recorder::write_own_memory(const Syscall& row, const uint64_t args[6]) {
  std::vector<iovec> parts;
  const uint64_t most = args[4] <= UIO_MAXIOV ? args[4] : 0;  // else the kernel refuses
  bool hole = false;
  for (uint64_t i = 0; i < most && !hole; i++) {
    Iovec part;
    if (!read_guest(args[3] + i * sizeof part, &part)) {  // the kernel will say so
      parts.clear();
      break;
    }
    uint64_t end = part.base;
    const uint64_t wanted = part.base + part.length;
    for (const Region* r = process_.map.find(end); r && r->prot & PROT_WRITE && end < wanted;
         r = process_.map.find(end))
      end = std::min(wanted, r->end);
    hole = end < wanted;
    if (end == part.base && hole) break;
    parts.push_back({reinterpret_cast<void*>(part.base), end - part.base});
    process_.engine().forget(part.base, end);
    process_.prepare_write(part.base, end);
    if (bs_record.sharing) own_range(part.base, end - part.base, SharedObject::Hold::Write);
  }
  uint64_t real[6];
  std::copy(args, args + 6, real);
  if (hole || (most && !parts.empty())) {
    real[3] = reinterpret_cast<uint64_t>(parts.data());
    real[4] = parts.size();
  }
  int64_t result = execute(row, SYS_process_vm_writev, real);
  if (hole && parts.empty() && result == 0) result = -EFAULT;
  log_call(row, SYS_process_vm_writev, args, result);
  uint64_t left = hot::is_error(result) ? 0 : static_cast<uint64_t>(result);
  for (const iovec& part : parts) {
    const uint64_t n = std::min<uint64_t>(left, part.iov_len);
    if (n) log_memory(reinterpret_cast<uint64_t>(part.iov_base), n);
    left -= n;
  }
  return result;
}

// --- mappings that become longer ---

// A mapping with MAP_GROWSDOWN reaches down to where it is touched, unless it would come too near to what is
// below. A replay makes it longer when it comes to the event, which is earlier than the access, but nobody
// can have looked there.
bool Recorder::grow_down(const engine::FaultInfo& fault) {
  constexpr uint64_t kGuardGap = 256 * kPage;
  if (fault.signo != SIGSEGV || process_.map.find(fault.address)) return false;
  const Region* above = process_.map.next(fault.address);
  if (!above || !(above->flags & MAP_GROWSDOWN) || above->name == kStackName) return false;
  const uint64_t start = fault.address & ~(kPage - 1);
  const bool accessible = above->prot & (PROT_READ | PROT_WRITE | PROT_EXEC);
  uint64_t below = 0;
  bool other = false;
  process_.map.for_each([&](const Region& r) {
    if (r.end > start || r.end <= below) return;
    below = r.end;
    other = !(r.flags & MAP_GROWSDOWN) && (r.prot & (PROT_READ | PROT_WRITE | PROT_EXEC));
  });
  uint64_t end = above->end;
  for (const Region* r = above; r && r->flags & MAP_GROWSDOWN && r->start == end; r = process_.map.next(end))
    end = r->end;
  if (start < kLowestHint || (accessible && other && start - below < kGuardGap)) return false;
  if (layout::overlaps_engine(start, above->start) || end - start > process_.limits.stack.soft ||
      !process_.room_for_mapping(start, above->start, is_data(above->prot, above->flags)))
    return false;
  Region r = *above;
  r.end = r.start;
  r.start = start;
  if (process_.map_region(r, -1, MAP_NORESERVE) != 0) return false;
  log_map(r, "");
  return true;
}

// A descriptor of the file that is mapped there: one of the program's, else `opened`. -1: the file cannot be
// reached any more.
int Recorder::descriptor_of(const Region& r, Fd& opened) {
  auto fits = [&](int fd) {
    struct stat st {};
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_WRONLY && fstat(fd, &st) == 0 &&
           st.st_dev == r.dev && st.st_ino == r.inode;
  };
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/thread-self/fd", ec)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (!is_our_fd(static_cast<uint64_t>(fd)) && fits(fd)) return fd;
  }
  // The program has none, so it has no locks (fcntl) that closing ours would take away.
  opened = Fd(open(r.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!opened || !fits(opened.get())) return -1;
  tell_opened(opened.get());
  return opened.get();
}

// Behind a call that made a mapping of a file longer: what was not mapped before was not kept either. The new
// part is logged as a mapping of its own.
void Recorder::keep_growth(const Region& part, int fd) {
  try {
    if (SharedObject* object = shared_object(part)) {
      RoomForFds room;
      if (part.dev == kSegments) return;
      object->extend(-1, part.offset, part.offset + (part.end - part.start));
      if (part.flags & MAP_ANONYMOUS) return;  // there is nothing behind its end
      object->forget_all();
      check_shared(part.start, part.end);
      if (fd >= 0) {
        log_map(part, keep(fd, {part.offset, part.offset + (part.end - part.start)}, false));
        return;
      }
      // It is there, but nobody has it open.
      static const SharedObject::Page zeroes{};
      SharedObject::Page now;
      for (uint64_t at = part.start; at < part.end; at += kPage) {
        const uint64_t page = (part.offset + (at - part.start)) / kPage;
        if (!bs_guarded_copy(now.data(), object->contents(page), kPage) || now == zeroes) continue;
        log_bytes(at, now);
      }
      return;
    }
    if (fd < 0 || (part.flags & MAP_SHARED)) return;
    const std::string key = keep(fd, {part.offset, part.offset + (part.end - part.start)});
    RoomForFds room;
    Fd copy(store_.open(key));
    Region fresh = part;
    note_kept(fresh, key);
    if (map_live(fresh, key)) {
      struct stat st {};
      fstat(copy.get(), &st);
      log_map(fresh, key, recording::kLive);
      log_live_size({fresh.dev, fresh.inode}, static_cast<uint64_t>(st.st_size), 0, {});
      return;
    }
    fresh.content = content_of(key);
    if (long err = process_.map_region(fresh, copy.get()))
      throw Error("cannot map more of " + part.name + ": " + errno_text(static_cast<int>(-err)));
    log_map(fresh, key);
  } catch (const Error& e) {
    log_.stop(e.what());
  }
}

void Recorder::log_bytes(uint64_t addr, std::span<const unsigned char> bytes) {
  if (!log_.reserve(bytes.size() + 64)) return;
  recording::Appender& log = log_.appender();
  uint8_t* at = log.begin(EventKind::Memory, 0, 0);
  at = recording::put_varint(at, addr);
  std::memcpy(at, bytes.data(), bytes.size());
  log.commit(at + bytes.size());
}

int64_t Recorder::do_mremap(const uint64_t args[6]) {
  const uint64_t old_size = page_up(args[1]), new_size = page_up(args[2]);
  const Region* r = process_.map.find(args[0]);
  std::optional<Region> grows;
  Fd opened;
  int fd = -1;
  if (r && r->inode && new_size > old_size && args[0] % kPage == 0) {
    grows = *r;
    grows->offset += args[0] - r->start + old_size;
    RoomForFds room;
    const bool live = live_.count({r->dev, r->inode}) != 0;
    if (!(r->flags & MAP_ANONYMOUS) && (shared_object(*r) || live || partly_kept_.count({r->dev, r->inode})))
      fd = descriptor_of(*r, opened);
    if (fd < 0 && partly_kept_.count({r->dev, r->inode}) && !(r->flags & MAP_SHARED)) {
      note_once(
          fmt::format("a mapping of {} could not be made longer: nobody has it open any more", r->name));
      log_call(syscall_row(SYS_mremap), SYS_mremap, args, -ENOMEM, false);
      return -ENOMEM;
    }
  }
  const int64_t result = process_.sys_mremap(args, std::nullopt);
  const auto at = static_cast<uint64_t>(result);
  if (!hot::is_error(result)) check_shared(at, at + new_size);
  if (!objects_.empty() && !vfork_) drop_unmapped();
  log_call(syscall_row(SYS_mremap), SYS_mremap, args, result, false);
  if (!hot::is_error(result) && grows && fd < 0 && !(grows->flags & MAP_SHARED)) {
    // The copy in the store has all of the file.
    for (const Kept& k : std::vector<Kept>(kept_[{grows->dev, grows->inode}]))
      if (k.from < grows->offset && grows->offset <= k.to) {
        grows->start = 0, grows->end = new_size - old_size;
        note_kept(*grows, k.key);
      }
  }
  if (!hot::is_error(result) && grows) {
    grows->start = at + old_size;
    grows->end = at + new_size;
    keep_growth(*grows, fd);
  }
  return result;
}

}  // namespace backstep::recorder
