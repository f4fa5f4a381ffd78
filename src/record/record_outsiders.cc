// Memory that processes write which are not recorded.
//
// They cannot be asked to wait, so no page can be ours for a while. The guest gets a private *view* of the
// object, a memory file of our own in the place of the real one, without access rights; the real memory is
// mapped elsewhere, for us alone. Each access faults and is made by itself:
//   1. the bytes that the instruction reads are copied from the real memory into the view; what is different
//      from what was there before is logged, at the control point of the instruction;
//   2. the instruction runs alone, on the view;
//   3. the bytes that it wrote are stored into the real memory, by one store if the operand is one word.
// A replay has in its memory what the view has here, so what is logged is enough. Instructions that read and
// write as one (lock cmpxchg, xchg) store by compare-and-exchange with the value that was read; if an
// outsider was quicker they are taken back and begin again. So locks between recorded and unrecorded
// processes work. The order is that of the program, with each access complete before the next one: stronger
// than the machine's own.
//
// An access costs some microseconds, so this is only for objects that have an outsider. How we know of them:
//   * an unrecorded program gets a descriptor of the file by inheritance or over a socket: seen when that
//     happens;
//   * a process outside of the recording has the file open for writing, or mapped, when it is mapped here:
//     found in /proc;
//   * one opens it later: inotify tells (the signal is sent inside of the outsider's open(), so the guest
//     stops within microseconds, before anything can be written through that descriptor).
//   * one attaches a System V segment later: see record_segments.cc.
// Memory without a name (MAP_ANONYMOUS) has no outsiders but children that are not recorded; those run in our
// engine up to their execve, which takes the memory away, and take part as the others do.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/room_for_fds.h"
#include "guest/accesses.h"
#include "guest/buffers.h"
#include "record/deadlines.h"
#include "record/recorder.h"
#include "recording/log_reader.h"

