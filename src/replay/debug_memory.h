// The address space of debug code: its module, stack, heap and mappings, all of it private and in zones that
// the guest does not use (layout::kProbe, kProbeData). A checkpoint is a fork, so all of it goes along.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/cache.h"
#include "guest/memory_map.h"
#include "replay/debug_hot.h"

namespace backstep::guest {
struct ElfImage;
}

namespace backstep::replayer {

class DebugMemory {
 public:
  // The guest has nothing in these zones, and will be refused if it asks. Throws Error if it has.
  void reserve(const guest::MemoryMap& guest);
  // The module's segments and a stack like that of a program that begins; where that is to begin.
  struct Start {
    Address entry = 0, stack = 0;
    std::vector<engine::DataRange> code;
  };
  Start load(const guest::ElfImage& elf);

  // All of it is gone.
  static void leave();

  // Of its state: what may have been written to, and the books. (debug_state.cc)
  struct Books {
    Address brk = 0, brk_mapped = 0;
    std::map<Address, Address> mapped;
  };
  Books books() const { return {brk_, brk_mapped_, mapped_}; }
  std::vector<engine::DataRange> ranges() const;
  void restore(const Books& books);

  // Nothing of these zones is in there.
  static bool is_free_of(Address start, Address end);
  // Is all of that its own, or in the zones where nothing else can be?
  static bool owns(Address start, uint64_t length);
  // Why it cannot be reached: "below its stack" and the like; null: no special reason.
  bool is_below_stack(Address address) const;

  // System calls; results as the kernel's.
  int64_t brk(Address wanted);
  int64_t mmap(const uint64_t args[6], int fd);
  int64_t munmap(Address start, uint64_t length);
  int64_t mprotect(Address start, uint64_t length, uint64_t prot);
  int64_t mremap(const uint64_t args[6]);
  int64_t madvise(Address start, uint64_t length, uint64_t advice);

  // Mappings that are made from here on are gone with `forget`.
  void remember();
  void forget();

 private:
  std::optional<Address> place(uint64_t size) const;

  std::map<Address, Address> mapped_;  // start -> end, by mmap
  std::optional<std::map<Address, Address>> remembered_;
  Address brk_ = 0, brk_mapped_ = 0;
  engine::DataRange image_ = {0, 0};  // where its module lies
};

}  // namespace backstep::replayer
