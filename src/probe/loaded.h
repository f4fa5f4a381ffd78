// A module that has just been linked: where its functions are.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace backstep::probe {

class LinkedProgram {
 public:
  // Throws Error: it is not what the linker should have made.
  explicit LinkedProgram(const std::string& path);

  uint64_t entry() const { return entry_; }
  uint64_t end() const { return end_; }  // behind its last page
  // Throws Error: there is none.
  uint64_t symbol(const std::string& name) const;

 private:
  uint64_t entry_ = 0, end_ = 0;
  std::unordered_map<std::string, uint64_t> symbols_;
};

}  // namespace backstep::probe