namespace backstep::recorder {

using namespace guest;

namespace {

using layout::kPage;

template <class T>
void move_word(unsigned char* to, const unsigned char* from) {
  __atomic_store_n(reinterpret_cast<T*>(to),
                   __atomic_load_n(reinterpret_cast<const T*>(from), __ATOMIC_RELAXED), __ATOMIC_SEQ_CST);
}

// Copies so that others see (or we see of others) each word that the machine would access at once as a whole.
void copy_words(unsigned char* to, const unsigned char* from, uint64_t size) {
  switch (size) {
    case 2:
      return move_word<uint16_t>(to, from);
    case 4:
      return move_word<uint32_t>(to, from);
    case 8:
      return move_word<uint64_t>(to, from);
    default:
      break;
  }
  uint64_t at = 0;
  for (; at < size && reinterpret_cast<uint64_t>(to + at) % 8; at++) move_word<uint8_t>(to + at, from + at);
  for (; at + 8 <= size; at += 8) move_word<uint64_t>(to + at, from + at);
  for (; at < size; at++) move_word<uint8_t>(to + at, from + at);
}

// Only what is different from `before`.
void copy_changes(unsigned char* to, const unsigned char* from, const unsigned char* before, uint64_t size) {
  for (uint64_t at = 0; at < size; at++)
    if (from[at] != before[at]) move_word<uint8_t>(to + at, from + at);
}

// True: `to` held `expected` and holds `wanted` now. Locked instructions work on any alignment.
bool exchange(unsigned char* to, const unsigned char* expected, const unsigned char* wanted, uint64_t size) {
  bool same = false;
  auto swap = [&]<class T>(T) {
    T old, fresh;
    std::memcpy(&old, expected, sizeof old);
    std::memcpy(&fresh, wanted, sizeof fresh);
    T* at = reinterpret_cast<T*>(to);
    bool done;
    asm volatile("lock cmpxchg %3, %1; sete %0"
                 : "=q"(done), "+m"(*at), "+a"(old)
                 : "r"(fresh)
                 : "memory", "cc");
    same = done;
  };
  switch (size) {
    case 1:
      swap(uint8_t{});
      break;
    case 2:
      swap(uint16_t{});
      break;
    case 4:
      swap(uint32_t{});
      break;
    case 8:
      swap(uint64_t{});
      break;
    default: {
      struct Pair {
        uint64_t low, high;
      };
      uint64_t old[2], fresh[2];
      std::memcpy(old, expected, sizeof old);
      std::memcpy(fresh, wanted, sizeof fresh);
      asm volatile("lock cmpxchg16b %1; sete %0"
                   : "=q"(same), "+m"(*reinterpret_cast<Pair*>(to)), "+a"(old[0]), "+d"(old[1])
                   : "b"(fresh[0]), "c"(fresh[1])
                   : "memory", "cc");
      break;
    }
  }
  return same;
}

}  // namespace

// --- changing over ---

// From here on the guest has the view.
void Recorder::open_object(SharedObject& object) {
  start_sharing();
  std::erase_if(requests_, [&](auto& request) { return request.first == &object; });
  object.make_view();
  show_view(object);
}

void Recorder::show_view(SharedObject& object) {
  process_.map.for_each([&](const Region& r) {
    if (shared_object(r) != &object) return;
    process_.engine().forget(r.start, r.end);
    process_.prepare_write(r.start, r.end);
    if (!object.show_view(r.start, r.offset, r.end - r.start))
      throw Error("cannot map the view of shared memory: " + errno_text(errno));
  });
}

// --- accesses ---

// Opens the view's page at `at` to the guest.
void Recorder::open_view(SharedObject& object, const Region& r, uint64_t at) {
  if (std::any_of(opened_.begin(), opened_.end(), [&](const OpenPage& o) { return o.at == at; })) return;
  const uint64_t page = (r.offset + (at - r.start)) / kPage;
  object.open_page(page, [this] { serve_shared(); });
  OpenPage& open = opened_.emplace_back();
  open.object = &object;
  open.page = page;
  open.at = at;
  open.before = std::make_unique<SharedObject::Page>();
  keep_apart(object, page, at);
  mprotect(reinterpret_cast<void*>(at), kPage, Process::real_protection(r.prot));
}

// Takes the bytes [from, to) of the page from the real memory, all of it at the first time. False: there is
// no such page (the file is shorter).
bool Recorder::refresh(OpenPage& open, uint64_t from, uint64_t to, bool in_call) {
  SharedObject& object = *open.object;
  unsigned char* view = object.view(open.page);
  const unsigned char* real = object.real(open.page);
  if (!log_existence(object, open.page, in_call)) return false;
  bool& known = object.known(open.page);
  SharedObject::Page before;
  if (known) std::memcpy(before.data(), view, kPage);
  if (!known) {
    copy_words(view, real, kPage);
  } else {
    copy_words(view + from, real + from, to - from);
  }
  if (!known || std::memcmp(before.data() + from, view + from, to - from) != 0)
    log_shared(open.at, view, known ? &before : nullptr, in_call);
  known = true;
  return true;
}

void Recorder::keep_before(OpenPage& open) {
  std::memcpy(open.before->data(), open.object->view(open.page), kPage);
}

// Code was fetched from the page: its other views were write-protected for that, which let them be read.
void Recorder::close_code(SharedObject& object, uint64_t page) {
  for (const Window& w : windows(object)) {
    const uint64_t offset = page * kPage;
    if (offset < w.offset || offset - w.offset >= w.end - w.start) continue;
    const uint64_t at = w.start + (offset - w.offset);
    process_.engine().forget(at, at + kPage);
    process_.forget_aliases(at, at + kPage);
    mprotect(reinterpret_cast<void*>(at), kPage, PROT_NONE);
  }
}

// Gives the guest's changes on, byte by byte, and closes all pages.
void Recorder::close_views() {
  for (OpenPage& open : opened_) {
    copy_changes(open.object->real(open.page), open.object->view(open.page), open.before->data(), kPage);
    mprotect(reinterpret_cast<void*>(open.at), kPage, PROT_NONE);
    if (const Region* r = process_.map.find(open.at); r && r->prot & PROT_EXEC)
      close_code(*open.object, open.page);
  }
  opened_.clear();
}

// The page that was opened last; not, if the file does not reach so far.
void Recorder::refresh_last(bool in_call) {
  OpenPage& open = opened_.back();
  if (refresh(open, 0, kPage, in_call)) return keep_before(open);
  mprotect(reinterpret_cast<void*>(open.at), kPage, PROT_NONE);
  opened_.pop_back();
}

// For the system call under way.
void Recorder::open_range(SharedObject& object, const Region& r, uint64_t addr, uint64_t end) {
  for (uint64_t at = addr & ~(kPage - 1); at < end; at += kPage) {
    const size_t count = opened_.size();
    open_view(object, r, at);
    if (opened_.size() == count) continue;
    refresh_last(true);
  }
}

// The host itself is about to touch guest memory, for the instruction at rip or a signal there.
void Recorder::own_for_host(uint64_t start, uint64_t end, bool write) {
  if (!bs_record.sharing) return;
  for (uint64_t at = start & ~(kPage - 1); at < end; at += kPage) {
    const Region* r = process_.map.find(at);
    SharedObject* object = r ? shared_object(*r) : nullptr;
    if (!object) continue;
    if (!object->has_view())
      own_page(at, write ? SharedObject::Hold::Write : SharedObject::Hold::Read, false);
    if (!object->has_view()) continue;
    const size_t count = opened_.size();
    open_view(*object, *r, at);
    if (opened_.size() == count) continue;
    refresh_last(false);
  }
}

void Recorder::own_operands() {
  constexpr uint64_t kLargest = kXsaveSize;  // the size of an XSAVE area is not in the instruction
  for (const Accessed& a : instruction_at_rip().accesses)
    own_for_host(a.start, a.start + std::max(a.length, kLargest), a.write);
}

// Where the frame of a signal handler goes, on either stack.
void Recorder::own_frame() {
  constexpr uint64_t kFrame = 2 * kPage;
  const uint64_t sp = context().gpr[RSP], alt = process_.signals.alt.sp + process_.signals.alt.size;
  own_for_host(sp - std::min(sp, kFrame), sp, true);
  own_for_host(alt - std::min(process_.signals.alt.size, kFrame), alt, true);
}

// The part of an access that is made now: of a string instruction the rest of the page that it is in.
static Accessed present_part(const Instruction& in, Accessed a) {
  if (!in.repeated) return a;
  if (in.backwards) {
    const uint64_t end = a.start + a.length, start = std::max(a.start, (end - 1) & ~(kPage - 1));
    a.start = start;
    a.length = end - start;
  } else {
    a.length = std::min(a.length, kPage - a.start % kPage);
  }
  return a;
}

// The instruction at rip touches the open page at `fault.address`. False: it has no right to.
bool Recorder::access_open(const engine::FaultInfo& fault) {
  Context& ctx = context();
  auto open_at = [&](uint64_t addr) -> std::pair<SharedObject*, const Region*> {
    const Region* r = process_.map.find(addr);
    SharedObject* object = r ? shared_object(*r) : nullptr;
    return {object && object->has_view() ? object : nullptr, r};
  };
  auto [object, region] = open_at(fault.address);
  if (!object) return false;
  const int needed = fault.error & engine::kWriteFault ? PROT_WRITE : PROT_READ | PROT_EXEC | PROT_WRITE;
  if (!(region->prot & needed)) return false;

  const Instruction in = instruction_at_rip();
  // It must not see what is in another segment meanwhile, without our having looked whose that is.
  for (const Accessed& a : in.accesses)
    if (const Region* r = process_.map.find(a.start); r && r->dev == kSegments)
      if (SharedObject* other = shared_object(*r); other && !other->has_view()) let_outsiders_in(*other);
  struct Part {
    Accessed access;
    size_t open;  // in opened_
  };
  std::vector<Part> parts;
  bool covered = false;
  auto add = [&](Accessed a) {
    for (uint64_t at = a.start; at < a.start + a.length;) {
      const uint64_t end = std::min(a.start + a.length, (at & ~(kPage - 1)) + kPage);
      if (auto [o, r] = open_at(at); o) {
        open_view(*o, *r, at & ~(kPage - 1));
        auto open = std::find_if(opened_.begin(), opened_.end(),
                                 [&](const OpenPage& p) { return p.at == (at & ~(kPage - 1)); });
        parts.push_back({{at, end - at, a.read, a.write}, static_cast<size_t>(open - opened_.begin())});
        covered |= fault.address >= at && fault.address < end;
      }
      at = end;
    }
  };
  // The code itself.
  constexpr uint64_t kLongest = 15;
  for (Address at = ctx.rip & ~(kPage - 1); at < ctx.rip + kLongest; at += kPage)
    if (auto [o, r] = open_at(at); o && r->prot & PROT_EXEC) add({at, kPage, true, false});
  for (const Accessed& a : in.accesses) add(present_part(in, a));
  const bool exact = in.known && covered && !in.repeated;
  // It may write less than its operand: by a mask, or an area of state.
  constexpr uint64_t kLargestVector = 64;
  const bool partial = in.masked || std::any_of(in.accesses.begin(), in.accesses.end(),
                                                [](const Accessed& a) { return a.length > kLargestVector; });
  if (!covered) add({fault.address & ~(kPage - 1), kPage, true, true});

  const Address rip = ctx.rip;
  const Tick tick = ctx.tick;
  uint64_t gpr[16];
  std::copy(std::begin(ctx.gpr), std::end(ctx.gpr), gpr);
  const uint64_t flags = ctx.rflags;
  std::optional<engine::Stop> stop;
  for (;;) {
    for (const Part& part : parts) {
      OpenPage& open = opened_[part.open];
      const uint64_t from = part.access.start - open.at, to = from + part.access.length;
      // What is only written needs no value; but the page must be known.
      const bool reads = part.access.read || !exact || partial || !open.object->known(open.page);
      if (reads && !refresh(open, from, to, false)) {
        for (OpenPage& o : opened_) keep_before(o);
        close_views();
        engine::FaultInfo bus = fault;
        bus.signo = SIGBUS;
        bus.code = BUS_ADRERR;
        on_guest_fault(bus);
        return true;
      }
    }
    for (OpenPage& open : opened_) keep_before(open);
    stop = step_alone();
    const bool done = (!stop || stop->kind == engine::Stop::Signal) && (ctx.rip != rip || ctx.tick != tick);
    if (!exact || !done) break;  // changes are given on byte by byte
    bool again = false;
    for (const Part& part : parts) {
      if (!part.access.write) continue;
      OpenPage& open = opened_[part.open];
      const uint64_t from = part.access.start - open.at, n = part.access.length;
      unsigned char* real = open.object->real(open.page) + from;
      const unsigned char *now = open.object->view(open.page) + from, *was = open.before->data() + from;
      const bool changed = std::memcmp(now, was, n) != 0;
      if (in.locked && (n == 1 || n == 2 || n == 4 || n == 8 || n == 16)) {
        if (changed && !exchange(real, was, now, n)) again = true;
      } else if (partial) {
        copy_changes(real, now, was, n);
      } else {
        copy_words(real, now, n);
      }
    }
    if (!again) {
      __atomic_thread_fence(__ATOMIC_SEQ_CST);
      for (OpenPage& open : opened_) keep_before(open);  // nothing is left to give on
      break;
    }
    // An outsider was quicker: once more, with its value. Only general registers and flags can have changed.
    std::copy(gpr, gpr + 16, ctx.gpr);
    ctx.rflags = flags;
    ctx.rip = rip;
    ctx.tick = tick;
    for (OpenPage& open : opened_) std::memcpy(open.object->view(open.page), open.before->data(), kPage);
  }
  close_views();
  if (stop && stop->kind != engine::Stop::Signal && stop->kind != engine::Stop::TickStop) react(*stop);
  // What arrived meanwhile is looked at now.
  if (bs_record.pending_count || bs_record.turn_request || bs_record.share_request) ctx.stop_request = 1;
  return true;
}

isa::Insn next_instruction() {
  const Address rip = context().rip;
  uint8_t code[15] = {};
  unsigned available = 0;
  while (available < sizeof code &&
         bs_guarded_copy(code + available, reinterpret_cast<const void*>(rip + available), 1))
    available++;
  return isa::decode(code, available);
}

// Runs the one instruction at rip. Branches through memory are made here: without tick checks nothing would
// stop the guest behind them.
std::optional<engine::Stop> Recorder::step_alone() {
  Context& ctx = context();
  const isa::Insn in = next_instruction();
  uint64_t target;
  if (in.cls == isa::Class::Ret) {
    if (!bs_guarded_copy(&target, reinterpret_cast<const void*>(ctx.gpr[RSP]), 8))
      return process_.engine().step();
    ctx.gpr[RSP] += 8 + (in.opcode == 0xc2 ? static_cast<uint64_t>(in.rel) : 0);
  } else if (in.cls == isa::Class::JmpInd || in.cls == isa::Class::CallInd) {
    const Instruction about = instruction_at_rip();
    auto source = std::find_if(about.accesses.begin(), about.accesses.end(),
                               [](const Accessed& a) { return a.read && a.length == 8; });
    if (source == about.accesses.end() ||
        !bs_guarded_copy(&target, reinterpret_cast<const void*>(source->start), 8))
      return process_.engine().step();
    if (in.cls == isa::Class::CallInd) {
      const uint64_t back = ctx.rip + in.length;
      if (!bs_guarded_copy(reinterpret_cast<void*>(ctx.gpr[RSP] - 8), &back, 8))
        return process_.engine().step();
      ctx.gpr[RSP] -= 8;
    }
  } else {
    const Tick limit = ctx.limit;
    ctx.limit = ctx.tick + 1;
    auto stop = process_.engine().step();
    ctx.limit = limit;
    return stop;
  }
  ctx.rip = target;
  ctx.tick++;
  return std::nullopt;
}

// --- finding outsiders ---

// Takes part in this recording: has its counter of processes mapped.
bool Recorder::takes_part(int pid) const {
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  if (!maps) return published_by(recording_, pid, false).has_value();  // another user's
  const std::string counter = recording_.dir() + "/tree";
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(counter)) return true;
  return false;
}

