// Which argument has the bytes is known to the table of system calls: a buffer, an array of buffers, or a
// message that has such an array.
#include "timeline/written_bytes.h"

#include <algorithm>
#include <cstring>

#include "guest/syscall_table.h"

namespace backstep::timeline {
namespace {

struct Words {
  uint64_t base = 0, length = 0;
};

Words words_at(const ReadMemory& read, uint64_t address) {
  Words words;
  const auto bytes = read(address, sizeof words);
  if (bytes.size() == sizeof words) std::memcpy(&words, bytes.data(), sizeof words);
  return words;
}

// At most `most` bytes of what an array of iovecs says.
std::string gathered(const ReadMemory& read, const Words& iovecs, uint64_t most) {
  constexpr uint64_t kMostParts = 1024;  // as the kernel has it
  std::string text;
  for (uint64_t i = 0; i < std::min(iovecs.length, kMostParts) && text.size() < most; i++) {
    const Words part = words_at(read, iovecs.base + i * sizeof(Words));
    const auto bytes = read(part.base, std::min<uint64_t>(part.length, most - text.size()));
    text.append(bytes.begin(), bytes.end());
  }
  return text;
}

}  // namespace

std::string written_bytes(const recording::Event& call, const ReadMemory& read) {
  const guest::Syscall& row = guest::syscall_row(call.nr);
  const auto length = static_cast<uint64_t>(call.result);
  for (int i = 0; i < row.argc; i++) {
    switch (row.args[i].kind) {
      case guest::Arg::In: {
        const auto bytes = read(call.args[i], length);
        return {bytes.begin(), bytes.end()};
      }
      case guest::Arg::IovIn:
        return gathered(read, {call.args[i], call.args[row.args[i].n]}, length);
      case guest::Arg::MsgIn: {
        constexpr uint64_t kIovecs = 16;  // of a msghdr: behind the address and its length
        return gathered(read, words_at(read, call.args[i] + kIovecs), length);
      }
      default:
        break;
    }
  }
  return "";
}

}  // namespace backstep::timeline
