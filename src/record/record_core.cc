// Core files. The kernel writes them, of the process that dies: its limits, its pattern (a file, or a program
// that is given the core) and the word to the parent that there is one (WCOREDUMP) are the kernel's business.
// What it finds must be the program, so before the end
//
//   * memory of ours is marked as not to be dumped, which leaves the guest's, at its addresses;
//   * the kernel is told the program's auxiliary vector and arguments, by which debuggers find its symbols;
//   * every kernel thread takes the registers of the guest thread that has its id, and rests; the one whose
//   thread dies has the deadly
//     signal waiting when it does so, with the details that it came with.
//
// No guest code is executed on the way, and none could be: its memory has no right to it. A thread that was
// waiting in a call stands behind its system call instruction, as natively, since it rests in a call that is
// made there. One that was computing has all its registers, but stands in our code.
#include <elf.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <vector>

#include "base/room_for_fds.h"
#include "guest/buffers.h"
#include "record/departure_hot.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;

namespace {

using layout::kPage;
constexpr uint64_t kFrameRoom = 16 << 10;

bool has_core(int signo) {
  switch (signo) {
    case SIGQUIT:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGXCPU:
    case SIGXFSZ:
    case SIGSYS:
      return true;
    default:
      return false;
  }
}

void* room_for_frame() {
  void* p = mmap(nullptr, kFrameRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

// The frame of a handler that never ran, outside of the guest's memory. Where rt_sigreturn finds it; 0: there
// is no room.
uint64_t make_frame(Context& ctx, uint64_t mask, uint64_t xcr0, void* room) {
  if (!room) return 0;
  constexpr uint64_t kRestorer = 0x0400'0000, kOnStack = 0x0800'0000;
  SignalState state;
  state.mask = mask;
  state.alt = AltStack{reinterpret_cast<uint64_t>(room), 0, kFrameRoom};
  const KernelSigaction never{ctx.rip, kRestorer | kOnStack, ctx.rip, 0};
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  auto anywhere = [](uint64_t, uint64_t) { return true; };
  if (!push_signal_frame(ctx, state, never, SIGTRAP, info, TrapInfo{}, xcr0, anywhere)) return 0;
  return ctx.gpr[RSP] + 8;
}

// A thread that does not die: it rests in a call, where it waits in one.
void put_to_rest(Context& ctx, bool in_call) {
  constexpr uint16_t kSyscall = 0x050f;
  constexpr uint64_t kPause = 34;
  uint16_t code = 0;
  const uint64_t at = ctx.rip - 2, page = at & ~(kPage - 1);
  const bool there = in_call && read_guest(at, &code) && code == kSyscall &&
                     mprotect(reinterpret_cast<void*>(page), at + 2 - page, PROT_READ | PROT_EXEC) == 0;
  ctx.gpr[RAX] = kPause;
  ctx.rip = there ? at : reinterpret_cast<uint64_t>(&bs_rest);
}

}  // namespace

bool Recorder::leaves_core(int signo) const {
  if (!has_core(signo) || vfork_ || getpid() == 1) return false;
  rlimit limit{};
  getrlimit(RLIMIT_CORE, &limit);
  RoomForFds room;
  std::string pattern;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  return limit.rlim_cur > 0 || pattern.starts_with('|');
}

// The registers of a thread; those of the one that has the turn are not in its own books.
std::unique_ptr<Context> Recorder::state_of_thread(const Thread& thread) const {
  auto ctx = std::make_unique<Context>(context());
  if (&thread == &process_.current()) return ctx;
  std::copy(std::begin(thread.gpr), std::end(thread.gpr), ctx->gpr);
  ctx->rip = thread.rip, ctx->rflags = thread.rflags;
  ctx->fs_base = thread.fs_base, ctx->gs_base = thread.gs_base;
  std::memcpy(ctx->xsave, thread.xsave, sizeof ctx->xsave);
  return ctx;
}

// While our signals still work: the bodies leave. Those of threads that do not die are at rest when this
// returns.
void Recorder::send_bodies_off(int signo) {
  go_home();
  auto departures = std::make_unique<std::vector<Departure>>();
  if (!dying_) dying_ = &process_.current();
  for (const auto& [name, task] : turns_.tasks()) {
    const Thread* thread = task->thread;
    if (!thread || thread->lodger || task->lost || !task->body || task->body->tid != thread->tid) continue;
    Departure d;
    d.tid = thread->tid;
    if (thread == dying_) {
      d.signo = signo;
    } else {
      auto ctx = state_of_thread(*thread);
      d.fs_base = ctx->fs_base, d.gs_base = ctx->gs_base;
      put_to_rest(*ctx, thread->in_call);
      d.frame = make_frame(*ctx, ~0ull, process_.xcr0, room_for_frame());
    }
    if (d.frame || d.signo) departures->push_back(d);
  }
  bs_departures = {departures->data(), static_cast<unsigned>(departures->size()), 0, 0};
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  info.si_signo = SIGTRAP;
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = reinterpret_cast<void*>(kDepartSignal);
  for (const Departure& d : *departures) syscall(SYS_rt_tgsigqueueinfo, getpid(), d.tid, SIGTRAP, &info);
  constexpr int kTries = 1000;  // of a millisecond
  const timespec moment{0, 1'000'000};
  for (int i = 0; i < kTries && __atomic_load_n(&bs_departures.gone, __ATOMIC_SEQ_CST) < departures->size();
       i++)
    nanosleep(&moment, nullptr);
  departures.release();  // until the end
}

// By which debuggers find the program's symbols. Needs a kernel with checkpoint/restore, as nearly all are.
void Recorder::describe_program() const {
  prctl_mm_map map{};
  uint64_t program = 0, end = 0;
  process_.map.for_each([&](const Region& r) {
    if (r.name != start_.exe) return;
    if (!program) program = r.start;
    end = r.end;
  });
  if (!program) return;
  map.start_code = map.start_data = program;
  map.end_code = map.end_data = end;
  map.start_brk = process_.map.brk_start;
  map.brk = process_.map.brk;
  map.start_stack = start_.rsp;
  // argc, the arguments, 0, the environment, 0, the auxiliary vector; then the strings, in this order.
  uint64_t count = 0, first = 0, variable = 0;
  if (!read_guest(start_.rsp, &count) || count != start_.argv.size() || !read_guest(start_.rsp + 8, &first) ||
      !read_guest(start_.rsp + 8 * (count + 2), &variable))
    return;
  uint64_t last = first;
  for (const std::string& argument : start_.argv) last += argument.size() + 1;
  map.arg_start = first;
  map.arg_end = last;
  map.env_start = map.env_end = variable ? variable : last;
  std::vector<uint64_t> auxv = start_.auxv;
  map.auxv = reinterpret_cast<decltype(map.auxv)>(auxv.data());
  map.auxv_size = static_cast<uint32_t>(auxv.size() * sizeof auxv[0]);
  map.exe_fd = ~0u;
  prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}

// What is mapped and not the guest's is not dumped. Files of the recording, some of which are gone already,
// are not even mentioned.
void Recorder::leave_out_our_memory() const {
  RoomForFds room;
  // The initial stack is mapped as large as it may get; natively it is as large as it has grown.
  if (const uint64_t lowest = process_.stack_start(), grown = layout::kStackEnd - process_.stack_size();
      lowest < grown)
    munmap(reinterpret_cast<void*>(lowest), grown - lowest);
  std::ifstream maps("/proc/self/maps");
  struct Part {
    uint64_t start, end;
    bool unmap;
  };
  std::vector<Part> ours;
  for (std::string line; std::getline(maps, line);) {
    uint64_t start = 0, end = 0;
    if (sscanf(line.c_str(), "%lx-%lx ", &start, &end) != 2 || start >= 1ull << 63) continue;
    const size_t name = line.find('/');
    const bool unmap =
        name != std::string::npos &&
        (line.find(recording_.dir() + "/", name) == name ||
         (!options_.engine.translations.empty() && line.find(options_.engine.translations, name) == name));
    for (uint64_t at = start; at < end;) {
      const Region* r = process_.map.next(at);
      const uint64_t to = r && r->start < end ? std::max(at, r->start) : end;
      if (at < to) ours.push_back({at, to, unmap});
      at = to < end ? std::min(end, r->end) : end;
    }
  }
  for (const Part& part : ours) {
    auto* at = reinterpret_cast<void*>(part.start);
    if (!part.unmap || munmap(at, part.end - part.start) != 0)
      madvise(at, part.end - part.start, MADV_DONTDUMP);
  }
}

// The end. `mask`: what the dying thread blocks.
void Recorder::end_with_core(int signo, uint64_t mask) {
  siginfo_t info;
  std::memset(&info, 0, sizeof info);
  info.si_signo = signo;
  info.si_code = SI_TKILL;
  info.si_pid = getpid();
  info.si_uid = getuid();
  if (cause_ && cause_->si_signo == signo) info = *cause_;
  describe_program();
  Departure* elsewhere = nullptr;
  for (unsigned i = 0; i < bs_departures.count; i++)
    if (bs_departures.list[i].signo) elsewhere = &bs_departures.list[i];
  auto ctx = state_of_thread(*dying_);
  const uint64_t fs_base = ctx->fs_base, gs_base = ctx->gs_base;
  void *room = room_for_frame(), *other_room = room_for_frame();
  leave_out_our_memory();
  const uint64_t frame = make_frame(*ctx, mask, process_.xcr0, room);
  if (!frame) return;
  if (!elsewhere) {
    syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signo, &info);
    leave_by_frame(frame, fs_base, gs_base);
  }
  elsewhere->frame = frame;
  elsewhere->fs_base = fs_base, elsewhere->gs_base = gs_base;
  elsewhere->info = info;
  // The first thread is ours to show.
  uint64_t rest = 0;
  const Thread* first = process_.thread(1);
  if (first && first->tid == gettid()) {
    ctx = state_of_thread(*first);
    put_to_rest(*ctx, first->in_call);
    rest = make_frame(*ctx, ~0ull, process_.xcr0, other_room);
  }
  __atomic_store_n(&bs_departures.go, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &bs_departures.go, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  if (rest) leave_by_frame(rest, first->fs_base, first->gs_base);
  // A kernel thread that is none of the program's need not be seen.
  for (;;) syscall(gettid() == getpid() ? SYS_pause : SYS_exit, 0);
}

}  // namespace backstep::recorder