namespace {

// All processes but this one.
template <class F>
bool any_process(F f) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), ::isdigit) || std::stoi(name) == getpid()) continue;
    if (f(std::stoi(name), entry.path())) return true;
  }
  return false;
}

// Is something mapped shared and writable whose line in /proc/PID/maps has this text?
bool maps_writable(const std::filesystem::path& process, const std::string& text) {
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(text) != std::string::npos && line.find("s ") < 40 && line.find('w') < 40) return true;
  return false;
}

bool opened_to_write(const std::filesystem::path& process, uint64_t dev, uint64_t inode) {
  std::error_code ignored;
  for (const auto& fd : std::filesystem::directory_iterator(process / "fd", ignored)) {
    struct stat st {};
    if (stat(fd.path().c_str(), &st) != 0 || st.st_dev != dev || st.st_ino != inode) continue;
    std::ifstream info(process / "fdinfo" / fd.path().filename());
    std::string word;
    uint64_t flags = O_RDWR;
    while (info >> word)
      if (word == "flags:") info >> std::oct >> flags;
    if ((flags & O_ACCMODE) != O_RDONLY) return true;
  }
  return false;
}

}  // namespace

// Does a process that is not recorded have the file open for writing, or mapped so that it can write?
bool Recorder::outsider_has(uint64_t dev, uint64_t inode) const {
  const std::string mapped = fmt::format(" {:02x}:{:02x} {} ", major(dev), minor(dev), inode);
  return any_process([&](int pid, const std::filesystem::path& process) {
    return (opened_to_write(process, dev, inode) || maps_writable(process, mapped)) && !takes_part(pid);
  });
}

