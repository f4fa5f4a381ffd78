// System V shared memory: a segment is an object like any other (shared_memory.h), named by its id.
//
// What is special are outsiders. Nobody tells us when an unrecorded process attaches a segment; but the
// kernel counts attachments and knows who made the last one, so we can ask. We do so whenever the guest stops
// and before it goes on, and a timer stops it often enough. If nobody was there then, all that it has read so
// far was its own. If somebody is there, and came while the guest was computing, what the guest has read
// since we last asked may be the outsider's, and nobody knows which of it. That stretch of time, some
// milliseconds at most, cannot be replayed: it is a *gap*. The log says where it begins, and what registers
// and memory were at its end. From there on the segment is open (record_outsiders.cc), and replay exact.
#include <fmt/format.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/room_for_fds.h"
#include "guest/buffers.h"
#include "guest/page_map.h"
#include "record/deadlines.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;
using recording::EventKind;

namespace {

using layout::kPage;
constexpr int64_t kLookEvery = 1'000'000;   // ns of CPU time; the kernel makes it one of its own ticks
constexpr uint64_t kTooMuch = 64ull << 30;  // of writable address space: looking through it takes too long
enum class Filled { None, InMemory, Somewhere };

// Has a segment any pages? Are all of them in memory, none in the swap space?
Filled filled_part(int id) {
  std::ifstream list("/proc/sysvipc/shm");
  std::string line;
  std::getline(list, line);
  while (std::getline(list, line)) {
    std::istringstream words(line);
    // key, shmid, perms, size, cpid, lpid, nattch, uid, gid, cuid, cgid, atime, dtime, ctime, rss, swap
    std::array<int64_t, 16> column{};
    for (int64_t& c : column) words >> c;
    if (!words || column[1] != id) continue;
    return column[15] ? Filled::Somewhere : column[14] ? Filled::InMemory : Filled::None;
  }
  return Filled::Somewhere;
}

constexpr uint64_t kMostAtOnce = 1ull << 20;  // bytes of memory in one event

}  // namespace

int64_t Recorder::do_shmat(const uint64_t args[6]) {
  const Syscall& row = syscall_row(SYS_shmat);
  auto logged = [&](int64_t result) {
    log_call(row, SYS_shmat, args, result, false);
    return result;
  };
  const auto id = static_cast<int>(args[0]);
  const uint64_t flags = args[2];
  shmid_ds about{};
  if (shmctl(id, IPC_STAT, &about) != 0) return logged(-errno);
  const uint64_t size = (about.shm_segsz + kPage - 1) & ~(kPage - 1);
  uint64_t at = args[1];
  if (at == 0 && flags & SHM_REMAP) return logged(-EINVAL);
  if (at) {
    if (at % kPage && !(flags & SHM_RND)) return logged(-EINVAL);
    at &= ~(kPage - 1);
    if (at == 0 || at + size < at) return logged(-EINVAL);
    if (layout::overlaps_engine(at, at + size)) return logged(-EINVAL);
    if (!process_.map.is_free(at, at + size) && !(flags & SHM_REMAP)) return logged(-EINVAL);
  } else {
    auto place = process_.map.find_free(size, 0, Zone::Data);
    if (!place) return logged(-ENOMEM);
    at = *place;
  }
  if (!process_.room_for_mapping(at, at + size, false)) return logged(-ENOMEM);
  if (args[1]) process_.sys_munmap(at, size);
  void* got = shmat(id, reinterpret_cast<void*>(at), static_cast<int>(flags & (SHM_RDONLY | SHM_EXEC)));
  if (got != reinterpret_cast<void*>(at)) return logged(-errno);
  Region r{at,
           at + size,
           (flags & SHM_RDONLY ? PROT_READ : PROT_READ | PROT_WRITE) | (flags & SHM_EXEC ? PROT_EXEC : 0),
           MAP_SHARED | MAP_ANONYMOUS,
           0,
           fmt::format("/SYSV{:08x} (deleted)", static_cast<uint32_t>(about.shm_perm.__key)),
           kSegments,
           static_cast<uint64_t>(id) + 1};
  process_.map.add(r);
  logged(static_cast<int64_t>(at));
  log_map(r, "");
  if (objects_.count({r.dev, r.inode})) {
    attach(r, -1);
    expect_attachments(*objects_.at({r.dev, r.inode}), 1);
    share(r, false);
    return static_cast<int64_t>(at);
  }
  void* alias = shmat(id, nullptr, static_cast<int>(flags & SHM_RDONLY));
  if (alias == reinterpret_cast<void*>(-1)) return static_cast<int64_t>(at);
  if (!attach(r, -1, alias)) return static_cast<int64_t>(at);
  share(r, true);
  watch_segment(id);
  // What it held before. Looking at pages that are not there yet would make them.
  const Filled filled = filled_part(id);
  if (SharedObject* object = shared_object(r); object && object->alone() && filled != Filled::None)
    for (uint64_t page = at; page < at + size; page += kPage) {
      unsigned char there = 1;
      if (filled == Filled::InMemory) mincore(reinterpret_cast<void*>(page), kPage, &there);
      if (!(there & 1)) continue;
      auto* words = reinterpret_cast<const uint64_t*>(page);
      if (std::any_of(words, words + kPage / 8, [](uint64_t w) { return w != 0; })) log_memory(page, kPage);
    }
  return static_cast<int64_t>(at);
}

