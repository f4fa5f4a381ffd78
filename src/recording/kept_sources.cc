// What was compiled is not known to the byte (gcc writes no hashes of sources), so it is what lies there when
// it is packed: soon after the recording, one hopes, and says when it no longer is what lies there.
#include "recording/kept_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace backstep::recording {

namespace fs = std::filesystem;

namespace {

constexpr uintmax_t kLargest = 32 << 20;

bool is_source(const fs::path& path) {
  std::error_code ec;
  return fs::is_regular_file(path, ec) && fs::file_size(path, ec) <= kLargest && !ec;
}

bool same_contents(const fs::path& a, const fs::path& b) {
  std::ifstream one(a, std::ios::binary), other(b, std::ios::binary);
  std::error_code ec;
  return one && other && fs::file_size(a, ec) == fs::file_size(b, ec) &&
         std::equal(std::istreambuf_iterator<char>(one), {}, std::istreambuf_iterator<char>(other));
}

}  // namespace

std::string sources_folder(const Recording& recording) {
  return recording.base() + "/sources";
}

bool keep_source(const Recording& recording, const std::string& path) {
  const fs::path from = fs::path(path).lexically_normal();
  if (!from.is_absolute() || !is_source(from)) return false;
  const fs::path to = fs::path(sources_folder(recording)) / from.relative_path();
  std::error_code ec;
  fs::create_directories(to.parent_path(), ec);
  if (!ec) fs::copy_file(from, to, fs::copy_options::overwrite_existing, ec);
  if (ec) throw Error(fmt::format("cannot write {}: {}", to.string(), errno_text(ec.value())));
  return true;
}

std::vector<KeptSource> kept_sources(const Recording& recording) {
  std::vector<KeptSource> found;
  const fs::path folder = sources_folder(recording);
  std::error_code ec;
  for (fs::recursive_directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
    std::error_code plain;
    if (!fs::is_regular_file(at->symlink_status(plain))) continue;
    const fs::path path = "/" / at->path().lexically_relative(folder);
    found.push_back({path.string(), is_source(path) && !same_contents(path, at->path())});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return found;
}

}  // namespace backstep::recording
