// Which variable an address is in, by symbol tables.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "symbols/program.h"

namespace backstep::symbols {

class DataNames {
 public:
  explicit DataNames(const Program& program) : program_(program) {}

  // "counter", "table+0x10"; empty: in no variable that has a symbol.
  std::string at(uint64_t address);

 private:
  struct Variable {
    uint64_t start = 0, size = 0;  // as in the file's headers
    std::string name;
  };
  const std::vector<Variable>& of(const Module& module);

  const Program& program_;
  std::map<const Module*, std::vector<Variable>> variables_;  // ascending by start
};

}  // namespace backstep::symbols
