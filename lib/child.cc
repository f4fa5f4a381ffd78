// The program that the library is part of must not notice that we start another one, nor may that one depend
// on what the program has made of its process:
//
//  * Stdin and stdout of the child are one socket. Writing to a child that is gone is then an error
//    (MSG_NOSIGNAL), where a pipe would raise SIGPIPE in a process whose signals are none of our business.
//    And shutdown() ends the conversation even if a copy of our end lives on in a process that the program
//    has forked.
//  * Its stderr is a file in memory: nobody has to read it while the child runs, and what it last said is
//    there when it has ended.
//  * All descriptors are close-on-exec, and none is below 3: a program that has closed its stdout, and
//    prints, would write into the conversation. The child closes what it inherits of the program's: else it
//    would keep pipes of the program open.
//  * The child has the default signal handling, an empty mask, and a process group of its own: Ctrl-C is for
//    the program, which may want to cancel a question and no more.
#include "child.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <backstep/error.h>

extern char** environ;

namespace backstep {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);  // with a child that ought to end

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(what + ": " + std::strerror(error));
}

Fd above_stdio(int fd) {
  Fd low(fd);
  if (fd < 0) fail("cannot make what a session needs", errno);
  if (fd > STDERR_FILENO) return low;
  Fd high(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (high.get() < 0) fail("cannot make what a session needs", errno);
  return high;
}

// The program that was installed with this library; empty: it is not there.
std::string beside_library() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&beside_library), &info) || !info.dli_fname) return {};
  const std::string library = info.dli_fname;
  const size_t slash = library.rfind('/');
  if (slash == std::string::npos) return {};
  const std::string program = library.substr(0, slash + 1) + BACKSTEP_FROM_LIBRARY;
  return access(program.c_str(), X_OK) == 0 ? program : std::string();
}

class Spawn {
 public:
  Spawn(const Fd& socket, const Fd& stderr_file) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, socket.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, socket.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, stderr_file.get(), STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  // 0, or why not. A program without a slash is searched in PATH.
  int operator()(const std::string& program, const std::vector<std::string>& args, pid_t* pid) const {
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    return posix_spawnp(pid, program.c_str(), &actions_, &attributes_, argv.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

int Fd::release() {
  return std::exchange(fd_, -1);
}

Child::Child(const std::string& program, const std::vector<std::string>& args) : owner_(getpid()) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    fail("cannot make what a session needs", errno);
  Fd theirs(ends[1]);
  socket_ = above_stdio(ends[0]);
  theirs = above_stdio(theirs.release());
  stderr_ = above_stdio(memfd_create("backstep-session", MFD_CLOEXEC));

  const Spawn spawn(theirs, stderr_);
  std::string name = program;
  if (const char* environment = std::getenv("BACKSTEP"); environment && name.empty()) name = environment;
  const bool chosen = !name.empty();
  if (!chosen) name = "backstep";
  int error = spawn(name, args, &pid_);
  if (error == ENOENT && !chosen)
    if (const std::string beside = beside_library(); !beside.empty()) error = spawn(beside, args, &pid_);
  if (error == 0) return;
  pid_ = -1;
  if (error == ENOENT)
    throw Error("there is no program '" + name + "': install Backstep, or set BACKSTEP to its path");
  fail("cannot start '" + name + "'", error);
}

void Child::put(const std::string& line) {
  const std::string all = line + '\n';
  for (size_t done = 0; done < all.size();) {
    const ssize_t n = send(socket_.get(), all.data() + done, all.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

std::optional<std::string> Child::next() {
  for (;;) {
    const size_t end = read_.find('\n', std::max(taken_, searched_));
    if (end != std::string::npos) {
      std::string line = read_.substr(taken_, end - taken_);
      taken_ = end + 1;
      return line;
    }
    read_.erase(0, taken_);
    taken_ = 0;
    searched_ = read_.size();
    constexpr size_t kAtOnce = 1 << 16;
    read_.resize(searched_ + kAtOnce);
    ssize_t n;
    do n = recv(socket_.get(), read_.data() + searched_, kAtOnce, 0);
    while (n < 0 && errno == EINTR);
    read_.resize(searched_ + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n <= 0) return std::nullopt;
  }
}

void Child::end() {
  // A copy of ours in a forked process must leave the conversation, and the child of another one, alone.
  const bool ours = owner_ == getpid();
  if (ours && socket_.get() >= 0) shutdown(socket_.get(), SHUT_RDWR);
  socket_ = Fd();
  if (pid_ < 0 || !ours) return;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  auto nap = std::chrono::milliseconds(1);
  // Not our child any more (ECHILD): the program has waited for all its children, ours included.
  while (waitpid(pid_, &status_, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) kill(pid_, SIGKILL);
    std::this_thread::sleep_for(nap);
    nap = std::min(2 * nap, std::chrono::milliseconds(50));
  }
  pid_ = -1;
}

std::string Child::last_words() {
  end();
  std::string said;
  char bytes[4096];
  while (true) {
    const ssize_t n = pread(stderr_.get(), bytes, sizeof bytes, static_cast<off_t>(said.size()));
    if (n <= 0) break;
    said.append(bytes, static_cast<size_t>(n));
  }
  while (!said.empty() && std::strchr(" \n", said.back())) said.pop_back();
  if (said.starts_with("backstep: ")) said.erase(0, std::strlen("backstep: "));
  if (WIFSIGNALED(status_)) {
    const char* name = sigabbrev_np(WTERMSIG(status_));
    const std::string by = "the session was ended by SIG" + std::string(name ? name : "?");
    return said.empty() ? by : by + ": " + said;
  }
  return said.empty() ? "the session has ended" : said;
}

}  // namespace backstep
