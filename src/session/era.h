// A stretch of a recording, from one moment to another, for whoever reads logs and replays nothing.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "recording/library.h"
#include "recording/log_reader.h"
#include "timeline/moments.h"

namespace backstep::session {

// [from, to): what happens at `to` itself is behind it. Moments (timeline/moments.h) are those of one
// process, and cut the sequence of all processes where that one comes to them; but a time of the day is the
// same for all.
class Era {
 public:
  // Empty texts: from the start, to the end. `process`: whose moments they are. Throws Error: there is no
  // such moment.
  Era(const recording::Recording& recording, uint64_t process, const std::string& from,
      const std::string& to);

  enum class Side { Before, Within, Behind };
  // Of the next event. Events of each process must come in their order, beginning with the first.
  Side side(uint64_t process, const recording::Event& event);
  // Nothing that comes now can be within.
  bool is_over() const { return to_.reached; }

 private:
  struct Edge {
    uint64_t process = 1;
    std::optional<uint64_t> event;
    std::optional<ControlPoint> point;
    std::optional<int64_t> ns;
    bool reached = false;
    bool given() const { return event || point || ns; }
  };
  Edge edge(const recording::Recording& recording, uint64_t process, const std::string& text,
            bool end_counts) const;
  bool is_behind(Edge& edge, uint64_t process, const recording::Event& event);
  bool is_behind_time(const Edge& edge, uint64_t process, const recording::Event& event);

  recording::Recording recording_;
  Edge from_, to_;
  // Ticks that a time of the day is, by process; nullopt: the process ended before.
  std::map<std::pair<int64_t, uint64_t>, std::optional<Tick>> ticks_;
};

}  // namespace backstep::session
