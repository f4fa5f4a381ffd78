// Names of the numbers in system calls: flags, commands, errors, signals. Each table has an id, which is what
// ArgSpec::names holds. Only ids are needed in the hot world; the tables themselves are for printing.
#pragma once
#include <cstddef>
#include <cstdint>

namespace backstep::guest {

enum class Names : uint8_t {
  None,
  Errno,
  Signal,
  // files
  OpenFlags,
  FdFlags,  // O_CLOEXEC and friends where they stand alone (pipe2, dup3, epoll_create1, …)
  AtFlags,
  UnlinkFlags,  // AT_REMOVEDIR has the number of AT_EACCESS
  AccessFlags,
  AccessMode,
  Whence,
  FileType,  // S_IFMT part of a mode
  DescriptorFlags,
  FcntlCommand,
  LockType,
  LeaseType,
  NotifyFlags,
  Seals,
  RwHint,
  FlockOp,
  RenameFlags,
  FallocateMode,
  Fadvise,
  RwFlags,  // preadv2/pwritev2
  SpliceFlags,
  SyncRangeFlags,
  XattrFlags,
  StatxMask,
  CloseRangeFlags,
  MountFlags,
  UmountFlags,
  FsmountFlags,
  MoveMountFlags,
  OpenTreeFlags,
  FsconfigCommand,
  MemfdFlags,
  InotifyMask,
  FanotifyInit,
  FanotifyMark,
  QuotaCommand,
  // memory
  Prot,
  MapFlags,
  MremapFlags,
  MsyncFlags,
  Madvise,
  MlockallFlags,
  MlockFlags,
  MempolicyMode,
  MempolicyFlags,
  MembarrierCommand,
  // sockets, polling
  SocketDomain,
  SocketType,
  SocketFlags,  // accept4
  IpProtocol,
  SocketLevel,
  SocketOption,  // of SOL_SOCKET
  TcpOption,
  IpOption,
  Ipv6Option,
  MsgFlags,
  ShutdownHow,
  PollEvents,
  EpollCommand,
  EpollEvents,
  EventfdFlags,
  // time
  Clock,
  TimerFlags,
  TimerfdSetFlags,
  Itimer,
  // processes, threads, signals
  CloneFlags,
  WaitOptions,
  WaitIdType,
  SigmaskHow,
  SigactionFlags,
  SigstackFlags,
  FutexOp,
  SchedPolicy,
  PriorityWhich,
  Rlimit,
  RusageWho,
  PrctlOption,
  ArchPrctl,
  PtraceRequest,
  SeccompOp,
  SeccompFlags,
  KcmpType,
  Personality,
  // System V, keys, the rest
  IpcFlags,
  ShmFlags,
  IpcCommand,
  SemCommand,
  KeyctlOp,
  BpfCommand,
  RandomFlags,
  SyslogAction,
  RebootMagic,
  RebootCommand,
  LandlockRule,
  Count
};

struct NameEntry {
  uint64_t value;
  const char* name;
};

// Entries of a table. In flag tables, entries come in the order they are printed; an entry of several bits
// (O_SYNC, O_TMPFILE) stands before the single bits it contains.
struct NameTable {
  const NameEntry* first = nullptr;
  size_t count = 0;
  const NameEntry* begin() const { return first; }
  const NameEntry* end() const { return first + count; }
};
NameTable name_table(Names id);

// Name of exactly this value, or null.
const char* name_of(Names id, uint64_t value);

}  // namespace backstep::guest
