// Sessions at a unix socket: one client after the other, each with a process of its own.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fd.h"
#include "serve/rpc.h"

namespace backstep::serve {

void listen_rpc(const ReplayOptions& options, const recording::Library& library,
                const recording::Recording& recording, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw Error("the path of the socket is too long: " + path, kExitUsage);
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const mode_t before = umask(0177);
  const int bound = bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  const int error = errno;
  umask(before);
  if (bound != 0) throw Error(fmt::format("cannot listen at {}: {}", path, errno_text(error)));
  if (listen(listener.get(), 8) != 0)
    throw Error(fmt::format("cannot listen at {}: {}", path, errno_text(errno)));
  signal(SIGCHLD, SIG_IGN);  // nobody waits for them
  fmt::print(stderr, "backstep: a session is at {}; Ctrl-C ends it\n", path);
  for (;;) {
    Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      throw Error("cannot take a client: " + errno_text(errno));
    }
    // Each client has a process of its own, which ends with this one.
    const pid_t parent = getpid(), pid = fork();
    if (pid < 0) throw Error("cannot make a process for a client: " + errno_text(errno));
    if (pid > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(0);
    listener.reset();
    for (int signo : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) signal(signo, SIG_DFL);  // the socket is not its own
    serve_rpc(options, library, recording, client.get(), client.get());
    _exit(0);
  }
}

}  // namespace backstep::serve
