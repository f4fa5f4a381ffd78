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

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "recording/kept_sources.h"
#include "recording/library.h"
#include "recording/log_reader.h"
#include "recording/tree.h"
#include "serve/gdb_script.h"
#include "serve/gdb_server.h"
#include "serve/listener.h"
#include "symbols/symbols.h"
#include "timeline/timeline.h"
#include "timeline/times.h"

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

namespace {

bool has_terminal_front_end(const std::vector<std::string>& gdb_args) {
  return std::none_of(gdb_args.begin(), gdb_args.end(), [](const std::string& arg) {
    return arg == "-i" || arg == "-tui" || arg == "--tui" || arg.starts_with("-i=") ||
           arg.starts_with("-interpreter") || arg.starts_with("--interpreter");
  });
}

// For gdb's `echo`.
std::string for_echo(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\\' || c == ' ') out += '\\';
      out += c;
    }
  }
  return out;
}

std::string duration_text(int64_t ns) {
  const auto s = static_cast<double>(ns) / 1e9;
  return s < 1 ? fmt::format("{:.3g} ms", s * 1e3) : fmt::format("{:.1f} s", s);
}

// gdb is to read the sources that the recording has taken along. Their names are a stranger's: none may be
// more than a word of these commands.
std::string source_commands(const recording::Recording& recording) {
  const std::string folder = recording::sources_folder(recording);
  std::set<std::string>
      tops;  // two levels: deeper ones are names that the compiler was given relative to another
  std::string different;
  size_t differ = 0;
  auto is_plain = [](const std::string& name) {
    return std::none_of(name.begin(), name.end(),
                        [](unsigned char c) { return c < ' ' || c == 0x7f || strchr("'\"\\", c); });
  };
  for (const recording::KeptSource& source : recording::kept_sources(recording)) {
    const size_t first = source.path.find('/', 1);
    const std::string top =
        source.path.substr(0, source.path.find('/', first == std::string::npos ? first : first + 1));
    if (!is_plain(source.path) || top == source.path) continue;
    tops.insert(top);
    if (source.differs && differ++ == 0) different = source.path;
  }
  std::string text;
  if (!is_plain(folder)) return text;
  for (const std::string& top : tops)
    text += fmt::format("set substitute-path '{}' '{}{}'\n", top, folder, top);
  if (differ)
    text += fmt::format(
        "echo backstep: {}{} on this disk {} not what was packed with the recording; gdb shows what was "
        "packed\\n\n",
        different, differ > 1 ? fmt::format(" and {} more source files", differ - 1) : "",
        differ > 1 ? "are" : "is");
  return text;
}

bool lacks_debug_information(const recording::Library& library, const recording::Recording& recording,
                             const timeline::LogIndex& log, const std::string& exe) {
  for (const auto& file : log.files()) {
    if (file.path != exe) continue;
    try {
      return !symbols::ElfFile(library.contents_path(recording, file.key), exe).dwarf();
    } catch (const Error&) {
      return false;
    }
  }
  return false;
}

// Where we are and why; what the run was; what there is to do.
std::string banner(const recording::Library& library, const recording::Recording& recording,
                   const timeline::LogIndex& log, uint64_t process, const std::string& at) {
  std::string command, when, took, exe;
  try {
    const auto manifest = recording::Manifest::load(recording.manifest_path(process));
    exe = manifest.exe;
    for (const std::string& word : manifest.argv) command += (command.empty() ? "" : " ") + printable(word);
    const time_t second = manifest.start_ns / timeline::kSecond;
    tm local{};
    char day[32];
    if (localtime_r(&second, &local) && strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &local)) when = day;
    if (manifest.end) took = ", " + duration_text(manifest.end->duration_ns);
  } catch (const Error&) {
    command = fmt::format("process #{}", process);  // forked, and killed
  }
  constexpr size_t kMost = 70;
  if (command.size() > kMost) command = command.substr(0, kMost) + " ...";
  const size_t processes = recording.processes().size();
  const std::string bare = lacks_debug_information(library, recording, log, exe)
                               ? fmt::format(
                                     "backstep: {} has no debug information: with -g, or its -dbg package, "
                                     "there would be lines and variables\n",
                                     printable(exe))
                               : "";
  return bare + fmt::format(
                    "backstep: at {}: {}\n"
                    "  the run:   {}{}{}{}, {} ticks, {} events\n"
                    "  commands:  reverse-continue (back), goto start|end|50%, last-change X, why X, help "
                    "backstep\n",
                    at.empty()    ? "the start of the recording. Its end"
                    : at == "end" ? "the end of the recording"
                                  : fmt::format("{}. The end of the recording", printable(at)),
                    log.end_text(), command, when.empty() ? "" : ", " + when, took,
                    processes > 1 ? fmt::format(", {} processes", processes) : "", log.last().tick,
                    log.events());
}

