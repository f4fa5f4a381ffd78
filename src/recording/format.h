// The log of one process, to the byte (docs/trace-format.md is the prose version and must agree).
//
//   file   := FileHeader chunk*             the first part of a log; a long one has others:
//   part   := PartHeader chunk*
//   chunk  := ChunkHeader event*            (capacity bytes in the file; `used` of them hold events)
//           | PackedHeader ChunkHeader frame      the same, compressed when the part was complete
//   event  := kind:u8 flags:u8 nr:u16 size:u32 body check:u16
//   size   counts the whole event; check is the low half of the chunk's running CRC-32C over all bytes of
//   the chunk's events up to it, the check fields themselves left out.
//
// The running length and CRC of a chunk are published with one 8-byte store after each event, so what a
// killed recorder leaves behind ends at an event boundary and can be verified. Numbers in bodies are
// LEB128 varints ('v'), signed ones zigzag ('z'); fixed-width fields are little-endian.
//
//   order     in front of the body of every event with flag kOrdered: v (z first number - that of the event
//             before it in the log that has one) << 2 | kind; kind 3: v second number - first number
//   Syscall   v tick-delta, v pc, u32 digest, z result, argc * v args, piece*
//   Instr     v tick-delta, v pc, u32 digest, v count, count * v values         nr: HostOp
//   Signal    v tick-delta, v pc, u32 digest, v signo, siginfo (128 bytes)      delivered to the guest at pc
//   Map       v addr, v length, v prot, v flags, v offset, v name-length, name, v store-key-length, key,
//             v dev, v inode
//   Memory    v addr, bytes to the end                                          contents set from outside
//   FileSize  v dev, v inode, v size                  a file that is mapped shared has this size now; or,
//   with
//             kLive, one that is mapped privately; then perhaps v offset, bytes to the end: its contents
//             there
//   Resize    v tick-delta, v pc, v dev, v inode, v size       likewise, found at this access: by another
//             process
//   Turn      v tick-delta, v pc, u32 digest, v thread      nr: TurnReason; the turn passes to that thread
//   Shared    v tick-delta, v pc, u32 digest, v addr, run*    what another process changed in this page
//     run       v unchanged bytes, v count, count bytes
//   Gap       v tick-delta, v pc, u32 digest, v count, v ticks, 20 * v (16 registers, rip, rflags, FS base,
//   GS
//             base), v AVX-512 was used, v offset of ZMM16, XSAVE area of kGapVectors bytes
//             from this control point on nothing is known, until so many ticks later the program had these
//             registers, and memory as in the next `count` events, which are Memory events
//   Start     18 * v (16 registers, rip, rflags), v ignored signals, v blocked signals (bit n-1: signal n),
//             v tid of the first thread
//   Checksum  v tick-delta, v pc, u32 checksum of all writable guest memory
//   Note      text to the end: what was unknown or not exact
//   Channel   z fd, v kind, v device, v inode, v cookie, v net, v family, v type, v protocol, z peer's pid,
//             v n, n bytes own address, v n, n bytes peer's address        nr: ChannelReason; of the call
//             before it, or (There) of the start
//   End       v tick-delta, v pc, u8 how (EndKind), z status                    last event of a complete log
//   piece     := tag:u8 (low 3 bits: argument, upper 5: PieceKind) ...
//     OutAtArg  v length, bytes     written by the kernel where the argument points
//     OutAt     v addr, v length, bytes
//     Text      v length, bytes     a string argument, for people
//     Sum       v length, u32 crc   CRC-32C of an input buffer
//     TextAt    v addr, v length, bytes     input that is not where the argument points: a message's name
#pragma once
#include <cstdint>

namespace backstep::recording {

inline constexpr char kLogMagic[8] = {'B', 'K', 'S', 'T', 'E', 'P', 'L', 'G'};
inline constexpr char kPartMagic[8] = {'B', 'K', 'S', 'T', 'E', 'P', 'L', 'P'};
// 5: without parts and packed chunks; 4: nor Channel events, TextAt and monotonic time; 3: nor order; 2: nor
// Resize; 1: nor Gap
inline constexpr uint32_t kLogVersion = 6;
inline constexpr uint32_t kOrderVersion = 4;          // from here on events have an order
inline constexpr uint32_t kChannelVersion = 5;        // … and channels are named
inline constexpr uint32_t kPartsVersion = 6;          // … there may be parts and packed chunks
inline constexpr uint32_t kChunkMagic = 0x4b4e4843;   // "CHNK"
inline constexpr uint32_t kPackedMagic = 0x5a4e4843;  // "CHNZ"

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_size;   // where the first chunk starts
  uint64_t process;       // virtual name of the process: 1 is the first
  uint64_t birth;         // Birth
  uint64_t parent;        // Fork, Exec: the log that this one continues
  uint64_t parent_event;  // … from this event on (the number of the fork's or exec's event there)
  uint64_t pid;           // as it was
  uint64_t check;         // CRC-32C of the bytes before it
};
static_assert(sizeof(FileHeader) == 64);

// What a part of a log begins with, but for the first. Offsets in a log count as if it were one file, of
// which nothing is packed: so they stay what they are.
struct PartHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_size;  // where the first chunk starts in this file
  uint64_t process;      // as in the log's FileHeader
  uint64_t part;         // 2, 3, …
  uint64_t first_chunk;  // index of the first chunk
  uint64_t start;        // its offset in the log
  uint64_t reserved;     // 0
  uint64_t check;        // CRC-32C of the bytes before it
};
static_assert(sizeof(PartHeader) == 64);

