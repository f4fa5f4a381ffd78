// Linux system calls, as one table. Every call is a row: its name, its arguments with their kinds, what the
// kernel writes and how long that is, and in which manner it is recorded and replayed. The recorder, the
// replayer, `dump` and everything later that wants to understand a call read this table and nothing else.
//
// Rows are plain constant data, so that the hot world (base/hot.h) can walk them.
//
// Rules that hold for every row, so that no row repeats them:
//   * A null pointer is neither read nor written, whatever the kind says.
//   * What is logged for Out/InOut is what the memory holds AFTER the call, for as many bytes as the length
//     rule says. Where the kernel writes less (or nothing: wait4 with WNOHANG), that is still exact.
//   * When the result is an error nothing was written, except for rows with kOutOnError. Their pointers need
//     not be valid then, and an ioctl argument decoded from its request number may be a plain number: such
//     memory must be read in a way that survives a fault.
#pragma once
#include <cstddef>
#include <cstdint>

namespace backstep::guest {

// What an argument is. Kinds decide both what must be logged and how `dump` prints it.
enum class Arg : uint8_t {
  None,
  Int,      // int: only the low 32 bits count
  Uint,     // unsigned int, decimal: likewise
  Long,     // signed 64-bit number (file offsets)
  Hex,      // number best read in hex (cookies, keys, flags without names)
  Address,  // address that is not dereferenced for us (mmap, futex); NULL printed as such
  Size,     // byte count, 64-bit
  Fd,       // file descriptor (AT_FDCWD printed as such)
  Pid,
  Signal,    // signal number
  Mode,      // octal
  Flags,     // bit set; `names` says which table decodes it
  Enum,      // one of; `names` says which table decodes it
  Path,      // in: NUL-terminated string, logged as text
  Str,       // in: other NUL-terminated string (xattr names, module names), logged as text
  Counters,  // in: like In; through the pointer that follows a count (u32 at offset `names`) in it the kernel
             // writes 16 bytes
             //   for each (netfilter's rules that are replaced)
  In,        // in: buffer of `size`, logged as a checksum (guest memory holds it at replay)
  InStruct,  // in: like In, fixed size
  Out,       // out: buffer; bytes written by `size`
  OutStruct,  // out: fixed-size struct
  InOut,      // both: logged as Out; not written if null
  IovIn,      // const iovec[count]: gathers (writev); checksum
  IovOut,     // iovec[count]: scatters (readv); `result` bytes over the vector
              //   IovIn, IovOut: `n` is the index of the count argument
  MsgIn,      // msghdr of sendmsg
  MsgOut,     // msghdr of recvmsg: name (min(old, new) namelen), control (new controllen), iovecs (result
              //   bytes, but no more than they hold: MSG_TRUNC), and the header's namelen, controllen, flags
  MmsgIn,     // mmsghdr[n = count argument] (64 bytes each) of sendmmsg: the kernel WRITES the u32 msg_len at
              //   offset 56 of the first `result` ones
  MmsgOut,    // likewise of recvmmsg: the first `result` ones as MsgOut (byte count: their msg_len), msg_len
  Pollfds,    // pollfd[nfds] (Len::ByArgTimes): in/out
  FdSet,      // fd_set of nfds bits (Len::BitsOfArg): in/out, may be null
  SockLen,    // socklen_t*, in/out, 4 bytes (Len::Fixed), the capacity of another Out argument
  IfConf,     // struct ifconf of SIOCGIFCONF: in/out 16 bytes {i32 len, void* buf}; if buf is not null, the
              //   first (new) len bytes there are written too
  Regset,  // struct iovec of ptrace's GETREGSET: in/out; the first (new) length bytes at its base are written
  Argv,    // char*[]: printed as a list of strings
  Ioctl,   // ioctl request: the sub-table decides about the next argument
  Fcntl,   // fcntl command: likewise
  Prctl,   // prctl option: likewise
  Varies,  // third argument of those
  Unknown,  // unsigned hex; nothing known: fallback (if it points into guest memory: compare)
};

// How many bytes a buffer argument holds; `n` is a byte count, an argument index, or a unit.
enum class Len : uint8_t {
  None,
  Fixed,   // n bytes
  Result,  // the call's result, in bytes; there is room for as many as the next argument says, or argument n
  ResultTimes,   // result * n bytes (epoll_wait: n = sizeof(epoll_event))
  ByArg,         // value of argument n (unit 32: of its low half, since the kernel takes an int there)
  ByArgTimes,    // value of argument `n` times `unit`
  SockLenAt,     // min(old, new) of the socklen_t that argument n points to
  StringResult,  // result bytes incl. NUL when > 0 (getcwd)
  NulString,     // up to and including the NUL
  ResultUpTo,    // min(result, value of argument n) * unit: calls whose result may exceed what was written
                 //   (recv with MSG_TRUNC, getxattr and getgroups with size 0)
  ResultPlus,    // result + n bytes (msgrcv: the type comes before the text)
  ByArgPlus,     // value of argument n + unit bytes (msgsnd)
  BitsOfArg,     // a bit set of (value of argument n) - unit bits, in whole 8-byte words (select, mempolicy)
  PagesOfArg,    // one byte for each page of a range of (argument n) bytes (mincore)
  CapData,       // capget/capset data: by the version that argument n points to: 1 -> 12 bytes, others -> 24
  FileHandle,    // struct file_handle: 8 bytes + its own handle_bytes (u32 at 0)
  Fiemap,        // struct fiemap: 32 bytes + 56 for each of its own fm_extent_count (u32 at 24)
  DedupeRange,   // struct file_dedupe_range: 24 bytes + 32 for each of its own dest_count (u16 at 16)
  SizedTail,     // 8 bytes that hold the size of what follows (fscrypt policy)
};

// What a buffer holds, where that is known. Printing needs it; recording does not.
enum class Shape : uint8_t {
  None,
  Int,
  Long,
  Hex,      // one i32, i64, u64
  IntPair,  // int[2] (pipe, socketpair)
  Ids,      // u32[] (getgroups)
  CString,  // text up to its NUL
  Stat,
  Statx,
  Statfs,
  Utsname,
  Sysinfo,
  Rusage,
  Tms,
  Rlimit,
  Time,  // time_t
  Timespec,
  Timeval,
  Timezone,
  TimespecPair,
  TimevalPair,
  Utimbuf,  // atime, mtime
  Itimerspec,
  Itimerval,
  Sockaddr,
  Dirents,
  Dirents64,
  EpollEvent,  // one or more
  Pollfds,
  Siginfo,
  Sigset,
  Sigaction,
  Sigstack,
  WaitStatus,
  Termios,
  Winsize,
  Flock,
  CpuSet,
};

struct ArgSpec {
  const char* name;
  Arg kind;
  Len len = Len::None;
  uint16_t n = 0;
  uint16_t unit = 0;
  uint8_t names = 0;  // index of the flag/enum name table (guest/syscall_names.h); 0: none
  Shape shape = Shape::None;
};
static_assert(sizeof(ArgSpec) == 16);

// How the call is recorded and replayed.
enum class How : uint8_t {
  Plain,    // executed when recording; result and out-buffers logged; replay takes both from the log
  Special,  // has a handler of its own (memory map, signals, process, fds that we must see)
  Refuse,   // answered with -ENOSYS in both worlds (io_uring, kernel AIO, rseq, clone3 …), noted
  Unknown,  // not in the table: executed, changed memory found by comparison, noted
};

// What else must be known about a row; bit set.
enum Trait : uint32_t {
  kMayBlock = 1,   // can sleep: with threads, hands on the turn
  kOutput = 2,     // writes to fd args[0]: replay repeats it on stdout/stderr
  kCreatesFd = 4,  // a successful result is a new fd
  kNoReturn = 8,
  kChangesMap = 16,  // changes the memory map
  kOutOnError = 32,  // out-buffers are written also when the result is an error (e.g. nanosleep's rem)
  kHexResult = 64,   // a successful result is an address
  kMovesBytes = 128,  // moves data between fds past guest memory (sendfile, splice, …): if it goes to stdout,
                      //   replay has no bytes to repeat it from
  // What orders processes (docs/trace-format.md, Order): other processes may see what this call does, or it
  // shows what others have done. Bytes, names in the file system, locks, ends, signals, attributes.
  kGives = 256,
  kGets = 512,
  kChannels = 1024,       // may come with a new channel, or a name for one: the log gets to know which
  kRestarts = 2048,       // SA_RESTART: is made again when a handler has interrupted it
  kChangesFiles = 4096,   // contents or sizes
  kChangesRights = 8192,  // of this process, or what it sees of the file system
  kOfThread = 0x4000,     // about one thread, or found by it: it matters which one asks
  kNeedsHost = 0x8000,    // plain, but the recorder's own memory has to do with it
};

// What a call waits for that may sleep (kMayBlock), and which of its arguments decide how long. Indices; -1:
// it has no such argument.
struct Waiting {
  enum What : uint8_t {
    Unsaid,      // nothing that needs to be known: nobody asks beforehand whether it will wait
    Input,       // on descriptor args[0]
    Output,      // room on descriptor args[0]
    Connection,  // of descriptor args[0]
    Events,      // of several descriptors
    Child,
    Lock,
    Signal,
    Something,  // that nobody can ask for beforehand
  };
  enum class TimeUnit : uint8_t { Milliseconds, Timespec, Timeval };  // the latter two: pointers

