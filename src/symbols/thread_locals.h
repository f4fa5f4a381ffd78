// Where thread-local variables are: the block of a module in the thread at hand, as bytecode, so that it is
// right at each moment and in each thread without anybody looking anything up.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "symbols/expression_code.h"

namespace backstep::symbols {

struct Module;

class ThreadLocals {
 public:
  explicit ThreadLocals(std::span<const Module> modules);

  // The address of the block. It fails (kFail) where the thread has none: the module is not loaded, or the
  // thread has not used its variables yet. Null: how to find it is not known.
  const Code* base(const Module& module);

  // Memory that tells where blocks are: what is written to it may move one, or make it.
  struct Input {
    Code address;
    uint64_t size;
  };
  std::vector<Input> inputs() const;

 private:
  std::optional<Code> make(const Module& module) const;
  std::optional<Code> by_glibc(const Module& module) const;
  std::optional<Code> by_musl(const Module& module) const;
  void find_linker(const Module& module);

  // Of glibc's linker: where it has its list of modules, and how that and what it leads to are laid out.
  struct Glibc {
    uint64_t list = 0;  // the address of the pointer to the list
    uint64_t length = 0, entries = 0, entry_size = 0, generation = 0, map = 0;
    uint64_t distance = 0;  // in a link_map: of its block below the thread pointer
  };
  std::span<const Module> modules_;
  size_t count_ = 0;   // of those that have such variables
  uint64_t rtld_ = 0;  // the address of glibc's _rtld_global; 0: it is not there
  std::optional<Glibc> glibc_;
  bool musl_ = false;
  std::map<const Module*, std::optional<Code>> known_;
};

}  // namespace backstep::symbols
