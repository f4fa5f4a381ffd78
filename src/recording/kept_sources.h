// Source files that a recording takes along (backstep pack --sources): below `sources`, under the paths that
// the debug information has for them.
#pragma once
#include <string>
#include <vector>

#include "recording/library.h"

namespace backstep::recording {

std::string sources_folder(const Recording& recording);
// Takes a file along, as it is now; false: it is not there, or nothing that one would compile. Throws Error:
// cannot be written.
bool keep_source(const Recording& recording, const std::string& path);

struct KeptSource {
  std::string path;      // where it was
  bool differs = false;  // what is there now is something else
};
std::vector<KeptSource> kept_sources(const Recording& recording);

}  // namespace backstep::recording
