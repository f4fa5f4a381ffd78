// What is known of the guest's memory from its stores alone: bytes, and for each word which store was the
// last one. Of the traces of windows (trace_chunk.h), where both the encoder and the decoder have one.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace backstep::recording {

class KnownMemory {
 public:
  static constexpr uint64_t kPage = 4096, kWord = 8;
  struct Page {
    uint8_t bytes[kPage + kWord];  // what a store at its end writes to the next page stays here
    std::array<uint64_t, kPage / kWord> marks;
  };

  // Empty again: bytes and marks that nobody has set are 0.
  void clear();
  size_t pages() const { return used_; }
  // In the order of their addresses.
  template <class F>
  void for_each_page(F f) const {
    std::vector<std::pair<uint64_t, const Page*>> pages(index_.begin(), index_.end());
    std::sort(pages.begin(), pages.end());
    for (const auto& [number, page] : pages) f(number * kPage, *page);
  }

  // What the first bytes at `address` are, up to eight, as far as stores to the same page say; then they are
  // `fresh`.
  uint64_t exchange(uint64_t address, unsigned size, uint64_t fresh) {
    uint8_t* at = page_of(address).bytes + address % kPage;
    const uint64_t mask = mask_of(size);
    uint64_t there;
    std::memcpy(&there, at, sizeof there);
    const uint64_t then = (there & ~mask) | (fresh & mask);
    std::memcpy(at, &then, sizeof then);
    return there & mask;
  }
  // A store: what was there, as above; the marks of its words are what `change` makes of them.
  template <class F>
  uint64_t store(uint64_t address, unsigned size, uint64_t fresh, F change) {
    Page& page = page_of(address);
    const uint64_t offset = address % kPage, mask = mask_of(size);
    uint8_t* const at = page.bytes + offset;
    uint64_t there;
    std::memcpy(&there, at, sizeof there);
    const uint64_t then = (there & ~mask) | (fresh & mask);
    std::memcpy(at, &then, sizeof then);
    mark_words(page, address, size, change);
    return there & mask;
  }
  // The marks alone.
  template <class F>
  void mark(uint64_t address, uint64_t size, F change) {
    if (size) mark_words(page_of(address), address, size, change);
  }
  // The word's mark.
  uint64_t& mark(uint64_t address) { return page_of(address).marks[address % kPage / kWord]; }

  static constexpr uint64_t mask_of(unsigned size) { return size >= 8 ? ~0ull : (1ull << 8 * size) - 1; }

 private:
  static constexpr size_t kRecent = 1024;

  template <class F>
  void mark_words(Page& page, uint64_t address, uint64_t size, F change) {
    uint64_t& first = page.marks[address % kPage / kWord];
    first = change(first);
    const uint64_t last = address + size - 1;
    if (address / kWord == last / kWord) [[likely]]
      return;
    for (uint64_t word = (address & ~(kWord - 1)) + kWord; word <= last && word < ~(kWord - 1);
         word += kWord) {
      uint64_t& m = mark(word);
      m = change(m);
    }
  }

  Page& page_of(uint64_t address) {
    const uint64_t number = address / kPage;
    auto& recent = recent_[number % kRecent];
    if (recent.first != number + 1) [[unlikely]]
      recent = {number + 1, &find(number)};
    return *recent.second;
  }
  Page& find(uint64_t number);

  std::array<std::pair<uint64_t, Page*>, kRecent> recent_{};  // number + 1; 0: none
  std::unordered_map<uint64_t, Page*> index_;
  std::vector<std::unique_ptr<Page>> pool_;
  size_t used_ = 0;  // of the pool
};

}  // namespace backstep::recording
