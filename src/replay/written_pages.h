// Which pages of the guest have been written to since a moment, as far as the kernel can tell.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "guest/process.h"
#include "recording/checkpoint_file.h"

namespace backstep::replayer {

// Sorts, joins, and forgets small gaps until there are not too many: more pages than needed are no harm.
void simplify(std::vector<recording::AddressRange>& ranges);

class WrittenPages {
 public:
  explicit WrittenPages(const guest::Process& process) : process_(process) {}
  WrittenPages(const WrittenPages&) = delete;
  WrittenPages& operator=(const WrittenPages&) = delete;

  // Counts from now on. False: this kernel cannot tell, or the program has reserved too much memory.
  bool start();
  bool counting() const { return counting_; }
  // The mapping of [start, end) changes, or its contents in a way that leaves no traces in the page table.
  void note(uint64_t start, uint64_t end);
  // Pages that may have been written to since start(), ascending; memory that is mapped shared always may
  // have. All others have their old contents. Nullopt: not known.
  std::optional<std::vector<recording::AddressRange>> collect();
  // Can it without this process writing to its file in /proc?
  static bool kernel_counts_by_itself();
  // This process is a copy: what the kernel counted belongs to the other one.
  void after_fork();

 private:
  enum class Way { Unknown, None, SoftDirty, Userfault };
  void find_way();
  bool protect(uint64_t start, uint64_t end) const;

  const guest::Process& process_;
  Way way_ = Way::Unknown;
  Fd userfault_;
  bool counting_ = false;
  std::vector<recording::AddressRange> watched_, noted_;
};

}  // namespace backstep::replayer