// A packed chunk: this, the ChunkHeader as it was, and the frame.
struct PackedHeader {
  uint32_t magic;
  uint32_t size;          // of the Zstandard frame of the chunk's events
  uint32_t check;         // CRC-32C of the frame
  uint32_t header_check;  // CRC-32C of the 12 bytes before it and the ChunkHeader
};
static_assert(sizeof(PackedHeader) == 16);

// How a log begins. A process has a new log after each execve.
enum class Birth : uint64_t {
  Start = 0,  // with the program's image: what `record` was told to run
  Fork = 1,   // with the state of its parent at the fork
  Exec = 2,   // with the image of a new program in an old process
};

struct ChunkHeader {
  uint32_t magic;
  uint32_t index;        // 0, 1, 2 …
  uint64_t first_event;  // number of the chunk's first event
  uint64_t first_tick;   // tick that the first tick-delta counts from
  uint32_t capacity;     // bytes from this header to the next
  uint32_t
      monotonic_low;  // CLOCK_MONOTONIC then, in nanoseconds; the upper half is below (before version 5: 0)
  uint64_t state;     // low half: bytes of events; high half: CRC-32C of them
  uint64_t wall_ns;   // CLOCK_REALTIME when the chunk was opened
  uint32_t monotonic_high;
  uint32_t header_crc;   // CRC-32C of this header with `state` and `header_crc` taken as 0
  uint64_t first_order;  // the number that the first order counts from (before version 4: 0)
};
static_assert(sizeof(ChunkHeader) == 64);

enum class EventKind : uint8_t {
  None = 0,
  Syscall = 1,
  Instr = 2,
  Signal = 3,
  Map = 4,
  Memory = 5,
  Start = 6,
  Checksum = 7,
  Note = 8,
  End = 9,
  FileSize = 10,
  Turn = 11,
  Shared = 12,
  Gap = 13,
  Resize = 14,
  Channel = 15,
};
// Events that tell something and do nothing: a replay leaves them out.
constexpr bool is_remark(EventKind kind) {
  return kind == EventKind::Note || kind == EventKind::Channel;
}
// What a descriptor stands for: an end of a pipe or a socket, by the names that the kernel has for it. So the
// ends of one channel are found in the logs of others.
enum class ChannelReason : uint16_t {
  There = 0,     // the program began with it
  Made = 1,      // by the call
  Received = 2,  // … from another process, in a message
  Named = 3,     // the call has given it an address: bind, listen, connect, the first datagram that was sent
};
enum class ChannelObject : uint8_t { Pipe = 1, Socket = 2 };
// Why a thread lost the turn. All but Preempted happen at a system call that is not finished (pc is the
// instruction's); the tick grows by one with every turn.
enum class TurnReason : uint16_t {
  Preempted = 0,  // between two instructions; pc is the next one (flag kAsynchronous)
  Blocked = 1,    // in a system call that waits
  Ended = 2,      // exit; a child of vfork: its end, or execve
  Vforked = 3,    // in vfork: the child runs in the same memory, as a thread, until it ends or calls execve
};
enum class PieceKind : uint8_t { OutAtArg = 0, OutAt = 1, Text = 2, Sum = 3, TextAt = 4 };
enum class EndKind : uint8_t {
  Exit = 0,     // exit_group: status
  Signal = 1,   // died of a signal: status = signo, at the control point
  Exec = 2,     // became another program, which is not in this log
  Stopped = 3,  // recording ended (disk full, …) while the program ran on
};
enum EventFlag : uint8_t {
  kToStdout = 1,  // the call wrote to what was the program's stdout / stderr at its start
  kToStderr = 2,
  kInexact = 4,       // handled by the general fallback
  kAsynchronous = 8,  // Signal, Turn, End, Gap: came from outside, not from the instruction at pc
  kInCall = 16,       // Memory, Shared, Resize: in the system call under way, before it is finished
  kFromZero = 32,     // Shared: the bytes between the runs are 0, not what they were
  kGone = 64,         // Map: nothing is mapped there any more
  kLive = 16,         // Map, FileSize: of the copy of a privately mapped file that the program changes
  kRights = 32,       // Map: what is mapped there has other rights (prot), nothing else changes
  kDenied = 32,       // Syscall: not made; a filter of the program's own (seccomp) gave the result
  kOrdered = 128,     // has a place in the order of the processes, in front of its body
};

// Where an event stands among those of all processes of the recording, which take their numbers from one
// counter. What gives (writes, sends, ends) takes its number before it does, what gets (reads, waits, begins)
// afterwards: so whatever depends on something has a greater number. 0: none.
struct Order {
  uint64_t given = 0, got = 0;
  explicit operator bool() const { return given | got; }
  // For a list of all: 0 stands between the numbers of its neighbours.
  uint64_t number() const { return given ? given : got; }
};
enum OrderKind : uint8_t { kOrderGiven = 1, kOrderGot = 2, kOrderBoth = 3 };

// System call numbers beyond 16 bits do not exist; a program that tries one all the same is logged with this.
inline constexpr uint16_t logged_number(uint64_t nr) {
  return nr < 0xffff ? static_cast<uint16_t>(nr) : 0xffff;
}

struct EventHeader {
  uint8_t kind, flags;
  uint16_t nr;
  uint32_t size;
};
static_assert(sizeof(EventHeader) == 8);
inline constexpr uint64_t kSharedPage = 4096;  // what a Shared event is about
inline constexpr uint64_t kGapVectors = 4032;  // XSAVE area, standard format, in a Gap event
inline constexpr uint32_t kMinEvent = sizeof(EventHeader) + 2;

}  // namespace backstep::recording
