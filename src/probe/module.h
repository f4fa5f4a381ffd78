// A debug module: what the user's debug code has been made into, ready to be run inside of a replay.
//
// It is one ELF executable, statically linked with a C and a C++ library of its own at fixed addresses that
// the recording never uses. So it needs neither a loader nor relocations, and what it names of the program
// (functions, variables outside of functions) are plain numbers in it: those of the recording, which are the
// same in every replay. For each place in the recorded program where debug code belongs it has one function,
// `void(const backstep_registers *)` (probe/abi.h), that finds the variables of that place and does what the
// user wrote. Its own entry point prepares its libraries, runs the constructors of its globals, and then
// reports with a request (READY) that it can be called.
//
// Built by probe/build.h, run by the probing replay.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace backstep::probe {

// A place in the recorded program: whenever a thread comes to `pc`, `function` is called before the
// instruction.
struct Place {
  static constexpr uint32_t kNobodys = ~0u;
  uint64_t pc = 0;
  uint64_t function = 0;      // of the module
  uint32_t region = 0;        // whose code it is: index into Module::regions; or kNobodys
  bool needs_vector = false;  // reads registers xmm0 to ymm15
};

// One piece of debug code as its author sees it; it may have several places (inlined copies, templates) or
// none.
struct Region {
  std::string file;  // where the debug code is written; a snippet's is "--at PLACE"
  int line = 0;
  std::string name;  // for messages: the function around it, or the place as it was given

  bool is_snippet() const { return file.starts_with("--at "); }
  std::string shown() const { return is_snippet() ? file : file + ":" + std::to_string(line); }
};

struct Module {
  std::string elf_path;
  uint64_t base = 0,
           size = 0;  // addresses that its segments take, from their first to behind their last page
  uint64_t ready_entry =
      0;  // where it is to be entered once, on a stack as the kernel makes it for a new program
  std::vector<Place> places;  // ascending by pc
  std::vector<Region> regions;
};

}  // namespace backstep::probe
