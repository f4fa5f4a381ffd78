// The gdb remote protocol's packets: `$data#checksum`, acknowledged or not, and the lone byte of Ctrl-C.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"

namespace backstep::serve {

class PacketStream {
 public:
  explicit PacketStream(Fd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  // The next packet's data, not unescaped. nullopt: the other side is gone. "\x03": Ctrl-C.
  std::optional<std::string> receive();
  // Escapes what must be escaped. False: the other side is gone.
  bool send(std::string_view data);
  void set_acknowledge(bool on) { acknowledge_ = on; }
  // While the target runs: has Ctrl-C arrived, or has the other side gone? Never blocks.
  bool interrupted();
  bool gone() const { return gone_; }

 private:
  bool fill(bool block);  // more bytes into the buffer; false: none
  bool write_all(std::string_view bytes);

  Fd socket_;
  std::string buffer_;
  bool acknowledge_ = true;
  bool gone_ = false;
};

std::string escaped(const std::string& text);  // for XML
// An error that is told in words.
inline std::string error_text(const std::string& text) {
  return "E." + text;
}
std::string to_hex(const void* data, size_t n);
inline std::string to_hex(std::string_view s) {
  return to_hex(s.data(), s.size());
}
// nullopt: not pairs of hex digits.
std::optional<std::vector<uint8_t>> from_hex(std::string_view text);
// A hex number at the start of `text`, which moves behind it; nullopt: there is none.
std::optional<uint64_t> take_hex(std::string_view& text);
std::vector<uint8_t> unescape(std::string_view data);

}  // namespace backstep::serve
