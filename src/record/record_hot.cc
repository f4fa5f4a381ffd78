// System calls on their fast way: execute, then write what came back into the log. About 100 ns on top of the
// kernel's own time for a small read.
#include "record/record_hot.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <csignal>

#include "engine/cache.h"
#include "engine/host_ops.h"
#include "guest/buffers.h"
#include "record/channels_hot.h"
#include "record/departure_hot.h"

namespace backstep::recorder {

using namespace guest;
using recording::EventKind;
using recording::PieceKind;
using recording::put_u32;
using recording::put_varint;
using recording::zigzag;

HotState bs_record;

namespace {

constexpr uint64_t kClockGettime = 228, kGettimeofday = 96, kTime = 201;
constexpr long kEinval = -22, kEbadf = -9;

// Writes an event while counting what it takes; nothing is written beyond the end of the chunk.
struct Sink {
  uint8_t* p;
  uint8_t* end;
  uint64_t overflow = 0;

  bool room(uint64_t n) {
    if (overflow == 0 && static_cast<uint64_t>(end - p) >= n) return true;
    overflow += n;
    return false;
  }
  void varint(uint64_t v) {
    if (room(10)) p = put_varint(p, v);
  }
  void tag(int arg, PieceKind kind) {
    if (room(1)) *p++ = static_cast<uint8_t>(arg | static_cast<int>(kind) << 3);
  }
  // One piece with bytes of guest memory; as much as is there (after a failed call: the kernel writes as far
  // as it can).
  void piece(int arg, PieceKind kind, uint64_t addr, uint64_t n) {
    uint8_t* start = p;
    tag(arg, kind);
    if (kind == PieceKind::OutAt || kind == PieceKind::TextAt) varint(addr);
    varint(n);
    if (!room(n)) return;
    if (bs_guarded_copy(p, reinterpret_cast<const void*>(addr), n)) {
      p += n;
      return;
    }
    constexpr uint64_t kPage = 4096;
    uint64_t there = 0;
    uint8_t byte;
    while (there < n && read_guest(addr + there, &byte)) there += kPage - (addr + there) % kPage;
    p = start;
    if (there && there < n) piece(arg, kind, addr, there);
  }
};

bool is_ours(int fd) {
  for (int ours : bs_record.our_fds)
    if (ours >= 0 && fd == ours) return true;
  return false;
}

bool simple_output(const Syscall& row) {
  return row.argc >= 2 && row.args[1].kind == Arg::Out && row.args[1].len == Len::Result &&
         is_scalar(row.args[0].kind) && (row.argc < 3 || is_scalar(row.args[2].kind)) &&
         (row.argc < 4 || is_scalar(row.args[3].kind)) && row.argc < 5;
}

bool vdso_call(uint64_t nr, const uint64_t args[6], long* result) {
  if (!bs_record.vdso_clock_gettime) return false;
  long ts[2];
  if (nr == kClockGettime) {
    *result = bs_record.vdso_clock_gettime(static_cast<int>(args[0]), ts);
    if (*result == 0 && !bs_guarded_copy(reinterpret_cast<void*>(args[1]), ts, sizeof ts)) *result = -14;
    return true;
  }
  if (nr == kGettimeofday && args[1] == 0 && args[0]) {
    *result = bs_record.vdso_clock_gettime(0, ts);
    ts[1] /= 1000;
    if (*result == 0 && !bs_guarded_pair(reinterpret_cast<void*>(args[0]), static_cast<uint64_t>(ts[0]),
                                         static_cast<uint64_t>(ts[1])))
      *result = -14;
    return true;
  }
  if (nr == kTime && args[0] == 0) {
    if (bs_record.vdso_clock_gettime(0, ts) != 0) return false;
    *result = ts[0];
    return true;
  }
  return false;
}

}  // namespace

uint64_t next_order() {
  const HotState& s = bs_record;
  if (static_cast<uint32_t>(__atomic_load_n(s.tree_numbers, __ATOMIC_RELAXED)) < 2) return 0;
  return __atomic_add_fetch(s.orders, 1, __ATOMIC_SEQ_CST);
}

namespace {

// Does it concern other processes at all?
bool has_order(const Syscall& row, uint16_t side, uint64_t nr, const uint64_t args[6]) {
  constexpr uint64_t kFutex = 202, kMmap = 9, kPrivateFutex = 128, kAnonymous = 0x20;
  if (!(row.traits & side)) return false;
  return !(nr == kFutex && (args[1] & kPrivateFutex)) && !(nr == kMmap && (args[3] & kAnonymous));
}

// What several processes write to the recording's stdout comes out in the order in which the kernel takes it,
// and nobody but the kernel knows that order if two write at once. So they do not: number and write are one
// step. It must not change more than moments, though: who holds the place may be dead, or wait for its reader
// while others write to elsewhere or do not want to wait. So after a few milliseconds it is taken over; but
// not from a process that would go on if it only had a processor, within reason.
constexpr uint64_t kMoment = 30'000'000, kMostWait = 3'000'000'000;  // cycles

uint64_t cycles() {
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return static_cast<uint64_t>(high) << 32 | low;
}

// Does the kernel show the process as running, or as waiting for a disk?
bool is_at_work(uint32_t pid) {
  constexpr long kRead = 0, kClose = 3, kOpen = 2, kCloseOnExec = 02000000;
  char path[32] = "/proc/", digits[12], text[256];
  unsigned at = 6, count = 0;
  do digits[count++] = static_cast<char>('0' + pid % 10);
  while (pid /= 10);
  while (count) path[at++] = digits[--count];
  for (const char* rest = "/stat"; *rest; rest++) path[at++] = *rest;
  path[at] = 0;
  const long fd = hot::syscall6(kOpen, reinterpret_cast<long>(path), kCloseOnExec, 0, 0, 0, 0);
  if (hot::is_error(fd)) return false;
  const long size = hot::syscall6(kRead, fd, reinterpret_cast<long>(text), sizeof text, 0, 0, 0);
  hot::syscall6(kClose, fd, 0, 0, 0, 0, 0);
  long state = size > 0 ? size - 1 : 0;
  while (state > 0 && text[state] != ')') state--;  // behind the name, which may have any letters
  return state > 0 && state + 2 < size && (text[state + 2] == 'R' || text[state + 2] == 'D');
}

void begin_output(uint64_t* writer) {
  constexpr long kSchedYield = 24, kNanosleep = 35;
  constexpr unsigned kSpins = 64, kYields = 128;
  const long brief[2] = {0, 100'000};
  const uint64_t me = bs_record.me;
  uint64_t last = 0, since = 0, looked = 0;  // who held it, since when, and when we looked at them
  for (unsigned tries = 0;; tries++) {
    uint64_t holder = 0;
    if (__atomic_compare_exchange_n(writer, &holder, me, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
    if (holder == me) return;  // left behind by a call that was cut short
    if (tries < kSpins) {
      asm volatile("pause");
      continue;
    }
    const uint64_t now = cycles();
    if (holder != last) last = holder, since = looked = now;
    if (now - looked > kMoment) {
      looked = now;
      if ((now - since > kMostWait || !is_at_work(static_cast<uint32_t>(holder >> 32))) &&
          __atomic_compare_exchange_n(writer, &holder, me, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return;
    }
    if (tries < kSpins + kYields)
      hot::syscall6(kSchedYield, 0, 0, 0, 0, 0, 0);
    else
      hot::syscall6(kNanosleep, reinterpret_cast<long>(brief), 0, 0, 0, 0, 0);
  }
}

void end_output(uint64_t* writer) {
  uint64_t me = bs_record.me;
  __atomic_compare_exchange_n(writer, &me, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

// Where the call stands in line for the recording's stdout or stderr; null: it does not.
uint64_t* output_of(const Syscall& row, const uint64_t args[6]) {
  const HotState& s = bs_record;
  if (!(row.traits & kOutput) || args[0] >= kTrackedFds || !s.given) return nullptr;
  const uint8_t kind = s.fd_kind[args[0]] & 3;
  return kind ? s.writers[kind & recording::kToStdout ? 0 : 1] : nullptr;
}

}  // namespace

void begin_order(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  bs_record.given = has_order(row, kGives, nr, args) ? next_order() : 0;
}

// (Descriptors that come in messages are noted with the next one that comes otherwise: numbers are given out
// in order.)
void note_descriptor(const Syscall& row, uint64_t nr, const uint64_t args[6], int64_t result) {
  constexpr uint64_t kPipe = 22, kPipe2 = 293, kSocketpair = 53;
  if (result < 0) return;
  int64_t made = result;
  if (nr == kPipe || nr == kPipe2 || nr == kSocketpair) {
    int pair[2];
    if (!read_guest(args[nr == kSocketpair ? 3 : 0], &pair)) return;
    made = pair[1];
  } else if (!(row.traits & kCreatesFd)) {
    return;
  }
  if (made >= bs_record.crowded_from) bs_record.crowded = true;
}

void execute_plain(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  HotState& s = bs_record;
  for (int i = 0; i < row.argc; i++)
    if (row.args[i].kind == Arg::Fd && is_ours(static_cast<int>(args[i]))) {
      s.result = kEbadf;
      return;
    }
  if (row.traits & kMovesBytes) {
    // Replay has no bytes for these. Programs fall back to read and write.
    for (int i = 0; i < row.argc; i++)
      if (row.args[i].kind == Arg::Fd && args[i] < kTrackedFds && (s.fd_kind[args[i]] & 3)) {
        s.result = kEinval;
        return;
      }
  }
  if (!simple_output(row)) read_counts(row, nr, args, s.old_counts);
  uint64_t* const output = output_of(row, args);
  if (output) {
    begin_output(output);
    s.given = next_order();
  }
  long result;
  if (s.lodger) {
    result = call_now(*s.lodger, nr, args);
  } else if (row.traits & kMayBlock) {
    result = wait_for(nr, args);
  } else if (simple_output(row) || !vdso_call(nr, args, &result)) {
    result = hot::syscall(nr, args);
  }
  s.result = result;
  note_descriptor(row, nr, args, result);
  if (output) end_output(output);
}

// A signal that comes between the guest's `syscall` instruction and the kernel's would wait there as long as
// the call sleeps, and so would the turn of another thread. So the call is not made then. If it was a signal
// of our own that woke it up, the guest must not hear of it either.
long wait_for(uint64_t nr, const uint64_t args[6]) {
  HotState& s = bs_record;
  constexpr long kEintr = -4;
  const long result = bs_call(static_cast<long>(nr), args, const_cast<const uint32_t*>(&s.attention));
  if (result == kEintr && s.attention && s.pending_count == 0 && s.timer_hit_count == 0) return kNotMade;
  return result;
}

bool log_syscall(const Syscall& row, uint64_t nr, const uint64_t args[6], int64_t result, uint8_t flags,
                 bool buffers) {
  HotState& s = bs_record;
  recording::Appender& log = *s.log;
  if (!log.chunk) return true;
  const Context& ctx = context();
  const uint64_t channels =
      (row.traits & kChannels) && !(flags & recording::kDenied) ? channel_room(nr, args, result) : 0;
  if (!log.has_room(192 + channels)) {
    s.needed = 4096 + channels;
    return false;
  }
  const Tick last = log.tick;
  const uint64_t last_order = log.order;
  recording::Order order;
  if (!(flags & recording::kDenied)) order = {s.given, has_order(row, kGets, nr, args) ? next_order() : 0};
  uint8_t* at = log.begin(EventKind::Syscall, flags, recording::logged_number(nr), order);
  at = log.put_place(at, ctx.tick, ctx.rip - 2);
  at = put_u32(at, register_digest(ctx));
  at = put_varint(at, zigzag(result));
  for (int i = 0; i < row.argc; i++) at = put_varint(at, args[i]);
  Sink sink{at, log.end - 2 - channels};
  constexpr int64_t kFault = -14;
  if (buffers && simple_output(row) && result != kFault) {
    // read(2) and its like: one buffer, as long as the result. Worth a way of its own.
    if (result > 0 && args[1]) sink.piece(1, PieceKind::OutAtArg, args[1], static_cast<uint64_t>(result));
  } else if (buffers) {
    for (int i = 0; i < row.argc; i++) {
      if (is_scalar(row.args[i].kind)) continue;
      ArgSpec spec = arg_spec(nr, args, i);
      if (spec.kind == Arg::Path || spec.kind == Arg::Str) {
        int64_t n = args[i] ? text_length(args[i], 4096) : -1;
        if (n < 0) continue;
        sink.piece(i, PieceKind::Text, args[i], static_cast<uint64_t>(n));
        continue;
      }
      if (spec.shape == Shape::Sockaddr && spec.kind == Arg::In) {  // to whom, also if that is refused
        const uint64_t n = buffer_bytes(spec, args, 0);
        if (args[i] && n && n <= sizeof(sockaddr_storage)) sink.piece(i, PieceKind::Text, args[i], n);
        continue;
      }
      if ((row.traits & kOutput) && spec.kind == Arg::In && result > 0 &&
          args[i])  // the beginning, for people
        sink.piece(i, PieceKind::Text, args[i], static_cast<uint64_t>(result < 32 ? result : 32));
      uint64_t length;
      uint32_t crc;
      if (input_sum(row, spec, args, i, result, &length, &crc)) {
        sink.tag(i, PieceKind::Sum);
        sink.varint(length);
        if (sink.room(4)) sink.p = put_u32(sink.p, crc);
      }
      for_each_name(spec, args, i, result,
                    [&](uint64_t addr, uint64_t n) { sink.piece(i, PieceKind::TextAt, addr, n); });
    }
    for_each_output(row, nr, args, result, s.old_counts, [&](int arg, uint64_t addr, uint64_t n) {
      if (hot::is_error(result) && n > 65536) return;  // garbage arguments of a failed call
      sink.piece(arg, addr == args[arg] ? PieceKind::OutAtArg : PieceKind::OutAt, addr, n);
    });
  }
  if (sink.overflow) {
    log.tick = last;
    log.order = last_order;
    s.needed = static_cast<uint64_t>(sink.p - log.p) + sink.overflow + channels + 4096;
    return false;
  }
  log.commit(sink.p);
  if (channels) log_channels(log, nr, args, result);
  s.given = 0;
  return true;
}

bool log_host_op(const Context& ctx, uint16_t op, unsigned count, const uint64_t* values) {
  recording::Appender& log = *bs_record.log;
  if (!log.chunk) return true;
  if (!log.has_room(128)) return false;
  uint8_t* at = log.begin(EventKind::Instr, 0, op);
  at = log.put_place(at, ctx.tick, ctx.rip);
  at = put_u32(at, register_digest(ctx));
  at = put_varint(at, count);
  for (unsigned i = 0; i < count; i++) at = put_varint(at, values[i]);
  log.commit(at);
  return true;
}

namespace {

// The counter is in its vector register while the guest runs; events need it in memory.
void fetch_tick(Context& ctx) {
  if (ctx.features & kVectorCounter) asm volatile("vmovq %%xmm31, %0" : "=m"(ctx.tick));
}

}  // namespace

namespace {

// With threads: does this call need to know which of them makes it, or may it wait?
bool concerns_threads(const Syscall& row, uint64_t nr, const Context& ctx) {
  if (row.traits & kMayBlock)
    return !(row.args[0].kind == Arg::Fd && ctx.gpr[RDI] < kTrackedFds &&
             (bs_record.fd_kind[ctx.gpr[RDI]] & kFdFile));
  // A thread's CPU time?
  if (nr == kClockGettime && (ctx.gpr[RDI] == 3 || static_cast<int>(ctx.gpr[RDI]) < 0)) return true;
  return row.traits & kOfThread;
}

}  // namespace

namespace {

// Does this ioctl, of which only its number tells how much it reads, find pointers there? Drivers may write
// through them.
bool embeds_pointers(uint64_t request, uint64_t argument) {
  const ArgSpec spec = ioctl_arg(request);
  if (ioctl_name(request) || (spec.kind != Arg::InStruct && spec.kind != Arg::InOut)) return false;
  constexpr uint64_t kLowest = 0x10000, kHighest = 1ull << 47, kScanned = 256;
  for (uint64_t at = 0; at + 8 <= spec.n && at < kScanned; at += 8) {
    uint64_t word;
    uint8_t byte;
    if (read_guest(argument + at, &word) && word >= kLowest && word < kHighest && read_guest(word, &byte))
      return true;
  }
  return false;
}

}  // namespace

bool has_unknown_argument(const Syscall& row, const Context& ctx) {
  bool possible = false;
  for (int i = 0; i < row.argc; i++)
    possible |= row.args[i].kind == Arg::Varies || row.args[i].kind == Arg::Unknown;
  if (!possible) return false;
  uint64_t args[6] = {ctx.gpr[RDI], ctx.gpr[RSI], ctx.gpr[RDX], ctx.gpr[R10], ctx.gpr[R8], ctx.gpr[R9]};
  for (int i = 0; i < row.argc; i++)
    if (arg_spec(ctx.gpr[RAX], args, i).kind == Arg::Unknown && args[i]) return true;
  constexpr uint64_t kIoctl = 16;
  return ctx.gpr[RAX] == kIoctl && args[2] && embeds_pointers(args[1], args[2]);
}

namespace {

// stat: a path in /proc?
bool is_in_proc(uint64_t path) {
  constexpr uint64_t kProc = 0x2f636f72702f;  // "/proc/"
  uint64_t begin;
  return read_guest(path, &begin) && (begin & 0xffff'ffff'ffff) == kProc;
}

// Programs ask for the time all the time: clock_gettime has a way of its own, with the same event as
// log_syscall writes. False: nothing was done.
bool record_clock(Context& ctx) {
  HotState& s = bs_record;
  recording::Appender& log = *s.log;
  const uint64_t clock = ctx.gpr[RDI], to = ctx.gpr[RSI];
  constexpr uint64_t kVdsoClocks = 1 << 0 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 11;
  if (clock > 11 || !(kVdsoClocks >> clock & 1) || !s.vdso_clock_gettime || !log.has_room(128) ||
      s.pending_count || log.events + 1 >= s.next_checksum)
    return false;
  uint64_t ts[2];
  if (s.vdso_clock_gettime(static_cast<int>(clock), ts) != 0) return false;
  if (!bs_guarded_pair(reinterpret_cast<void*>(to), ts[0], ts[1])) return false;
  fetch_tick(ctx);
  uint8_t* at = log.begin(EventKind::Syscall, 0, kClockGettime);
  at = log.put_place(at, ctx.tick, ctx.rip - 2);
  at = put_u32(at, register_digest(ctx));
  at = put_varint(at, zigzag(0));
  at = put_varint(at, clock);
  at = put_varint(at, to);
  *at++ = 1 | static_cast<int>(PieceKind::OutAtArg) << 3;
  *at++ = sizeof ts;
  __builtin_memcpy(at, ts, sizeof ts);
  log.commit(at + sizeof ts);
  ctx.gpr[RAX] = 0;
  return true;
}

}  // namespace

bool record_syscall_hot(Context& ctx) {
  HotState& s = bs_record;
  uint64_t nr = ctx.gpr[RAX];
  if (nr == kClockGettime && !s.sharing && !s.segments &&
      !(engine::bs_cache.watched_pages | engine::bs_cache.alias_pages) && record_clock(ctx))
    return true;
  const Syscall& row = syscall_row(nr);
  if (s.filtered || s.segments || s.lodger) return false;
  if (nr == SYS_signalfd || nr == SYS_signalfd4) s.signalfds = true;
  if (row.how != How::Plain || (row.traits & (kNeedsHost | kChangesRights)) ||
      (engine::bs_cache.watched_pages | engine::bs_cache.alias_pages))
    return false;
  if (s.sharing && row.argc > 1) return false;
  if (has_unknown_argument(row, ctx)) return false;
  if ((s.threads || (s.chaos && (row.traits & kMayBlock))) && concerns_threads(row, nr, ctx)) return false;
  if ((s.shared_files || *s.tree_files) && (row.traits & kChangesFiles)) return false;
  if (s.shared_files && (nr == SYS_sendmsg || nr == SYS_sendmmsg)) return false;  // perhaps of descriptors
  if (nr == SYS_getdents64 && ctx.gpr[RDI] < kTrackedFds &&
      (s.fd_kind[ctx.gpr[RDI]] & (kFdFolder | kFdTasks)))
    return false;
  if (nr == SYS_ioctl && ctx.gpr[RDI] < kTrackedFds && (s.fd_kind[ctx.gpr[RDI]] & kFdMaps)) return false;
  if (((nr == SYS_stat || nr == SYS_lstat) && is_in_proc(ctx.gpr[RDI])) ||
      ((nr == SYS_newfstatat || nr == SYS_statx) &&
       (is_in_proc(ctx.gpr[RSI]) || (ctx.gpr[RDI] < kTrackedFds && (s.fd_kind[ctx.gpr[RDI]] & kFdProc)))))
    return false;
  fetch_tick(ctx);
  uint64_t args[6] = {ctx.gpr[RDI], ctx.gpr[RSI], ctx.gpr[RDX], ctx.gpr[R10], ctx.gpr[R8], ctx.gpr[R9]};
  begin_order(row, nr, args);
  execute_plain(row, nr, args);
  s.executed = true;
  uint8_t flags = 0;
  if ((row.traits & kOutput) && args[0] < kTrackedFds) flags = s.fd_kind[args[0]] & 3;
  if (!log_syscall(row, nr, args, s.result, flags, s.result != kNotMade)) {
    s.logged = false;
    return false;
  }
  if (s.pending_count || s.crowded || s.result == kNotMade || s.log->events >= s.next_checksum) {
    s.logged = true;
    return false;
  }
  s.executed = false;
  ctx.gpr[RAX] = static_cast<uint64_t>(s.result);
  return true;
}

bool record_host_op_hot(Context& ctx, const isa::Insn& insn) {
  return !bs_record.segments && !bs_record.trapped && record_host_op(ctx, insn);
}

bool record_host_op(Context& ctx, const isa::Insn& insn) {
  engine::HostOp op = engine::host_op_of(insn);
  if (op == engine::HostOp::None) return false;
  if (bs_record.log->chunk && !bs_record.log->has_room(128)) return false;
  fetch_tick(ctx);
  engine::HostValues values = engine::sample(op, ctx);
  if (op == engine::HostOp::Cpuid)
    hide_features(bs_record.cpu, static_cast<uint32_t>(ctx.gpr[RAX]), static_cast<uint32_t>(ctx.gpr[RCX]),
                  values.value);
  if (op == engine::HostOp::Xgetbv) values.value[0] &= bs_record.xcr0;
  log_host_op(ctx, static_cast<uint16_t>(op), values.count, values.value);
  engine::apply(op, insn, values, ctx);
  return true;
}

namespace {

constexpr uint64_t kFaultSignals =
    1ull << 10 | 1ull << 6 | 1ull << 7 | 1ull << 3 | 1ull << 4;  // SEGV BUS FPE ILL TRAP

// The kernel keeps one SIGTRAP for us and forgets others that are sent before we have that one (those of
// timers apart). So each may stand for all.
void expect_all() {
  HotState& s = bs_record;
  if (s.threads) s.turn_request = true;
  s.share_request = true;
  if (s.our_fds[kQueueFd] >= 0) s.outsider = true;
}

// Where the queue of signals has no room (RLIMIT_SIGPENDING), the kernel delivers this one all the same, but
// keeps nothing of what it was sent with. The guest's own to its threads never reach the kernel.
bool is_bare(const siginfo_t& info) {
  return info.si_code == SI_USER && info.si_pid == 0 && info.si_uid == 0;
}

bool is_runner() {
  constexpr long kGettid = 186;
  return hot::syscall6(kGettid, 0, 0, 0, 0, 0, 0) == bs_wakeups.runner;
}

// Another kernel thread of the same process, which may have a child of vfork in its memory.
bool is_beside_runner() {
  constexpr long kGetpid = 39;
  return bs_wakeups.bodies && hot::syscall6(kGetpid, 0, 0, 0, 0, 0, 0) == bs_wakeups.pid && !is_runner();
}

void block_all(ucontext_t& uc, uint64_t but) {
  uint64_t mask;
  __builtin_memcpy(&mask, &uc.uc_sigmask, 8);
  mask |= ~(but | kFaultSignals);
  __builtin_memcpy(&uc.uc_sigmask, &mask, 8);
}

// In a body: the process ends, or becomes another program (Recorder::quiet_bodies).
void become_quiet(ucontext_t& uc) {
  uint64_t mask;
  __builtin_memcpy(&mask, &uc.uc_sigmask, 8);
  constexpr long kGettid = 186;
  constexpr uint64_t kMark = 1ull << (SIGFPE - 1);  // never blocked otherwise
  if (mask & kMark) return;                         // it did so already
  mask |= ~kFaultSignals | kMark;
  __builtin_memcpy(&uc.uc_sigmask, &mask, 8);
  come_late(static_cast<int>(hot::syscall6(kGettid, 0, 0, 0, 0, 0, 0)));
  __atomic_fetch_add(&bs_wakeups.quiet, 1, __ATOMIC_SEQ_CST);
}

// Was it sent to the process, and the kernel chose the thread that has it? Others may have been sent to that
// one alone: by tgkill (which says so), rt_tgsigqueueinfo, or for a descriptor (F_OWNER_TID).
bool is_to_process(const siginfo_t& info) {
  if (is_bare(info)) return false;  // nobody can tell
  switch (info.si_code) {
    case SI_USER:
    case SI_KERNEL:
    case SI_TIMER:
    case SI_MESGQ:
    case SI_ASYNCIO:
      return true;
    default:
      return info.si_signo == SIGCHLD && info.si_code > 0;
  }
}

// A signal that has come to a kernel thread which is not the runner: to one where the runner was when it was
// asked for, or to the body of a guest thread, which blocks what that does (Recorder::show_mask).
void pass_on(const siginfo_t& info, ucontext_t& uc) {
  constexpr long kGettid = 186, kTgsigqueue = 297;
  const auto me = static_cast<int>(hot::syscall6(kGettid, 0, 0, 0, 0, 0, 0));
  const auto value = reinterpret_cast<uint64_t>(info.si_value.sival_ptr);
  const bool told = info.si_code == SI_QUEUE || info.si_code == SI_TIMER;
  if (info.si_signo != SIGTRAP || !(told || info.si_code == SI_SIGIO)) {
    // The others wait in the kernel, as below. It may be one that is ignored.
    if (bs_record.ignored_mask >> (info.si_signo - 1) & 1 && info.si_code <= 0) return come_late(me);
    const bool to_process = is_to_process(info);
    if (pass_signal(info.si_signo, &info, me, to_process)) {
      if (to_process) come_late(me);
      block_all(uc, bs_record.fatal_mask);
    } else {
      // No room: it waits here, until the runner has us take it once more.
      block_all(uc, 0);
      hot::syscall6(kTgsigqueue, bs_wakeups.pid, me, info.si_signo, reinterpret_cast<long>(&info), 0, 0);
      __atomic_store_n(&bs_wakeups.crowded, 1, __ATOMIC_SEQ_CST);
    }
  } else if (told && value == kDepartSignal) {
    return depart(uc);
  } else {
    come_late(me);
    if (told && value >> 31 == kTimerSignal >> 31)
      pass_timer(static_cast<uint32_t>(value & 0x7fff'ffff), info.si_overrun);
    if (told && value == kCheckpointSignal) bs_record.checkpoint_request = true;
  }
  wake_runner();  // which looks at everything
}

// One of ours: it may be any, to the runner or to a body.
engine::SignalVerdict look_everywhere(ucontext_t& uc) {
  if ((bs_record.threads || bs_wakeups.moved) && !is_runner()) {
    constexpr long kGettid = 186;
    if (bs_wakeups.ending) become_quiet(uc);
    depart(uc);
    if (bs_wakeups.moved) {
      come_late(static_cast<int>(hot::syscall6(kGettid, 0, 0, 0, 0, 0, 0)));
      wake_runner();
    }
    return engine::SignalVerdict::Later;
  }
  expect_all();
  __atomic_fetch_add(&bs_wakeups.counter, 1, __ATOMIC_SEQ_CST);
  return engine::SignalVerdict::Stop;
}

}  // namespace

// One at a time: the others wait in the kernel, which knows their order and what a handler blocks, until this
// one is delivered. Those that kill come through.
engine::SignalVerdict record_signal_hot(int signo, void* info, void* frame, bool in_guest) {
  HotState& s = bs_record;
  auto* uc = static_cast<ucontext_t*>(frame);
  auto* about = static_cast<const siginfo_t*>(info);
  auto& pc = uc->uc_mcontext.gregs[REG_RIP];
  if (pc >= reinterpret_cast<greg_t>(&bs_call_window) && pc < reinterpret_cast<greg_t>(&bs_call_end))
    pc = reinterpret_cast<greg_t>(&bs_call_interrupted);
  const bool to_body = signo == SIGTRAP && about->si_code == SI_QUEUE &&
                       reinterpret_cast<uint64_t>(about->si_value.sival_ptr) == kInterruptSignal;
  if (to_body) {
    if (bs_wakeups.ending) become_quiet(*uc);
    return engine::SignalVerdict::Later;
  }
  if (bs_wakeups.bodies && !(signo == SIGTRAP && is_bare(*about)) && is_beside_runner()) {
    pass_on(*about, *uc);
    return engine::SignalVerdict::Later;
  }
  s.attention = 1;
  if (signo == SIGTRAP && about->si_code == SI_SIGIO) {  // of inotify
    expect_all();
    s.outsider = true;
    __atomic_fetch_add(&bs_wakeups.counter, 1, __ATOMIC_SEQ_CST);
    return engine::SignalVerdict::Stop;
  }
  const bool spoken_to = s.threads || (s.letters && *s.letters);
  if (signo == SIGTRAP && spoken_to && is_bare(*about)) return look_everywhere(*uc);
  if (signo == SIGTRAP && (about->si_code == SI_QUEUE || about->si_code == SI_TIMER)) {
    const auto value = reinterpret_cast<uint64_t>(about->si_value.sival_ptr);
    const bool timer = value >> 31 == kTimerSignal >> 31;
    if (value == kDepartSignal) {
      depart(*uc);
      return engine::SignalVerdict::Later;
    }
    if (value == kShareSignal) s.share_request = true;
    if (value == kCheckpointSignal) s.checkpoint_request = true;
    const bool at_ease = value == kCheckpointSignal || value == kLookSignal;
    if (at_ease && !s.threads) {
      expect_all();
      return engine::SignalVerdict::Stop;
    }
    if (value == kTurnSignal || value == kShareSignal || at_ease || timer) {
      if (timer && s.timer_hit_count < kTimerHits) {
        s.timer_hits[s.timer_hit_count] = {static_cast<uint32_t>(value & 0x7fff'ffff), about->si_overrun};
        s.timer_hit_count = s.timer_hit_count + 1;
      }
      expect_all();
      if (value != kShareSignal) s.turn_request = true;
      __atomic_fetch_add(&bs_wakeups.counter, 1, __ATOMIC_SEQ_CST);
      return engine::SignalVerdict::Stop;
    }
  }
  __atomic_fetch_add(&bs_wakeups.counter, 1, __ATOMIC_SEQ_CST);
  // A fault that somebody sends and the guest ignores would not even have ended a call.
  if (s.ignored_mask >> (signo - 1) & 1 && about->si_code <= 0) return engine::SignalVerdict::Later;
  if (s.pending_count < kPendingSignals) {
    hot::copy(&s.pending[s.pending_count], info, sizeof(siginfo_t));
    s.pending_count = s.pending_count + 1;
  }
  block_all(*uc, s.fatal_mask);
  if (!(s.fatal_mask >> (signo - 1) & 1)) return engine::SignalVerdict::Stop;
  // Who leaves a core file is to be found between two instructions: SIGQUIT, ABRT, XCPU, XFSZ, SYS.
  constexpr uint64_t kCores = 1ull << 2 | 1ull << 5 | 1ull << 23 | 1ull << 24 | 1ull << 30;
  const bool at_once = in_guest && !s.no_leave && !s.segments && !(kCores >> (signo - 1) & 1);
  return at_once ? engine::SignalVerdict::Leave : engine::SignalVerdict::Stop;
}

}  // namespace backstep::recorder
