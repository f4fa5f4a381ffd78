// Names of pipes and sockets, as the kernel gives them out (channels_hot.h).
#include "record/channels_hot.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/hot.h"
#include "guest/buffers.h"
#include "record/record_hot.h"

namespace backstep::recorder {

using namespace guest;
using recording::ChannelObject;
using recording::ChannelReason;
using recording::put_varint;
using recording::zigzag;

namespace {

constexpr long kInProgress = -115;
constexpr int kSoCookie = 57, kSoNetnsCookie = 71;
constexpr uint64_t kMostReceived = 253;  // descriptors in one message (SCM_MAX_FD)

long address(const void* p) {
  return reinterpret_cast<long>(p);
}

struct SocketName {
  uint64_t cookie = 0, net = 0;
  int family = 0, type = 0, protocol = 0, peer_pid = 0;
  uint8_t local[128], peer[128];
  uint32_t local_size = 0, peer_size = 0;
};

template <class T>
T option(int fd, int name) {
  T value{};
  uint32_t size = sizeof value;
  const long result = hot::syscall6(SYS_getsockopt, fd, SOL_SOCKET, name, address(&value), address(&size), 0);
  return result == 0 ? value : T{};
}

uint32_t ask_address(long nr, int fd, uint8_t to[128]) {
  uint32_t size = 128;
  if (hot::syscall6(nr, fd, address(to), address(&size), 0, 0, 0) != 0) return 0;
  return size < 128 ? size : 128;
}

void put_event(recording::Appender& log, ChannelReason reason, ChannelObject object, int fd, uint64_t device,
               uint64_t inode, const SocketName& s) {
  uint8_t* at = log.begin(recording::EventKind::Channel, 0, static_cast<uint16_t>(reason));
  at = put_varint(at, zigzag(fd));
  for (uint64_t v :
       {static_cast<uint64_t>(object), device, inode, s.cookie, s.net, static_cast<uint64_t>(s.family),
        static_cast<uint64_t>(s.type), static_cast<uint64_t>(s.protocol), zigzag(s.peer_pid)})
    at = put_varint(at, v);
  at = put_varint(at, s.local_size);
  hot::copy(at, s.local, s.local_size);
  at = put_varint(at + s.local_size, s.peer_size);
  hot::copy(at, s.peer, s.peer_size);
  log.commit(at + s.peer_size);
}

// `ends`: bit 0 to be read, bit 1 to be written.
void put_pipe(recording::Appender& log, ChannelReason reason, int fd, const struct stat& st, int ends) {
  SocketName s;
  s.type = ends;
  put_event(log, reason, ChannelObject::Pipe, fd, st.st_dev, st.st_ino, s);
}

bool look_at(int fd, struct stat& st) {
  return hot::syscall6(SYS_fstat, fd, address(&st), 0, 0, 0, 0) == 0;
}

enum Ask : unsigned { kKind = 1, kAddress = 2, kPeer = 4, kNamespace = 8, kCookie = 16, kPeerPid = 32 };
constexpr unsigned kAll = kKind | kAddress | kPeer | kNamespace | kCookie | kPeerPid;

void put_socket(recording::Appender& log, ChannelReason reason, int fd, SocketName& s, unsigned ask) {
  if (ask & kCookie) s.cookie = option<uint64_t>(fd, kSoCookie);
  if (ask & kNamespace) s.net = option<uint64_t>(fd, kSoNetnsCookie);
  if (ask & kKind) {
    s.family = option<int>(fd, SO_DOMAIN);
    s.type = option<int>(fd, SO_TYPE);
    s.protocol = option<int>(fd, SO_PROTOCOL);
  }
  if (ask & kAddress) s.local_size = ask_address(SYS_getsockname, fd, s.local);
  if (ask & kPeer) s.peer_size = ask_address(SYS_getpeername, fd, s.peer);
  uint16_t family = 0;
  if (s.local_size >= 2) __builtin_memcpy(&family, s.local, 2);
  if (!s.family) s.family = family;
  if ((ask & kPeerPid) && s.family == AF_UNIX) s.peer_pid = option<ucred>(fd, SO_PEERCRED).pid;
  put_event(log, reason, ChannelObject::Socket, fd, 0, 0, s);
}

void put_whatever(recording::Appender& log, ChannelReason reason, int fd) {
  struct stat st {};
  if (!look_at(fd, st)) return;
  SocketName s;
  if (S_ISFIFO(st.st_mode)) {
    const long mode = hot::syscall6(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0) & O_ACCMODE;
    put_pipe(log, reason, fd, st, mode == O_RDONLY ? 1 : mode == O_WRONLY ? 2 : 3);
  }
  if (S_ISSOCK(st.st_mode)) put_socket(log, reason, fd, s, kAll);
}

// Calls f for each descriptor that came in the message at `header`.
template <class F>
void for_each_received(uint64_t header, F&& f) {
  Msghdr m;
  if (!read_guest(header, &m) || !m.control) return;
  uint64_t left = kMostReceived;
  for (uint64_t at = 0; at + sizeof(cmsghdr) <= m.control_length;) {
    cmsghdr part;
    if (!read_guest(m.control + at, &part) || part.cmsg_len < sizeof part ||
        part.cmsg_len > m.control_length - at)
      return;
    if (part.cmsg_level == SOL_SOCKET && part.cmsg_type == SCM_RIGHTS)
      for (uint64_t i = sizeof part; i + sizeof(int) <= part.cmsg_len && left; i += sizeof(int), left--) {
        int fd;
        if (read_guest(m.control + at + i, &fd)) f(fd);
      }
    at += (part.cmsg_len + 7) & ~7ull;
  }
}

template <class F>
void for_each_received(uint64_t nr, const uint64_t args[6], int64_t result, F&& f) {
  if (nr == SYS_recvmsg) return for_each_received(args[1], f);
  for (int64_t i = 0; i < result; i++) for_each_received(args[1] + static_cast<uint64_t>(i) * kMmsgSize, f);
}

// Datagram sockets get their address with the first datagram that they send.
uint64_t* nameless(uint64_t fd) {
  return fd < kTrackedFds ? &bs_record.nameless[fd / 64] : nullptr;
}
bool is_nameless(uint64_t fd) {
  const uint64_t* word = nameless(fd);
  return word && *word >> fd % 64 & 1;
}
void set_nameless(uint64_t fd, bool on) {
  if (uint64_t* word = nameless(fd))
    *word = (*word & ~(1ull << fd % 64)) | static_cast<uint64_t>(on) << fd % 64;
}

}  // namespace

uint64_t channel_room(uint64_t nr, const uint64_t args[6], int64_t result) {
  if (bs_record.lodger) return 0;  // its descriptors are not ours
  if (hot::is_error(result)) return nr == SYS_connect && result == kInProgress ? kChannelEvent : 0;
  switch (nr) {
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
      return is_nameless(args[0]) ? kChannelEvent : 0;
    case SYS_recvmsg:
    case SYS_recvmmsg: {
      uint64_t count = 0;
      for_each_received(nr, args, result, [&](int) { count++; });
      return count * kChannelEvent;
    }
    case SYS_socketpair:
      return 2 * kChannelEvent;
    default:
      return kChannelEvent;
  }
}

void log_channels(recording::Appender& log, uint64_t nr, const uint64_t args[6], int64_t result) {
  constexpr int kTypes = 0xf;
  SocketName s;
  const auto fd = static_cast<int>(args[0]);
  switch (nr) {
    case SYS_pipe:
    case SYS_pipe2: {
      int pair[2];
      struct stat st {};
      if (read_guest(args[0], &pair) && look_at(pair[0], st))
        put_pipe(log, ChannelReason::Made, pair[0], st, 3);
      break;
    }
    case SYS_socket:
    case SYS_socketpair: {
      s.family = static_cast<int>(args[0]);
      s.type = static_cast<int>(args[1]) & kTypes;
      s.protocol = static_cast<int>(args[2]);
      int pair[2] = {static_cast<int>(result), -1};
      if (nr == SYS_socketpair && !read_guest(args[3], &pair)) break;
      for (int made : pair)
        if (made >= 0) put_socket(log, ChannelReason::Made, made, s, kCookie | kNamespace);
      if (nr == SYS_socket)
        set_nameless(static_cast<uint64_t>(result),
                     s.type == SOCK_DGRAM && (s.family == AF_INET || s.family == AF_INET6));
      break;
    }
    case SYS_accept:
    case SYS_accept4:
      put_socket(log, ChannelReason::Made, static_cast<int>(result), s, kAll & ~kKind);
      break;
    case SYS_recvmsg:
    case SYS_recvmmsg:
      for_each_received(nr, args, result, [&](int got) { put_whatever(log, ChannelReason::Received, got); });
      break;
    case SYS_connect:
      set_nameless(args[0], false);
      put_socket(log, ChannelReason::Named, fd, s, kAddress | kPeerPid);  // to whom the call has said
      break;
    case SYS_pidfd_getfd:
      put_whatever(log, ChannelReason::Received, static_cast<int>(result));
      break;
    default:  // bind, listen, the first datagram
      set_nameless(args[0], false);
      put_socket(log, ChannelReason::Named, fd, s, kAddress);
      break;
  }
}

void log_channel_at_start(recording::Appender& log, int fd) {
  put_whatever(log, ChannelReason::There, fd);
}

}  // namespace backstep::recorder
