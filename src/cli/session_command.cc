// `backstep session`: a recording that programs can ask.
#include <unistd.h>
#include <csignal>

#include "cli/asking.h"
#include "cli/commands.h"
#include "recording/tree.h"
#include "serve/rpc.h"

namespace backstep::cli {
namespace {

std::string socket_path;

void remove_socket(int signo) {
  unlink(socket_path.c_str());
  signal(signo, SIG_DFL);
  raise(signo);
}

}  // namespace

int session_command(const Args& args) {
  std::string dir, process, listen;
  ReplayOptions options;
  CommandLine line(
      "session", "[options] [DIR]",
      "A session for programs: JSON-RPC 2.0, one object per line, on stdin and stdout or on a unix socket.\n"
      "Everything that can be asked of a recording can be asked here; docs/session-protocol.md has the\n"
      "methods, and the Python package 'backstep' and the C++ library libbackstep speak it.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"info\"}' | backstep session\n"
      "  backstep session --listen /tmp/debug.socket server-3");
  line.add_option("-p,--process", process, "of this process: a pid, or #N as in 'backstep ps'")
      .type_name("PID|#N");
  line.add_option("--listen", listen, "on a unix socket at this path, which only you can reach")
      .type_name("PATH");
  line.add_engine_options(options.engine);
  line.add_option("DIR", dir);
  if (auto status = line.parse_args(args)) return *status;
  const auto library = recording::Library::standard();
  const auto recording = library.resolve(dir);
  options.recording = recording.dir();
  options.quiet = true;
  if (!process.empty()) {
    options.process = recording::find_process(recording, process);
    options.chosen = true;
  }
  if (listen.empty()) {
    serve::serve_rpc(options, library, recording, STDIN_FILENO, STDOUT_FILENO);
    return 0;
  }
  socket_path = listen;
  for (int signo : {SIGINT, SIGTERM, SIGHUP}) signal(signo, remove_socket);
  serve::listen_rpc(options, library, recording, listen);
  return 0;
}

}  // namespace backstep::cli
