// Small questions that many calls ask: what a descriptor of the guest's is, what a string of its is.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "guest/buffers.h"
#include "record/record_hot.h"

namespace backstep::recorder {

inline bool is_our_fd(uint64_t fd) {
  for (int ours : bs_record.our_fds)
    if (ours >= 0 && static_cast<int>(fd) == ours) return true;
  return false;
}

inline void set_kind(uint64_t fd, uint8_t kind) {
  if (fd < kTrackedFds) bs_record.fd_kind[fd] = kind;
}
inline uint8_t kind_of(uint64_t fd) {
  return fd < kTrackedFds ? bs_record.fd_kind[fd] : 0;
}

// As in /proc/PID/cmdline and environ.
inline std::string joined(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& item : list) text += item + '\0';
  return text;
}

// A string in guest memory; nullopt: it is not there.
inline std::optional<std::string> guest_text(uint64_t addr, uint64_t most = 4096) {
  int64_t n = addr ? guest::text_length(addr, most) : -1;
  if (n < 0) return std::nullopt;
  std::string text(static_cast<size_t>(n), 0);
  if (!bs_guarded_copy(text.data(), reinterpret_cast<const void*>(addr), text.size())) return std::nullopt;
  return text;
}

}  // namespace backstep::recorder
