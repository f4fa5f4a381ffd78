// The replaying process cannot name places in the user's source. When it ends a call it sends the module's
// registers and stack along, and the module is a program with symbols like any other.
#include "probe/notes.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/text.h"
#include "session/hits.h"
#include "symbols/unwind.h"

namespace backstep::probe {
namespace {

using replayer::DebugNote;

// The recorded program's files and the module: calls lead from one to the other.
symbols::Program program_of(const session::Session& session, const Module& module) {
  std::vector<symbols::Module> all = session.program().modules();
  const auto behind =
      std::find_if(all.begin(), all.end(), [&](const symbols::Module& m) { return m.start > module.base; });
  all.insert(behind, {.name = module.elf_path,
                      .file = module.elf_path,
                      .start = module.base,
                      .end = module.base + module.size,
                      .bias = 0});
  return symbols::Program(std::move(all));
}

// The frames of the debug code, from what a failure brings along.
symbols::Stack stack_of(const symbols::Program& program, std::span<const uint8_t> bytes) {
  symbols::UnwindRegisters registers;
  const size_t head = sizeof registers.gpr;
  if (bytes.size() < head) return {};
  std::memcpy(registers.gpr, bytes.data(), head);
  const uint64_t start = registers.gpr[symbols::UnwindRegisters::kRsp] & ~7ull;
  const auto read = [&](uint64_t address, void* to, size_t size) {
    const uint64_t at = address - start, room = bytes.size() - head;
    if (at >= room || size > room - at) return false;
    std::memcpy(to, bytes.data() + head + at, size);
    return true;
  };
  constexpr size_t kMost = 64;
  symbols::Stack stack = symbols::unwind(program, registers, read, kMost);
  // Where it makes a thread glibc has no unwind information; the return address is on top of the stack.
  using Of = symbols::UnwindRegisters;
  if (stack.frames.size() == 1 && read(registers.gpr[Of::kRsp], &registers.gpr[Of::kRip], sizeof(uint64_t))) {
    registers.gpr[Of::kRsp] += sizeof(uint64_t);
    const symbols::Stack rest = symbols::unwind(program, registers, read, kMost);
    for (symbols::Frame frame : rest.frames) {
      frame.call_site |= stack.frames.size() == 1;
      stack.frames.push_back(frame);
    }
  }
  return stack;
}

// Compilers have names as they were given, or with the folder in front.
bool is_same_file(const std::string& a, const std::string& b) {
  return a == b || a.ends_with("/" + b) || b.ends_with("/" + a);
}

bool is_users(const Module& module, const std::string& file) {
  return !file.empty() && std::any_of(module.regions.begin(), module.regions.end(),
                                      [&](const Region& r) { return is_same_file(r.file, file); });
}

void locate(Note& note, const Module& module, const symbols::Program& program,
            std::span<const uint8_t> bytes) {
  bool users = false;
  for (const symbols::Frame& frame : stack_of(program, bytes).frames) {
    const uint64_t pc = frame.call_site ? frame.pc - 1 : frame.pc;
    for (auto& f : program.frames_at(pc)) {
      // Functions of debug code may be in files of their own; a region's is better.
      const bool its_own = pc >= module.base && pc - module.base < module.size && f.line > 0;
      const bool better = its_own && !users && (note.line == 0 || is_users(module, f.file));
      if (better) note.file = f.file, note.line = f.line, users = is_users(module, f.file);
      note.stack.push_back(std::move(f));
    }
  }
}

}  // namespace

Note NoteReader::read(const replayer::TapRecord& record, const uint8_t* bytes) {
  session::CapturedValues values(bytes);
  Note note;
  note.kind = static_cast<DebugNote>(values.word());
  note.at = session::position_of(record);
  note.thread = record.thread;
  if (record.tap < module_.places.size()) {
    const uint32_t region = module_.places[record.tap].region;
    if (region < module_.regions.size()) note.region = &module_.regions[region];
  }
  const auto text = values.next();
  note.text.assign(text.begin(), text.end());
  if ((note.kind == DebugNote::Failure || note.kind == DebugNote::Complaint) && record.values > 2) {
    if (!program_) program_ = program_of(session_, module_);
    locate(note, module_, *program_, values.next());
  }
  return note;
}

// (The compiler takes a snippet's name for that of a file in the working folder.)
std::string Note::place() const {
  const size_t snippet = file.find("--at ");
  const std::string shown = snippet == std::string::npos ? file : file.substr(snippet);
  const bool ours = shown.ends_with("<backstep>");  // what is around the user's code
  if (line && !ours) return fmt::format("{}:{}", shown, line);
  return region ? region->file : "debug code";
}

std::string Note::sentence() const {
  const std::string moment = replayer::place(at.tick, at.pc);
  switch (kind) {
    case DebugNote::Failure:
    case DebugNote::Complaint:
      return fmt::format("{}: it {} (at {}, thread {})", place(), text, moment, thread);
    case DebugNote::Stop:
      return fmt::format("stopped at {}: {}", moment, text);
    default:
      return text;
  }
}

nlohmann::ordered_json Note::to_json() const {
  using Json = nlohmann::ordered_json;
  static constexpr const char* kNames[] = {"output", "errors", "failure", "stop", "mark", "log", "complaint"};
  Json json{{"at", replayer::place(at.tick, at.pc)}, {"tick", at.tick}, {"pc", at.pc}, {"thread", thread}};
  if (region) json["code"] = fmt::format("{}:{}", region->file, region->line);
  const auto number = static_cast<size_t>(kind);
  Json value = kind == DebugNote::Json ? Json::parse(text, nullptr, false) : Json(to_utf8(text));
  if (value.is_discarded()) value = to_utf8(text);
  if (number < std::size(kNames)) json[kNames[number]] = std::move(value);
  if (line) json["file"] = to_utf8(file), json["line"] = line;
  return json;
}

}  // namespace backstep::probe
