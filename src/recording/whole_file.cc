// What is being written is called `.new-PID`: whoever lists the folder does not see it, and whoever writes
// there next knows by the number whether somebody still does.
#include "recording/whole_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fd.h"
#include "recording/shared_folder.h"

namespace backstep::recording {
namespace {

namespace fs = std::filesystem;
constexpr char kBeingWritten[] = ".new-";

Error cannot_write(const std::string& what) {
  return Error(fmt::format("cannot write {}: {}", what, errno_text(errno)));
}

void remove_left_behind(const std::string& folder) {
  std::error_code ec;
  for (const auto& file : fs::directory_iterator(folder, ec)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with(kBeingWritten)) continue;
    const int pid = std::atoi(name.c_str() + sizeof kBeingWritten - 1);
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH) fs::remove(file.path(), ec);
  }
}

}  // namespace

void write_whole(const std::string& folder, const std::string& name,
                 std::initializer_list<std::span<const uint8_t>> parts) {
  if (!make_shared_folder(folder)) throw cannot_write(folder);
  remove_left_behind(folder);
  const std::string temporary = fmt::format("{}/{}{}", folder, kBeingWritten, getpid());
  const std::string path = folder + "/" + name;
  Fd fd(make_file(temporary, O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!fd) throw cannot_write(temporary);
  for (const auto& part : parts)
    for (size_t done = 0; done < part.size();) {
      const ssize_t n = ::write(fd.get(), part.data() + done, part.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        const Error error = cannot_write(path);
        unlink(temporary.c_str());
        throw error;
      }
      done += static_cast<size_t>(n);
    }
  if (rename(temporary.c_str(), path.c_str()) != 0) throw cannot_write(path);
}

std::vector<uint8_t> read_part(const std::string& path, uint64_t offset, uint64_t most) {
  Fd fd(open_file(path, O_RDONLY | O_CLOEXEC));
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0)
    throw Error(fmt::format("cannot open {}: {}", path, errno_text(errno)));
  const auto size = static_cast<uint64_t>(st.st_size);
  std::vector<uint8_t> bytes(offset < size ? std::min(size - offset, most) : 0);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = pread(fd.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(offset + at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error(fmt::format("cannot read {}: {}", path, errno_text(n ? errno : EIO)));
    at += static_cast<size_t>(n);
  }
  return bytes;
}

}  // namespace backstep::recording