// The kernel's name for a System V segment is device 1 and its id.
bool Recorder::outsider_has_segment(int id) const {
  const std::string mapped = fmt::format(" 00:01 {} ", id);
  return any_process([&](int pid, const std::filesystem::path& process) {
    return maps_writable(process, mapped) && !takes_part(pid);
  });
}

namespace {

constexpr uint32_t kOpens = IN_OPEN | IN_CLOSE_NOWRITE | IN_CLOSE_WRITE;

int new_queue() {
  RoomForFds room;
  const int queue = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  return queue < 0 ? -1 : recording::move_fd_high(queue);
}

}  // namespace

// What happens to files is told by a signal. False: the kernel does not do that.
bool Recorder::listen_to(int queue) {
  bs_record.our_fds[kQueueFd] = queue;
  if (queue < 0) return false;
  f_owner_ex owner{F_OWNER_TID, gettid()};
  if (fcntl(queue, F_SETSIG, SIGTRAP) != 0 || fcntl(queue, F_SETOWN_EX, &owner) != 0 ||
      fcntl(queue, F_SETFL, O_ASYNC | O_NONBLOCK) != 0) {
    ::close(queue);
    bs_record.our_fds[kQueueFd] = -1;
    return false;
  }
  tell_fds();
  return true;
}

