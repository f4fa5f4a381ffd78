// The values of a logged match, one after the other.
#pragma once
#include <cstring>
#include <span>
#include <string>

#include "replay/taps.h"
#include "symbols/expression.h"

namespace backstep::session {

inline replayer::Position position_of(const replayer::TapRecord& record) {
  return {record.tick, record.event, record.pc};
}

class CapturedValues {
 public:
  explicit CapturedValues(const uint8_t* at) : at_(at) {}

  std::span<const uint8_t> next(bool* readable = nullptr) {
    uint32_t length;
    std::memcpy(&length, at_, sizeof length);
    if (readable) *readable = !(length & replayer::kUnreadable);
    length &= ~replayer::kUnreadable;
    std::span<const uint8_t> bytes(at_ + sizeof length, length);
    at_ += sizeof length + length;
    return bytes;
  }
  uint64_t word() {
    uint64_t value = 0;
    const auto bytes = next();
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
    return value;
  }
  void read(const symbols::Compiled& compiled, std::string* text, nlohmann::ordered_json* json) {
    bool readable = true;
    const auto bytes = next(&readable);
    if (compiled.optimized_out) {
      *text = "<optimized out>";
      *json = nullptr;
      return;
    }
    const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
    *text = symbols::format(compiled, copy, readable);
    *json = symbols::to_json(compiled, copy, readable);
  }

 private:
  const uint8_t* at_;
};

}  // namespace backstep::session
