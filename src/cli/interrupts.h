// Ctrl-C, for commands that end what they are at and go on.
#pragma once
#include "timeline/worker.h"

namespace backstep::cli {

// While it is there, SIGINT is only noted. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  static bool asked();
  static void forget();
  // For who replays meanwhile.
  const timeline::Attention& ear() const { return ear_; }

 private:
  timeline::Attention ear_;
};

}  // namespace backstep::cli
