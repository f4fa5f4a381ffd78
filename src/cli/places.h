// From an address of a recorded program to a function and a line: which mapped file it lay in, and what that
// file's symbols say.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "recording/library.h"
#include "recording/log_reader.h"
#include "symbols/symbols.h"

namespace backstep::cli {

class Places {
 public:
  Places(recording::Library library, recording::Recording recording)
      : library_(std::move(library)), recording_(std::move(recording)) {}

  // Events in their order; later mappings hide earlier ones.
  void add(const recording::Event& event);
  // What a forked child's log begins with: what its parent had mapped at the fork.
  void add_ancestors(const recording::FileHeader& child);

  struct Found {
    std::string file;      // path that was mapped; empty: no file
    uint64_t offset = 0;   // into it
    symbols::Place place;  // empty if nothing is known
  };
  Found find(Address pc);

 private:
  struct Mapping {
    Address start = 0, end = 0;
    uint64_t offset = 0;
    std::string name, key;
  };
  const symbols::ElfFile* file_of(const std::string& key);

  recording::Library library_;
  recording::Recording recording_;
  std::vector<Mapping> mappings_;
  std::map<std::string, std::unique_ptr<symbols::ElfFile>> files_;  // by key; null: not ELF
};

}  // namespace backstep::cli
