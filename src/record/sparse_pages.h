// A table with an entry per page of a file that may have 2^30 of them, of which few are ever used. Entries
// are made in chunks, when they are first asked for; until then they are all what `make` says for their
// index.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace backstep::recorder {

template <class T>
class SparsePages {
 public:
  static constexpr uint64_t kChunk = 512;

  uint64_t size() const { return size_; }
  void grow(uint64_t size) { size_ = size > size_ ? size : size_; }
  // The entry, or null if it has not been made.
  const T* find(uint64_t index) const {
    auto it = chunks_.find(index / kChunk);
    return it == chunks_.end() ? nullptr : &it->second[index % kChunk];
  }
  template <class Make>
  T& get(uint64_t index, Make&& make) {
    auto [it, fresh] = chunks_.try_emplace(index / kChunk);
    if (fresh) {
      it->second = std::vector<T>(kChunk);
      for (uint64_t i = 0; i < kChunk; i++) make(index / kChunk * kChunk + i, it->second[i]);
    }
    return it->second[index % kChunk];
  }
  // All that have been made and whose index is at least `from`.
  template <class F>
  void for_each(uint64_t from, F&& f) {
    for (auto it = chunks_.lower_bound(from / kChunk); it != chunks_.end(); ++it)
      for (uint64_t i = 0; i < kChunk; i++)
        if (const uint64_t index = it->first * kChunk + i; index >= from && index < size_)
          f(index, it->second[i]);
  }

 private:
  std::map<uint64_t, std::vector<T>> chunks_;
  uint64_t size_ = 0;
};

}  // namespace backstep::recorder
