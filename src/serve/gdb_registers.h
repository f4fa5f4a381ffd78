// Registers as gdb wants them: a target description in XML and the order and form of their bytes.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "timeline/registers.h"

namespace backstep::serve {

class RegisterLayout {
 public:
  // `xcr0`: the vector state that the program was shown.
  explicit RegisterLayout(uint64_t xcr0);
  const std::string& xml() const { return xml_; }
  size_t count() const { return slots_.size(); }
  std::vector<uint8_t> get(const timeline::Registers& r, size_t number) const;
  // False: there is no such register, or it has another size.
  bool set(timeline::Registers& r, size_t number, const std::vector<uint8_t>& bytes) const;
  size_t size(size_t number) const { return slots_[number].size; }

  static constexpr size_t kRbp = 6, kRsp = 7, kRip = 16;

 private:
  enum class Kind { Gpr, Rip, Flags, Segment, X87, X87Control, Xmm, Mxcsr, OrigRax, FsBase, GsBase, YmmHigh };
  struct Slot {
    Kind kind;
    unsigned index;
    size_t size;
  };
  std::vector<Slot> slots_;
  std::string xml_;
};

}  // namespace backstep::serve
