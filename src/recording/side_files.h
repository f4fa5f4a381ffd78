// The files of a recording beside its logs: manifests, the counter of logs, the list of keys. Each has a
// checksum. A replay needs little of them, but what they say must be true, too.
#pragma once
#include <string>
#include <vector>

#include "recording/library.h"

namespace backstep::recording {

// A sentence for each that is damaged.
std::vector<std::string> damaged_side_files(const Recording& recording);

}  // namespace backstep::recording
