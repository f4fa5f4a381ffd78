// Framing. Garbage between packets is skipped, a wrong checksum is answered with '-', a packet without end is
// cut: whatever arrives, the stream finds the next packet.
#include "serve/packets.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace backstep::serve {
namespace {

constexpr size_t kMaxPacket = 1 << 20;

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string to_hex(const void* data, size_t n) {
  static constexpr char kDigits[] = "0123456789abcdef";
  auto* p = static_cast<const uint8_t*>(data);
  std::string text;
  text.reserve(2 * n);
  for (size_t i = 0; i < n; i++) text += {kDigits[p[i] >> 4], kDigits[p[i] & 15]};
  return text;
}

std::optional<std::vector<uint8_t>> from_hex(std::string_view text) {
  std::vector<uint8_t> bytes;
  if (text.size() % 2) return std::nullopt;
  for (size_t i = 0; i < text.size(); i += 2) {
    int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<uint8_t>(high << 4 | low));
  }
  return bytes;
}

std::optional<uint64_t> take_hex(std::string_view& text) {
  uint64_t value = 0;
  size_t n = 0;
  while (n < text.size() && n < 16 && digit(text[n]) >= 0)
    value = value << 4 | static_cast<uint64_t>(digit(text[n++]));
  if (n == 0) return std::nullopt;
  text.remove_prefix(n);
  return value;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&apos;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::vector<uint8_t> unescape(std::string_view data) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < data.size(); i++)
    bytes.push_back(data[i] == '}' && i + 1 < data.size() ? static_cast<uint8_t>(data[++i] ^ 0x20)
                                                          : static_cast<uint8_t>(data[i]));
  return bytes;
}

bool PacketStream::fill(bool block) {
  if (gone_) return false;
  char bytes[65536];
  ssize_t n;
  do n = recv(socket_.get(), bytes, sizeof bytes, block ? 0 : MSG_DONTWAIT);
  while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (n <= 0) {
    gone_ = true;
    return false;
  }
  buffer_.append(bytes, static_cast<size_t>(n));
  return true;
}

bool PacketStream::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      gone_ = true;
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool PacketStream::interrupted() {
  fill(false);
  if (gone_) return true;
  size_t at = buffer_.find('\x03');
  if (at == std::string::npos || buffer_.find('$') < at) return false;
  buffer_.erase(at, 1);
  return true;
}

std::optional<std::string> PacketStream::receive() {
  for (;;) {
    size_t start = buffer_.find_first_of("$\x03");
    if (start == std::string::npos) {
      buffer_.clear();
    } else {
      buffer_.erase(0, start);
      if (buffer_[0] == '\x03') {
        buffer_.erase(0, 1);
        return "\x03";
      }
      size_t hash = buffer_.find('#');
      if (hash != std::string::npos && buffer_.size() >= hash + 3) {
        std::string data = buffer_.substr(1, hash - 1);
        int high = digit(buffer_[hash + 1]), low = digit(buffer_[hash + 2]);
        buffer_.erase(0, hash + 3);
        uint8_t sum = 0;
        for (char c : data) sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(c));
        const bool ok = high >= 0 && low >= 0 && sum == (high << 4 | low);
        if (!acknowledge_) return data;
        if (!write_all(ok ? "+" : "-")) return std::nullopt;
        if (ok) return data;
        continue;
      }
      if (buffer_.size() > kMaxPacket) buffer_.clear();
    }
    if (!fill(true)) return std::nullopt;
  }
}

namespace {

// Run-length encoding: up to `more` further copies of the last character. How many were written.
size_t repeat(std::string& packet, size_t more) {
  constexpr size_t kLeast = 3, kMost = 97, kBias = 29;
  if (more < kLeast) return 0;
  size_t count = std::min(more, kMost);
  // The count is a character as well; these mean something else.
  while (std::strchr("#$+-", static_cast<char>(count + kBias))) count--;
  if (count < kLeast) return 0;
  packet += '*';
  packet += static_cast<char>(count + kBias);
  return count;
}

}  // namespace

bool PacketStream::send(std::string_view data) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string packet = "$";
  for (size_t at = 0; at < data.size();) {
    char c = data[at];
    if (c == '$' || c == '#' || c == '}' || c == '*') {
      packet += '}';
      packet += static_cast<char>(c ^ 0x20);
      at++;
      continue;
    }
    packet += c;
    size_t same = at + 1;
    while (same < data.size() && data[same] == c) same++;
    const size_t taken = repeat(packet, same - at - 1);
    at += 1 + taken;
  }
  uint8_t sum = 0;
  for (size_t i = 1; i < packet.size(); i++)
    sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(packet[i]));
  packet += {'#', kDigits[sum >> 4], kDigits[sum & 15]};
  for (int tries = 0; tries < 8; tries++) {
    if (!write_all(packet)) return false;
    if (!acknowledge_) return true;
    for (;;) {
      if (buffer_.empty() && !fill(true)) return false;
      if (buffer_[0] == '-') {
        buffer_.erase(0, 1);
        break;
      }
      if (buffer_[0] == '+') {
        buffer_.erase(0, 1);
        return true;
      }
      if (buffer_[0] == '$' || buffer_[0] == '\x03') return true;  // it does not acknowledge, but goes on
      buffer_.erase(0, 1);
    }
  }
  return false;
}

}  // namespace backstep::serve
