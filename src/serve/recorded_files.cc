// gdb's File-I/O for reading (vFile). Only files that the program mapped exist here, under the names that it
// mapped them by; a name that leads there through symbolic links (/lib64/ld-linux-x86-64.so.2) is resolved on
// this machine if it can be, else by its last part.
#include "serve/recorded_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "serve/packets.h"

namespace backstep::serve {
namespace {

// errno as the protocol numbers it.
constexpr int kNotFound = 2, kBadFile = 9, kInvalid = 22, kReadOnly = 30, kNotSupported = 88;

std::string failed(int err) {
  return fmt::format("F-1,{:x}", err);
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

RecordedFiles::RecordedFiles(recording::Library library, recording::Recording recording)
    : library_(std::move(library)), recording_(std::move(recording)) {}

void RecordedFiles::of(const timeline::LogIndex& log) {
  keys_.clear();
  names_.clear();
  for (const auto& file : log.files())
    if (keys_.emplace(file.path, file.key).second) names_.emplace(last_part(file.path), file.key);
}

std::string RecordedFiles::stored(const std::string& path) const {
  auto found = keys_.find(path);
  if (found == keys_.end()) {
    char resolved[PATH_MAX];
    if (realpath(path.c_str(), resolved)) found = keys_.find(resolved);
  }
  std::string key;
  if (found != keys_.end()) {
    key = found->second;
  } else {
    auto [first, last] = names_.equal_range(last_part(path));
    if (first == last || std::next(first) != last) return "";
    key = first->second;
  }
  return library_.contents_path(recording_, key);
}

std::string RecordedFiles::answer(std::string_view request) {
  auto takes = [&](std::string_view name) {
    if (!request.starts_with(name)) return false;
    request.remove_prefix(name.size());
    return true;
  };
  auto number = [&]() -> std::optional<uint64_t> {
    if (request.starts_with(',')) request.remove_prefix(1);
    return take_hex(request);
  };
  if (takes("setfs:")) return "F0";
  if (takes("open:")) {
    size_t comma = request.find(',');
    auto path = from_hex(request.substr(0, comma));
    if (!path || comma == std::string_view::npos) return failed(kInvalid);
    request.remove_prefix(comma);
    auto flags = number();
    if (!flags || (*flags & 0x3)) return failed(kReadOnly);
    const std::string name(path->begin(), path->end());
    Fd fd;
    if (auto text = made_up ? made_up(name) : std::nullopt) {
      fd = Fd(memfd_create("backstep-made-up", MFD_CLOEXEC));
      if (!fd || write(fd.get(), text->data(), text->size()) != static_cast<ssize_t>(text->size()))
        return failed(kInvalid);
    } else {
      std::string file = stored(name);
      if (file.empty()) return failed(kNotFound);
      fd = Fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    }
    if (!fd) return failed(kNotFound);
    open_[next_] = std::move(fd);
    return fmt::format("F{:x}", next_++);
  }
  if (takes("close:")) {
    auto fd = number();
    return fd && open_.erase(static_cast<int>(*fd)) ? "F0" : failed(kBadFile);
  }
  if (takes("pread:")) {
    auto fd = number(), count = number(), offset = number();
    if (!fd || !count || !offset || !open_.count(static_cast<int>(*fd))) return failed(kBadFile);
    std::string data(std::min<uint64_t>(*count, 60'000), 0);
    ssize_t n =
        pread(open_[static_cast<int>(*fd)].get(), data.data(), data.size(), static_cast<off_t>(*offset));
    if (n < 0) return failed(kInvalid);
    return fmt::format("F{:x};", n) + data.substr(0, static_cast<size_t>(n));
  }
  if (takes("fstat:")) {
    auto fd = number();
    struct stat st {};
    if (!fd || !open_.count(static_cast<int>(*fd)) || fstat(open_[static_cast<int>(*fd)].get(), &st) != 0)
      return failed(kBadFile);
    std::string out;
    auto big = [&](uint64_t value, int bytes) {
      for (int i = bytes - 1; i >= 0; i--) out += static_cast<char>(value >> (8 * i));
    };
    big(0, 4), big(static_cast<uint32_t>(st.st_ino), 4), big(0100755, 4), big(1, 4), big(0, 4), big(0, 4);
    big(0, 4), big(static_cast<uint64_t>(st.st_size), 8), big(4096, 8), big((st.st_size + 511) / 512, 8);
    big(static_cast<uint32_t>(st.st_mtime), 4), big(static_cast<uint32_t>(st.st_mtime), 4);
    big(static_cast<uint32_t>(st.st_mtime), 4);
    return fmt::format("F{:x};", out.size()) + out;
  }
  if (takes("readlink:")) {
    auto path = from_hex(request);
    auto target = path && made_up_link ? made_up_link(std::string(path->begin(), path->end())) : std::nullopt;
    return target ? fmt::format("F{:x};", target->size()) + *target : failed(kInvalid);
  }
  if (takes("pwrite:") || takes("unlink:")) return failed(kReadOnly);
  return failed(kNotSupported);
}

}  // namespace backstep::serve
