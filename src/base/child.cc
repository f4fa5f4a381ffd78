// Programs are started in sessions of their own: a Ctrl-C at the terminal then reaches only us, and we end
// them in the right order (a job of Slurm is cancelled there, not by killing what watches it). If we are
// killed without being asked, the kernel ends them.
#include "base/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"

namespace backstep {
namespace {

constexpr auto kTimeToEnd = std::chrono::seconds(2);

// A server does not want to hear how its children end, and then the kernel does not say it.
class ChildrenAreHeard {
 public:
  ChildrenAreHeard() {
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &usual, &before_);
  }
  ~ChildrenAreHeard() { sigaction(SIGCHLD, &before_, nullptr); }
  ChildrenAreHeard(const ChildrenAreHeard&) = delete;
  ChildrenAreHeard& operator=(const ChildrenAreHeard&) = delete;

 private:
  struct sigaction before_ {};
};

[[noreturn]] void become(const std::vector<std::string>& command, const ChildOptions& options, int tell,
                         pid_t parent) {
  if (options.own_session) setsid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kExitFailure);
  signal(SIGINT, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  const int errors = options.errors >= 0 ? options.errors : nothing;
  const int output = options.output >= 0 ? options.output : errors;
  // Descriptors of ours may be 0 to 2 if they were closed: copies are not.
  const int in = fcntl(options.input >= 0 ? options.input : nothing, F_DUPFD_CLOEXEC, 3);
  const int out = fcntl(output, F_DUPFD_CLOEXEC, 3), err = fcntl(errors, F_DUPFD_CLOEXEC, 3);
  dup2(in, STDIN_FILENO), dup2(out, STDOUT_FILENO), dup2(err, STDERR_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  if (options.folder.empty() || chdir(options.folder.c_str()) == 0) execvp(words[0], words.data());
  const int error = errno;
  if (write(tell, &error, sizeof error) < 0) _exit(kExitFailure);
  _exit(kExitNotFound);
}

std::string text_of(int fd) {
  std::string text;
  char bytes[4096];
  for (off_t at = 0;;) {
    const ssize_t n = pread(fd, bytes, sizeof bytes, at);
    if (n <= 0) return text;
    text.append(bytes, static_cast<size_t>(n));
    at += n;
  }
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const ChildOptions& options) {
  int told[2];
  if (pipe2(told, O_CLOEXEC) != 0) throw Error("cannot make a pipe: " + errno_text(errno));
  const Fd reading(told[0]);
  Fd writing(told[1]);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw Error("cannot make a process: " + errno_text(errno));
  if (pid_ == 0) become(command, options, writing.get(), parent);
  writing.reset();
  int error = 0;
  ssize_t n;
  do n = read(reading.get(), &error, sizeof error);
  while (n < 0 && errno == EINTR);
  if (n != sizeof error) return;  // it was executed
  wait();
  throw Error(fmt::format("cannot run {}: {}{}", command[0], errno_text(error),
                          options.advice.empty() ? "" : "; " + options.advice));
}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    stop();
    pid_ = std::exchange(other.pid_, -1);
  }
  return *this;
}

std::optional<int> Child::ended() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  return status;
}

int Child::wait() {
  int status = 0;
  while (pid_ > 0 && waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

void Child::stop() {
  if (pid_ <= 0) return;
  const pid_t session = getsid(pid_) == pid_ ? -pid_ : pid_;
  kill(session, SIGTERM);
  const auto end = std::chrono::steady_clock::now() + kTimeToEnd;
  while (!ended() && pid_ > 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(session, SIGKILL);
      wait();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string end_text(int status) {
  return WIFSIGNALED(status) ? fmt::format("killed by signal {}", WTERMSIG(status))
                             : fmt::format("exit status {}", WEXITSTATUS(status));
}

Finished run_to_end(const std::vector<std::string>& command, const std::string& input, ChildOptions options) {
  auto memory = [](const char* name) {
    Fd fd(memfd_create(name, MFD_CLOEXEC));
    if (!fd) throw Error("cannot make a memory file: " + errno_text(errno));
    return fd;
  };
  const Fd in = memory("backstep-input"), out = memory("backstep-output"), err = memory("backstep-errors");
  if (pwrite(in.get(), input.data(), input.size(), 0) != static_cast<ssize_t>(input.size()))
    throw Error("cannot write to a memory file: " + errno_text(errno));
  options.input = in.get(), options.output = out.get(), options.errors = err.get();
  const ChildrenAreHeard heard;
  Child child(command, options);
  Finished f;
  f.status = child.wait();
  f.output = text_of(out.get());
  f.errors = text_of(err.get());
  return f;
}

}  // namespace backstep
