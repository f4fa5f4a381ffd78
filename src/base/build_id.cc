// Two builds of the same version may not understand each other's files: what one keeps for the next start of
// the same program, or has made on another machine, is marked with this. The id is a note that the linker
// computes from the whole program; it is found through the program's own headers in memory, so no file is
// read.
#include "base/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <string>

namespace backstep {

std::string_view build_id() {
  static const std::string id = [] {
    std::string found;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* to) {
          for (int i = 0; i < info->dlpi_phnum; i++) {
            const auto& ph = info->dlpi_phdr[i];
            if (ph.p_type != PT_NOTE) continue;
            auto* at = reinterpret_cast<const char*>(info->dlpi_addr + ph.p_vaddr);
            const char* end = at + ph.p_memsz;
            while (at + sizeof(ElfW(Nhdr)) <= end) {
              ElfW(Nhdr) note;
              std::memcpy(&note, at, sizeof note);
              const char* name = at + sizeof note;
              const char* text = name + ((note.n_namesz + 3) & ~3u);
              if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !std::memcmp(name, "GNU", 4))
                static_cast<std::string*>(to)->assign(text, note.n_descsz);
              at = text + ((note.n_descsz + 3) & ~3u);
            }
          }
          return 1;  // the first object is the program itself
        },
        &found);
    return found;
  }();
  return id;
}

}  // namespace backstep