// Before execve: a signal that the kernel sends while that is under way would meet the new program, and kill
// it. If execve fails we go on.
void Recorder::stop_listening() {
  if (const int queue = bs_record.our_fds[kQueueFd]; queue >= 0) fcntl(queue, F_SETFL, O_NONBLOCK);
}

void Recorder::listen_again() {
  const int queue = bs_record.our_fds[kQueueFd];
  if (queue < 0) return;
  fcntl(queue, F_SETFL, O_ASYNC | O_NONBLOCK);
  bs_record.outsider = true;  // what we have missed
}

bool Recorder::open_queue() {
  return bs_record.our_fds[kQueueFd] >= 0 || listen_to(new_queue());
}

void Recorder::note_deafness() {
  note_once(
      "inotify cannot be used: what processes that are not recorded write into shared memory is "
      "not logged if they open it later");
}

// Asks the kernel to tell us when the file of `fd` is opened.
// False: nor can we be told by others who may not send us signals.
bool Recorder::watch_opens(SharedObject& object, int fd) {
  if (!open_queue()) {
    note_deafness();
    return false;
  }
  const int queue = bs_record.our_fds[kQueueFd];
  const int watch = inotify_add_watch(queue, fmt::format("/proc/thread-self/fd/{}", fd).c_str(), kOpens);
  if (watch >= 0) watches_[watch] = {&object, object.known_opens()};
  // Another user may map it one day.
  return inotify_add_watch(queue, object.path().c_str(), IN_ATTRIB) >= 0;
}

