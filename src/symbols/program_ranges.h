// Which of many nested ranges an address lies in, by one binary search.
#pragma once
#include <cstdint>
#include <vector>

namespace backstep::symbols {

struct Range {
  uint64_t start = 0, end = 0;  // [start, end)
  bool contains(uint64_t address) const { return address >= start && address < end; }
};

// Ranges flattened: each address belongs to the deepest range that contains it.
class RangeMap {
 public:
  struct Entry {
    Range range;
    uint32_t depth = 0;
    uint32_t value = 0;
  };
  RangeMap() = default;
  explicit RangeMap(std::vector<Entry> entries);

  static constexpr uint32_t kNone = ~0u;
  uint32_t find(uint64_t address) const;
  // Pieces in ascending order that do not overlap.
  struct Piece {
    Range range;
    uint32_t value = 0;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  std::vector<Piece> pieces_;
};

}  // namespace backstep::symbols
