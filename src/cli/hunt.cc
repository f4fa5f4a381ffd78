// A bug that shows once in a thousand runs is recorded by a thousand recordings, of which one is kept. Each
// run is a process of its own, since the recorder becomes the program; it says which folder it has made.
//
// Ctrl-C goes to the program, too, and ends the hunt. Whoever presses it may do so because the program hangs,
// which is the failure that was looked for: that recording stays.
#include "cli/hunt.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fd.h"
#include "cli/format.h"
#include "recording/library.h"
#include "recording/log_packer.h"

namespace backstep::cli {
namespace {

volatile sig_atomic_t asked_to_end = 0;

// While it lives, signals that mean the hunt are only noted; the program has them as they were.
class Ear {
 public:
  Ear() {
    struct sigaction note {};
    note.sa_handler = [](int signo) { asked_to_end = signo; };
    for (size_t i = 0; i < std::size(kSignals); i++) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      // One that is ignored stays so, as under nohup.
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &note, nullptr);
    }
  }
  ~Ear() { give_back(); }
  Ear(const Ear&) = delete;
  Ear& operator=(const Ear&) = delete;
  void give_back() const {
    for (size_t i = 0; i < std::size(kSignals); i++) sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
  struct sigaction before_[4];
};

struct Run {
  int status = 0;         // as of wait()
  std::string recording;  // its folder; empty: it did not come so far

  int shell_status() const { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }
  std::string how() const {
    if (!WIFSIGNALED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
    const char* name = sigabbrev_np(WTERMSIG(status));
    return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", WTERMSIG(status));
  }
};

Run run_once(RecordOptions options, const Ear& ear) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("cannot make a pipe: " + errno_text(errno));
  Fd from(ends[0]), to(ends[1]);
  options.quiet = true;
  options.pack = false;  // most are removed at once
  const pid_t child = fork();
  if (child < 0) throw Error("cannot start another process: " + errno_text(errno));
  if (child == 0) {
    from.reset();
    ear.give_back();
    options.made = [&](const std::string& dir) {
      (void)!write(to.get(), dir.data(), dir.size());
      to.reset();
    };
    int status = 0;
    try {
      status = record(options);
    } catch (const std::exception& e) {
      status = tell(e);
    }
    _exit(status);
  }
  to.reset();
  Run run;
  char part[4096];
  for (ssize_t n; (n = read(from.get(), part, sizeof part)) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) run.recording.append(part, static_cast<size_t>(n));
  while (waitpid(child, &run.status, 0) < 0 && errno == EINTR) continue;
  return run;
}

bool has_failed(const Run& run, const Hunt& hunt) {
  if (hunt.fail_if.empty()) return run.status != 0;
  setenv("BACKSTEP_RECORDING", run.recording.c_str(), 1);
  setenv("BACKSTEP_STATUS", std::to_string(run.shell_status()).c_str(), 1);
  const int status = system(hunt.fail_if.c_str());
  unsetenv("BACKSTEP_RECORDING");
  unsetenv("BACKSTEP_STATUS");
  if (status == -1) throw Error("cannot run the command of --fail-if: " + errno_text(errno));
  return status == 0;
}

// As the program ended.
int end_like(const Run& run) {
  if (!WIFSIGNALED(run.status)) return WEXITSTATUS(run.status);
  const int signo = WTERMSIG(run.status);
  const rlimit none{0, 0};  // it has left its core file, if it was to
  setrlimit(RLIMIT_CORE, &none);
  signal(signo, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signo);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  fflush(stdout), fflush(stderr);
  raise(signo);
  return run.shell_status();
}

std::string runs_text(uint64_t n) {
  return fmt::format("{} run{}", format_count(n), n == 1 ? "" : "s");
}

}  // namespace

uint32_t random_seed() {
  uint32_t seed = 0;
  (void)!getrandom(&seed, sizeof seed, 0);
  return seed;
}

int run_until_failure(const RecordOptions& options, const Hunt& hunt) {
  const recording::Library library = recording::Library::standard();
  const bool on_terminal = isatty(STDERR_FILENO);
  Run run;
  uint64_t passed = 0;
  std::string why;
  {
    const Ear ear;
    for (; !hunt.most || passed < hunt.most; passed++) {
      if (on_terminal && !options.quiet)
        fmt::print(stderr, "backstep: run {}{}\n", format_count(passed + 1),
                   hunt.most ? fmt::format(" of {}", format_count(hunt.most)) : "");
      RecordOptions again = options;
      if (options.chaos) again.chaos = hunt.new_seeds ? random_seed() : *options.chaos + passed;
      run = run_once(again, ear);
      if (run.recording.empty()) return run.shell_status();  // it has said why
      if (asked_to_end) why = "was interrupted";
      if (why.empty() && has_failed(run, hunt)) why = "has failed";
      if (!why.empty()) break;
      library.remove(recording::Recording(run.recording));
    }
  }
  library.collect_garbage();
  if (why.empty()) {
    if (!options.quiet) fmt::print(stderr, "backstep: no failure in {}\n", runs_text(passed));
    return 0;
  }
  if (options.pack) recording::pack_logs(recording::Recording(run.recording), false, true);
  if (!options.quiet)
    fmt::print(stderr, "backstep: run {} {} ({}); its recording is {}\n", format_count(passed + 1), why,
               run.how(), run.recording);
  return end_like(run);
}

}  // namespace backstep::cli
