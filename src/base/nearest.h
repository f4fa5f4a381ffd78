// Which of the names that exist a person may have meant: for "did you mean …?".
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace backstep {

// The candidates most like `word`, the nearest first; those that are too different to have been meant are
// left out. `most`: how many at most.
std::vector<std::string> nearest_names(std::string_view word, const std::vector<std::string>& candidates,
                                       size_t most = 3);

// "; did you mean 'open' or 'openat'?"; empty if nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace backstep
