// The debugger interface of the dynamic linker (<link.h>), seen from outside.
#include "serve/loaded_libraries.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "serve/packets.h"

namespace backstep::serve {
namespace {

constexpr size_t kMostLibraries = 10'000;
constexpr uint64_t kLongestName = 4096;

template <class T>
std::optional<T> get(const ReadGuest& read, Address at) {
  auto bytes = read(at, sizeof(T));
  if (bytes.size() != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string get_name(const ReadGuest& read, Address at) {
  std::string name;
  while (at && name.size() < kLongestName) {
    auto bytes = read(at, 64 - at % 64);
    if (bytes.empty()) break;
    for (uint8_t b : bytes) {
      if (!b) return name;
      name += static_cast<char>(b);
    }
    at += bytes.size();
  }
  return name;
}

uint64_t auxiliary(const std::vector<uint8_t>& auxv, uint64_t type) {
  for (size_t i = 0; i + sizeof(Elf64_auxv_t) <= auxv.size(); i += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t entry;
    std::memcpy(&entry, auxv.data() + i, sizeof entry);
    if (entry.a_type == type) return entry.a_un.a_val;
  }
  return 0;
}

}  // namespace

Address debug_pointer(const std::vector<uint8_t>& auxv, const ReadGuest& read) {
  const Address headers = auxiliary(auxv, AT_PHDR);
  const uint64_t count = auxiliary(auxv, AT_PHNUM);
  Address bias = 0, dynamic = 0;
  for (uint64_t i = 0; headers && i < count; i++) {
    auto header = get<Elf64_Phdr>(read, headers + i * sizeof(Elf64_Phdr));
    if (!header) return 0;
    if (header->p_type == PT_PHDR) bias = headers - header->p_vaddr;
    if (header->p_type == PT_DYNAMIC) dynamic = header->p_vaddr;
  }
  for (Address at = dynamic ? dynamic + bias : 0; at; at += sizeof(Elf64_Dyn)) {
    auto entry = get<Elf64_Dyn>(read, at);
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_DEBUG) return at + offsetof(Elf64_Dyn, d_un);
  }
  return 0;
}

std::vector<Loaded> loaded_libraries(const std::vector<uint8_t>& auxv, const ReadGuest& read) {
  std::vector<Loaded> result;
  // One list per name space (dlmopen); with r_version 2 they are chained.
  const Address pointer = debug_pointer(auxv, read);
  for (Address list = pointer ? get<Address>(read, pointer).value_or(0) : 0; list;) {
    auto debug = get<r_debug>(read, list);
    if (!debug || debug->r_version < 1) break;
    for (auto at = reinterpret_cast<Address>(debug->r_map); at && result.size() < kMostLibraries;) {
      auto entry = get<link_map>(read, at);
      if (!entry) break;
      result.push_back({at, entry->l_addr, reinterpret_cast<Address>(entry->l_ld),
                        get_name(read, reinterpret_cast<Address>(entry->l_name)), list});
      at = reinterpret_cast<Address>(entry->l_next);
    }
    if (debug->r_version < 2 || result.size() >= kMostLibraries) break;
    auto next = get<Address>(read, list + sizeof(r_debug));
    list = next.value_or(0);
  }
  return result;
}

std::vector<Loaded> KeptLibraries::with_kept(std::vector<Loaded> list,
                                             const std::function<bool(const std::string&)>& has_probes) {
  auto is_in = [](const std::vector<Loaded>& libraries, const Loaded& l) {
    return std::any_of(libraries.begin(), libraries.end(),
                       [&](const Loaded& other) { return other.base == l.base; });
  };
  for (const Loaded& l : list)
    if (!l.name.empty() && !is_in(kept_, l) && has_probes(l.name)) {
      kept_.push_back(l);
      first_ = {list.front()};
      for (const Loaded& other : list)
        if (other.name.find("/ld-") != std::string::npos) first_.push_back(other);
    }
  if (kept_.empty()) return list;
  if (list.empty()) list = first_;
  for (const Loaded& l : kept_)
    if (!is_in(list, l)) list.push_back(l);
  return list;
}

bool has_exception_probes(const std::string& file) {
  constexpr std::string_view kProbe{"libstdcxx\0throw", 15};
  std::ifstream in(file, std::ios::binary);
  std::string part, last;
  for (std::vector<char> buffer(1 << 20); in;) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    part.assign(last).append(buffer.data(), static_cast<size_t>(in.gcount()));
    if (part.find(kProbe) != std::string::npos) return true;
    last = part.substr(part.size() - std::min(part.size(), kProbe.size()));
  }
  return false;
}

std::string libraries_document(const std::vector<Loaded>& libraries) {
  std::string xml = "<library-list-svr4 version=\"1.0\"";
  if (!libraries.empty()) xml += fmt::format(" main-lm=\"{:#x}\"", libraries.front().link_map);
  xml += ">";
  for (const Loaded& l : libraries)
    if (!l.name.empty())
      xml += fmt::format("<library name=\"{}\" lm=\"{:#x}\" l_addr=\"{:#x}\" l_ld=\"{:#x}\" lmid=\"{:#x}\"/>",
                         escaped(l.name), l.link_map, l.base, l.dynamic, l.list);
  return xml + "</library-list-svr4>";
}

}  // namespace backstep::serve
