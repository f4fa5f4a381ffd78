// Pages are found through the few hundred that were used last, and kept for the next time when all is
// forgotten.
#include "recording/known_memory.h"

namespace backstep::recording {

void KnownMemory::clear() {
  recent_.fill({});
  index_.clear();
  constexpr size_t kWorthKeeping = 2048;
  if (pool_.size() > kWorthKeeping) pool_.resize(kWorthKeeping);
  used_ = 0;
}

KnownMemory::Page& KnownMemory::find(uint64_t number) {
  Page*& page = index_[number];
  if (page) return *page;
  if (used_ == pool_.size()) pool_.push_back(std::make_unique_for_overwrite<Page>());
  page = pool_[used_++].get();
  std::memset(page, 0, sizeof *page);
  return *page;
}

}  // namespace backstep::recording
