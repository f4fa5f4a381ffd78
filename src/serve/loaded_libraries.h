// What the dynamic linker keeps in the guest's memory for debuggers: the list of libraries.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/context.h"

namespace backstep::serve {

using ReadGuest = std::function<std::vector<uint8_t>(Address, uint64_t)>;

// An entry of the linker's list (struct link_map).
struct Loaded {
  Address link_map = 0, base = 0, dynamic = 0;
  std::string name;
  Address list = 0;  // of the name space that it is in: struct r_debug
};

// Where the linker leaves the address of its struct r_debug: in the program's dynamic section (DT_DEBUG). 0:
// there is no such place.
Address debug_pointer(const std::vector<uint8_t>& auxv, const ReadGuest& read);
// In the order of loading, the program itself first. Empty: the linker has not made its list yet, or there is
// none.
std::vector<Loaded> loaded_libraries(const std::vector<uint8_t>& auxv, const ReadGuest& read);
// gdb (13) places `catch throw` by a probe in libstdc++ and uses that probe after the library is gone: it
// dies when it moves to before that was loaded. So a library with such probes stays in the list that gdb
// reads, once it has been in it, as long as no other one is at its place.
class KeptLibraries {
 public:
  // The list with those that were in an earlier one. `has_probes`: by the name of a library.
  std::vector<Loaded> with_kept(std::vector<Loaded> list,
                                const std::function<bool(const std::string&)>& has_probes);

 private:
  std::vector<Loaded> kept_;
  std::vector<Loaded> first_;  // the program and its linker: a list is never without them
};
// Does this file have the C++ library's probes?
bool has_exception_probes(const std::string& file);
// … as gdb reads it (qXfer:libraries-svr4:read).
std::string libraries_document(const std::vector<Loaded>& libraries);

}  // namespace backstep::serve
