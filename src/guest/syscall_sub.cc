// Sub-tables: arguments whose meaning depends on other arguments of the same call.
//
// Some Linux calls are many calls under one number: what the third argument of fcntl is (a number, a pointer
// that is read, a pointer that is written) depends on the second. A row of the table only says varies()
// there; the functions here say what it is in a given call. They are switches over constants that return an
// ArgSpec built at compile time, so that recorder and printer treat such an argument like any other.
//
// Commands that are not known give Arg::Unknown: the recorder then finds out by comparing memory.
// ioctl, with its hundreds of requests, has a file of its own: syscall_ioctl.cc.
//
// Hot world (base/hot.h): no calls, no allocation.
#include <sys/syscall.h>

#include "guest/syscall_build.h"
#include "guest/syscall_table.h"

// One case is one line, as in a table.
// clang-format off

namespace backstep::guest {
namespace {

using namespace build;

constexpr uint64_t kOCreat = 0100, kOTmpfile = 020000000;

// The mode exists only when a file may be created.
ArgSpec open_mode(uint64_t open_flags) {
  return (open_flags & (kOCreat | kOTmpfile)) ? mode("mode") : none();
}

ArgSpec clone_arg(uint64_t clone_flags, int index) {
  constexpr uint64_t kPidfd = 0x1000, kParentSettid = 0x100000, kChildCleartid = 0x200000,
                     kChildSettid = 0x1000000;
  bool parent = clone_flags & (kPidfd | kParentSettid);
  if (index == 2) return parent ? int_out("parent_tid") : address("parent_tid");
  // CHILD_SETTID writes into the child's memory, which is ours only with CLONE_VM
  return (clone_flags & (kChildSettid | kChildCleartid)) ? address("child_tid") : none();
}

ArgSpec futex_arg(uint64_t op, int index) {
  enum { kWait, kWake, kFd, kRequeue, kCmpRequeue, kWakeOp, kLockPi, kUnlockPi, kTrylockPi, kWaitBitset,
         kWakeBitset, kWaitRequeuePi, kCmpRequeuePi, kLockPi2 };
  auto command = static_cast<int>(op & 0x7f);
  bool pi = command >= kLockPi && command <= kTrylockPi;
  bool two = (command >= kRequeue && command <= kWakeOp) || command == kWaitRequeuePi ||
             command == kCmpRequeuePi;
  bool timed = command == kWait || command == kLockPi || command == kWaitBitset ||
               command == kWaitRequeuePi || command == kLockPi2;
  switch (index) {
    case 0:
      return pi || command == kLockPi2 ? inout("uaddr", 4, Shape::Int) : address("uaddr");
    case 3:
      return timed ? timespec_in("timeout") : two ? uns("val2") : none();
    case 4:
      if (!two) return none();
      return command == kWakeOp || command == kWaitRequeuePi || command == kCmpRequeuePi
                 ? inout("uaddr2", 4, Shape::Int)
                 : address("uaddr2");
    default:
      return command == kCmpRequeue || command == kCmpRequeuePi ? uns("val3")
             : command == kWakeOp || command == kWaitBitset || command == kWakeBitset ? hex("val3")
                                                                                      : none();
  }
}

// IPC_RMID 0, IPC_SET 1, IPC_STAT 2, IPC_INFO 3 are common to the three kinds.
ArgSpec shmctl_arg(uint64_t cmd) {
  switch (cmd & ~0x100ull) {
    case 0: case 11: case 12: return address("buf");            // IPC_RMID, SHM_LOCK, SHM_UNLOCK
    case 1: return in("buf", 112);
    case 2: case 13: case 15: return out("buf", 112);       // IPC_STAT, SHM_STAT, SHM_STAT_ANY
    case 3: return out("buf", 72);
    case 14: return out("buf", 48);                         // SHM_INFO
    default: return unknown_arg("buf");
  }
}

ArgSpec msgctl_arg(uint64_t cmd) {
  switch (cmd & ~0x100ull) {
    case 0: return address("buf");
    case 1: return in("buf", 120);
    case 2: case 11: case 13: return out("buf", 120);       // IPC_STAT, MSG_STAT, MSG_STAT_ANY
    case 3: case 12: return out("buf", 32);                 // IPC_INFO, MSG_INFO
    default: return unknown_arg("buf");
  }
}

ArgSpec semctl_arg(uint64_t cmd) {
  switch (cmd & ~0x100ull) {
    case 0: case 11: case 12: case 14: case 15: return none();  // RMID, GETPID, GETVAL, GETNCNT, GETZCNT
    case 1: return in("buf", 104);
    case 2: case 18: case 20: return out("buf", 104);       // IPC_STAT, SEM_STAT, SEM_STAT_ANY
    case 3: case 19: return out("info", 40);                // IPC_INFO, SEM_INFO
    case 13: return unknown_arg("array");                   // GETALL: as long as the set is
    case 16: return num("val");                             // SETVAL
    case 17: return address("array");                           // SETALL: read
    default: return unknown_arg("arg");
  }
}

ArgSpec quotactl_arg(uint64_t cmd) {
  switch ((cmd & 0xffffffff) >> 8) {
    case 0x800001: case 0x800003: return address("addr");       // Q_SYNC, Q_QUOTAOFF
    case 0x800002: return path("addr");                     // Q_QUOTAON
    case 0x800004: return int_out("addr");                  // Q_GETFMT
    case 0x800005: return out("addr", 24);                  // Q_GETINFO
    case 0x800006: return in("addr", 24);
    case 0x800007: case 0x800009: return out("addr", 72);   // Q_GETQUOTA, Q_GETNEXTQUOTA
    case 0x800008: return in("addr", 72);
    case 0x5801: case 0x5802: case 0x5806: return in("addr", 4, Shape::Int);
    case 0x5803: case 0x5809: return out("addr", 112);      // Q_XGETQUOTA, Q_XGETNEXTQUOTA
    case 0x5804: return in("addr", 112);
    case 0x5805: return out("addr", 80);                    // Q_XGETQSTAT
    case 0x5807: return address("addr");                        // Q_XQUOTASYNC
    case 0x5808: return inout("addr", 160);                 // Q_XGETQSTATV
    default: return unknown_arg("addr");
  }
}

ArgSpec keyctl_arg(uint64_t op, int index) {
  switch (op & 0xffffffff) {
    case 1:                                                 // JOIN_SESSION_KEYRING
      return index == 1 ? str("name") : none();
    case 2:                                                 // UPDATE
      return index == 1   ? num("key")
             : index == 2 ? in("payload", by_arg(3))
             : index == 3 ? size("len")
                          : none();
    case 6: case 11: case 17:                               // DESCRIBE, READ, GET_SECURITY
      return index == 1   ? num("key")
             : index == 2 ? out("buf", result_up_to(3))
             : index == 3 ? size("len")
                          : none();
    case 10:                                                // SEARCH
      return index == 1 || index == 4 ? num("key") : index == 2 ? str("type") : str("description");
    case 12:                                                // INSTANTIATE
      return index == 1   ? num("key")
             : index == 2 ? in("payload", by_arg(3))
             : index == 3 ? size("len")
                          : num("keyring");
    case 20:                                                // INSTANTIATE_IOV
      return index == 1   ? num("key")
             : index == 2 ? iov_in("iov", 3)
             : index == 3 ? uns("count")
                          : num("keyring");
    case 23:                                                // DH_COMPUTE
      return index == 1   ? in("params", 12)
             : index == 2 ? out("buf", result_up_to(3))
             : index == 3 ? size("len")
                          : address("kdf");
    case 24:                                                // PKEY_QUERY
      return index == 1   ? num("key")
             : index == 3 ? str("info")
             : index == 4 ? out("query", 56)
                          : hex("reserved");
    case 25: case 26: case 27:                              // PKEY_ENCRYPT, _DECRYPT, _SIGN
      return index == 1   ? in("params", 40)
             : index == 2 ? str("info")
             : index == 3 ? address("in")
                          : out("out", kResult);
    case 28:                                                // PKEY_VERIFY
      return index == 1 ? in("params", 40) : index == 2 ? str("info") : address("data");
    case 31:                                                // CAPABILITIES
      return index == 1 ? out("buf", result_up_to(2)) : index == 2 ? size("len") : none();
    case 0: case 3: case 4: case 5: case 7: case 8: case 9: case 13: case 14: case 15: case 16:
    case 18: case 19: case 21: case 22: case 30:                              // numbers only
      return num("arg");
    case 29:                                                // RESTRICT_KEYRING
      return index == 1   ? num("keyring")
             : index == 2 ? str("type")
             : index == 3 ? str("restriction")
                          : none();
    default:
      return unknown_arg("arg");
  }
}

ArgSpec arch_prctl_arg(uint64_t code) {
  switch (code & 0xffffffff) {
    case 0x1001: case 0x1002: return address("addr");                // ARCH_SET_GS, ARCH_SET_FS
    case 0x1003: case 0x1004: return out("addr", 8, Shape::Hex); // ARCH_GET_FS, ARCH_GET_GS
    case 0x1011: return none();                                  // ARCH_GET_CPUID
    case 0x1012: return num("enable");                           // ARCH_SET_CPUID
    case 0x1021: case 0x1022: case 0x1024: return out("mask", 8, Shape::Hex);  // ARCH_GET_XCOMP_*
    case 0x1023: case 0x1025: return num("feature");             // ARCH_REQ_XCOMP_*
    case 0x4001: return out("addr", 8, Shape::Hex);              // ARCH_GET_UNTAG_MASK
    case 0x5005: return out("features", 8, Shape::Hex);          // ARCH_SHSTK_STATUS
    default: return address("addr");
  }
}

ArgSpec ptrace_addr(uint64_t request, uint64_t data) {
  switch (request & 0xffffffff) {
    case 30: return data == 0x1003 || data == 0x1004 ? out("addr", 8, Shape::Hex) : address("addr");  // ARCH_GET_*
    case 0x4209: return in("args", 16);                          // PEEKSIGINFO
    default: return address("addr");
  }
}

ArgSpec ptrace_data(uint64_t request) {
  switch (request & 0xffffffff) {
    case 1: case 2: case 3: return out("data", 8, Shape::Hex);   // PEEK*: unlike libc's function
    case 12: return out("data", 216);                            // GETREGS
    case 13: return in("data", 216);
    case 14: return out("data", 512);                            // GETFPREGS
    case 15: return in("data", 512);
    case 0x4201: return out("data", 8, Shape::Long);             // GETEVENTMSG
    case 0x4202: return out("data", 128, Shape::Siginfo);        // GETSIGINFO
    case 0x4203: return in("data", 128, Shape::Siginfo);
    case 25: return out("data", 16);                             // GET_THREAD_AREA
    case 26: return in("data", 16);                              // SET_THREAD_AREA
    case 0x4204: return {"data", Arg::Regset, Len::Fixed, 16};   // GETREGSET
    case 0x4209: return out("data", result_items(128));          // PEEKSIGINFO
    case 0x420c: return out("data", result_items(8));            // SECCOMP_GET_FILTER
    case 0x420d: return out("data", result_up_to(2));            // SECCOMP_GET_METADATA
    case 0x420a: return out("data", by_arg(2), Shape::Sigset);   // GETSIGMASK
    case 0x420b: return in("data", by_arg(2), Shape::Sigset);
    case 0x420e: case 0x420f: return out("data", result_up_to(2));  // GET_SYSCALL_INFO, GET_RSEQ_…
    case 0x4211: return out("data", by_arg(2));                 // GET_SYSCALL_USER_DISPATCH_CONFIG
    default: return address("data");
  }
}

ArgSpec seccomp_arg(uint64_t op) {
  switch (op & 0xffffffff) {
    case 0: return none();                                  // SET_MODE_STRICT
    case 1: return in("prog", 16);                          // SET_MODE_FILTER: sock_fprog
    case 2: return in("action", 4);                         // GET_ACTION_AVAIL
    case 3: return out("sizes", 6);                         // GET_NOTIF_SIZES
    default: return unknown_arg("args");
  }
}

ArgSpec sockopt_name(uint64_t level) {
  switch (level & 0xffffffff) {
    case 1: return one("optname", Names::SocketOption);
    case 6: return one("optname", Names::TcpOption);
    case 0: return one("optname", Names::IpOption);
    case 41: return one("optname", Names::Ipv6Option);
    default: return num("optname");
  }
}

// Rules of netfilter that are replaced: the counters of the old ones are told.
ArgSpec sockopt_given(uint64_t level, uint64_t name) {
  constexpr uint16_t kOptlen = 4, kLowHalf = 32;
  auto replace = [](uint8_t count_at) {
    return ArgSpec{"optval", Arg::Counters, Len::ByArg, kOptlen, kLowHalf, count_at};
  };
  const auto l = static_cast<uint32_t>(level), n = static_cast<uint32_t>(name);
  if ((l == 0 || l == 41) && n == 64) return replace(84);  // IPT_SO_SET_REPLACE, IP6T_SO_SET_REPLACE
  if (l == 0 && n == 96) return replace(68);               // ARPT_SO_SET_REPLACE
  if (l == 0 && n == 128) return replace(96);              // EBT_SO_SET_ENTRIES
  return ArgSpec{"optval", Arg::In, Len::ByArg, kOptlen, kLowHalf};
}

ArgSpec sockopt_value(uint64_t level, uint64_t name) {
  const auto l = static_cast<uint32_t>(level), n = static_cast<uint32_t>(name);
  if (l == 0 && (n == 129 || n == 131)) return unknown_arg("optval");  // EBT_SO_GET_(INIT_)ENTRIES: pointers
  if (l == 6 && n == 35) return unknown_arg("optval");                 // TCP_ZEROCOPY_RECEIVE: likewise
  // SO_GET_FILTER counts in filter instructions, not in bytes
  bool filter = (level & 0xffffffff) == 1 && (name & 0xffffffff) == 26;
  return out("optval", socklen_at(4, filter ? 8 : 1));
}

ArgSpec fsconfig_value(uint64_t cmd) {
  switch (cmd & 0xffffffff) {
    case 1: return str("value");                            // SET_STRING
    case 3: case 4: return path("value");                   // SET_PATH, SET_PATH_EMPTY
    default: return address("value");
  }
}

ArgSpec prctl_in_call(const uint64_t args[6], int index) {
  constexpr uint64_t kSetMm = 35, kSetMmMap = 14, kSetMmMapSize = 15;
  if ((args[0] & 0xffffffff) == kSetMm && index == 2) {
    if (args[1] == kSetMmMap) return in("map", by_arg(3));
    if (args[1] == kSetMmMapSize) return int_out("size");
  }
  return prctl_arg(args[0], index);
}

}  // namespace

ArgSpec fcntl_arg(uint64_t command) {
  switch (command & 0xffffffff) {
    case 0: case 1030: return num("min_fd");                // F_DUPFD, F_DUPFD_CLOEXEC
    case 1: case 3: case 9: case 11: case 1025: case 1032: case 1034: case 1028:
      return none();                                        // F_GETFD, GETFL, GETOWN, GETSIG, GETLEASE, …
    case 2: return flags("flags", Names::DescriptorFlags);  // F_SETFD
    case 4: return flags("flags", Names::OpenFlags);        // F_SETFL
    case 5: case 36: return inout("lock", 32, Shape::Flock);          // F_GETLK, F_OFD_GETLK
    case 6: case 7: case 37: case 38: return in("lock", 32, Shape::Flock);  // F_SETLK(W), F_OFD_SETLK(W)
    case 8: return pid("owner");                            // F_SETOWN
    case 10: return sig("sig");                             // F_SETSIG
    case 15: return in("owner", 8);                         // F_SETOWN_EX
    case 16: return out("owner", 8, Shape::IntPair);        // F_GETOWN_EX: type, pid
    case 17: return out("uids", 8, Shape::IntPair);         // F_GETOWNER_UIDS
    case 1024: return one("lease", Names::LeaseType);       // F_SETLEASE
    case 1026: return flags("events", Names::NotifyFlags);  // F_NOTIFY
    case 1027: return fd("fd");                             // F_DUPFD_QUERY
    case 1029: return address("arg");                           // F_CANCELLK, of the kernel only
    case 1031: return num("size");                          // F_SETPIPE_SZ
    case 1033: return flags("seals", Names::Seals);         // F_ADD_SEALS
    case 1035: case 1037: return out("hint", 8, Shape::Long);  // F_GET_RW_HINT, F_GET_FILE_RW_HINT
    case 1036: case 1038: return in("hint", 8, Shape::Long);
    case 1039: return inout("deleg", 8);                    // F_GETDELEG
    case 1040: return in("deleg", 8);
    default: return unknown_arg("arg");
  }
}

ArgSpec prctl_arg(uint64_t option, int index) {
  if (index < 1 || index > 4) return none();
  bool first = index == 1;
  switch (option & 0xffffffff) {
    case 1: return first ? sig("sig") : none();             // PR_SET_PDEATHSIG
    case 2: case 5: case 9: case 11: case 19: case 25: case 37:
      return first ? int_out("value") : none();             // PR_GET_PDEATHSIG, _TSC, _CHILD_SUBREAPER, …
    case 3: case 7: case 13: case 21: case 27: case 30: case 34: case 58: case 56: case 64: case 74:
      return none();                                        // results only: DUMPABLE, KEEPCAPS, SECCOMP, …
    case 31: case 32: return none();                        // PR_TASK_PERF_EVENTS_*
    case 4: case 6: case 8: case 10: case 12: case 14: case 20: case 24: case 26: case 28: case 36: case 55:
    case 57: return first ? num("value") : none();          // PR_SET_* of a number; CAPBSET_DROP; SUBREAPER
    case 23: return first ? num("cap") : none();            // PR_CAPBSET_READ
    case 15: return first ? str("name") : none();           // PR_SET_NAME
    case 16: return first ? out("name", 16, Shape::CString) : none();  // PR_GET_NAME
    case 22: return first ? num("mode") : index == 2 ? address("prog") : none();  // PR_SET_SECCOMP
    case 29: return first ? lng("ns") : none();             // PR_SET_TIMERSLACK
    case 33: return index <= 2 ? num("value") : none();     // PR_MCE_KILL
    case 35: return index == 3 ? size("size") : first ? num("field") : address("addr");  // PR_SET_MM
    case 38: case 39: case 42: case 66: case 70:
      return num("value");                                  // NO_NEW_PRIVS, GET_THP_DISABLE, GET_MDWE, …
    case 40: return first ? out("addr", 8, Shape::Hex) : none();  // PR_GET_TID_ADDRESS
    case 41: return num("value");                           // PR_SET_THP_DISABLE
    case 43: case 44: return none();                        // PR_MPX_*
    case 45: case 46: case 47: case 50: case 51: case 52: case 53: case 54: return num("value");
    case 59:                                                // PR_SET_SYSCALL_USER_DISPATCH
      return index == 2   ? hex("offset")
             : index == 3 ? size("len")
             : index == 4 ? address("selector")
                          : num("on");
    case 62: return index == 4 ? out("cookie", 8, Shape::Hex) : num("arg");  // PR_SCHED_CORE (0: GET)
    case 65: return num("flags");                           // PR_SET_MDWE
    case 67: case 68: case 69: return num("value");         // PR_SET_MEMORY_MERGE, …
    case 77: case 78: return num("value");                  // PR_TIMER_CREATE_RESTORE_IDS, PR_FUTEX_HASH
    case 0x59616d61: return first ? pid("pid") : none();    // PR_SET_PTRACER
    case 0x53564d41:                                        // PR_SET_VMA
      return first ? num("attr") : index == 2 ? address("addr") : index == 3 ? size("size") : str("name");
    case 0x41555856:                                        // PR_GET_AUXV
      return first ? out("auxv", result_up_to(2)) : index == 2 ? size("len") : none();
    default: return unknown_arg("arg");
  }
}

ArgSpec arg_spec(uint64_t nr, const uint64_t args[6], int index) {
  const Syscall& call = syscall_row(nr);
  if (index < 0 || index >= call.argc) return none();
  ArgSpec spec = call.args[index];
  if (spec.kind != Arg::Varies) return spec;
  switch (nr) {
    case SYS_open: return open_mode(args[1]);
    case SYS_openat: return open_mode(args[2]);
    case SYS_mq_open:
      return !(args[1] & kOCreat) ? none() : index == 2 ? mode("mode") : in("attr", 64);
    case SYS_ioctl: return ioctl_arg(args[1]);
    case SYS_fcntl: return fcntl_arg(args[1]);
    case SYS_prctl: return prctl_in_call(args, index);
    case SYS_arch_prctl: return arch_prctl_arg(args[0]);
    case SYS_mremap: return (args[3] & 6) ? address("new_addr") : none();  // MREMAP_FIXED, MREMAP_DONTUNMAP
    case SYS_clone: return clone_arg(args[0], index);
    case SYS_futex: return futex_arg(args[1], index);
    case SYS_socket:
    case SYS_socketpair: {
      auto domain = static_cast<uint32_t>(args[0]);
      return domain == 2 || domain == 10 ? one("protocol", Names::IpProtocol) : num("protocol");
    }
    case SYS_setsockopt: return index == 2 ? sockopt_name(args[1]) : sockopt_given(args[1], args[2]);
    case SYS_getsockopt: return index == 2 ? sockopt_name(args[1]) : sockopt_value(args[1], args[2]);
    case SYS_shmctl: return shmctl_arg(args[1] & 0xffffffff);
    case SYS_msgctl: return msgctl_arg(args[1] & 0xffffffff);
    case SYS_semctl: return semctl_arg(args[2] & 0xffffffff);
    case SYS_quotactl: return quotactl_arg(args[0]);
    case SYS_quotactl_fd: return quotactl_arg(args[1]);
    case SYS_keyctl: return keyctl_arg(args[0], index);
    case SYS_ptrace: return index == 2 ? ptrace_addr(args[0], args[3]) : ptrace_data(args[0]);
    case SYS_seccomp: return seccomp_arg(args[0]);
    case SYS_fsconfig: return fsconfig_value(args[1]);
    case SYS_sysfs:  // 1: name to index; 2: index to name; 3: how many
      if (index == 1) return args[0] == 1 ? str("name") : args[0] == 2 ? uns("index") : none();
      return args[0] == 2 ? out("buf", kNulString, Shape::CString) : none();
    case SYS_name_to_handle_at:  // AT_HANDLE_MNT_ID_UNIQUE: a 64-bit id
      return (args[4] & 1) ? out("mount_id", 8, Shape::Long) : int_out("mount_id");
    default: return unknown_arg(spec.name);
  }
}

}  // namespace backstep::guest