// A way to the file that is mapped: by the name that it had, a descriptor that the program has, or our second
// mapping (which not everybody may use). Empty: none.
std::string Recorder::way_to(SharedObject& object) {
  std::optional<Region> region;
  process_.map.for_each([&](const Region& r) {
    if (shared_object(r) == &object) region = r;
  });
  if (!region) return "";
  auto leads_there = [&](const std::string& path) {
    struct stat st {};
    return stat(path.c_str(), &st) == 0 && st.st_dev == region->dev && st.st_ino == region->inode;
  };
  if (leads_there(region->name)) return region->name;
  std::error_code ignored;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/thread-self/fd", ignored))
    if (leads_there(fd.path())) return fd.path();
  const uint64_t alias = object.alias(0);
  const std::string mapping =
      fmt::format("/proc/self/map_files/{:x}-{:x}", alias, alias + object.pages() * kPage);
  return leads_there(mapping) ? mapping : "";
}

// Before fork: the child needs ears of its own, as its parent may take long to pass on what it hears. It
// listens from now on, so that it misses nobody.
void Recorder::listen_for_child() {
  if (watches_.empty()) return;
  child_queue_ = new_queue();
  if (child_queue_ < 0) return note_deafness();
  for (auto& [watch, about] : watches_) {
    SharedObject& object = *about.object;
    if (object.is_open()) continue;
    const std::string path = way_to(object);
    const int own = path.empty() ? -1 : inotify_add_watch(child_queue_, path.c_str(), kOpens);
    // Without a name hardly anybody can open it; and then the parent hears of it.
    if (own >= 0) child_watches_[own] = {&object, object.known_opens(), about.fresh};
    inotify_add_watch(child_queue_, object.path().c_str(), IN_ATTRIB);
  }
  look_for_outsiders();  // those who were there before
}

