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
std::atomic<bool> interrupt_asked = false;
struct sigaction before_interrupts;

void note_interrupt(int) {
  const int error = errno;
  interrupt_asked = true;
  if (write(interrupt_pipe[1], "", 1) < 0) {
    // The pipe is full, so it is readable.
  }
  errno = error;
}

}  // namespace

Interrupts::Interrupts() {
  if (pipe2(interrupt_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error("cannot make a pipe: " + errno_text(errno));
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  sigaction(SIGINT, &action, &before_interrupts);
  ear_.fd = interrupt_pipe[0];
  ear_.stop_wanted = [] { return asked(); };
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &before_interrupts, nullptr);
  for (int& fd : interrupt_pipe) close(std::exchange(fd, -1));
}

bool Interrupts::asked() {
  return interrupt_asked;
}

void Interrupts::forget() {
  char bytes[64];
  while (read(interrupt_pipe[0], bytes, sizeof bytes) > 0) {
  }
  interrupt_asked = false;
}

}  // namespace backstep::cli
