// The distance of two words is the number of letters to insert, drop, replace or swap with their neighbour
// (Damerau-Levenshtein, in the form that touches no letter twice). A name that holds the whole word
// ('newfstatat' for 'fstatat') is as near as one typing mistake.
#include "base/nearest.h"

#include <algorithm>
#include <utility>

namespace backstep {
namespace {

size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); i++) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); j++) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); i++)
    for (size_t j = 1; j <= b.size(); j++) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view word, const std::vector<std::string>& candidates,
                                       size_t most) {
  constexpr size_t kLongest = 64;  // nobody mistypes more than that, and the distance takes n * m steps
  if (word.empty() || word.size() > kLongest) return {};
  const size_t limit = std::max<size_t>(1, word.size() / 3);
  std::vector<std::pair<size_t, std::string>> found;
  for (const std::string& name : candidates) {
    if (name.size() > kLongest || name == word) continue;
    const bool part = word.size() > 2 && name.find(word) != std::string::npos;
    const size_t d = part ? 1 : distance(word, name);
    if (d <= limit) found.emplace_back(d, name);
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return a.second.size() != b.second.size() ? a.second.size() < b.second.size() : a.second < b.second;
  });
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(most, found.size()); i++) names.push_back(found[i].second);
  return names;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> names = nearest_names(word, candidates);
  std::string text;
  for (size_t i = 0; i < names.size(); i++)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + ("'" + names[i] + "'");
  return text.empty() ? "" : "; did you mean " + text + "?";
}

}  // namespace backstep
