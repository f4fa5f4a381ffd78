// Starting a server, alone or with gdb in front of it.
//
// With gdb: this process becomes gdb, so that the terminal, job control and the exit status are gdb's own;
// the server is a child in a session of its own, connected by a socket in a private folder that is removed at
// once. gdb's commands of ours are in a memory file that it reads at its start.
#include "serve/serve.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"
#include "recording/library.h"
#include "recording/log_reader.h"
#include "recording/tree.h"
#include "serve/gdb_script.h"
#include "serve/gdb_server.h"
#include "serve/listener.h"
#include "timeline/timeline.h"

namespace backstep::serve {
namespace {

struct Service {
  recording::Library library = recording::Library::standard();
  recording::Recording recording;
  GdbServer server;

  Service(const ReplayOptions& options, const probe::CompanionCode& code, bool scripted)
      : recording(library.resolve(options.recording)), server(options, library, recording, code, scripted) {}
};

// All that was mapped, with the keys of the contents: by one process, or by all, since gdb may come to
// others. nullopt: there are so many that looking takes too long.
std::optional<std::set<std::pair<std::string, std::string>>> mapped_files(
    const recording::Recording& recording, uint64_t process) {
  constexpr uintmax_t kQuicklyRead = 64 << 20;
  std::set<std::pair<std::string, std::string>> files;
  const std::vector<uint64_t> all = recording.processes();
  if (all.size() == 1) {
    timeline::LogIndex log(recording, process);
    for (const auto& file : log.files()) files.emplace(file.path, file.key);
    return files;
  }
  uintmax_t total = 0;
  for (uint64_t number : all) {
    std::error_code failed;
    total += std::filesystem::file_size(recording.log_path(number), failed);
    if (failed || total > kQuicklyRead) return std::nullopt;
    try {
      recording::LogReader log(recording.log_path(number));
      for (recording::Event event; log.next(event);)
        if (event.kind == recording::EventKind::Map && !event.key.empty())
          files.emplace(event.text, event.key);
    } catch (const Error&) {
      continue;  // a process that was killed before it had a log
    }
  }
  return files;
}

// Are the files that the programs mapped still the ones of this machine? Then gdb may read them itself, which
// is faster (and quieter) than to fetch them from the recording through us.
// Other mapped files (ld.so.cache, locales) are none of gdb's business, and change with every installation.
bool files_are_here(const recording::Library& library, const recording::Recording& recording,
                    uint64_t process) {
  constexpr off_t kAtMost = 1 << 30;
  auto is_elf = [&](const std::string& key) {
    char magic[SELFMAG] = "";
    Fd stored(open(library.contents_path(recording, key).c_str(), O_RDONLY | O_CLOEXEC));
    return !stored || (read(stored.get(), magic, sizeof magic) == sizeof magic &&
                       std::memcmp(magic, ELFMAG, SELFMAG) == 0);
  };
  const std::optional<std::set<std::pair<std::string, std::string>>> files = mapped_files(recording, process);
  if (!files) return false;
  off_t total = 0;
  for (auto& [path, key] : *files) {
    if (!is_elf(key)) continue;
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat st {};
    if (!fd || fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode) || (total += st.st_size) > kAtMost ||
        !recording::Store::matches(fd.get(), key))
      return false;
  }
  return true;
}

// The private folder with the socket that gdb connects to. Plain memory: a signal handler removes it. The
// folder is locked while somebody will remove it.
struct SocketFolder {
  char path[sizeof sockaddr_un::sun_path];
  char socket[sizeof sockaddr_un::sun_path];
  int lock;
};
constexpr const char kSocketFolder[] = "backstep-gdb.", kSocket[] = "/socket";

int open_locked(const char* folder) {
  const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return -1;
}

// A server that was killed (kill -9) before gdb connected has left its folder: nobody holds the lock.
void remove_stale_folders(const std::string& parent) {
  constexpr std::chrono::minutes kGrace(1);  // one that was made just now may not be locked yet
  std::error_code failed;
  for (std::filesystem::directory_iterator it(parent, failed), end; !failed && it != end;
       it.increment(failed)) {
    const std::string path = it->path();
    struct stat st {};
    if (!it->path().filename().string().starts_with(kSocketFolder) || lstat(path.c_str(), &st) != 0 ||
        !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        std::chrono::system_clock::from_time_t(st.st_mtime) + kGrace > std::chrono::system_clock::now())
      continue;
    Fd lock(open_locked(path.c_str()));
    if (!lock) continue;
    unlink((path + kSocket).c_str());
    rmdir(path.c_str());
  }
}

SocketFolder make_socket_folder() {
  std::error_code failed;
  std::string parent = std::filesystem::temp_directory_path(failed);  // $TMPDIR, else /tmp
  const std::string name =
      "/" + std::string(kSocketFolder) + std::string(6, 'X');  // mkdtemp fills in the last six
  SocketFolder f{};
  if (failed || parent.size() + name.size() + sizeof kSocket > sizeof f.path) parent = "/tmp";
  remove_stale_folders(parent);
  fmt::format_to_n(f.path, sizeof f.path - 1, "{}{}", parent, name);
  if (!mkdtemp(f.path)) throw Error(fmt::format("cannot make a folder in {}: {}", parent, errno_text(errno)));
  f.lock = open_locked(f.path);
  fmt::format_to_n(f.socket, sizeof f.socket - 1, "{}{}", f.path, kSocket);
  return f;
}

const SocketFolder* abandoned_folder = nullptr;

void remove_abandoned_folder(int) {
  unlink(abandoned_folder->socket);
  rmdir(abandoned_folder->path);
  _exit(1);
}

}  // namespace

