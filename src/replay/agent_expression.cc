// The host's side of conditions: what may be run, and what it says with the memory map at hand.
#include "replay/agent_expression.h"

#include "engine/entry.h"

namespace backstep::replayer {
namespace {

bool read_mapped(uint64_t address, uint64_t* to, unsigned size, const void* process) {
  return static_cast<const guest::Process*>(process)->readable(address, size) &&
         bs_guarded_load(to, reinterpret_cast<const void*>(address), size);
}

}  // namespace

bool valid(const std::vector<uint8_t>& code) {
  constexpr uint8_t kReg = 0x26;
  constexpr unsigned kLastRegister = 17;
  for (size_t at = 0; at < code.size();) {
    int n = operands_of(code[at]);
    if (n < 0 || at + static_cast<size_t>(n) >= code.size() + (n == 0)) return false;
    if (code[at] == kReg && static_cast<unsigned>(code[at + 1] << 8 | code[at + 2]) > kLastRegister)
      return false;
    at += 1 + static_cast<size_t>(n);
  }
  return true;
}

bool holds(const std::vector<uint8_t>& code, guest::Process& process) {
  const Value v = evaluate(code.data(), code.size(), context(), read_mapped, &process);
  return !v.known || v.value != 0;
}

}  // namespace backstep::replayer
