// How a user names a moment of a recording: `goto` in gdb and `--from`, `--to` of the commands have this one
// grammar.
//
//     start, end         first and last moment
//     48211, @48211      the start of a tick
//     @48211:0x401136    a control point
//     event 106          an event of the log, as `dump` numbers them; also event:106
//     42%                of the run's ticks
//     14:03:22.5, +1.5s  a time of the day, or from the start of the recording on (+200ms, +2m)
//     NAME               a bookmark
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/context.h"
#include "recording/library.h"

namespace backstep::timeline {

struct MomentName {
  enum Kind { Start, End, Event, Percent, Time, Point } kind = Start;
  uint64_t event = 0;               // Event: number in the log
  double percent = 0;               // Percent
  int64_t ns = 0;                   // Time: since 1970
  ControlPoint point;               // Point: without pc, the start of the tick
  std::optional<uint64_t> process;  // a bookmark's: the log that it is in
};

// Only the words that belong to the moment are looked at. Throws Error: what it is not.
MomentName parse_moment(const std::string& text, const recording::Recording& recording);

// "@TICK:0xPC", "@TICK"; nullopt: something else.
std::optional<ControlPoint> parse_point(const std::string& text);
std::string point_text(Tick tick, Address pc = 0);

// Of a user's own places in the recording: name -> {at, process, note}. What is not of that form is left out.
nlohmann::ordered_json load_bookmarks(const recording::Recording& recording);
std::string bookmarks_path(const recording::Recording& recording);
// Keeps a moment of a process under a name, which may have had another one; throws Error: what the name
// cannot be.
void add_bookmark(const recording::Recording& recording, const std::string& name, uint64_t process,
                  const ControlPoint& at, const std::string& note);
bool remove_bookmark(const recording::Recording& recording, const std::string& name);  // false: there is none

// Words that mean something to `goto`, so that no bookmark can have them as a name.
bool is_moment_word(std::string_view word);

}  // namespace backstep::timeline