int serve(const ReplayOptions& options, const probe::CompanionCode& code) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);
  Service service(options, code, false);
  const Listener listener(options.serve);
  if (!options.quiet)
    fmt::print(stderr, "backstep: serving {} at {}; connect with: gdb -ex 'target extended-remote {}'\n",
               service.recording.name(), listener.shown(), listener.shown());
  if (listener.is_open_to_others())
    fmt::print(
        stderr,
        "backstep: warning: whoever can reach {} controls this replay and reads all that was recorded; safer "
        "are a port alone (this machine only) with an ssh tunnel, or a unix socket (--serve ./socket)\n",
        listener.shown());
  for (;;) {
    GdbServer::Left left = service.server.serve(listener.accept_one());
    if (left == GdbServer::Left::Killed) return 0;
  }
}

int start_gdb(const ReplayOptions& given, const probe::CompanionCode& code) {
  ReplayOptions options = given;
  signal(SIGPIPE, SIG_IGN);
  // The recording is looked at before gdb is started: what is wrong with it is told here.
  const recording::Library library = recording::Library::standard();
  recording::Recording recording = library.resolve(options.recording);
  const recording::Manifest manifest = recording.manifest();
  // A program that was started by a wrapper, and died of a signal: that is what the user wants to see.
  const recording::Final last = recording::final_end(recording, manifest.end);
  if (!options.chosen && options.at.empty() && last.end && last.end->kind == recording::EndKind::Signal)
    options.process = last.process;

  const SocketFolder folder = make_socket_folder();
  const std::string path = folder.socket;
  auto remove_folder = [&] {
    unlink(folder.socket);
    rmdir(folder.path);
  };
  Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, folder.socket, sizeof address.sun_path);
  if (!listener || bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), 1) != 0) {
    int err = errno;
    remove_folder();
    throw Error("cannot make a socket for gdb: " + errno_text(err));
  }
  // The server tells when it is ready, or why it cannot be.
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) throw Error("cannot make a pipe: " + errno_text(errno));
  const pid_t parent = getpid();
  fflush(nullptr);
  pid_t pid = fork();
  if (pid < 0) throw Error("cannot start a process: " + errno_text(errno));
  if (pid == 0) {
    ::close(ready[0]);
    setsid();  // not for the terminal's Ctrl-C: gdb sends its own
    signal(SIGCHLD, SIG_IGN);
    // gdb may end before it connects, and so may what becomes gdb.
    abandoned_folder = &folder;
    signal(SIGTERM, remove_abandoned_folder);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) remove_abandoned_folder(SIGTERM);
    std::string failure;
    int status = 0;
    try {
      Service service(options, code, true);
      if (write(ready[1], "r", 1) != 1) _exit(1);
      ::close(ready[1]);
      pollfd p{listener.get(), POLLIN, 0};
      int got;
      do got = poll(&p, 1, -1);
      while (got < 0 && errno == EINTR);
      Fd connection = accept_connection(listener.get());
      remove_folder();
      ::close(folder.lock);
      signal(SIGTERM, SIG_DFL);
      listener.reset();
      service.server.serve(std::move(connection));
    } catch (const Error& e) {
      failure = e.what();
      status = e.exit_code;
    }
    if (!failure.empty()) {
      std::string message = fmt::format("f{}\n{}", status, failure);
      [[maybe_unused]] ssize_t n = write(ready[1], message.data(), message.size());
    }
    _exit(status);
  }
  ::close(ready[1]);
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = read(ready[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) answer.append(buffer, static_cast<size_t>(n));
  if (answer != "r") {
    remove_folder();
    size_t line = answer.find('\n');
    if (answer.starts_with('f') && line != std::string::npos)
      throw Error(answer.substr(line + 1), std::atoi(answer.c_str() + 1));
    throw Error("the replaying process ended before it was ready");
  }

  int commands = memfd_create("backstep-gdb-commands", 0);
  if (commands < 0 ||
      write(commands, kGdbScript.data(), kGdbScript.size()) != static_cast<ssize_t>(kGdbScript.size()))
    throw Error("cannot write commands for gdb: " + errno_text(errno));
  std::vector<std::string> words{
      "gdb",  "-q",
      "-ix",  fmt::format("/proc/self/fd/{}", commands),
      "-iex", "set prompt (backstep) ",
      "-iex", files_are_here(library, recording, options.process) ? "set sysroot /" : "set sysroot target:",
      "-ex",  "target extended-remote " + path};
  // Debug code runs on the way forward, so that is where one begins then.
  const std::string at =
      options.at.empty() && !code.any() && timeline::LogIndex(recording, options.process).end_signal()
          ? "end"
          : options.at;
  if (!options.quiet) {
    words.push_back("-ex");
    words.push_back(
        at == "end"
            ? "echo backstep: reverse-continue, reverse-step, reverse-finish, watch and the like go back "
              "from here; `goto start`,\\n`last-change` and `monitor help` do more.\\n"
        : at.empty()
            ? "echo backstep: at the start of the recording. `continue` goes to the end, "
              "reverse-continue, reverse-step,\\nreverse-finish, watch and the like go back; `goto`, "
              "`last-change` and `monitor help` do more.\\n"
            : "echo \\n");
  }
  const bool from_end = !options.last_write.empty() || !options.last_change.empty();
  if (from_end || !at.empty()) words.insert(words.end(), {"-ex", "goto " + (from_end ? "end" : at)});
  if (!options.last_write.empty()) words.insert(words.end(), {"-ex", "last-write " + options.last_write});
  if (!options.last_change.empty()) words.insert(words.end(), {"-ex", "last-change " + options.last_change});
  words.insert(words.end(), options.gdb_args.begin(), options.gdb_args.end());
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const char* gdb = std::getenv("BACKSTEP_GDB");
  execvp(gdb && *gdb ? gdb : "gdb", argv.data());
  int err = errno;
  remove_folder();
  kill(pid, SIGTERM);
  throw Error(fmt::format("cannot start gdb: {}. Install it, or use --serve and connect a debugger yourself.",
                          errno_text(err)),
              err == ENOENT ? kExitNotFound : kExitNotExecutable);
}

}  // namespace backstep::serve
