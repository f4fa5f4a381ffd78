#include "recording/side_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "recording/tree.h"

namespace backstep::recording {

namespace fs = std::filesystem;

std::vector<std::string> damaged_side_files(const Recording& recording) {
  std::vector<std::string> found;
  std::error_code ec;
  std::vector<fs::path> manifests;
  for (const auto& entry : fs::directory_iterator(recording.dir(), ec))
    if (const std::string name = entry.path().filename();
        name == "manifest.json" || (name.starts_with("process-") && name.ends_with(".json")))
      manifests.push_back(entry.path());
  std::sort(manifests.begin(), manifests.end());
  for (const fs::path& path : manifests) {
    const bool first = path.filename() == "manifest.json";
    // Those of later processes are written in place: a recorder that was killed may leave an empty one.
    if (!first && (fs::file_size(path, ec) == 0 || ec)) continue;
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    if (!Manifest::is_intact(text.str()))
      found.push_back(fmt::format("{} is damaged{}", path.string(),
                                  first ? "" : ", or its recorder was killed while it wrote it"));
  }
  if (!Tree::is_intact(recording))
    found.push_back(fmt::format("{} is damaged (a replay does not need it)", Tree::path(recording)));
  if (auto line = recording.damaged_key())
    found.push_back(fmt::format("{} is damaged in line {}", recording.keys_path(), *line));
  return found;
}

}  // namespace backstep::recording
