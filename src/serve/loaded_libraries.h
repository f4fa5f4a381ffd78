// What glibc's dynamic linker keeps in the guest's memory: the list of libraries, and where the thread-local
// variables of each are.
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
// … as gdb reads it (qXfer:libraries-svr4:read).
std::string libraries_document(const std::vector<Loaded>& libraries);

// Where glibc has what of its struct link_map: it tells libthread_db by descriptions in libc.so.6.
struct LinkMapLayout {
  uint64_t tls_module = 0, tls_offset = 0;
};
// From the file of the C library; nullopt: this is none that says so.
std::optional<LinkMapLayout> link_map_layout(const std::string& libc_file);

// The address of byte `offset` of a module's thread-local storage in the thread with this FS base. `link_map`
// 0: the program itself, statically linked. nullopt: the thread has not got that storage (yet).
std::optional<Address> thread_local_address(Address fs_base, Address link_map, uint64_t offset,
                                            const std::optional<LinkMapLayout>& layout,
                                            const ReadGuest& read);

}  // namespace backstep::serve
