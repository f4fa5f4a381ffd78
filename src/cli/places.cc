// The log says where each file was mapped and under which key its contents are stored, so names come from the
// very bytes that ran, not from what lies at that path today.
#include "cli/places.h"

#include "base/error.h"

namespace backstep::cli {

void Places::add(const recording::Event& event) {
  if (event.kind != recording::EventKind::Map) return;
  mappings_.push_back({event.addr, event.addr + event.length, event.offset, event.text, event.key});
}

void Places::add_ancestors(const recording::FileHeader& child) {
  if (static_cast<recording::Birth>(child.birth) != recording::Birth::Fork || child.parent >= child.process)
    return;
  recording::LogReader parent(recording_.log_path(child.parent));
  add_ancestors(parent.file().header());
  recording::Event event;
  while (parent.next(event) && event.number < child.parent_event) add(event);
}

Places::Found Places::find(Address pc) {
  Found found;
  for (auto m = mappings_.rbegin(); m != mappings_.rend(); ++m) {
    if (pc < m->start || pc >= m->end) continue;
    found.file = m->name;
    found.offset = m->offset + (pc - m->start);
    if (const symbols::ElfFile* elf = m->key.empty() ? nullptr : file_of(m->key))
      found.place = elf->at_offset(found.offset);
    return found;
  }
  return found;
}

const symbols::ElfFile* Places::file_of(const std::string& key) {
  auto [entry, is_new] = files_.try_emplace(key);
  if (is_new) {
    try {
      std::string path = library_.contents_path(recording_, key);
      if (!path.empty()) entry->second = std::make_unique<symbols::ElfFile>(path);
    } catch (const Error&) {  // not ELF: nothing is known about it
    }
  }
  return entry->second.get();
}

}  // namespace backstep::cli