namespace {

// Mappings of a segment in the kernel's books of a process.
uint64_t real_attachments(int pid, int id) {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  const std::string inode = fmt::format(" {} ", id);
  uint64_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find(" /SYSV") != std::string::npos && line.find(inode) != std::string::npos;
  return count;
}

}  // namespace

// shmctl tells how often a segment is attached, that is how many mappings the kernel has of it: among them
// our own second ones, and the pieces that the rights to single pages cut a mapping into. Instead of those of
// recorded processes it shall be what their programs have mapped. While nobody else has it that is all there
// is; the pieces change at any moment and cannot be counted then. With outsiders there are no pieces.
void Recorder::show_attachments(const uint64_t args[6], int64_t result) {
  if (result < 0 || (args[1] != IPC_STAT && args[1] != SHM_STAT && args[1] != SHM_STAT_ANY)) return;
  const int id = static_cast<int>(args[1] == IPC_STAT ? args[0] : static_cast<uint64_t>(result));
  auto* about = reinterpret_cast<shmid_ds*>(args[2]);
  uint64_t unknown = about->shm_nattch, shown = 0;
  if (unknown == 0) return;
  if (bs_record.segments) look_at_segments();
  const bool outsiders = shared_control::is_open(control_path(kSegments, static_cast<uint64_t>(id) + 1));
  std::set<int> seen;
  auto look_at = [&](int pid, const MemoryMap& map) {
    unknown -= std::min(unknown, real_attachments(pid, id));
    map.for_each(
        [&](const Region& r) { shown += r.dev == kSegments && r.inode == static_cast<uint64_t>(id) + 1; });
  };
  auto look_at_other = [&](int pid) {
    if (!seen.insert(pid).second || real_attachments(pid, id) == 0) return;
    if (const auto other = published_by(recording_, pid)) look_at(pid, *other->map);
  };
  seen.insert(getpid());
  if (!vfork_) look_at(getpid(), process_.map);  // else it is the parent's
  for (int pid : published_pids(recording_.dir())) look_at_other(pid);
  // A child that has just been forked has not told anything yet.
  std::error_code ignored;
  if (unknown || !outsiders)
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored))
      if (const int pid = std::atoi(entry.path().filename().c_str()); pid > 0 && is_recorded(pid))
        look_at_other(pid);
  about->shm_nattch = outsiders || shown == 0 ? unknown + shown : shown;
}

int64_t Recorder::do_shmdt(const uint64_t args[6]) {
  const int64_t result = process_.sys_shmdt(args[0]);
  if (!vfork_) drop_unmapped();
  log_call(syscall_row(SYS_shmdt), SYS_shmdt, args, result, false);
  return result;
}

// --- outsiders ---

namespace {

std::optional<Attached> attached(int id) {
  shmid_ds about{};
  if (shmctl(id, IPC_STAT, &about) != 0) return std::nullopt;
  return Attached{about.shm_nattch, about.shm_lpid};
}

}  // namespace

// Makes a change to our mappings of the object that may cut them into pieces, or join them: the kernel counts
// each. So that nobody takes them for an outsider's, recorded processes keep count of what they make
// themselves.
void Recorder::change_mappings(SharedObject& object, const std::function<void()>& change) {
  if (!object.segment || object.is_open()) return change();
  object.lock();
  const auto before = attached(*object.segment);
  change();
  const auto after = attached(*object.segment);
  if (before && after && (after->last == getpid() || after->count == before->count))
    object.attachments() += static_cast<uint32_t>(after->count - before->count);
  object.unlock();
  // The last trace of somebody who has come and gone.
  if (before && !was_recorded(before->last)) object.set_open();
}

