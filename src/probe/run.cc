// One sweep: each place is a tap with the action Run. Debug code keeps its state from one call to the next,
// so the stretch is one window, replayed by one process; stateless code runs in windows like any other
// question.
//
// The replaying process cannot name places in the user's source. When it ends a call it sends the module's
// registers and stack along, and the module is a program with symbols like any other.
#include "probe/run.h"

#include <algorithm>
#include <cstring>

#include "probe/answers.h"
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
  return symbols::unwind(program, registers, read, kMost);
}

// Compilers have names as they were given, or with the folder in front.
bool same_file(const std::string& a, const std::string& b) {
  return a == b || a.ends_with("/" + b) || b.ends_with("/" + a);
}

bool is_users(const Module& module, const std::string& file) {
  return !file.empty() && std::any_of(module.regions.begin(), module.regions.end(),
                                      [&](const Region& r) { return same_file(r.file, file); });
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

timeline::Tap tap_of(const Place& place) {
  timeline::Tap tap;
  tap.action = timeline::Tap::Run;
  tap.start = place.pc;
  tap.function = place.function;
  tap.vector = place.needs_vector;
  return tap;
}

}  // namespace

RunResult run(session::Session& session, const Module& module, const RunRequest& request,
              const std::function<bool(const Note&)>& tell, const session::Watcher& watcher) {
  std::optional<symbols::Program> program;  // read when there is a failure
  timeline::Sweep sweep;
  sweep.from = request.stretch.from, sweep.to = request.stretch.to;
  for (const Place& place : module.places) sweep.taps.list.push_back(tap_of(place));
  sweep.debug_module = module.elf_path;
  sweep.stateless = request.parallel;
  sweep.debug_answers = answers(session);
  sweep.progress = watcher.progress;
  sweep.record = [&](const replayer::TapRecord& record, const uint8_t* bytes) {
    session::CapturedValues values(bytes);
    Note note;
    note.kind = static_cast<DebugNote>(values.word());
    note.at = session::position_of(record);
    note.thread = record.thread;
    if (record.tap < module.places.size()) {
      const uint32_t region = module.places[record.tap].region;
      if (region < module.regions.size()) note.region = &module.regions[region];
    }
    const auto text = values.next();
    note.text.assign(text.begin(), text.end());
    if ((note.kind == DebugNote::Failure || note.kind == DebugNote::Complaint) && record.values > 2) {
      if (!program) program = program_of(session, module);
      locate(note, module, *program, values.next());
    }
    return tell(note);
  };
  const timeline::Swept swept = session.timeline().sweep(sweep);
  RunResult result;
  result.complete = swept.complete;
  for (const replayer::TapCount& c : swept.counts) result.calls.push_back(c.matches);
  return result;
}

}  // namespace backstep::probe
