// A file is mapped in pieces, one for each segment; the first segment's tells its bias. (Others do not: a
// page of the file may be mapped as the end of one segment and as the beginning of the next.) One that was
// mapped at several addresses in the course of the run (dlclose, dlopen) is several modules.
#include "session/modules.h"

#include <gelf.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace backstep::session {
namespace {

struct Segments {
  uint64_t low = ~0ull, high = 0;
  uint64_t offset = 0;  // in the file, of the lowest
};

Segments segments_of(Elf* elf) {
  Segments s;
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return s;
  for (size_t i = 0; i < count; i++) {
    GElf_Phdr p;
    if (!gelf_getphdr(elf, static_cast<int>(i), &p)) continue;
    if (p.p_type == PT_LOAD) {
      if (p.p_vaddr < s.low) s.low = p.p_vaddr, s.offset = p.p_offset;
      s.high = std::max(s.high, p.p_vaddr + p.p_memsz);
    }
  }
  return s;
}

}  // namespace

bool is_of_the_system(const std::string& path) {
  for (const char* folder : {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"})
    if (path.starts_with(folder)) return true;
  return false;
}

std::vector<symbols::Module> modules_of(const timeline::LogIndex& log, const recording::Library& library,
                                        const recording::Recording& recording) {
  std::vector<symbols::Module> modules;
  std::set<std::pair<std::string, uint64_t>> known;  // key and bias
  std::set<std::string> no_elf;
  for (const auto& file : log.files()) {
    if (no_elf.count(file.key)) continue;
    try {
      symbols::Module m;
      m.name = file.path;
      m.file = library.contents_path(recording, file.key);
      if (m.file.empty()) continue;
      const Segments segments = segments_of(m.elf().elf());
      constexpr uint64_t kInPage = layout::kPage - 1;
      if (segments.low >= segments.high || file.offset != (segments.offset & ~kInPage)) continue;
      m.bias = file.address - (segments.low & ~kInPage);
      if (!known.insert({file.key, m.bias}).second) continue;
      m.start = m.bias + segments.low;
      m.end = m.bias + segments.high;
      modules.push_back(std::move(m));
    } catch (const Error&) {  // not ELF: nothing is known about it
      no_elf.insert(file.key);
    }
  }
  return modules;
}

}  // namespace backstep::session
