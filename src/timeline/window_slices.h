// What short stretches of the run (slices) write to, as far as this session knows. A search for the last
// store to a few bytes finds that out on its way (search_sliced.cc), and the next one, for other bytes, has
// the use of it.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "recording/contents.h"
#include "timeline/worker.h"

namespace backstep::timeline {

class WindowSlices {
 public:
  struct Part {
    Position from, to;  // [from, to)
  };

  // Can only what changes memory match them?
  static bool can_tell(const Taps& taps);
  void add(const Position& from, const Position& to, recording::Contents contents);
  // From `from` on it is known without a gap up to there; `from`: nothing is.
  Position known_until(const Position& from) const;
  // The slices of [from, to), or what of them lies in it, in which the taps can match; gaps count as such. In
  // the order of time.
  std::vector<Part> candidates(const Position& from, const Position& to, const Taps& taps) const;
  // Can none of the taps match in [from, to)? False: perhaps.
  bool quiet(const Position& from, const Position& to, const Taps& taps) const {
    return !slices_.empty() && can_tell(taps) && candidates(from, to, taps).empty();
  }

 private:
  struct Slice {
    Position to;
    recording::Contents contents;
  };
  std::map<Position, Slice> slices_;  // by their beginnings
  std::deque<Position> order_;        // those that were added first come first
  uint64_t bytes_ = 0;                // of all contents
};

// What a timeline knows about looking through windows in slices.
struct Slicing {
  WindowSlices slices;
  bool able = true;             // what the program writes to can be followed so
  double take_seconds = 0.001;  // that it takes to ask what a slice has written to
};

}  // namespace backstep::timeline
