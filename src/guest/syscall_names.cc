// Names of flags, commands, errors and signals, for printing system calls.
//
// Values are taken from the system's headers by name, so that a value and its name cannot disagree; the few
// that are younger than the headers are written as numbers. Ordinary host code: nothing here runs between
// guest instructions.
#include "guest/syscall_names.h"

#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/close_range.h>
#include <linux/fadvise.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <linux/kcmp.h>
#include <linux/keyctl.h>
#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <linux/prctl.h>
#include <linux/quota.h>
#include <linux/reboot.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <iterator>

namespace backstep::guest {
namespace {

// clang-format off

// A name and its value; the one thing here that a function cannot do.
#define N(x) {static_cast<uint64_t>(x), #x}

constexpr NameEntry kErrno[] = {
    N(EPERM), N(ENOENT), N(ESRCH), N(EINTR), N(EIO), N(ENXIO), N(E2BIG), N(ENOEXEC), N(EBADF), N(ECHILD),
    N(EAGAIN), N(ENOMEM), N(EACCES), N(EFAULT), N(ENOTBLK), N(EBUSY), N(EEXIST), N(EXDEV), N(ENODEV),
    N(ENOTDIR), N(EISDIR), N(EINVAL), N(ENFILE), N(EMFILE), N(ENOTTY), N(ETXTBSY), N(EFBIG), N(ENOSPC),
    N(ESPIPE), N(EROFS), N(EMLINK), N(EPIPE), N(EDOM), N(ERANGE), N(EDEADLK), N(ENAMETOOLONG), N(ENOLCK),
    N(ENOSYS), N(ENOTEMPTY), N(ELOOP), N(ENOMSG), N(EIDRM), N(ECHRNG), N(EL2NSYNC), N(EL3HLT), N(EL3RST),
    N(ELNRNG), N(EUNATCH), N(ENOCSI), N(EL2HLT), N(EBADE), N(EBADR), N(EXFULL), N(ENOANO), N(EBADRQC),
    N(EBADSLT), N(EBFONT), N(ENOSTR), N(ENODATA), N(ETIME), N(ENOSR), N(ENONET), N(ENOPKG), N(EREMOTE),
    N(ENOLINK), N(EADV), N(ESRMNT), N(ECOMM), N(EPROTO), N(EMULTIHOP), N(EDOTDOT), N(EBADMSG), N(EOVERFLOW),
    N(ENOTUNIQ), N(EBADFD), N(EREMCHG), N(ELIBACC), N(ELIBBAD), N(ELIBSCN), N(ELIBMAX), N(ELIBEXEC),
    N(EILSEQ), N(ERESTART), N(ESTRPIPE), N(EUSERS), N(ENOTSOCK), N(EDESTADDRREQ), N(EMSGSIZE), N(EPROTOTYPE),
    N(ENOPROTOOPT), N(EPROTONOSUPPORT), N(ESOCKTNOSUPPORT), N(EOPNOTSUPP), N(EPFNOSUPPORT), N(EAFNOSUPPORT),
    N(EADDRINUSE), N(EADDRNOTAVAIL), N(ENETDOWN), N(ENETUNREACH), N(ENETRESET), N(ECONNABORTED),
    N(ECONNRESET), N(ENOBUFS), N(EISCONN), N(ENOTCONN), N(ESHUTDOWN), N(ETOOMANYREFS), N(ETIMEDOUT),
    N(ECONNREFUSED), N(EHOSTDOWN), N(EHOSTUNREACH), N(EALREADY), N(EINPROGRESS), N(ESTALE), N(EUCLEAN),
    N(ENOTNAM), N(ENAVAIL), N(EISNAM), N(EREMOTEIO), N(EDQUOT), N(ENOMEDIUM), N(EMEDIUMTYPE), N(ECANCELED),
    N(ENOKEY), N(EKEYEXPIRED), N(EKEYREVOKED), N(EKEYREJECTED), N(EOWNERDEAD), N(ENOTRECOVERABLE), N(ERFKILL),
    N(EHWPOISON), {512, "ERESTARTSYS"}, {513, "ERESTARTNOINTR"}, {514, "ERESTARTNOHAND"},
    {516, "ERESTART_RESTARTBLOCK"}, {524, "ENOTSUPP"},
};
constexpr NameEntry kSignal[] = {
    N(SIGHUP), N(SIGINT), N(SIGQUIT), N(SIGILL), N(SIGTRAP), N(SIGABRT), N(SIGBUS), N(SIGFPE), N(SIGKILL),
    N(SIGUSR1), N(SIGSEGV), N(SIGUSR2), N(SIGPIPE), N(SIGALRM), N(SIGTERM), N(SIGSTKFLT), N(SIGCHLD),
    N(SIGCONT), N(SIGSTOP), N(SIGTSTP), N(SIGTTIN), N(SIGTTOU), N(SIGURG), N(SIGXCPU), N(SIGXFSZ),
    N(SIGVTALRM), N(SIGPROF), N(SIGWINCH), N(SIGIO), N(SIGPWR), N(SIGSYS),
};

// O_RDONLY, O_WRONLY and O_RDWR are not bits; the printer takes the low two bits apart by this table's start.
constexpr NameEntry kOpenFlags[] = {
    N(O_RDONLY), N(O_WRONLY), N(O_RDWR), {3, "O_ACCMODE"}, N(O_CREAT), N(O_EXCL), N(O_NOCTTY), N(O_TRUNC),
    N(O_APPEND), N(O_NONBLOCK), N(O_SYNC), N(O_DSYNC), N(O_ASYNC), N(O_DIRECT), {0100000, "O_LARGEFILE"},
    N(O_TMPFILE), N(O_DIRECTORY), N(O_NOFOLLOW), N(O_NOATIME), N(O_CLOEXEC), N(O_PATH),
};
constexpr NameEntry kFdFlags[] = {N(O_CLOEXEC), N(O_NONBLOCK), N(O_DIRECT), {0200, "O_NOTIFICATION_PIPE"}};
constexpr NameEntry kAtFlags[] = {
    N(AT_SYMLINK_NOFOLLOW), N(AT_SYMLINK_FOLLOW), N(AT_NO_AUTOMOUNT), N(AT_EMPTY_PATH),
    N(AT_STATX_FORCE_SYNC), N(AT_STATX_DONT_SYNC), N(AT_RECURSIVE), {1, "AT_HANDLE_MNT_ID_UNIQUE"},
    {0x200, "AT_HANDLE_FID"},
};
constexpr NameEntry kUnlinkFlags[] = {N(AT_REMOVEDIR)};
constexpr NameEntry kAccessFlags[] = {N(AT_EACCESS), N(AT_SYMLINK_NOFOLLOW), N(AT_EMPTY_PATH)};
constexpr NameEntry kAccessMode[] = {N(F_OK), N(R_OK), N(W_OK), N(X_OK)};
constexpr NameEntry kWhence[] = {N(SEEK_SET), N(SEEK_CUR), N(SEEK_END), N(SEEK_DATA), N(SEEK_HOLE)};
constexpr NameEntry kFileType[] = {
    N(S_IFREG), N(S_IFDIR), N(S_IFCHR), N(S_IFBLK), N(S_IFIFO), N(S_IFLNK), N(S_IFSOCK),
};
constexpr NameEntry kDescriptorFlags[] = {N(FD_CLOEXEC)};
constexpr NameEntry kFcntlCommand[] = {
    N(F_DUPFD), N(F_GETFD), N(F_SETFD), N(F_GETFL), N(F_SETFL), {5, "F_GETLK"}, {6, "F_SETLK"},
    {7, "F_SETLKW"}, N(F_SETOWN), N(F_GETOWN), N(F_SETSIG), N(F_GETSIG), N(F_SETOWN_EX), N(F_GETOWN_EX),
    {17, "F_GETOWNER_UIDS"}, {36, "F_OFD_GETLK"}, {37, "F_OFD_SETLK"}, {38, "F_OFD_SETLKW"}, N(F_SETLEASE),
    N(F_GETLEASE), N(F_NOTIFY), {1027, "F_DUPFD_QUERY"}, {1028, "F_CREATED_QUERY"}, {1029, "F_CANCELLK"},
    N(F_DUPFD_CLOEXEC), N(F_SETPIPE_SZ), N(F_GETPIPE_SZ), N(F_ADD_SEALS), N(F_GET_SEALS), N(F_GET_RW_HINT),
    N(F_SET_RW_HINT), N(F_GET_FILE_RW_HINT), N(F_SET_FILE_RW_HINT), {1039, "F_GETDELEG"},
    {1040, "F_SETDELEG"},
};
constexpr NameEntry kLockType[] = {N(F_RDLCK), N(F_WRLCK), N(F_UNLCK)};
constexpr NameEntry kNotifyFlags[] = {
    N(DN_ACCESS), N(DN_MODIFY), N(DN_CREATE), N(DN_DELETE), N(DN_RENAME), N(DN_ATTRIB),
    {0x80000000, "DN_MULTISHOT"},
};
constexpr NameEntry kSeals[] = {
    N(F_SEAL_SEAL), N(F_SEAL_SHRINK), N(F_SEAL_GROW), N(F_SEAL_WRITE), {0x10, "F_SEAL_FUTURE_WRITE"},
    {0x20, "F_SEAL_EXEC"},
};
constexpr NameEntry kRwHint[] = {
    {0, "RWH_WRITE_LIFE_NOT_SET"}, {1, "RWH_WRITE_LIFE_NONE"}, {2, "RWH_WRITE_LIFE_SHORT"},
    {3, "RWH_WRITE_LIFE_MEDIUM"}, {4, "RWH_WRITE_LIFE_LONG"}, {5, "RWH_WRITE_LIFE_EXTREME"},
};
constexpr NameEntry kFlockOp[] = {N(LOCK_SH), N(LOCK_EX), N(LOCK_UN), N(LOCK_NB)};
constexpr NameEntry kRenameFlags[] = {
    {1, "RENAME_NOREPLACE"}, {2, "RENAME_EXCHANGE"}, {4, "RENAME_WHITEOUT"},
};
constexpr NameEntry kFallocateMode[] = {
    N(FALLOC_FL_KEEP_SIZE), N(FALLOC_FL_PUNCH_HOLE), N(FALLOC_FL_COLLAPSE_RANGE), N(FALLOC_FL_ZERO_RANGE),
    N(FALLOC_FL_INSERT_RANGE), N(FALLOC_FL_UNSHARE_RANGE),
};
constexpr NameEntry kFadvise[] = {
    N(POSIX_FADV_NORMAL), N(POSIX_FADV_RANDOM), N(POSIX_FADV_SEQUENTIAL), N(POSIX_FADV_WILLNEED),
    N(POSIX_FADV_DONTNEED), N(POSIX_FADV_NOREUSE),
};
constexpr NameEntry kRwFlags[] = {
    N(RWF_HIPRI), N(RWF_DSYNC), N(RWF_SYNC), N(RWF_NOWAIT), N(RWF_APPEND), {0x20, "RWF_NOAPPEND"},
    {0x40, "RWF_ATOMIC"}, {0x80, "RWF_DONTCACHE"},
};
constexpr NameEntry kSpliceFlags[] = {
    N(SPLICE_F_MOVE), N(SPLICE_F_NONBLOCK), N(SPLICE_F_MORE), N(SPLICE_F_GIFT),
};
constexpr NameEntry kSyncRangeFlags[] = {
    N(SYNC_FILE_RANGE_WAIT_BEFORE), N(SYNC_FILE_RANGE_WRITE), N(SYNC_FILE_RANGE_WAIT_AFTER),
};
constexpr NameEntry kXattrFlags[] = {N(XATTR_CREATE), N(XATTR_REPLACE)};
constexpr NameEntry kStatxMask[] = {
    {0xfff, "STATX_ALL"}, {0x7ff, "STATX_BASIC_STATS"}, N(STATX_TYPE), N(STATX_MODE), N(STATX_NLINK),
    N(STATX_UID), N(STATX_GID), N(STATX_ATIME), N(STATX_MTIME), N(STATX_CTIME), N(STATX_INO), N(STATX_SIZE),
    N(STATX_BLOCKS), N(STATX_BTIME), {0x1000, "STATX_MNT_ID"}, {0x2000, "STATX_DIOALIGN"},
    {0x4000, "STATX_MNT_ID_UNIQUE"}, {0x8000, "STATX_SUBVOL"}, {0x10000, "STATX_WRITE_ATOMIC"},
};
constexpr NameEntry kCloseRangeFlags[] = {N(CLOSE_RANGE_UNSHARE), N(CLOSE_RANGE_CLOEXEC)};
constexpr NameEntry kMountFlags[] = {
    {0xc0ed0000, "MS_MGC_VAL"}, N(MS_RDONLY), N(MS_NOSUID), N(MS_NODEV), N(MS_NOEXEC), N(MS_SYNCHRONOUS),
    N(MS_REMOUNT), N(MS_MANDLOCK), N(MS_DIRSYNC), {256, "MS_NOSYMFOLLOW"}, N(MS_NOATIME), N(MS_NODIRATIME),
    N(MS_BIND), N(MS_MOVE), N(MS_REC), N(MS_SILENT), N(MS_POSIXACL), N(MS_UNBINDABLE), N(MS_PRIVATE),
    N(MS_SLAVE), N(MS_SHARED), N(MS_RELATIME), N(MS_I_VERSION), N(MS_STRICTATIME), N(MS_LAZYTIME),
};
constexpr NameEntry kUmountFlags[] = {N(MNT_FORCE), N(MNT_DETACH), N(MNT_EXPIRE), N(UMOUNT_NOFOLLOW)};
constexpr NameEntry kFsmountFlags[] = {{1, "FSMOUNT_CLOEXEC"}};
constexpr NameEntry kMoveMountFlags[] = {
    {0x1, "MOVE_MOUNT_F_SYMLINKS"}, {0x2, "MOVE_MOUNT_F_AUTOMOUNTS"}, {0x4, "MOVE_MOUNT_F_EMPTY_PATH"},
    {0x10, "MOVE_MOUNT_T_SYMLINKS"}, {0x20, "MOVE_MOUNT_T_AUTOMOUNTS"}, {0x40, "MOVE_MOUNT_T_EMPTY_PATH"},
    {0x100, "MOVE_MOUNT_SET_GROUP"}, {0x200, "MOVE_MOUNT_BENEATH"},
};
constexpr NameEntry kOpenTreeFlags[] = {
    {1, "OPEN_TREE_CLONE"}, {O_CLOEXEC, "OPEN_TREE_CLOEXEC"}, N(AT_SYMLINK_NOFOLLOW), N(AT_NO_AUTOMOUNT),
    N(AT_EMPTY_PATH), N(AT_RECURSIVE),
};
constexpr NameEntry kFsconfigCommand[] = {
    {0, "FSCONFIG_SET_FLAG"}, {1, "FSCONFIG_SET_STRING"}, {2, "FSCONFIG_SET_BINARY"},
    {3, "FSCONFIG_SET_PATH"}, {4, "FSCONFIG_SET_PATH_EMPTY"}, {5, "FSCONFIG_SET_FD"},
    {6, "FSCONFIG_CMD_CREATE"}, {7, "FSCONFIG_CMD_RECONFIGURE"}, {8, "FSCONFIG_CMD_CREATE_EXCL"},
};
constexpr NameEntry kMemfdFlags[] = {
    N(MFD_CLOEXEC), N(MFD_ALLOW_SEALING), N(MFD_HUGETLB), {8, "MFD_NOEXEC_SEAL"}, {16, "MFD_EXEC"},
};
constexpr NameEntry kInotifyMask[] = {
    N(IN_ALL_EVENTS), N(IN_ACCESS), N(IN_MODIFY), N(IN_ATTRIB), N(IN_CLOSE_WRITE), N(IN_CLOSE_NOWRITE),
    N(IN_OPEN), N(IN_MOVED_FROM), N(IN_MOVED_TO), N(IN_CREATE), N(IN_DELETE), N(IN_DELETE_SELF),
    N(IN_MOVE_SELF), N(IN_ONLYDIR), N(IN_DONT_FOLLOW), N(IN_EXCL_UNLINK), N(IN_MASK_CREATE), N(IN_MASK_ADD),
    N(IN_ISDIR), {0x80000000, "IN_ONESHOT"},
};
constexpr NameEntry kFanotifyInit[] = {
    N(FAN_CLOEXEC), N(FAN_NONBLOCK), N(FAN_CLASS_CONTENT), N(FAN_CLASS_PRE_CONTENT), N(FAN_UNLIMITED_QUEUE),
    N(FAN_UNLIMITED_MARKS), N(FAN_ENABLE_AUDIT), N(FAN_REPORT_TID), N(FAN_REPORT_FID),
};
constexpr NameEntry kFanotifyMark[] = {
    N(FAN_MARK_ADD), N(FAN_MARK_REMOVE), N(FAN_MARK_DONT_FOLLOW), N(FAN_MARK_ONLYDIR), N(FAN_MARK_MOUNT),
    N(FAN_MARK_FILESYSTEM), N(FAN_MARK_IGNORED_MASK), N(FAN_MARK_IGNORED_SURV_MODIFY), N(FAN_MARK_FLUSH),
};
constexpr NameEntry kQuotaCommand[] = {
    {0x800001, "Q_SYNC"}, {0x800002, "Q_QUOTAON"}, {0x800003, "Q_QUOTAOFF"}, {0x800004, "Q_GETFMT"},
    {0x800005, "Q_GETINFO"}, {0x800006, "Q_SETINFO"}, {0x800007, "Q_GETQUOTA"}, {0x800008, "Q_SETQUOTA"},
    {0x800009, "Q_GETNEXTQUOTA"}, {0x5801, "Q_XQUOTAON"}, {0x5802, "Q_XQUOTAOFF"}, {0x5803, "Q_XGETQUOTA"},
    {0x5804, "Q_XSETQLIM"}, {0x5805, "Q_XGETQSTAT"}, {0x5806, "Q_XQUOTARM"}, {0x5807, "Q_XQUOTASYNC"},
    {0x5808, "Q_XGETQSTATV"}, {0x5809, "Q_XGETNEXTQUOTA"},
};

constexpr NameEntry kProt[] = {
    N(PROT_NONE), N(PROT_READ), N(PROT_WRITE), N(PROT_EXEC), N(PROT_GROWSDOWN), N(PROT_GROWSUP),
};
constexpr NameEntry kMapFlags[] = {
    N(MAP_SHARED_VALIDATE), N(MAP_SHARED), N(MAP_PRIVATE), N(MAP_FIXED), N(MAP_ANONYMOUS), N(MAP_32BIT),
    N(MAP_GROWSDOWN), N(MAP_DENYWRITE), N(MAP_EXECUTABLE), N(MAP_LOCKED), N(MAP_NORESERVE), N(MAP_POPULATE),
    N(MAP_NONBLOCK), N(MAP_STACK), N(MAP_HUGETLB), N(MAP_SYNC), N(MAP_FIXED_NOREPLACE),
};
constexpr NameEntry kMremapFlags[] = {N(MREMAP_MAYMOVE), N(MREMAP_FIXED), {4, "MREMAP_DONTUNMAP"}};
constexpr NameEntry kMsyncFlags[] = {N(MS_ASYNC), N(MS_INVALIDATE), N(MS_SYNC)};
constexpr NameEntry kMadvise[] = {
    N(MADV_NORMAL), N(MADV_RANDOM), N(MADV_SEQUENTIAL), N(MADV_WILLNEED), N(MADV_DONTNEED), N(MADV_FREE),
    N(MADV_REMOVE), N(MADV_DONTFORK), N(MADV_DOFORK), N(MADV_MERGEABLE), N(MADV_UNMERGEABLE),
    N(MADV_HUGEPAGE), N(MADV_NOHUGEPAGE), N(MADV_DONTDUMP), N(MADV_DODUMP), N(MADV_WIPEONFORK),
    N(MADV_KEEPONFORK), N(MADV_COLD), N(MADV_PAGEOUT), {22, "MADV_POPULATE_READ"},
    {23, "MADV_POPULATE_WRITE"}, {24, "MADV_DONTNEED_LOCKED"}, {25, "MADV_COLLAPSE"}, N(MADV_HWPOISON),
    {101, "MADV_SOFT_OFFLINE"}, {102, "MADV_GUARD_INSTALL"}, {103, "MADV_GUARD_REMOVE"},
};
constexpr NameEntry kMlockallFlags[] = {N(MCL_CURRENT), N(MCL_FUTURE), N(MCL_ONFAULT)};
constexpr NameEntry kMlockFlags[] = {{1, "MLOCK_ONFAULT"}};
constexpr NameEntry kMempolicyMode[] = {
    N(MPOL_DEFAULT), N(MPOL_PREFERRED), N(MPOL_BIND), N(MPOL_INTERLEAVE), N(MPOL_LOCAL),
    {5, "MPOL_PREFERRED_MANY"}, {6, "MPOL_WEIGHTED_INTERLEAVE"},
};
constexpr NameEntry kMempolicyFlags[] = {N(MPOL_MF_STRICT), N(MPOL_MF_MOVE), N(MPOL_MF_MOVE_ALL)};
constexpr NameEntry kMembarrierCommand[] = {
    N(MEMBARRIER_CMD_QUERY), N(MEMBARRIER_CMD_GLOBAL), N(MEMBARRIER_CMD_GLOBAL_EXPEDITED),
    N(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED), N(MEMBARRIER_CMD_PRIVATE_EXPEDITED),
    N(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED), N(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE),
    N(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE), {128, "MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ"},
    {256, "MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ"}, {512, "MEMBARRIER_CMD_GET_REGISTRATIONS"},
};

constexpr NameEntry kSocketDomain[] = {
    N(AF_UNSPEC), N(AF_UNIX), N(AF_INET), N(AF_AX25), N(AF_IPX), N(AF_APPLETALK), N(AF_INET6), N(AF_NETLINK),
    N(AF_PACKET), N(AF_RDS), N(AF_CAN), N(AF_TIPC), N(AF_BLUETOOTH), N(AF_ALG), N(AF_VSOCK), N(AF_KCM),
    N(AF_QIPCRTR), N(AF_SMC), N(AF_XDP),
};
constexpr NameEntry kSocketType[] = {
    N(SOCK_STREAM), N(SOCK_DGRAM), N(SOCK_RAW), N(SOCK_RDM), N(SOCK_SEQPACKET), N(SOCK_DCCP), N(SOCK_PACKET),
};
constexpr NameEntry kSocketFlags[] = {N(SOCK_CLOEXEC), N(SOCK_NONBLOCK)};
constexpr NameEntry kIpProtocol[] = {
    N(IPPROTO_IP), N(IPPROTO_ICMP), N(IPPROTO_IGMP), N(IPPROTO_TCP), N(IPPROTO_UDP), N(IPPROTO_IPV6),
    N(IPPROTO_GRE), N(IPPROTO_ESP), N(IPPROTO_ICMPV6), N(IPPROTO_SCTP), N(IPPROTO_UDPLITE), N(IPPROTO_RAW),
    {262, "IPPROTO_MPTCP"},
};
constexpr NameEntry kSocketLevel[] = {
    N(SOL_IP), N(SOL_SOCKET), N(SOL_TCP), {17, "SOL_UDP"}, {41, "SOL_IPV6"}, {58, "SOL_ICMPV6"},
    {132, "SOL_SCTP"}, N(SOL_RAW), N(SOL_PACKET), N(SOL_NETLINK), N(SOL_ALG), {284, "SOL_MPTCP"},
    {287, "SOL_VSOCK"},
};
constexpr NameEntry kSocketOption[] = {
    N(SO_DEBUG), N(SO_REUSEADDR), N(SO_TYPE), N(SO_ERROR), N(SO_DONTROUTE), N(SO_BROADCAST), N(SO_SNDBUF),
    N(SO_RCVBUF), N(SO_SNDBUFFORCE), N(SO_RCVBUFFORCE), N(SO_KEEPALIVE), N(SO_OOBINLINE), N(SO_NO_CHECK),
    N(SO_PRIORITY), N(SO_LINGER), N(SO_BSDCOMPAT), N(SO_REUSEPORT), N(SO_PASSCRED), N(SO_PEERCRED),
    N(SO_RCVLOWAT), N(SO_SNDLOWAT), N(SO_RCVTIMEO), N(SO_SNDTIMEO), N(SO_BINDTODEVICE), N(SO_ATTACH_FILTER),
    N(SO_DETACH_FILTER), N(SO_PEERNAME), N(SO_TIMESTAMP), N(SO_ACCEPTCONN), N(SO_PEERSEC), N(SO_PASSSEC),
    N(SO_TIMESTAMPNS), N(SO_MARK), N(SO_TIMESTAMPING), N(SO_PROTOCOL), N(SO_DOMAIN), N(SO_RXQ_OVFL),
    N(SO_WIFI_STATUS), N(SO_PEEK_OFF), N(SO_NOFCS), N(SO_LOCK_FILTER), N(SO_SELECT_ERR_QUEUE),
    N(SO_BUSY_POLL), N(SO_MAX_PACING_RATE), N(SO_BPF_EXTENSIONS), N(SO_INCOMING_CPU), N(SO_ATTACH_BPF),
    N(SO_MEMINFO), N(SO_INCOMING_NAPI_ID), N(SO_COOKIE), N(SO_PEERGROUPS), N(SO_ZEROCOPY), N(SO_TXTIME),
    {76, "SO_PASSPIDFD"}, {77, "SO_PEERPIDFD"},
};
constexpr NameEntry kTcpOption[] = {
    N(TCP_NODELAY), N(TCP_MAXSEG), N(TCP_CORK), N(TCP_KEEPIDLE), N(TCP_KEEPINTVL), N(TCP_KEEPCNT),
    N(TCP_SYNCNT), N(TCP_LINGER2), N(TCP_DEFER_ACCEPT), N(TCP_WINDOW_CLAMP), N(TCP_INFO), N(TCP_QUICKACK),
    N(TCP_CONGESTION), N(TCP_MD5SIG), N(TCP_THIN_LINEAR_TIMEOUTS), N(TCP_THIN_DUPACK), N(TCP_USER_TIMEOUT),
    N(TCP_REPAIR), N(TCP_FASTOPEN), N(TCP_TIMESTAMP), N(TCP_NOTSENT_LOWAT), N(TCP_CC_INFO), N(TCP_SAVE_SYN),
    N(TCP_SAVED_SYN), N(TCP_FASTOPEN_CONNECT), N(TCP_ULP), N(TCP_INQ), {35, "TCP_ZEROCOPY_RECEIVE"},
};
constexpr NameEntry kIpOption[] = {
    N(IP_TOS), N(IP_TTL), N(IP_HDRINCL), N(IP_OPTIONS), N(IP_RECVOPTS), N(IP_RETOPTS), N(IP_PKTINFO),
    N(IP_PKTOPTIONS), N(IP_MTU_DISCOVER), N(IP_RECVERR), N(IP_RECVTTL), N(IP_RECVTOS), N(IP_MTU),
    N(IP_FREEBIND), N(IP_TRANSPARENT), N(IP_MULTICAST_IF), N(IP_MULTICAST_TTL), N(IP_MULTICAST_LOOP),
    N(IP_ADD_MEMBERSHIP), N(IP_DROP_MEMBERSHIP), {24, "IP_BIND_ADDRESS_NO_PORT"},
};
constexpr NameEntry kIpv6Option[] = {
    N(IPV6_UNICAST_HOPS), N(IPV6_MULTICAST_IF), N(IPV6_MULTICAST_HOPS), N(IPV6_MULTICAST_LOOP),
    N(IPV6_JOIN_GROUP), N(IPV6_LEAVE_GROUP), N(IPV6_MTU_DISCOVER), N(IPV6_MTU), N(IPV6_RECVERR),
    N(IPV6_V6ONLY), N(IPV6_RECVPKTINFO), N(IPV6_PKTINFO), N(IPV6_RECVHOPLIMIT), N(IPV6_HOPLIMIT),
    N(IPV6_RECVTCLASS), N(IPV6_TCLASS),
};
constexpr NameEntry kMsgFlags[] = {
    N(MSG_OOB), N(MSG_PEEK), N(MSG_DONTROUTE), N(MSG_CTRUNC), N(MSG_PROXY), N(MSG_TRUNC), N(MSG_DONTWAIT),
    N(MSG_EOR), N(MSG_WAITALL), N(MSG_FIN), N(MSG_SYN), N(MSG_CONFIRM), N(MSG_RST), N(MSG_ERRQUEUE),
    N(MSG_NOSIGNAL), N(MSG_MORE), N(MSG_WAITFORONE), N(MSG_BATCH), N(MSG_ZEROCOPY), N(MSG_FASTOPEN),
    N(MSG_CMSG_CLOEXEC),
};
constexpr NameEntry kShutdownHow[] = {N(SHUT_RD), N(SHUT_WR), N(SHUT_RDWR)};
constexpr NameEntry kPollEvents[] = {
    N(POLLIN), N(POLLPRI), N(POLLOUT), N(POLLERR), N(POLLHUP), N(POLLNVAL), N(POLLRDNORM), N(POLLRDBAND),
    N(POLLWRNORM), N(POLLWRBAND), N(POLLMSG), N(POLLRDHUP),
};
constexpr NameEntry kEpollCommand[] = {N(EPOLL_CTL_ADD), N(EPOLL_CTL_DEL), N(EPOLL_CTL_MOD)};
constexpr NameEntry kEpollEvents[] = {
    {EPOLLIN, "EPOLLIN"}, {EPOLLPRI, "EPOLLPRI"}, {EPOLLOUT, "EPOLLOUT"}, {EPOLLERR, "EPOLLERR"},
    {EPOLLHUP, "EPOLLHUP"}, {EPOLLRDNORM, "EPOLLRDNORM"}, {EPOLLRDBAND, "EPOLLRDBAND"},
    {EPOLLWRNORM, "EPOLLWRNORM"}, {EPOLLWRBAND, "EPOLLWRBAND"}, {EPOLLRDHUP, "EPOLLRDHUP"},
    {EPOLLEXCLUSIVE, "EPOLLEXCLUSIVE"}, {EPOLLWAKEUP, "EPOLLWAKEUP"}, {EPOLLONESHOT, "EPOLLONESHOT"},
    {EPOLLET, "EPOLLET"},
};
constexpr NameEntry kEventfdFlags[] = {N(EFD_CLOEXEC), N(EFD_NONBLOCK), N(EFD_SEMAPHORE)};

constexpr NameEntry kClock[] = {
    N(CLOCK_REALTIME), N(CLOCK_MONOTONIC), N(CLOCK_PROCESS_CPUTIME_ID), N(CLOCK_THREAD_CPUTIME_ID),
    N(CLOCK_MONOTONIC_RAW), N(CLOCK_REALTIME_COARSE), N(CLOCK_MONOTONIC_COARSE), N(CLOCK_BOOTTIME),
    N(CLOCK_REALTIME_ALARM), N(CLOCK_BOOTTIME_ALARM), N(CLOCK_TAI),
};
constexpr NameEntry kTimerFlags[] = {N(TIMER_ABSTIME)};
constexpr NameEntry kTimerfdSetFlags[] = {N(TFD_TIMER_ABSTIME), N(TFD_TIMER_CANCEL_ON_SET)};
constexpr NameEntry kItimer[] = {N(ITIMER_REAL), N(ITIMER_VIRTUAL), N(ITIMER_PROF)};

constexpr NameEntry kCloneFlags[] = {
    {0x80, "CLONE_NEWTIME"}, N(CLONE_VM), N(CLONE_FS), N(CLONE_FILES), N(CLONE_SIGHAND), N(CLONE_PIDFD),
    N(CLONE_PTRACE), N(CLONE_VFORK), N(CLONE_PARENT), N(CLONE_THREAD), N(CLONE_NEWNS), N(CLONE_SYSVSEM),
    N(CLONE_SETTLS), N(CLONE_PARENT_SETTID), N(CLONE_CHILD_CLEARTID), N(CLONE_DETACHED), N(CLONE_UNTRACED),
    N(CLONE_CHILD_SETTID), N(CLONE_NEWCGROUP), N(CLONE_NEWUTS), N(CLONE_NEWIPC), N(CLONE_NEWUSER),
    N(CLONE_NEWPID), N(CLONE_NEWNET), {0x80000000, "CLONE_IO"},
};
constexpr NameEntry kWaitOptions[] = {
    N(WNOHANG), N(WUNTRACED), N(WEXITED), N(WCONTINUED), N(WNOWAIT), {0x20000000, "__WNOTHREAD"},
    {0x40000000, "__WALL"}, {0x80000000, "__WCLONE"},
};
constexpr NameEntry kWaitIdType[] = {N(P_ALL), N(P_PID), N(P_PGID), {3, "P_PIDFD"}};
constexpr NameEntry kSigmaskHow[] = {N(SIG_BLOCK), N(SIG_UNBLOCK), N(SIG_SETMASK)};
constexpr NameEntry kSigactionFlags[] = {
    N(SA_NOCLDSTOP), N(SA_NOCLDWAIT), N(SA_SIGINFO), {0x04000000, "SA_RESTORER"}, N(SA_ONSTACK),
    N(SA_RESTART), N(SA_NODEFER), {0x80000000, "SA_RESETHAND"},
};
constexpr NameEntry kSigstackFlags[] = {N(SS_ONSTACK), N(SS_DISABLE), {0x80000000, "SS_AUTODISARM"}};
constexpr NameEntry kFutexOp[] = {
    N(FUTEX_WAIT), N(FUTEX_WAKE), N(FUTEX_FD), N(FUTEX_REQUEUE), N(FUTEX_CMP_REQUEUE), N(FUTEX_WAKE_OP),
    N(FUTEX_LOCK_PI), N(FUTEX_UNLOCK_PI), N(FUTEX_TRYLOCK_PI), N(FUTEX_WAIT_BITSET), N(FUTEX_WAKE_BITSET),
    N(FUTEX_WAIT_REQUEUE_PI), N(FUTEX_CMP_REQUEUE_PI), {13, "FUTEX_LOCK_PI2"},
};
constexpr NameEntry kSchedPolicy[] = {
    N(SCHED_OTHER), N(SCHED_FIFO), N(SCHED_RR), N(SCHED_BATCH), N(SCHED_IDLE), N(SCHED_DEADLINE),
    {7, "SCHED_EXT"},
};
constexpr NameEntry kPriorityWhich[] = {N(PRIO_PROCESS), N(PRIO_PGRP), N(PRIO_USER)};
constexpr NameEntry kRlimit[] = {
    N(RLIMIT_CPU), N(RLIMIT_FSIZE), N(RLIMIT_DATA), N(RLIMIT_STACK), N(RLIMIT_CORE), N(RLIMIT_RSS),
    N(RLIMIT_NPROC), N(RLIMIT_NOFILE), N(RLIMIT_MEMLOCK), N(RLIMIT_AS), N(RLIMIT_LOCKS), N(RLIMIT_SIGPENDING),
    N(RLIMIT_MSGQUEUE), N(RLIMIT_NICE), N(RLIMIT_RTPRIO), N(RLIMIT_RTTIME),
};
constexpr NameEntry kRusageWho[] = {
    N(RUSAGE_SELF), {0xffffffff, "RUSAGE_CHILDREN"}, N(RUSAGE_THREAD),
};
constexpr NameEntry kPrctlOption[] = {
    N(PR_SET_PDEATHSIG), N(PR_GET_PDEATHSIG), N(PR_GET_DUMPABLE), N(PR_SET_DUMPABLE), N(PR_GET_UNALIGN),
    N(PR_SET_UNALIGN), N(PR_GET_KEEPCAPS), N(PR_SET_KEEPCAPS), N(PR_GET_FPEMU), N(PR_SET_FPEMU),
    N(PR_GET_FPEXC), N(PR_SET_FPEXC), N(PR_GET_TIMING), N(PR_SET_TIMING), N(PR_SET_NAME), N(PR_GET_NAME),
    N(PR_GET_ENDIAN), N(PR_SET_ENDIAN), N(PR_GET_SECCOMP), N(PR_SET_SECCOMP), N(PR_CAPBSET_READ),
    N(PR_CAPBSET_DROP), N(PR_GET_TSC), N(PR_SET_TSC), N(PR_GET_SECUREBITS), N(PR_SET_SECUREBITS),
    N(PR_SET_TIMERSLACK), N(PR_GET_TIMERSLACK), N(PR_TASK_PERF_EVENTS_DISABLE), N(PR_TASK_PERF_EVENTS_ENABLE),
    N(PR_MCE_KILL), N(PR_MCE_KILL_GET), N(PR_SET_MM), N(PR_SET_PTRACER), N(PR_SET_CHILD_SUBREAPER),
    N(PR_GET_CHILD_SUBREAPER), N(PR_SET_NO_NEW_PRIVS), N(PR_GET_NO_NEW_PRIVS), N(PR_GET_TID_ADDRESS),
    N(PR_SET_THP_DISABLE), N(PR_GET_THP_DISABLE), N(PR_MPX_ENABLE_MANAGEMENT), N(PR_MPX_DISABLE_MANAGEMENT),
    N(PR_SET_FP_MODE), N(PR_GET_FP_MODE), N(PR_CAP_AMBIENT), N(PR_GET_SPECULATION_CTRL),
    N(PR_SET_SPECULATION_CTRL), N(PR_SET_TAGGED_ADDR_CTRL), N(PR_GET_TAGGED_ADDR_CTRL), N(PR_SET_IO_FLUSHER),
    N(PR_GET_IO_FLUSHER), N(PR_SET_SYSCALL_USER_DISPATCH), N(PR_SCHED_CORE), {65, "PR_SET_MDWE"},
    {66, "PR_GET_MDWE"}, {67, "PR_SET_MEMORY_MERGE"}, {68, "PR_GET_MEMORY_MERGE"},
    {77, "PR_TIMER_CREATE_RESTORE_IDS"}, {78, "PR_FUTEX_HASH"}, {0x41555856, "PR_GET_AUXV"}, N(PR_SET_VMA),
};
constexpr NameEntry kArchPrctl[] = {
    N(ARCH_SET_GS), N(ARCH_SET_FS), N(ARCH_GET_FS), N(ARCH_GET_GS), N(ARCH_GET_CPUID), N(ARCH_SET_CPUID),
    {0x1021, "ARCH_GET_XCOMP_SUPP"}, {0x1022, "ARCH_GET_XCOMP_PERM"}, {0x1023, "ARCH_REQ_XCOMP_PERM"},
    {0x1024, "ARCH_GET_XCOMP_GUEST_PERM"}, {0x1025, "ARCH_REQ_XCOMP_GUEST_PERM"}, {0x3001, "ARCH_CET_STATUS"},
    {0x4001, "ARCH_GET_UNTAG_MASK"}, {0x5001, "ARCH_SHSTK_ENABLE"}, {0x5002, "ARCH_SHSTK_DISABLE"},
    {0x5003, "ARCH_SHSTK_LOCK"}, {0x5004, "ARCH_SHSTK_UNLOCK"}, {0x5005, "ARCH_SHSTK_STATUS"},
};
constexpr NameEntry kPtraceRequest[] = {
    N(PTRACE_TRACEME), N(PTRACE_PEEKTEXT), N(PTRACE_PEEKDATA), N(PTRACE_PEEKUSER), N(PTRACE_POKETEXT),
    N(PTRACE_POKEDATA), N(PTRACE_POKEUSER), N(PTRACE_CONT), N(PTRACE_KILL), N(PTRACE_SINGLESTEP),
    N(PTRACE_GETREGS), N(PTRACE_SETREGS), N(PTRACE_GETFPREGS), N(PTRACE_SETFPREGS), N(PTRACE_ATTACH),
    N(PTRACE_DETACH), N(PTRACE_SYSCALL), N(PTRACE_SETOPTIONS), N(PTRACE_GETEVENTMSG), N(PTRACE_GETSIGINFO),
    N(PTRACE_SETSIGINFO), N(PTRACE_GETREGSET), N(PTRACE_SETREGSET), N(PTRACE_SEIZE), N(PTRACE_INTERRUPT),
    N(PTRACE_LISTEN), N(PTRACE_PEEKSIGINFO), N(PTRACE_GETSIGMASK), N(PTRACE_SETSIGMASK),
    {0x420e, "PTRACE_GET_SYSCALL_INFO"}, {0x420f, "PTRACE_GET_RSEQ_CONFIGURATION"},
};
constexpr NameEntry kSeccompOp[] = {
    N(SECCOMP_SET_MODE_STRICT), N(SECCOMP_SET_MODE_FILTER), N(SECCOMP_GET_ACTION_AVAIL),
    N(SECCOMP_GET_NOTIF_SIZES),
};
constexpr NameEntry kSeccompFlags[] = {
    N(SECCOMP_FILTER_FLAG_TSYNC), N(SECCOMP_FILTER_FLAG_LOG), N(SECCOMP_FILTER_FLAG_SPEC_ALLOW),
    N(SECCOMP_FILTER_FLAG_NEW_LISTENER), N(SECCOMP_FILTER_FLAG_TSYNC_ESRCH),
};
constexpr NameEntry kKcmpType[] = {
    N(KCMP_FILE), N(KCMP_VM), N(KCMP_FILES), N(KCMP_FS), N(KCMP_SIGHAND), N(KCMP_IO), N(KCMP_SYSVSEM),
    N(KCMP_EPOLL_TFD),
};
constexpr NameEntry kPersonality[] = {
    N(UNAME26), N(ADDR_NO_RANDOMIZE), N(FDPIC_FUNCPTRS), N(MMAP_PAGE_ZERO), N(ADDR_COMPAT_LAYOUT),
    N(READ_IMPLIES_EXEC), N(ADDR_LIMIT_32BIT), N(SHORT_INODE), N(WHOLE_SECONDS), N(STICKY_TIMEOUTS),
    N(ADDR_LIMIT_3GB),
};

constexpr NameEntry kIpcFlags[] = {N(IPC_CREAT), N(IPC_EXCL), N(IPC_NOWAIT)};
constexpr NameEntry kShmFlags[] = {N(SHM_RDONLY), N(SHM_RND), N(SHM_REMAP), {0100000, "SHM_EXEC"}};
constexpr NameEntry kIpcCommand[] = {N(IPC_RMID), N(IPC_SET), N(IPC_STAT), N(IPC_INFO)};
constexpr NameEntry kSemCommand[] = {
    N(IPC_RMID), N(IPC_SET), N(IPC_STAT), N(IPC_INFO), N(GETPID), N(GETVAL), N(GETALL), N(GETNCNT),
    N(GETZCNT), N(SETVAL), N(SETALL), N(SEM_STAT), N(SEM_INFO), {20, "SEM_STAT_ANY"},
};
constexpr NameEntry kKeyctlOp[] = {
    N(KEYCTL_GET_KEYRING_ID), N(KEYCTL_JOIN_SESSION_KEYRING), N(KEYCTL_UPDATE), N(KEYCTL_REVOKE),
    N(KEYCTL_CHOWN), N(KEYCTL_SETPERM), N(KEYCTL_DESCRIBE), N(KEYCTL_CLEAR), N(KEYCTL_LINK), N(KEYCTL_UNLINK),
    N(KEYCTL_SEARCH), N(KEYCTL_READ), N(KEYCTL_INSTANTIATE), N(KEYCTL_NEGATE), N(KEYCTL_SET_REQKEY_KEYRING),
    N(KEYCTL_SET_TIMEOUT), N(KEYCTL_ASSUME_AUTHORITY), N(KEYCTL_GET_SECURITY), N(KEYCTL_SESSION_TO_PARENT),
    N(KEYCTL_REJECT), N(KEYCTL_INSTANTIATE_IOV), N(KEYCTL_INVALIDATE), N(KEYCTL_GET_PERSISTENT),
    N(KEYCTL_DH_COMPUTE), N(KEYCTL_PKEY_QUERY), N(KEYCTL_PKEY_ENCRYPT), N(KEYCTL_PKEY_DECRYPT),
    N(KEYCTL_PKEY_SIGN), N(KEYCTL_PKEY_VERIFY), N(KEYCTL_RESTRICT_KEYRING), N(KEYCTL_MOVE),
    N(KEYCTL_CAPABILITIES), N(KEYCTL_WATCH_KEY),
};
constexpr NameEntry kBpfCommand[] = {
    N(BPF_MAP_CREATE), N(BPF_MAP_LOOKUP_ELEM), N(BPF_MAP_UPDATE_ELEM), N(BPF_MAP_DELETE_ELEM),
    N(BPF_MAP_GET_NEXT_KEY), N(BPF_PROG_LOAD), N(BPF_OBJ_PIN), N(BPF_OBJ_GET), N(BPF_PROG_ATTACH),
    N(BPF_PROG_DETACH), N(BPF_PROG_TEST_RUN), N(BPF_PROG_GET_NEXT_ID), N(BPF_MAP_GET_NEXT_ID),
    N(BPF_PROG_GET_FD_BY_ID), N(BPF_MAP_GET_FD_BY_ID), N(BPF_OBJ_GET_INFO_BY_FD), N(BPF_PROG_QUERY),
    N(BPF_RAW_TRACEPOINT_OPEN), N(BPF_BTF_LOAD), N(BPF_BTF_GET_FD_BY_ID), N(BPF_LINK_CREATE),
};
constexpr NameEntry kRandomFlags[] = {N(GRND_NONBLOCK), N(GRND_RANDOM), {4, "GRND_INSECURE"}};
constexpr NameEntry kSyslogAction[] = {
    {0, "SYSLOG_ACTION_CLOSE"}, {1, "SYSLOG_ACTION_OPEN"}, {2, "SYSLOG_ACTION_READ"},
    {3, "SYSLOG_ACTION_READ_ALL"}, {4, "SYSLOG_ACTION_READ_CLEAR"}, {5, "SYSLOG_ACTION_CLEAR"},
    {6, "SYSLOG_ACTION_CONSOLE_OFF"}, {7, "SYSLOG_ACTION_CONSOLE_ON"}, {8, "SYSLOG_ACTION_CONSOLE_LEVEL"},
    {9, "SYSLOG_ACTION_SIZE_UNREAD"}, {10, "SYSLOG_ACTION_SIZE_BUFFER"},
};
constexpr NameEntry kRebootMagic[] = {
    N(LINUX_REBOOT_MAGIC1), N(LINUX_REBOOT_MAGIC2), N(LINUX_REBOOT_MAGIC2A), N(LINUX_REBOOT_MAGIC2B),
    N(LINUX_REBOOT_MAGIC2C),
};
constexpr NameEntry kRebootCommand[] = {
    N(LINUX_REBOOT_CMD_RESTART), N(LINUX_REBOOT_CMD_HALT), N(LINUX_REBOOT_CMD_CAD_ON),
    N(LINUX_REBOOT_CMD_CAD_OFF), N(LINUX_REBOOT_CMD_POWER_OFF), N(LINUX_REBOOT_CMD_RESTART2),
    N(LINUX_REBOOT_CMD_SW_SUSPEND), N(LINUX_REBOOT_CMD_KEXEC),
};
constexpr NameEntry kLandlockRule[] = {{1, "LANDLOCK_RULE_PATH_BENEATH"}, {2, "LANDLOCK_RULE_NET_PORT"}};
// clang-format on
#undef N

template <size_t n>
constexpr NameTable table(const NameEntry (&entries)[n]) {
  return {entries, n};
}

}  // namespace

NameTable name_table(Names id) {
  // clang-format off
  switch (id) {
    case Names::None: case Names::Count: return {};
    case Names::Errno: return table(kErrno);
    case Names::Signal: return table(kSignal);
    case Names::OpenFlags: return table(kOpenFlags);
    case Names::FdFlags: return table(kFdFlags);
    case Names::AtFlags: return table(kAtFlags);
    case Names::UnlinkFlags: return table(kUnlinkFlags);
    case Names::AccessFlags: return table(kAccessFlags);
    case Names::AccessMode: return table(kAccessMode);
    case Names::Whence: return table(kWhence);
    case Names::FileType: return table(kFileType);
    case Names::DescriptorFlags: return table(kDescriptorFlags);
    case Names::FcntlCommand: return table(kFcntlCommand);
    case Names::LockType: return table(kLockType);
    case Names::LeaseType: return table(kLockType);
    case Names::NotifyFlags: return table(kNotifyFlags);
    case Names::Seals: return table(kSeals);
    case Names::RwHint: return table(kRwHint);
    case Names::FlockOp: return table(kFlockOp);
    case Names::RenameFlags: return table(kRenameFlags);
    case Names::FallocateMode: return table(kFallocateMode);
    case Names::Fadvise: return table(kFadvise);
    case Names::RwFlags: return table(kRwFlags);
    case Names::SpliceFlags: return table(kSpliceFlags);
    case Names::SyncRangeFlags: return table(kSyncRangeFlags);
    case Names::XattrFlags: return table(kXattrFlags);
    case Names::StatxMask: return table(kStatxMask);
    case Names::CloseRangeFlags: return table(kCloseRangeFlags);
    case Names::MountFlags: return table(kMountFlags);
    case Names::UmountFlags: return table(kUmountFlags);
    case Names::FsmountFlags: return table(kFsmountFlags);
    case Names::MoveMountFlags: return table(kMoveMountFlags);
    case Names::OpenTreeFlags: return table(kOpenTreeFlags);
    case Names::FsconfigCommand: return table(kFsconfigCommand);
    case Names::MemfdFlags: return table(kMemfdFlags);
    case Names::InotifyMask: return table(kInotifyMask);
    case Names::FanotifyInit: return table(kFanotifyInit);
    case Names::FanotifyMark: return table(kFanotifyMark);
    case Names::QuotaCommand: return table(kQuotaCommand);
    case Names::Prot: return table(kProt);
    case Names::MapFlags: return table(kMapFlags);
    case Names::MremapFlags: return table(kMremapFlags);
    case Names::MsyncFlags: return table(kMsyncFlags);
    case Names::Madvise: return table(kMadvise);
    case Names::MlockallFlags: return table(kMlockallFlags);
    case Names::MlockFlags: return table(kMlockFlags);
    case Names::MempolicyMode: return table(kMempolicyMode);
    case Names::MempolicyFlags: return table(kMempolicyFlags);
    case Names::MembarrierCommand: return table(kMembarrierCommand);
    case Names::SocketDomain: return table(kSocketDomain);
    case Names::SocketType: return table(kSocketType);
    case Names::SocketFlags: return table(kSocketFlags);
    case Names::IpProtocol: return table(kIpProtocol);
    case Names::SocketLevel: return table(kSocketLevel);
    case Names::SocketOption: return table(kSocketOption);
    case Names::TcpOption: return table(kTcpOption);
    case Names::IpOption: return table(kIpOption);
    case Names::Ipv6Option: return table(kIpv6Option);
    case Names::MsgFlags: return table(kMsgFlags);
    case Names::ShutdownHow: return table(kShutdownHow);
    case Names::PollEvents: return table(kPollEvents);
    case Names::EpollCommand: return table(kEpollCommand);
    case Names::EpollEvents: return table(kEpollEvents);
    case Names::EventfdFlags: return table(kEventfdFlags);
    case Names::Clock: return table(kClock);
    case Names::TimerFlags: return table(kTimerFlags);
    case Names::TimerfdSetFlags: return table(kTimerfdSetFlags);
    case Names::Itimer: return table(kItimer);
    case Names::CloneFlags: return table(kCloneFlags);
    case Names::WaitOptions: return table(kWaitOptions);
    case Names::WaitIdType: return table(kWaitIdType);
    case Names::SigmaskHow: return table(kSigmaskHow);
    case Names::SigactionFlags: return table(kSigactionFlags);
    case Names::SigstackFlags: return table(kSigstackFlags);
    case Names::FutexOp: return table(kFutexOp);
    case Names::SchedPolicy: return table(kSchedPolicy);
    case Names::PriorityWhich: return table(kPriorityWhich);
    case Names::Rlimit: return table(kRlimit);
    case Names::RusageWho: return table(kRusageWho);
    case Names::PrctlOption: return table(kPrctlOption);
    case Names::ArchPrctl: return table(kArchPrctl);
    case Names::PtraceRequest: return table(kPtraceRequest);
    case Names::SeccompOp: return table(kSeccompOp);
    case Names::SeccompFlags: return table(kSeccompFlags);
    case Names::KcmpType: return table(kKcmpType);
    case Names::Personality: return table(kPersonality);
    case Names::IpcFlags: return table(kIpcFlags);
    case Names::ShmFlags: return table(kShmFlags);
    case Names::IpcCommand: return table(kIpcCommand);
    case Names::SemCommand: return table(kSemCommand);
    case Names::KeyctlOp: return table(kKeyctlOp);
    case Names::BpfCommand: return table(kBpfCommand);
    case Names::RandomFlags: return table(kRandomFlags);
    case Names::SyslogAction: return table(kSyslogAction);
    case Names::RebootMagic: return table(kRebootMagic);
    case Names::RebootCommand: return table(kRebootCommand);
    case Names::LandlockRule: return table(kLandlockRule);
  }
  // clang-format on
  return {};
}

const char* name_of(Names id, uint64_t value) {
  for (const NameEntry& e : name_table(id))
    if (e.value == value) return e.name;
  return nullptr;
}

}  // namespace backstep::guest
