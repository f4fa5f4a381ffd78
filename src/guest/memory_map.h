// The guest's view of its address space: what /proc/self/maps would say if we were not there.
// Answers where a new mapping goes, what is mapped with which protection, and keeps what the
// recording needs to know about mapped files. It only keeps books; mapping.h does the system calls.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/content.h"
#include "engine/layout.h"

namespace backstep::guest {

struct Region {
  uint64_t start = 0, end = 0;  // page-aligned, [start, end)
  int prot = 0;                 // PROT_* as the guest asked
  int flags = 0;                // MAP_PRIVATE / MAP_SHARED | MAP_ANONYMOUS | MAP_GROWSDOWN …
  uint64_t offset = 0;          // into the file at `start`
  std::string name;             // file path as /proc would show it, "[heap]", "[stack]" or empty
  uint64_t dev = 0, inode = 0;
  int advice = 0;     // what the guest asked for by madvise: ForkAdvice
  Content content{};  // of the file, as long as it has never been writable here: then memory shows just that
};

// What becomes of memory in a child (fork).
enum ForkAdvice { kDontFork = 1, kWipeOnFork = 2 };

// The initial stack.
inline constexpr char kStackName[] = "[stack]";
// Private and writable: what RLIMIT_DATA is about.
bool is_data(int prot, int flags);

enum class Zone { Images, Data, Stacks };  // layout.h; Stacks of threads lie in Data

// Guest mappings lie below this; the host's program, libraries and stacks are above.
inline constexpr uint64_t kGuestEnd = 0x5000'0000'0000;
// Lower hints are not honoured (the usual vm.mmap_min_addr), so that null pointers with an offset still
// fault.
inline constexpr uint64_t kLowestHint = 0x10000;

// Hears of every change, in terms of the calls below: a map that makes the same ones is the same.
class MapListener {
 public:
  virtual ~MapListener() = default;
  virtual void on_add(const Region& r) = 0;
  virtual void on_remove(uint64_t start, uint64_t end) = 0;
  virtual void on_protect(uint64_t start, uint64_t end, int prot) = 0;
};

class MemoryMap {
 public:
  // Adds [r.start, r.end), replacing whatever was there. Adjacent equal regions are merged as the kernel
  // does.
  void add(Region r);
  void remove(uint64_t start, uint64_t end);
  // False (nothing changed) if part of the range is not mapped: mprotect's ENOMEM.
  bool protect(uint64_t start, uint64_t end, int prot);
  // Changes Region::advice; what is not mapped is left out.
  void advise(uint64_t start, uint64_t end, int add, int take);
  // Memory there was written past its protection: it no longer shows the file that is mapped.
  void overwrite(uint64_t start, uint64_t end);
  // The region that holds addr, or null. Pointers are good until the next change of the map.
  const Region* find(uint64_t addr) const;
  // First region with end > addr.
  const Region* next(uint64_t addr) const;
  // No guest mapping, not the engine's (layout), below kGuestEnd.
  bool is_free(uint64_t start, uint64_t end) const;
  // Wholly mapped.
  bool is_mapped(uint64_t start, uint64_t end) const;
  // Where a new mapping of `size` bytes goes: at `hint` if that is usable (not 0), else in `zone` — Images
  // bottom-up from layout::kImagesStart, Data top-down from layout::kAnonymousEnd, Stacks likewise, with an
  // end that suits a stack (layout::stack_end) — else in the other zone; nullopt: no space. `low32`: below 2
  // GB only (MAP_32BIT). Deterministic.
  std::optional<uint64_t> find_free(uint64_t size, uint64_t hint, Zone zone, bool low32 = false) const;
  // Contiguous run around addr with PROT_EXEC in every region: [start, end), empty when addr is not
  // executable.
  std::pair<uint64_t, uint64_t> executable_range(uint64_t addr) const;
  void for_each(const std::function<void(const Region&)>& f) const;
  // Text of /proc/self/maps, in the kernel's format.
  std::string proc_maps() const;

  // Grows with every change, for those who keep something that follows from the map.
  uint64_t version() const { return version_; }

  // What limits count, in bytes: RLIMIT_AS all of it, RLIMIT_DATA what is private and writable. Without the
  // initial stack, which is mapped as large as it may ever get and natively grows.
  uint64_t size() const { return size_; }
  uint64_t data_size() const { return data_size_; }
  // How much of a range is mapped.
  uint64_t mapped_bytes(uint64_t start, uint64_t end) const;

  void set_listener(MapListener* listener) { listener_ = listener; }

  uint64_t brk_start = 0, brk = 0;  // brk is the exact value, its pages are a "[heap]" region

 private:
  using Regions = std::map<uint64_t, Region>;
  Regions::const_iterator at_or_after(uint64_t addr) const;  // first with end > addr
  void cut(uint64_t start, uint64_t end);                    // takes out what is there
  void split(uint64_t addr);                                 // makes addr a boundary if it is inside a region
  void merge(uint64_t start, uint64_t end);                  // joins equal neighbours, borders included
  std::optional<uint64_t> lowest_gap(uint64_t size, uint64_t low, uint64_t high) const;
  std::optional<uint64_t> highest_gap(uint64_t size, uint64_t low, uint64_t high, bool for_stack) const;

  void count(const Region& r);
  void uncount(const Region& r);

  Regions regions_;  // by start; never overlapping, never empty
  uint64_t size_ = 0, data_size_ = 0;
  uint64_t version_ = 0;
  MapListener* listener_ = nullptr;
};

}  // namespace backstep::guest
