// Whoever connects may do with the replay, and read of the recording, what its user may. A unix socket is for
// this user alone (mode 0600); a port of the local host is for all users of this machine, and gdb and IDEs on
// it expect one; anything else is for all who can reach it, and is said.
#include "serve/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace backstep::serve {
namespace {

constexpr std::string_view kUnix = "unix:";

// For the handler of signals that end a server.
char socket_to_remove[sizeof sockaddr_un{}.sun_path];

void end_by_signal(int signo) {
  unlink(socket_to_remove);
  signal(signo, SIG_DFL);
  raise(signo);
}

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  const in6_addr& a = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&a) || (IN6_IS_ADDR_V4MAPPED(&a) && a.s6_addr[12] == IN_LOOPBACKNET);
}

// One that a server which was killed has left: nobody answers.
bool is_abandoned(const sockaddr_un& address) {
  struct stat st {};
  if (lstat(address.sun_path, &st) != 0 || !S_ISSOCK(st.st_mode)) return false;
  const Fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

Listener::Listener(const std::string& where) {
  if (where.starts_with(kUnix)) {
    listen_unix(where.substr(kUnix.size()));
  } else if (where.find('/') != std::string::npos) {
    listen_unix(where);
  } else {
    listen_tcp(where);
  }
}

Listener::~Listener() {
  if (!path_.empty()) unlink(path_.c_str());
}

void Listener::listen_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    throw Error(fmt::format("cannot serve at '{}': the path of a unix socket has 1 to {} bytes", path,
                            sizeof address.sun_path - 1),
                kExitUsage);
  std::memcpy(address.sun_path, path.data(), path.size());
  if (is_abandoned(address)) unlink(path.c_str());
  fd_ = Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // Never there with other rights.
  const mode_t before = umask(0177);
  const int bound = bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int err = errno;
  umask(before);
  if (bound != 0 && err == EADDRINUSE)
    throw Error(
        fmt::format("cannot serve at {}: it is there already; remove it, or give another name", path));
  if (bound != 0 || listen(fd_.get(), 1) != 0)
    throw Error(fmt::format("cannot serve at {}: {}", path, errno_text(bound != 0 ? err : errno)));
  path_ = shown_ = path;
  std::memcpy(socket_to_remove, address.sun_path, sizeof socket_to_remove);
  for (int signo : {SIGINT, SIGTERM, SIGHUP}) signal(signo, end_by_signal);
}

void Listener::listen_tcp(const std::string& where) {
  std::string host = "127.0.0.1", port = where;
  if (size_t colon = where.rfind(':'); colon != std::string::npos) {
    if (colon > 0) host = where.substr(0, colon);
    port = where.substr(colon + 1);
  }
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (int err = getaddrinfo(host.c_str(), port.c_str(), &hints, &found))
    throw Error(
        fmt::format("cannot serve at {}: {}. Give [HOST:]PORT, for example 1234 or localhost:1234, or the "
                    "path of a unix socket, for example ./socket.",
                    where, gai_strerror(err)),
        kExitUsage);
  int err = 0;
  for (addrinfo* a = found; a && !fd_; a = a->ai_next) {
    fd_ = Fd(socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    int on = 1;
    setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd_.get(), a->ai_addr, a->ai_addrlen) != 0 || listen(fd_.get(), 1) != 0) {
      err = errno;
      fd_.reset();
    }
  }
  freeaddrinfo(found);
  if (!fd_) throw Error(fmt::format("cannot serve at {}: {}", where, errno_text(err)));
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char name[256] = "", service[32] = "";
  getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  getnameinfo(reinterpret_cast<sockaddr*>(&address), size, name, sizeof name, service, sizeof service,
              NI_NUMERICHOST | NI_NUMERICSERV);
  shown_ = fmt::format("{}:{}", name, service);
  open_to_others_ = !is_loopback(address);
}

Fd accept_connection(int listener) {
  for (;;) {
    Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd && errno == EINTR) continue;
    if (!fd) throw Error("cannot accept a connection: " + errno_text(errno));
    int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
  }
}

}  // namespace backstep::serve
