// System calls from the log. Anything unexpected is left to replayer.cc, which looks again, slowly, and
// reports.
#include "replay/replay_hot.h"

#include "engine/cache.h"
#include "engine/host_ops.h"
#include "engine/report.h"
#include "guest/buffers.h"
#include "guest/memory_map.h"
#include "guest/syscall_table.h"
#include "recording/codec.h"
#include "replay/debug_hot.h"
#include "replay/taps_hot.h"

namespace backstep::replayer {

using namespace guest;
using recording::Cursor;
using recording::EventHeader;
using recording::EventKind;
using recording::PieceKind;

HotState bs_replay;

namespace {

void fetch_tick(Context& ctx) {
  if (ctx.features & kVectorCounter) asm volatile("vmovq %%xmm31, %0" : "=m"(ctx.tick));
}

EventHeader header_at(const uint8_t* p) {
  EventHeader h;
  __builtin_memcpy(&h, p, sizeof h);
  return h;
}

// Not something that happened behind the call before it.
bool belongs_to_next(const EventHeader& header) {
  switch (static_cast<EventKind>(header.kind)) {
    case EventKind::Syscall:
    case EventKind::Instr:
      return true;
    case EventKind::Turn:
      return !(header.flags & recording::kAsynchronous);
    case EventKind::Memory:
      return header.flags & recording::kInCall;
    default:
      return false;
  }
}

// Messages for the controller are put together here, so that small ones take one system call.
alignas(8) uint8_t bs_outbox[64 << 10];
uint64_t bs_outbox_used;

[[noreturn]] void give_up() {
  constexpr long kExitGroup = 231;
  for (;;) hot::syscall6(kExitGroup, 1, 0, 0, 0, 0, 0);
}

void flush_outbox() {
  for (uint64_t at = 0; at < bs_outbox_used;) {
    const long done = hot::syscall6(1, bs_replay.channel, reinterpret_cast<long>(bs_outbox + at),
                                    static_cast<long>(bs_outbox_used - at), 0, 0, 0);
    if (done == -4) continue;
    if (done <= 0) give_up();  // nobody is there any more
    at += static_cast<uint64_t>(done);
  }
  bs_outbox_used = 0;
}

void put_message(uint32_t kind, uint64_t event, uint64_t addr, uint64_t n) {
  do {
    if (sizeof bs_outbox - bs_outbox_used < sizeof(Message) + (n ? 1 : 0)) flush_outbox();
    const uint64_t room = sizeof bs_outbox - bs_outbox_used - sizeof(Message);
    const uint64_t part = n < room ? n : room;
    const Message message{kind, static_cast<uint32_t>(part), event};
    uint8_t* at = bs_outbox + bs_outbox_used;
    if (!bs_guarded_copy(at + sizeof message, reinterpret_cast<const void*>(addr), part)) return;
    __builtin_memcpy(at, &message, sizeof message);
    bs_outbox_used += sizeof message + part;
    addr += part;
    n -= part;
  } while (n > 0);
}

void write_all(int fd, uint64_t event, uint64_t addr, uint64_t n) {
  if (bs_replay.channel >= 0) return put_message(static_cast<uint32_t>(fd), event, addr, n);
  while (n > 0) {
    long done = hot::syscall6(1, fd, static_cast<long>(addr), static_cast<long>(n), 0, 0, 0);
    if (done == -4 || done == -11) continue;  // EINTR, EAGAIN
    if (done <= 0) return;                    // our output is closed: the replay goes on
    addr += static_cast<uint64_t>(done);
    n -= static_cast<uint64_t>(done);
  }
}

bool same_text(const uint8_t* bytes, uint64_t n, uint64_t addr) {
  unsigned char buffer[256];
  while (n > 0) {
    uint64_t part = n < sizeof buffer ? n : sizeof buffer;
    if (!bs_guarded_copy(buffer, reinterpret_cast<const void*>(addr), part)) return false;
    for (uint64_t i = 0; i < part; i++)
      if (buffer[i] != bytes[i]) return false;
    bytes += part;
    addr += part;
    n -= part;
  }
  return true;
}

void write_buffers(uint64_t event, uint64_t nr, const uint64_t args[6], int64_t result, uint8_t flags) {
  int fd = flags & recording::kToStdout ? 1 : 2;
  const Syscall& row = syscall_row(nr);
  for (int i = 0; i < row.argc; i++) {
    switch (row.args[i].kind) {
      case Arg::In:
        write_all(fd, event, args[i], static_cast<uint64_t>(result));
        return;
      case Arg::IovIn:
        for_each_iovec(args[i], args[row.args[i].n], static_cast<uint64_t>(result),
                       [&](uint64_t a, uint64_t n) { write_all(fd, event, a, n); });
        return;
      case Arg::MsgIn: {
        Msghdr m;
        if (read_guest(args[i], &m))
          for_each_iovec(m.iov, m.iov_count, static_cast<uint64_t>(result),
                         [&](uint64_t a, uint64_t n) { write_all(fd, event, a, n); });
        return;
      }
      default:
        break;
    }
  }
}

}  // namespace

void repeat_output(uint64_t event, uint64_t nr, const uint64_t args[6], int64_t result, uint8_t flags) {
  if (!bs_replay.output) return;
  if (result > 0) write_buffers(event, nr, args, result, flags);
  if (bs_replay.channel < 0) return;
  put_message(Message::Written, event, 0, 0);
  flush_outbox();
}

// What translated code reports from now on is of another event.
static void begin_next_event() {
  if (engine::bs_cache.report)
    engine::report_context(bs_taps.event_base + bs_replay.event, static_cast<uint32_t>(bs_taps.thread));
}

bool replay_syscall_hot(Context& ctx) {
  if (bs_debug.running) return debug_syscall_hot(ctx);
  HotState& s = bs_replay;
  if (engine::bs_cache.report && engine::report_room() < engine::kRoomForWrites) return false;
  uint64_t nr = ctx.gpr[RAX];
  const Syscall& row = syscall_row(nr);
  if (row.how != How::Plain || s.p == s.end ||
      (engine::bs_cache.watched_pages | engine::bs_cache.alias_pages))
    return false;
  EventHeader header = header_at(s.p);
  if (header.kind != static_cast<uint8_t>(EventKind::Syscall) || header.nr != nr ||
      (header.flags & recording::kDenied))
    return false;
  fetch_tick(ctx);
  const uint8_t* next = s.p + header.size;
  Cursor c{s.p + sizeof header, next - 2};
  c.skip_order(header.flags);
  Tick tick = s.tick + c.varint();
  if (tick != ctx.tick || c.varint() != ctx.rip - 2 || c.u32() != register_digest(ctx)) return false;
  int64_t result = c.signed_varint();
  if (result == kNotMade) return false;
  uint64_t args[6] = {ctx.gpr[RDI], ctx.gpr[RSI], ctx.gpr[RDX], ctx.gpr[R10], ctx.gpr[R8], ctx.gpr[R9]};
  for (int i = 0; i < row.argc; i++)
    if (c.varint() != args[i]) return false;
  // First look (inputs must be the same), then change memory: replayer.cc must find what we found.
  const uint8_t* pieces = c.p;
  while (c.p < c.end && c.ok) {
    uint8_t tag = c.u8();
    int arg = tag & 7;
    switch (static_cast<PieceKind>(tag >> 3)) {
      case PieceKind::Sum: {
        uint64_t length = 0;
        uint32_t crc = 0;
        uint64_t logged_length = c.varint();
        uint32_t logged_crc = c.u32();
        if (arg > 5 || !input_sum(row, arg_spec(nr, args, arg), args, arg, result, &length, &crc))
          return false;
        if (length != logged_length || crc != logged_crc) return false;
        break;
      }
      case PieceKind::Text: {
        uint64_t n = c.varint();
        const uint8_t* bytes = c.bytes(n);
        if (!c.ok || arg > 5 || !same_text(bytes, n, args[arg])) return false;
        break;
      }
      case PieceKind::TextAt: {
        const uint64_t from = c.varint(), n = c.varint();
        const uint8_t* bytes = c.bytes(n);
        if (!c.ok || !same_text(bytes, n, from)) return false;
        break;
      }
      case PieceKind::OutAt:
      case PieceKind::OutAtArg: {
        // LogFile has kept events that write to the engine. What else is ours lies behind where guests have
        // memory mostly: the map knows.
        const uint64_t to = static_cast<PieceKind>(tag >> 3) == PieceKind::OutAt ? c.varint() : args[arg];
        uint64_t n = c.varint();
        c.bytes(n);
        if (n && to + n > kGuestEnd) return false;
        break;
      }
      default:
        return false;
    }
  }
  if (!c.ok) return false;
  c.p = pieces;
  if (engine::bs_cache.report)
    engine::bs_writer = {.writing = true,
                         .by_kernel = true,
                         .thread = static_cast<uint32_t>(bs_taps.thread),
                         .tick = tick,
                         .event = bs_taps.event_base + s.event,
                         .pc = ctx.rip - 2};
  while (c.p < c.end) {
    uint8_t tag = c.u8();
    switch (static_cast<PieceKind>(tag >> 3)) {
      case PieceKind::Sum:
        c.varint();
        c.u32();
        break;
      case PieceKind::TextAt:
        c.varint();
        [[fallthrough]];
      case PieceKind::Text: {
        uint64_t n = c.varint();
        c.bytes(n);
        break;
      }
      default: {
        uint64_t to = static_cast<PieceKind>(tag >> 3) == PieceKind::OutAt ? c.varint() : args[tag & 7];
        uint64_t n = c.varint();
        const uint8_t* bytes = c.bytes(n);
        engine::mark_written(to, n);
        if (!bs_guarded_copy(reinterpret_cast<void*>(to), bytes, n)) return false;
        break;
      }
    }
  }
  engine::end_write();
  engine::bs_writer.writing = false;
  if (header.flags & (recording::kToStdout | recording::kToStderr))
    repeat_output(s.event, nr, args, result, header.flags);
  ctx.gpr[RAX] = static_cast<uint64_t>(result);
  s.tick = tick;
  s.p = next;
  s.event++;
  begin_next_event();
  // What follows may belong here: a signal behind this call, a checksum, the end.
  if (s.p != s.end && belongs_to_next(header_at(s.p))) return true;
  s.executed = true;
  s.nr = nr;
  return false;
}

bool replay_host_op_hot(Context& ctx, const isa::Insn& insn) {
  if (bs_debug.running) return false;
  HotState& s = bs_replay;
  engine::HostOp op = engine::host_op_of(insn);
  if (op == engine::HostOp::None || s.p == s.end) return false;
  EventHeader header = header_at(s.p);
  if (header.kind != static_cast<uint8_t>(EventKind::Instr) || header.nr != static_cast<uint16_t>(op))
    return false;
  fetch_tick(ctx);
  const uint8_t* next = s.p + header.size;
  if (next == s.end) return false;  // the next chunk must be looked at: slowly
  Cursor c{s.p + sizeof header, next - 2};
  Tick tick = s.tick + c.varint();
  if (tick != ctx.tick || c.varint() != ctx.rip || c.u32() != register_digest(ctx)) return false;
  engine::HostValues values;
  values.count = static_cast<unsigned>(c.varint());
  if (values.count > 4) return false;
  for (unsigned i = 0; i < values.count; i++) values.value[i] = c.varint();
  if (!c.ok || !belongs_to_next(header_at(next))) return false;
  if (engine::bs_cache.report && engine::report_room() < engine::kRoomForWrites) return false;
  engine::apply(op, insn, values, ctx);
  s.tick = tick;
  s.p = next;
  s.event++;
  begin_next_event();
  return true;
}

// Progress, on SIGALRM. Everything else that arrives keeps its default action: it is not for us.
engine::SignalVerdict replay_signal_hot(int signo, void*, void*, bool) {
  HotState& s = bs_replay;
  constexpr int kClock = 27;  // SIGPROF, while there is debug code
  if (signo == kClock) {
    bs_debug.rung++;
    return bs_debug.running ? engine::SignalVerdict::Stop : engine::SignalVerdict::Later;
  }
  if (signo != 14) return engine::SignalVerdict::Later;
  if (s.channel >= 0) {
    struct {
      int fd;
      short events, revents;
    } peer{s.channel, 0, 0};
    constexpr long kPoll = 7;
    constexpr short kHangUp = 0x10;
    if (hot::syscall6(kPoll, reinterpret_cast<long>(&peer), 1, 0, 0, 0, 0) > 0 && (peer.revents & kHangUp))
      give_up();
  }
  const auto verdict = s.look_around || s.timer ? engine::SignalVerdict::Stop : engine::SignalVerdict::Later;
  s.rung = true;
  if (s.size == 0) return verdict;
  char text[] = "\rbackstep: replaying, 000 % of the log";
  auto percent = static_cast<unsigned>(s.position * 100 / s.size);
  if (percent > 100) percent = 100;
  char* digits = text + 22;
  digits[0] = percent >= 100 ? '1' : ' ';
  digits[1] = percent >= 10 ? static_cast<char>('0' + percent / 10 % 10) : ' ';
  digits[2] = static_cast<char>('0' + percent % 10);
  hot::syscall6(1, 2, reinterpret_cast<long>(text), sizeof text - 1, 0, 0, 0);
  return verdict;
}

}  // namespace backstep::replayer
