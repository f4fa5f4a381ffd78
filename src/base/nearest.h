// Which of the names that exist a person may have meant: for "did you mean …?".
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace backstep {

// How many letters must be changed, left out, added or swapped with their neighbour to make one of the other;
// at most `most` + 1.
size_t edit_distance(std::string_view a, std::string_view b, size_t most);

// Keeps the nearest of many names, which may come one by one.
class Nearest {
 public:
  explicit Nearest(std::string_view asked, size_t most = 3) : asked_(asked), most_(most) {}
  // Whether a name is near enough to be worth an offer.
  bool wants(std::string_view compared) const;
  void offer(std::string_view name) { offer(name, name); }
  // Compared by one name, shown by another.
  void offer(std::string_view compared, std::string_view name);
  // As near as it is said to be.
  void offer_at(size_t distance, std::string_view name);
  std::vector<std::string> names() const;

 private:
  struct Found {
    size_t distance;
    std::string name;
  };
  size_t limit() const;

  std::string asked_;
  size_t most_;
  std::vector<Found> found_;  // nearest first
};

// The candidates most like `word`, the nearest first; those that are too different to have been meant are
// left out. A name that holds the whole word ('newfstatat' for 'fstatat') is as near as one typing mistake.
// `most`: how many at most.
std::vector<std::string> nearest_names(std::string_view word, std::vector<std::string> candidates,
                                       size_t most = 3);

// "; did you mean 'open' or 'openat'?"; empty if nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace backstep