void Recorder::expect_attachments(const SharedObject& object, int more) {
  object.lock();
  object.attachments() += static_cast<uint32_t>(more);
  object.unlock();
}

// `last`: what the kernel said when we asked last. While pages change hands the same numbers may mean other
// things.
bool Recorder::has_company(SharedObject& object, Attached& last) {
  if (object.is_open()) return true;
  const bool alone = object.alone();
  if (!alone) object.lock();
  const auto now = attached(*object.segment);
  const uint32_t unexplained = now ? static_cast<uint32_t>(now->count) - object.attachments() : 0;
  const uint32_t corrections = object.corrections();
  if (!alone) object.unlock();
  if (!now || (alone && *now == last)) return false;
  if (*now != last) bs_record.share_request = true;  // by somebody who may not send us a signal?
  if (now->last != last.last && !was_recorded(now->last)) return true;
  last = *now;
  if (unexplained == 0) return false;
  if (outsider_has_segment(*object.segment)) return true;
  // A child was forked, a process has ended. Who has come in the meantime stays unexplained.
  object.lock();
  if (corrections == object.corrections()) {
    object.attachments() += unexplained;
    object.corrections()++;
  }
  object.unlock();
  return false;
}

void Recorder::watch_segment(int id) {
  const auto now = attached(id);
  auto object = objects_.find({kSegments, static_cast<uint64_t>(id) + 1});
  if (!now || object == objects_.end()) return;
  object->second->segment = id;
  expect_attachments(*object->second, 2);  // the guest's and ours
  segments_[id] = {0, getpid()};           // whoever else there is is to be looked for
  if (!bs_record.segments) look_regularly();
  bs_record.segments = true;
}

// A program that makes no system calls is stopped by a timer. At its start, and in a forked child, which has
// none of its parent's timers.
void Recorder::look_regularly() {
  look_timer_ = -1;
  if (!cpu_timers_spare_calls()) return;
  try {
    look_timer_ = make_timer(CLOCK_THREAD_CPUTIME_ID, kLookSignal, kLookTimer);
  } catch (const Error& e) {
    note_once(fmt::format("{}: who attaches System V memory is noticed at the next system call", e.what()));
    return;
  }
  const itimerspec spec{{0, kLookEvery}, {0, kLookEvery}};
  syscall(SYS_timer_settime, look_timer_, 0, &spec, nullptr);
}

// The guest goes on from here. Who has come since we looked is noticed later, with a gap from here on; after
// a call that took longer it is worth another look.
void Recorder::leave_for_guest() {
  constexpr uint64_t kLong = 50'000;  // processor cycles
  if (bs_record.segments && __rdtsc() - looked_ > kLong) look_at_segments();
  if (!bs_record.segments) return;
  const Context& ctx = context();
  alone_until_ = Place{ctx.tick, ctx.rip, register_digest(ctx)};
}

// … and has stopped.
void Recorder::look_after_guest(const std::optional<engine::Stop>& stop) {
  if (!bs_record.segments) return;
  const bool between = !stop || stop->kind != engine::Stop::Signal || stop->fault.exact;
  if (between) look_at_segments(stop && stop->kind == engine::Stop::Syscall ? 2 : 0);
  alone_until_.reset();
}

// True: one of them has an outsider now. The guest is `behind` bytes behind the instruction that it stands
// at.
bool Recorder::look_at_segments(unsigned behind) {
  bool opened = false;
  for (auto it = segments_.begin(); it != segments_.end();) {
    const int id = it->first;
    auto object = objects_.find({kSegments, static_cast<uint64_t>(id) + 1});
    if (object == objects_.end() || object->second->has_view()) {
      it = segments_.erase(it);
      continue;
    }
    const bool company = has_company(*object->second, it->second);
    ++it;
    if (!company) continue;
    if (alone_until_) log_gap(behind);
    let_outsiders_in(*object->second);
    opened = true;
  }
  looked_ = __rdtsc();
  bs_record.segments = !segments_.empty();
  if (!bs_record.segments && look_timer_ >= 0) {
    syscall(SYS_timer_delete, look_timer_);
    look_timer_ = -1;
  }
  return opened;
}

// Does the call use memory of a segment, or might it?
bool Recorder::concerns_segments(const Syscall& row, const uint64_t args[6]) const {
  for (int i = 0; i < row.argc; i++) {
    switch (row.args[i].kind) {
      case Arg::IovIn:
      case Arg::IovOut:
      case Arg::MsgIn:
      case Arg::MsgOut:
      case Arg::MmsgIn:
      case Arg::MmsgOut:
      case Arg::Varies:
        return true;
      default:
        break;
    }
    const Region* r = is_scalar(row.args[i].kind) || !args[i] ? nullptr : process_.map.find(args[i]);
    if (r && r->dev == kSegments) return true;
  }
  return false;
}

