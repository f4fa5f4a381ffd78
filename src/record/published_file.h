// The file in which processes publish (published.h), to the byte:
//
//   PublishedSlot × kSlots     who has which slot
//   slot × kSlots              PublishedHead and two places for records
//   letter box × kSlots        what others want a process to change in its memory (letters.h)
//
// It has holes where nothing was needed so far. Nobody needs it when the recording has ended.
#pragma once
#include <cstdint>
#include <string>

#include "engine/layout.h"

namespace backstep::recorder {

struct PublishedSlot {
  uint32_t pid;  // 0: free
  uint32_t reserved;
  uint64_t started;  // stored when its head is that of this process
};

inline constexpr uint64_t kSlots = 1024;
inline constexpr uint64_t kTable = kSlots * sizeof(PublishedSlot);
inline constexpr uint64_t kSlotSize = 16 * layout::kPage;
inline constexpr uint64_t kBoxSize = 64 * layout::kPage;

inline std::string table_path(const std::string& folder) {
  return folder + "/shown";
}
inline uint64_t slot_offset(uint64_t index) {
  return kTable + index * kSlotSize;
}
inline uint64_t box_offset(uint64_t index) {
  return slot_offset(kSlots) + index * kBoxSize;
}

// A part of the file that is surely there; null: no space.
void* map_part(int fd, uint64_t offset, uint64_t size);

}  // namespace backstep::recorder