  What what = Unsaid;
  int8_t time = -1;  // until when
  TimeUnit unit = TimeUnit::Milliseconds;
  int8_t mask = -1;          // pointer to the signals that are blocked meanwhile
  bool mask_behind = false;  // … to a pair of such a pointer and its size, which else is the next argument
  int8_t size = -1;          // bytes to be written
  int8_t flags = -1;         // with these bits in it the call does not wait
  uint32_t flag_bits = 0;

  uint64_t flags_in(const uint64_t args[6]) const { return flags < 0 ? 0 : args[flags]; }
  bool told_not_to(const uint64_t args[6]) const { return flags_in(args) & flag_bits; }
};

struct Syscall {
  const char* name;  // null: no such call
  How how = How::Unknown;
  uint32_t traits = 0;
  uint8_t argc = 6;
  ArgSpec args[6] = {};
  Waiting waiting = {};
};

// Result of a call that the kernel has not seen, because something had to be done before the thread could go
// to sleep in it (a signal to be delivered, a turn to be passed): it is made again, from its instruction on.
// The kernel's own ERESTARTNOINTR, which programs never get to see either.
inline constexpr int64_t kNotMade = -513;

inline constexpr int kSyscallCount = 480;  // numbers below this have a row

// Row of a call; numbers out of range give the 'unknown' row. Constant data.
const Syscall& syscall_row(uint64_t nr);

// One argument as it is in this very call. Like syscall_row(nr).args[index], but with the sub-tables applied:
// ioctl, fcntl, prctl, and every other call where one argument decides what another one is (futex, keyctl,
// shmctl, ptrace, …; also open without O_CREAT, whose mode is None). Never returns Arg::Varies. This is what
// recorder and printer should ask.
ArgSpec arg_spec(uint64_t nr, const uint64_t args[6], int index);

// Sub-tables: what the last argument of this ioctl/fcntl/prctl is. Unknown requests give kind Unknown
// unless the request number itself carries size and direction (_IOC).
ArgSpec ioctl_arg(uint64_t request);
const char* ioctl_name(uint64_t request);  // "TCGETS"; null if not in the table
ArgSpec fcntl_arg(uint64_t command);
// Buffer that a sockopt-like or prctl call writes.
ArgSpec prctl_arg(uint64_t option, int index);

// Some lengths are decided by a number in guest memory that the kernel may change (a socklen_t, a struct's
// own count). This is its address, or 0 if the rule needs none; its width is count_width(len) bytes. The
// recorder reads it before and after the call and gives both to buffer_bytes.
uint64_t count_address(const ArgSpec& spec, const uint64_t args[6], int index);
int count_width(Len len);

// Bytes of a buffer argument by its length rule; 0 for kinds that are walked (iovecs, msghdrs) and for
// NulString (to be measured). For In buffers `result` is ignored by all rules that make sense there; give 0.
uint64_t buffer_bytes(const ArgSpec& spec, const uint64_t args[6], int64_t result, uint64_t old_count = 0,
                      uint64_t new_count = 0);

// How much there is room for in a buffer whose length rule goes by the result: the limit is mostly the number
// that follows it. 0: by another rule.
uint64_t result_capacity(const ArgSpec& spec, const uint64_t args[6], int index);

}  // namespace backstep::guest