// --- gaps ---

// What the program may have changed since its last system call, in pieces for one event each. Pages that it
// has never touched are not among it.
std::vector<std::pair<uint64_t, uint64_t>> Recorder::changeable_memory() {
  std::vector<std::pair<uint64_t, uint64_t>> pieces;
  auto add = [&](uint64_t page) {
    if (!pieces.empty() && pieces.back().second == page && page % kMostAtOnce != 0)
      pieces.back().second += kPage;
    else
      pieces.emplace_back(page, page + kPage);
  };
  RoomForFds room;
  PageMap pages;
  uint64_t total = 0;
  process_.map.for_each([&](const Region& r) { total += r.prot & PROT_WRITE ? r.end - r.start : 0; });
  if (total > kTooMuch) throw Error("the program has reserved more than 64 GB of addresses");
  process_.map.for_each([&](const Region& r) {
    SharedObject* object = shared_object(r);
    if (!(r.prot & PROT_WRITE) || (object && object->has_view())) return;
    auto held = [&](uint64_t page) {
      return !object || object->alone() ||
             object->hold((r.offset + (page - r.start)) / kPage) == SharedObject::Hold::Write;
    };
    if (pages) {
      pages.for_each(r.start, r.end, [&](uint64_t page, uint64_t entry) {
        const bool ours = r.flags & MAP_SHARED ? held(page) : !(entry & PageMap::kFile);
        if ((entry & (PageMap::kPresent | PageMap::kSwapped)) && ours) add(page);
      });
      return;
    }
    // A process that has given up rights may not read its own page map.
    for (uint64_t page = r.start; page < r.end; page += kPage) {
      unsigned char present = 0;
      if (mincore(reinterpret_cast<void*>(page), kPage, &present) == 0 && (present & 1) && held(page))
        add(page);
    }
  });
  // Two mappings may follow each other, and an event is about one.
  std::vector<std::pair<uint64_t, uint64_t>> cut;
  for (auto [start, end] : pieces)
    while (start < end) {
      const uint64_t until = std::min(end, process_.map.find(start)->end);
      cut.emplace_back(start, until);
      start = until;
    }
  return cut;
}

void Recorder::log_gap(unsigned behind) {
  const Context& ctx = context();
  const Place from = *alone_until_;
  alone_until_.reset();
  const Address rip = ctx.rip - behind;
  if ((from.tick == ctx.tick && from.pc == rip) || !log_.active()) return;  // it has not run
  const std::string who =
      "a process that is not recorded attached System V memory while the program computed";
  std::vector<std::pair<uint64_t, uint64_t>> memory;
  try {
    memory = changeable_memory();
  } catch (const Error& e) {
    note_once(fmt::format("{}; what the program read of it before that was noticed is not recorded: {}", who,
                          e.what()));
    return;
  }
  note_once(fmt::format("{}: {} ticks until that was noticed are not in the recording (a gap)", who,
                        ctx.tick - from.tick));
  if (!log_.reserve(sizeof ctx.xsave + 1024)) return;
  recording::Appender& log = log_.appender();
  uint8_t* at = log.begin(EventKind::Gap, recording::kAsynchronous, 0);
  at = log.put_place(at, from.tick, from.pc);
  at = recording::put_u32(at, from.digest);
  at = recording::put_varint(at, memory.size());
  at = recording::put_varint(at, ctx.tick - from.tick);
  for (uint64_t r : ctx.gpr) at = recording::put_varint(at, r);
  for (uint64_t r : {rip, ctx.rflags, ctx.fs_base, ctx.gs_base}) at = recording::put_varint(at, r);
  // The engine's own registers (the tick counter) are not the guest's.
  at = recording::put_varint(at, engine::bs_cache.evex_seen);
  at = recording::put_varint(at, engine::bs_cache.hi16_offset);
  std::memcpy(at, ctx.xsave, sizeof ctx.xsave);
  log.commit(at + sizeof ctx.xsave);
  for (auto [start, end] : memory) {
    if (!log_.reserve(end - start + 64)) return;
    at = log.begin(EventKind::Memory, 0, 0);
    at = recording::put_varint(at, start);
    if (!bs_guarded_copy(at, reinterpret_cast<const void*>(start), end - start))
      std::memset(at, 0, end - start);  // a file that is shorter now
    log.commit(at + (end - start));
  }
}

}  // namespace backstep::recorder
