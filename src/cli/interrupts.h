// Ctrl-C, for commands that end what they are at and go on.
#pragma once
#include <csignal>
#include <initializer_list>
#include <utility>
#include <vector>

#include "timeline/worker.h"

namespace backstep::cli {

// While it is there, SIGINT is only noted, and so are others that are named. One at a time.
class Interrupts {
 public:
  explicit Interrupts(std::initializer_list<int> others = {});
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  static bool asked();
  static int asked_by();  // the signal; 0: nobody has asked
  static void forget();
  // For who replays meanwhile.
  const timeline::Attention& ear() const { return ear_; }

 private:
  timeline::Attention ear_;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace backstep::cli