// … in the child, and in the parent.
void Recorder::listen_as_child(bool shares_files) {
  int& queue = bs_record.our_fds[kQueueFd];
  if (queue >= 0 && !shares_files) ::close(queue);
  queue = -1;
  watches_ = std::move(child_watches_);
  child_watches_.clear();
  if (listen_to(std::exchange(child_queue_, -1))) bs_record.outsider = true;  // what has been told already
}

void Recorder::forget_child() {
  if (child_queue_ >= 0) ::close(child_queue_);
  child_queue_ = -1;
  child_watches_.clear();
}

// Somebody opened a file that we have mapped.
void Recorder::look_for_outsiders() {
  bs_record.outsider = false;
  struct Counts {
    uint32_t opened = 0, closed = 0;  // closed: without having written
    bool late = false;                // closed by somebody who had it before we listened, and could write
  };
  std::map<int, Counts> seen;
  bool rung = false;
  alignas(inotify_event) char buffer[16384];
  for (ssize_t n; (n = ::read(bs_record.our_fds[kQueueFd], buffer, sizeof buffer)) > 0;)
    for (char* at = buffer; at < buffer + n;) {
      inotify_event event;
      std::memcpy(&event, at, sizeof event);
      if (event.mask & IN_OPEN) seen[event.wd].opened++;
      if (event.mask & IN_CLOSE_NOWRITE) seen[event.wd].closed++;
      if (auto it = watches_.find(event.wd);
          event.mask & IN_CLOSE_WRITE && it != watches_.end() && it->second.fresh)
        seen[event.wd].late = true;
      rung |= (event.mask & IN_ATTRIB) != 0;
      at += sizeof event + event.len;
    }
  if (rung)
    for (auto& [key, object] : objects_) object->pass_on();
  for (auto [watch, counts] : seen) {
    auto it = watches_.find(watch);
    if (it == watches_.end()) continue;
    SharedObject* object = it->second.object;
    uint32_t& explained = it->second.explained;
    auto key =
        std::find_if(objects_.begin(), objects_.end(), [&](auto& o) { return o.second.get() == object; });
    if (key == objects_.end() || object->is_open()) continue;
    explained += counts.opened;
    // Recorded processes tell when they have opened it, which may be a moment after the kernel does.
    for (int i = 0; i < 20 && explained > object->known_opens(); i++) usleep(100);
    const bool strange = explained > object->known_opens() + counts.closed || counts.late;
    explained = std::min(explained, object->known_opens());
    if (strange || outsider_has(key->first.first, key->first.second)) let_outsiders_in(*object);
  }
  for (auto& [watch, about] : watches_) about.fresh = false;
}

// A process of this recording, which may have ended.
bool Recorder::was_recorded(int pid) {
  if (pid == 0 || pid == getpid() || recorded_pids_.count(pid)) return true;
  if (takes_part(pid)) {
    recorded_pids_.insert(pid);  // looking takes as long as handing on a page
    return true;
  }
  for (const uint64_t last = tree_.last_number(); recorded_logs_ < last; recorded_logs_++) {
    try {
      const auto header = recording::LogFile(recording_.log_path(recorded_logs_ + 1)).header();
      recorded_pids_.insert(static_cast<int>(header.pid));
    } catch (const Error&) {
      // Being made; whoever makes it is alive.
    }
  }
  return recorded_pids_.count(pid) != 0;
}

