// Events that are made of others: which of their matches follow from those of the simple ones.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "events/spec.h"
#include "replay/until.h"

namespace backstep::events {

// Fed with the matches of the simple events (specs_of, by their place there) in the order of time, it says
// which of them complete a match of the whole. What it remembers is of what came before only, so whoever goes
// back in time begins with a new one.
class Matcher {
 public:
  explicit Matcher(const Event& event);
  ~Matcher();
  Matcher(Matcher&&) noexcept;

  // True: the event as a whole matches here.
  bool feed(size_t spec, const replayer::Position& at);

 private:
  struct Node;
  std::unique_ptr<Node> root_;
};

}  // namespace backstep::events
