// The format is SystemTap's: a note of the owner "stapsdt", type 3, with three addresses (the place, a base
// that tells whether the file was prelinked since, a semaphore) and three texts (provider, name, arguments).
#include "symbols/static_probes.h"

#include <gelf.h>

#include <charconv>
#include <cstring>
#include <sstream>

#include <fmt/format.h>

#include "base/error.h"

namespace backstep::symbols {
namespace {

constexpr size_t kAddresses = 3 * sizeof(uint64_t);
constexpr GElf_Word kProbeNote = 3;

std::optional<StaticProbe> probe_of(std::string_view note, uint64_t prelinked, uint64_t bias) {
  if (note.size() < kAddresses) return std::nullopt;
  uint64_t addresses[3];
  std::memcpy(addresses, note.data(), sizeof addresses);
  note.remove_prefix(sizeof addresses);
  std::string texts[3];
  for (std::string& text : texts) {
    const size_t end = note.find('\0');
    if (end == std::string_view::npos) return std::nullopt;
    text = note.substr(0, end);
    note.remove_prefix(end + 1);
  }
  StaticProbe probe;
  probe.provider = texts[0], probe.name = texts[1];
  probe.address = addresses[0] + (prelinked ? prelinked - addresses[1] : 0) + bias;
  std::istringstream operands(texts[2]);
  for (std::string operand; operands >> operand;)
    if (std::string e = probe_argument(operand); !e.empty()) probe.arguments.push_back(std::move(e));
  return probe;
}

const char* type_of_size(const std::string& size) {
  constexpr std::pair<const char*, const char*> kTypes[] = {
      {"1", "unsigned char"}, {"-1", "signed char"}, {"2", "unsigned short"}, {"-2", "short"},
      {"4", "unsigned int"},  {"-4", "int"},         {"8", "unsigned long"},  {"-8", "long"}};
  for (const auto& [text, type] : kTypes)
    if (size == text) return type;
  return nullptr;
}

bool is_register_name(std::string_view text) {
  return !text.empty() && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789") == text.npos;
}

// "-24(%rbp)", "(%rax,%rbx,8)": the address; empty: it is another form.
std::string memory_address(const std::string& operand) {
  const size_t open = operand.find('(');
  if (open == std::string::npos || operand.back() != ')') return "";
  int64_t offset = 0;
  const char* const end = operand.data() + open;
  if (open && std::from_chars(operand.data(), end, offset).ptr != end) return "";
  std::istringstream parts(operand.substr(open + 1, operand.size() - open - 2));
  std::string address;
  int place = 0;
  for (std::string part; std::getline(parts, part, ','); place++) {
    const bool is_register = place < 2 && part.starts_with('%') && is_register_name(part.substr(1));
    const bool is_scale = place == 2 && (part == "1" || part == "2" || part == "4" || part == "8");
    if (is_register && part == "%rip") return "";
    if (is_register)
      address += fmt::format("{}(long)${}", address.empty() ? "" : " + ", part.substr(1));
    else if (is_scale)
      address += " * " + part;
    else if (!part.empty())
      return "";
  }
  if (address.empty()) return "";
  return offset ? fmt::format("{} + {}", address,
                              offset < 0 ? fmt::format("({})", offset) : std::to_string(offset))
                : address;
}

}  // namespace

std::string probe_argument(const std::string& operand) {
  const size_t at = operand.find('@');
  if (at == std::string::npos || at + 1 == operand.size()) return "";
  const char* const type = type_of_size(operand.substr(0, at));
  const std::string where = operand.substr(at + 1);
  if (!type) return "";
  if (where[0] == '$') {
    int64_t n = 0;
    const char* const end = where.data() + where.size();
    return std::from_chars(where.data() + 1, end, n).ptr == end && where.size() > 1
               ? fmt::format("({}){}", type, n)
               : "";
  }
  if (where[0] == '%')
    return is_register_name(where.substr(1)) ? fmt::format("({})${}", type, where.substr(1)) : "";
  const std::string address = memory_address(where);
  return address.empty() ? "" : fmt::format("*({}*)({})", type, address);
}

std::vector<StaticProbe> static_probes(const Module& module) {
  std::vector<StaticProbe> probes;
  Elf* elf = nullptr;
  try {
    elf = module.elf().elf();
  } catch (const Error&) {
    return probes;
  }
  size_t names = 0;
  if (!elf || elf_getshdrstrndx(elf, &names) != 0) return probes;
  uint64_t prelinked = 0;
  std::vector<Elf_Data*> notes;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section));) {
    GElf_Shdr header;
    const char* name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : nullptr;
    if (!name) continue;
    if (std::strcmp(name, ".stapsdt.base") == 0) prelinked = header.sh_addr;
    if (header.sh_type == SHT_NOTE && std::strcmp(name, ".note.stapsdt") == 0)
      if (Elf_Data* data = elf_getdata(section, nullptr)) notes.push_back(data);
  }
  for (Elf_Data* data : notes) {
    GElf_Nhdr note;
    size_t name_at = 0, text_at = 0;
    for (size_t at = 0; (at = gelf_getnote(data, at, &note, &name_at, &text_at)) > 0;) {
      const auto* bytes = static_cast<const char*>(data->d_buf);
      if (note.n_type != kProbeNote ||
          std::string_view(bytes + name_at, note.n_namesz) != std::string_view("stapsdt", 8))
        continue;
      if (auto probe = probe_of({bytes + text_at, note.n_descsz}, prelinked, module.bias))
        probes.push_back(std::move(*probe));
    }
  }
  return probes;
}

}  // namespace backstep::symbols