void Recorder::let_outsiders_in(SharedObject& object) {
  note_once(
      "memory is shared with processes that are not recorded: each access to it was made alone, which is "
      "slow");
  object.set_open();
  if (!object.has_view()) open_object(object);
}

// This process goes on natively, with the memory that it has mapped: an outsider for those it shared it with.
void Recorder::become_outsider() {
  for (auto& [key, object] : objects_) {
    object->set_open();
    if (!object->has_view()) continue;
    // The view makes room for the real memory: an old size of 0 makes a second mapping of what is shared.
    for (const Window& w : windows(*object))
      if (mremap(object->real(w.offset / kPage), 0, w.end - w.start, MREMAP_MAYMOVE | MREMAP_FIXED,
                 w.start) == MAP_FAILED)
        throw Error("cannot map shared memory again: " + errno_text(errno));
  }
  leave_shared();
  for (auto& [key, object] : objects_) shared_control::open_to_writer(control_path(key.first, key.second));
}

// A descriptor goes to a process that is not recorded: what it is of, if we have it mapped, is not ours alone
// any more.
void Recorder::hand_out(int fd) {
  struct stat st {};
  if (objects_.empty() || fstat(fd, &st) != 0) return;
  auto it = objects_.find({st.st_dev, st.st_ino});
  if (it != objects_.end() && !it->second->is_open() && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
    let_outsiders_in(*it->second);
}

// execve of a program that is not recorded.
void Recorder::hand_out_inherited() {
  if (objects_.empty()) return;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/thread-self/fd", ignored)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (const int flags = fcntl(fd, F_GETFD); flags >= 0 && !(flags & FD_CLOEXEC)) hand_out(fd);
  }
}

// The descriptors in a message that is to be sent.
static std::vector<int> sent_descriptors(uint64_t message) {
  std::vector<int> fds;
  Msghdr head{};
  if (!read_guest(message, &head) || head.control == 0) return fds;
  std::vector<char> control(std::min<uint64_t>(head.control_length, 4096));
  if (!bs_guarded_copy(control.data(), reinterpret_cast<const void*>(head.control), control.size()))
    return fds;
  for (size_t at = 0; at + sizeof(cmsghdr) <= control.size();) {
    cmsghdr part{};
    std::memcpy(&part, control.data() + at, sizeof part);
    if (part.cmsg_len < sizeof part || part.cmsg_len > control.size() - at) break;
    if (part.cmsg_level == SOL_SOCKET && part.cmsg_type == SCM_RIGHTS)
      for (size_t i = at + sizeof part; i + 4 <= at + part.cmsg_len; i += 4)
        std::memcpy(&fds.emplace_back(), control.data() + i, 4);
    at += CMSG_ALIGN(part.cmsg_len);
  }
  return fds;
}

// sendmsg, sendmmsg.
void Recorder::hand_out_sent(int socket, uint64_t messages, uint64_t count) {
  if (objects_.empty()) return;
  std::vector<int> fds;
  for (uint64_t i = 0; i < std::min<uint64_t>(count, UIO_MAXIOV); i++) {
    const std::vector<int> more = sent_descriptors(messages + i * kMmsgSize);
    fds.insert(fds.end(), more.begin(), more.end());
  }
  if (fds.empty()) return;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0 &&
      (peer.pid == getpid() || takes_part(peer.pid)))
    return;
  for (int fd : fds) hand_out(fd);
}

// This process opened a file, or is about to change one, that others of the recording may have mapped.
void Recorder::tell_opened(int fd) {
  struct stat st {};
  if (tree_.shared_files() == 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return;
  shared_control::count_open(control_path(st.st_dev, st.st_ino));
}

}  // namespace backstep::recorder
