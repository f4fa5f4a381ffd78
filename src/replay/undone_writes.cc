// By page protection, not by checks in translated code: program functions that debug code calls run from the
// same translations as ever, so nothing is translated anew for them, and whatever instruction writes is
// noticed. It costs a system call for each writable mapping at the first such call of a hit and at the end of
// it, and a fault for each page that is written to: some 50 to 100 us for a call of a function that prints.
//
// Pages of translated code are write-protected by the engine, too; it is told to leave them so
// (Cache::frozen), since it would open them for good at the first store.
#include "replay/undone_writes.h"

#include <sys/mman.h>

#include <csignal>
#include <cstring>

#include "engine/cache.h"

namespace backstep::replayer {

using layout::kPage;
using layout::page_down;

void UndoneWrites::begin() {
  if (watching_) return;
  watching_ = true;
  engine::bs_cache.frozen = true;
  process_.map.for_each([](const guest::Region& r) {
    if (r.prot & PROT_WRITE) mprotect(reinterpret_cast<void*>(r.start), r.end - r.start, PROT_READ);
  });
}

bool UndoneWrites::open_page(Address page) {
  const guest::Region* region = process_.map.find(page);
  if (!watching_ || !region || !(region->prot & PROT_WRITE) || kept_.count(page)) return false;
  auto* at = reinterpret_cast<uint8_t*>(page);
  // Code from it is gone with what it was made from; and with what it will be, see finish().
  process_.prepare_write(page, page + kPage);
  kept_.emplace(page, std::vector<uint8_t>(at, at + kPage));
  mprotect(at, kPage, PROT_READ | PROT_WRITE);
  return true;
}

bool UndoneWrites::open(const engine::FaultInfo& fault) {
  if (fault.signo != SIGSEGV || !(fault.error & engine::kWriteFault)) return false;
  return open_page(page_down(fault.address));
}

bool UndoneWrites::open(Address start, uint64_t length) {
  for (Address page = page_down(start); page < start + length; page += kPage)
    if (!open_page(page) && !kept_.count(page)) return false;
  return true;
}

void UndoneWrites::restore_protection() {
  const engine::Cache& c = engine::bs_cache;
  process_.map.for_each([&](const guest::Region& r) {
    if (!(r.prot & PROT_WRITE)) return;
    auto* at = reinterpret_cast<char*>(r.start);
    mprotect(at, r.end - r.start, PROT_READ | PROT_WRITE);
    // Views of pages with code may be anywhere in what is shared.
    for (Address page = r.start; c.alias_pages && (r.flags & MAP_SHARED) && page < r.end; page += kPage)
      mprotect(reinterpret_cast<void*>(page), kPage, process_.page_protection(page));
  });
  for (uint32_t i = 1; i < c.pages; i++)
    if (engine::kPages[i].watched)
      mprotect(reinterpret_cast<void*>(engine::kPages[i].page), kPage, PROT_READ);
}

void UndoneWrites::finish() {
  if (!watching_) return;
  for (const auto& [page, bytes] : kept_) {
    auto* at = reinterpret_cast<uint8_t*>(page);
    if (std::memcmp(at, bytes.data(), kPage) == 0) continue;
    process_.engine().forget(page, page + kPage);
    mprotect(at, kPage, PROT_READ | PROT_WRITE);
    std::memcpy(at, bytes.data(), kPage);
  }
  kept_.clear();
  watching_ = false;
  engine::bs_cache.frozen = false;
  restore_protection();
}

}  // namespace backstep::replayer
