#include "serve/rpc_lines.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace backstep::serve {

bool Lines::fill() {
  char bytes[65536];
  ssize_t n;
  do n = ::read(in_, bytes, sizeof bytes);
  while (n < 0 && errno == EINTR);
  if (n <= 0) {
    ended_ = true;
    return false;
  }
  read_.append(bytes, static_cast<size_t>(n));
  return true;
}

std::optional<std::string> Lines::take(bool* too_long) {
  *too_long = false;
  for (;;) {
    const size_t end = read_.find('\n');
    if (end == std::string::npos) {
      if (read_.size() > kLongest) {
        read_.clear();
        skipping_ = true;
      }
      return std::nullopt;
    }
    std::string line = read_.substr(0, end);
    read_.erase(0, end + 1);
    if (skipping_ || line.size() > kLongest) {
      skipping_ = false;
      *too_long = true;
      return std::string();
    }
    if (line.find_first_not_of(" \t\r") != std::string::npos) return line;
  }
}

std::optional<std::string> Lines::next(bool* too_long) {
  for (;;) {
    if (auto line = take(too_long)) return line;
    if (fill()) continue;
    // The last line may lack its end, as with `printf`.
    if (read_.empty() || skipping_) return std::nullopt;
    read_ += '\n';
  }
}

std::optional<std::string> Lines::waiting() {
  bool too_long = false;
  for (;;) {
    if (auto line = take(&too_long)) return line;
    pollfd p{in_, POLLIN, 0};
    if (poll(&p, 1, 0) <= 0 || !fill()) return std::nullopt;
  }
}

bool Lines::unheard() const {
  pollfd p{out_, 0, 0};
  return poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP));
}

bool Lines::put(const std::string& line) {
  std::string all = line + '\n';
  for (size_t done = 0; done < all.size();) {
    const ssize_t n = ::write(out_, all.data() + done, all.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace backstep::serve
