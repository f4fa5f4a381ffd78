// The handler writes a byte into a pipe, which whoever waits for workers listens to as well.
#include "cli/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/error.h"

namespace backstep::cli {
namespace {

int interrupt_pipe[2] = {-1, -1};
std::atomic<int> interrupt_asked = 0;  // the signal

void note_interrupt(int signal) {
  const int error = errno;
  interrupt_asked = signal;
  if (write(interrupt_pipe[1], "", 1) < 0) {
    // The pipe is full, so it is readable.
  }
  errno = error;
}

}  // namespace

Interrupts::Interrupts(std::initializer_list<int> others) {
  if (pipe2(interrupt_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error("cannot make a pipe: " + errno_text(errno));
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  std::vector<int> signals = {SIGINT};
  signals.insert(signals.end(), others);
  for (int signal : signals) {
    struct sigaction before {};
    sigaction(signal, &action, &before);
    // One that is ignored (nohup) stays so.
    if (before.sa_handler == SIG_IGN && signal != SIGINT) sigaction(signal, &before, nullptr);
    before_.emplace_back(signal, before);
  }
  ear_.fd = interrupt_pipe[0];
  ear_.stop_wanted = [] { return asked(); };
}

Interrupts::~Interrupts() {
  for (const auto& [signal, before] : before_) sigaction(signal, &before, nullptr);
  for (int& fd : interrupt_pipe) close(std::exchange(fd, -1));
}

bool Interrupts::asked() {
  return interrupt_asked != 0;
}

int Interrupts::asked_by() {
  return interrupt_asked;
}

void Interrupts::forget() {
  char bytes[64];
  while (read(interrupt_pipe[0], bytes, sizeof bytes) > 0) {
  }
  interrupt_asked = 0;
}

}  // namespace backstep::cli
