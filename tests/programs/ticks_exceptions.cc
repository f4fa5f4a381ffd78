// C++ exceptions and containers between two markers, linked statically (see tests/oracle/README.md why).
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "marker.h"

namespace {

int result = 0;

__attribute__((noinline)) int descend(int depth, int bottom) {
  std::string text(static_cast<size_t>(depth), 'x');
  if (depth == 0) {
    if (bottom % 2) throw std::out_of_range("odd");
    throw std::runtime_error("even");
  }
  return descend(depth - 1, bottom) + static_cast<int>(text.size());
}

void work() {
  std::map<int, std::vector<int>> table;
  for (int i = 0; i < 12; i++) {
    try {
      descend(i % 4, i);
    } catch (const std::logic_error&) {
      table[i % 5].push_back(i);
    } catch (const std::exception& error) {
      result += error.what()[0];
    }
  }
  for (auto& [key, values] : table) result += key * static_cast<int>(values.size());
}

}  // namespace

int main() {
  // The first throw of a static program sorts all unwind tables: millions of steps, so it comes before.
  try {
    throw 1;
  } catch (int) {
  }
  run_between_markers(work);
  return result == 6 * 'e' + 11 ? 0 : 1;
}
