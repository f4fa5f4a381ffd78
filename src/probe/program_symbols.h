// Which names of a source file the recorded program has, and where.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "symbols/program.h"

namespace backstep::probe {

class ProgramSymbols {
 public:
  explicit ProgramSymbols(const symbols::Program& program);

  // Of a function or variable of that (mangled) name: one that all files share, or one of `file` alone.
  std::optional<uint64_t> address(const std::string& name, const std::string& file) const;
  // Only those that all files share.
  std::optional<uint64_t> shared(const std::string& name) const;

 private:
  struct Entry {
    uint64_t address;
    std::string file;  // empty: shared
  };
  std::map<std::string, std::vector<Entry>, std::less<>> entries_;
};

}  // namespace backstep::probe
