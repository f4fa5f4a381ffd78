// How facts are written for people: sizes, times, counts, commands, tables. Every command uses these, so that
// the same thing looks the same everywhere.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/text.h"
#include "engine/context.h"

namespace backstep::cli {

std::string format_count(uint64_t n);     // 1,234,567
std::string format_size(uint64_t bytes);  // 512 B, 1.2 kB, 34 MB
// "500MB", "1.5 GB", "4096". Throws Error.
uint64_t parse_size(const std::string& text);
std::string format_duration(int64_t ns);              // 850 ns, 1.24 ms, 3.02 s, 2 min 05 s, 3 h 12 min
std::string format_time(int64_t realtime_ns);         // 2024-05-01 13:07:22, local time
std::string format_time_iso(int64_t realtime_ns);     // 2024-05-01T11:07:22.123456789Z
std::string format_point(const ControlPoint& point);  // @TICK:0xPC

// A command as one could type it into a shell again.
std::string format_command(const std::vector<std::string>& argv);

// Cuts to `width` columns of a terminal, with "…" at the end if something was cut. UTF-8 sequences stay
// whole.
std::string shorten(const std::string& text, size_t width);

// How many columns of a terminal it takes; UTF-8.
size_t text_columns(const std::string& text);

// Columns as wide as their widest cell; the header says how to align: a leading '>' means to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the first is the header
};

}  // namespace backstep::cli
