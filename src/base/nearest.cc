// The distance of two words is the number of letters to insert, drop, replace or swap with their neighbour
// (Damerau-Levenshtein, in the form that touches no letter twice).
#include "base/nearest.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace backstep {

size_t edit_distance(std::string_view a, std::string_view b, size_t most) {
  constexpr size_t kLongest = 200;
  if (a.size() > kLongest || b.size() > kLongest) return most + 1;
  if ((a.size() > b.size() ? a.size() - b.size() : b.size() - a.size()) > most) return most + 1;
  size_t rows[3][kLongest + 1];
  size_t *before = rows[0], *row = rows[1], *next = rows[2];
  for (size_t j = 0; j <= b.size(); j++) row[j] = j;
  for (size_t i = 1; i <= a.size(); i++) {
    next[0] = i;
    size_t least = i;
    for (size_t j = 1; j <= b.size(); j++) {
      size_t change = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({change, row[j] + 1, next[j - 1] + 1});
      // Two letters in the wrong order are one mistake.
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
      least = std::min(least, next[j]);
    }
    if (least > most) return most + 1;
    std::tie(before, row, next) = std::tuple(row, next, before);
  }
  return std::min(row[b.size()], most + 1);
}

// A third of the letters may be wrong; no worse than what there is already.
size_t Nearest::limit() const {
  size_t limit = std::max<size_t>(asked_.size() / 3, 1);
  return found_.size() >= most_ && most_ > 0 ? std::min(limit, found_.back().distance) : limit;
}

bool Nearest::wants(std::string_view compared) const {
  if (most_ == 0 || compared.empty()) return false;
  size_t distance = edit_distance(asked_, compared, limit());
  return distance <= limit() && distance < std::max(asked_.size(), compared.size());
}

void Nearest::offer(std::string_view compared, std::string_view name) {
  if (wants(compared)) offer_at(edit_distance(asked_, compared, limit()), name);
}

void Nearest::offer_at(size_t distance, std::string_view name) {
  if (distance > limit()) return;
  if (std::any_of(found_.begin(), found_.end(), [&](const Found& f) { return f.name == name; })) return;
  // Stable: of names as near as each other, those that came first stay.
  auto at = std::upper_bound(found_.begin(), found_.end(), distance,
                             [](size_t d, const Found& f) { return d < f.distance; });
  found_.insert(at, {distance, std::string(name)});
  if (found_.size() > most_) found_.pop_back();
}

std::vector<std::string> Nearest::names() const {
  std::vector<std::string> names;
  for (const Found& f : found_) names.push_back(f.name);
  return names;
}

std::vector<std::string> nearest_names(std::string_view word, std::vector<std::string> candidates,
                                       size_t most) {
  // Of names that are as near as each other the shorter ones come first.
  std::sort(candidates.begin(), candidates.end(),
            [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
  Nearest nearest(word, most);
  for (const std::string& name : candidates) {
    if (name == word) continue;
    const bool part = word.size() > 2 && name.find(word) != std::string::npos;
    part ? nearest.offer_at(1, name) : nearest.offer(name);
  }
  return nearest.names();
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> names = nearest_names(word, candidates);
  std::string text;
  for (size_t i = 0; i < names.size(); i++)
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + ("'" + names[i] + "'");
  return text.empty() ? "" : "; did you mean " + text + "?";
}

}  // namespace backstep