// A server in a child process, that has the recording open: where it listens.
struct Started {
  SocketFolder folder;
  pid_t pid;
};

void remove_folder(const SocketFolder& folder) {
  unlink(folder.socket);
  rmdir(folder.path);
}

Started start_server(const ReplayOptions& options, const probe::CompanionCode& code) {
  const SocketFolder folder = make_socket_folder();
  Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, folder.socket, sizeof address.sun_path);
  if (!listener || bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), 1) != 0) {
    int err = errno;
    remove_folder(folder);
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
      remove_folder(folder);
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
    remove_folder(folder);
    size_t line = answer.find('\n');
    if (answer.starts_with('f') && line != std::string::npos)
      throw Error(answer.substr(line + 1), std::atoi(answer.c_str() + 1));
    throw Error("the replaying process ended before it was ready");
  }
  return {folder, pid};
}

void stop_server(const Started& server) {
  remove_folder(server.folder);
  kill(server.pid, SIGTERM);
}

}  // namespace

int start_gdb(const ReplayOptions& given, const probe::CompanionCode& code,
              const std::vector<ReplayOptions>& others) {
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

  const Started server = start_server(options, code);
  std::vector<Started> further;
  auto stop_all = [&] {
    stop_server(server);
    for (const Started& s : further) stop_server(s);
  };
  bool here = files_are_here(library, recording, options.process);
  try {
    for (const ReplayOptions& other : others) {
      further.push_back(start_server(other, {}));
      here = here && files_are_here(library, recording::Recording(other.recording), other.process);
    }
  } catch (...) {
    stop_all();
    throw;
  }

  std::string script = std::string(kGdbScript) + source_commands(recording);
  for (const ReplayOptions& other : others)
    if (other.recording != recording.dir()) script += source_commands(recording::Recording(other.recording));
  int commands = memfd_create("backstep-gdb-commands", 0);
  if (commands < 0 || write(commands, script.data(), script.size()) != static_cast<ssize_t>(script.size()))
    throw Error("cannot write commands for gdb: " + errno_text(errno));
  const timeline::LogIndex log(recording, options.process);
  // Debug code runs on the way forward, so that is where one begins then.
  const bool from_the_end = !code.any() && (log.end_signal() || log.was_ended());
  const std::string at = options.at.empty() && from_the_end ? "end" : options.at;
  std::vector<std::string> words{"gdb",  "-q",
                                 "-ix",  fmt::format("/proc/self/fd/{}", commands),
                                 "-iex", "set prompt (backstep) ",
                                 "-iex", here ? "set sysroot /" : "set sysroot target:"};
  // Front ends want to hear it all.
  if (has_terminal_front_end(options.gdb_args))
    words.insert(words.end(), {"-iex", "set print symbol-loading off", "-ex",
                               fmt::format("backstep-connect {}", server.folder.socket)});
  else
    words.insert(words.end(), {"-ex", fmt::format("target extended-remote {}", server.folder.socket)});
  if (!options.quiet)
    words.insert(words.end(),
                 {"-ex", "echo " + for_echo(banner(library, recording, log, options.process, at))});
  const bool from_end = !options.last_write.empty() || !options.last_change.empty();
  if (from_end || !at.empty()) words.insert(words.end(), {"-ex", "goto " + (from_end ? "end" : at)});
  if (!options.last_write.empty()) words.insert(words.end(), {"-ex", "last-write " + options.last_write});
  if (!options.last_change.empty()) words.insert(words.end(), {"-ex", "last-change " + options.last_change});
  for (size_t i = 0; i < others.size(); i++) {
    for (const std::string& command :
         {std::string("add-inferior -no-connection"), fmt::format("inferior {}", i + 2),
          fmt::format("target extended-remote {}", further[i].folder.socket), "goto " + others[i].at})
      words.insert(words.end(), {"-ex", command});
  }
  if (!others.empty()) words.insert(words.end(), {"-ex", "inferior 1"});
  words.insert(words.end(), options.gdb_args.begin(), options.gdb_args.end());
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const char* gdb = std::getenv("BACKSTEP_GDB");
  execvp(gdb && *gdb ? gdb : "gdb", argv.data());
  int err = errno;
  stop_all();
  throw Error(fmt::format("cannot start gdb: {}. Install it, or use --serve and connect a debugger yourself.",
                          errno_text(err)),
              err == ENOENT ? kExitNotFound : kExitNotExecutable);
}

}  // namespace backstep::serve
