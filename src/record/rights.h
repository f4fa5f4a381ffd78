// What this process may do, and where it is.
#pragma once
#include <cstdint>
#include <utility>

namespace backstep::recorder {

bool has_capability(int capability);  // effective

// Device and inode of "/": others after chroot.
std::pair<uint64_t, uint64_t> root_now();

}  // namespace backstep::recorder
