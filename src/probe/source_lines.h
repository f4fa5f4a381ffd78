// Which lines of the recorded program the lines of a source file are now.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace backstep::probe {

// A function in the source as it is now, and as it was when the recorded program was built.
struct FunctionLines {
  int first = 0;        // of its declaration
  std::set<int> lines;  // with code
};

// How lines of one function moved. Debug regions either stood in the source already, or have come since.
class LineMove {
 public:
  // `regions`: first and last lines of debug regions, as it is now; `next`: lines at which the function
  // behind it begins, now and in the recorded program, if there is one. Nothing: the function is not what it
  // was.
  static std::optional<LineMove> find(const FunctionLines& now, const FunctionLines& recorded,
                                      const std::vector<std::pair<int, int>>& regions,
                                      std::optional<std::pair<int, int>> next = {});
  int recorded(int line) const;
  int distance() const { return distance_; }
  bool regions_are_new() const { return !removed_.empty(); }

 private:
  int distance_ = 0;                          // how far the whole function moved
  std::vector<std::pair<int, int>> removed_;  // regions that are not in the recorded program
};

}  // namespace backstep::probe
