// Section by section, by hash. What is loaded decides whether it is the same program; debug information may
// differ, as it does when a program is built again with debug regions in its sources, and then the two line
// tables tell which lines have moved: they describe the same addresses.
#include "probe/binary_check.h"

#include <gelf.h>

#include <algorithm>
#include <map>
#include <string_view>

#include <xxhash.h>

#include "base/error.h"

namespace backstep::probe {
namespace {

struct Section {
  uint64_t hash = 0;
  bool loaded = false;
};

std::map<std::string, Section> sections_of(const symbols::ElfFile& file) {
  std::map<std::string, Section> all;
  Elf* elf = file.elf();
  size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return all;
  for (Elf_Scn* scn = nullptr; (scn = elf_nextscn(elf, scn)) != nullptr;) {
    GElf_Shdr header;
    if (!gelf_getshdr(scn, &header)) continue;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (!name) continue;
    Section section;
    section.loaded = (header.sh_flags & SHF_ALLOC) != 0;
    const uint64_t place[] = {section.loaded ? header.sh_addr : 0, header.sh_size, header.sh_flags};
    section.hash = XXH3_64bits(place, sizeof place);
    const Elf_Data* data = header.sh_type == SHT_NOBITS ? nullptr : elf_rawdata(scn, nullptr);
    if (data && data->d_buf) section.hash ^= XXH3_64bits(data->d_buf, data->d_size);
    all[name] = section;
  }
  return all;
}

bool only_describes(const std::string& name) {
  return name == ".note.gnu.build-id" || name == ".gnu_debuglink";
}

// Two names of one file: sources are found again in another folder.
std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// The same addresses, so the rows of the two tables belong together one by one.
std::vector<MovedLines> moved_lines(const std::vector<symbols::Program::LineCode>& recorded,
                                    const std::vector<symbols::Program::LineCode>& now) {
  std::map<std::pair<uint64_t, std::string>, std::vector<int>> by_address;
  for (const auto& row : now) by_address[{row.start, std::string(last_part(row.file))}].push_back(row.line);
  std::map<std::pair<uint64_t, std::string>, size_t> used;
  std::map<std::string, std::map<int, int>> lines;
  for (const auto& row : recorded) {
    const std::pair key{row.start, std::string(last_part(row.file))};
    auto found = by_address.find(key);
    if (found == by_address.end()) continue;
    const size_t n = std::min(used[key]++, found->second.size() - 1);
    lines[row.file].emplace(row.line, found->second[n]);
  }
  std::vector<MovedLines> moved;
  for (const auto& [file, pairs] : lines) {
    std::optional<int> distance;
    for (const auto& [line, there] : pairs) {
      if (distance != there - line && there != line) moved.push_back({file, line, line, there});
      if (there != line) moved.back().last = line;
      distance = there - line;
    }
  }
  return moved;
}

std::map<std::string, symbols::Symbol> functions_of(const symbols::ElfFile& file) {
  std::map<std::string, symbols::Symbol> all;
  for (const symbols::Symbol& s : file.symbols())
    if (s.code && !s.label && s.size) all.emplace(s.name, s);
  return all;
}

std::vector<ChangedFunction> changed_functions(const symbols::Program& program,
                                               const symbols::Module& recorded, const symbols::ElfFile& now) {
  const auto before = functions_of(recorded.elf()), after = functions_of(now);
  std::vector<ChangedFunction> resized, changed;
  auto add = [&](const std::string& name, const symbols::Symbol* was, const symbols::Symbol* is) {
    ChangedFunction f;
    f.name = symbols::demangle(name);
    if (was) {
      f.recorded = was->size;
      if (const auto known = program.function_at(was->start + recorded.bias))
        f.file = known->file, f.line = known->line;
    }
    f.size = is ? is->size : 0;
    (f.size == f.recorded ? changed : resized).push_back(std::move(f));
  };
  for (const auto& [name, was] : before) {
    const auto found = after.find(name);
    if (found == after.end())
      add(name, &was, nullptr);
    else if (found->second.size != was.size ||
             recorded.elf().bytes(was.start, was.size) != now.bytes(found->second.start, was.size))
      add(name, &was, &found->second);
  }
  for (const auto& [name, is] : after)
    if (!before.count(name)) add(name, nullptr, &is);
  // If some have another size, what is behind them stands elsewhere, and distances in the code differ.
  return resized.empty() ? changed : resized;
}

}  // namespace

BinaryCheck check_binary(const symbols::Program& program, const symbols::Module& recorded,
                         const std::string& file) {
  BinaryCheck check;
  check.name = recorded.name, check.file = file;
  std::optional<symbols::ElfFile> now;
  try {
    now.emplace(file);
  } catch (const Error&) {
    check.state = BinaryCheck::Missing;
    return check;
  }
  const auto before = sections_of(recorded.elf()), after = sections_of(*now);
  auto differs = [&](const std::string& name, const Section& section) {
    check.sections.push_back(name);
    const bool changed = section.loaded && !only_describes(name);
    check.state = std::max(check.state, changed ? BinaryCheck::Changed : BinaryCheck::Described);
  };
  for (const auto& [name, section] : before) {
    const auto found = after.find(name);
    if (found == after.end() || found->second.hash != section.hash) differs(name, section);
  }
  for (const auto& [name, section] : after)
    if (!before.count(name)) differs(name, section);
  if (check.state == BinaryCheck::Described) {
    symbols::Module module = recorded;
    module.file = file, module.opened.reset(), module.failure.clear();
    const symbols::Program there({module});
    check.moved = moved_lines(program.line_table(recorded), there.line_table(there.modules()[0]));
  } else if (check.state == BinaryCheck::Changed) {
    check.functions = changed_functions(program, recorded, *now);
  }
  return check;
}

}  // namespace backstep::probe
