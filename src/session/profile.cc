#include "session/profile.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "session/hits.h"
#include "session/instructions.h"

namespace backstep::session {
namespace {

// An entry of a stack.
std::string entry_name(const Session& session, Address pc, const std::string& function,
                       const std::string& file, int line, bool lines) {
  std::string name = function;
  if (name.empty()) {
    const symbols::Module* m = session.program().module_at(pc);
    name = m ? "[" + m->name.substr(m->name.rfind('/') + 1) + "]" : "[code without a file]";
  }
  if (lines && line) name += fmt::format(" ({}:{})", file.substr(file.rfind('/') + 1), line);
  return name;
}

Profile instruction_profile(Session& session, const ProfileRequest& request, const Watcher& watcher) {
  const InstructionCounts counts = count_instructions(session, request.stretch, watcher);
  if (counts.gone && watcher.note)
    watcher.note(fmt::format("{} bytes of code had been unmapped again, and are not counted", counts.gone));
  Profile result;
  result.period = 1;
  result.samples = counts.total;
  for (const auto& [pc, times] : counts.executed) {
    const auto frames = session.program().frames_at(pc);
    std::vector<std::string> stack;
    for (auto f = frames.rbegin(); f != frames.rend(); ++f)
      stack.push_back(entry_name(session, pc, f->function, f->file, f->line, request.lines));
    if (stack.empty()) stack.push_back(entry_name(session, pc, "", "", 0, false));
    result.stacks[stack] += times;
  }
  return result;
}

}  // namespace

Profile profile(Session& session, const ProfileRequest& request, const Watcher& watcher) {
  if (request.instructions) return instruction_profile(session, request, watcher);
  Profile result;
  result.period = request.period;
  timeline::Sweep sweep;
  timeline::Tap tap;
  tap.kind = timeline::Tap::Period;
  tap.action = timeline::Tap::Log;
  tap.length = request.period;
  tap.stack = true;
  sweep.taps.list.push_back(tap);
  sweep.from = request.stretch.from, sweep.to = request.stretch.to;
  sweep.progress = watcher.progress;
  sweep.record = [&](const replayer::TapRecord&, const uint8_t* bytes) {
    CapturedValues values(bytes);
    symbols::UnwindRegisters registers;
    const auto gpr = values.next();
    std::memcpy(registers.gpr, gpr.data(), std::min(gpr.size(), sizeof registers.gpr));
    bool complete = true;
    const auto frames =
        session.frames(registers, registers.gpr[symbols::UnwindRegisters::kRsp], values.next(), &complete);
    std::vector<std::string> stack;
    if (!complete) stack.push_back("[unknown]"), result.cut++;
    for (auto f = frames.rbegin(); f != frames.rend(); ++f)
      stack.push_back(entry_name(session, f->pc, f->function, f->file, f->line, request.lines));
    result.stacks[stack]++;
    result.samples++;
    return true;
  };
  session.timeline().sweep(sweep);
  return result;
}

std::vector<ProfileRow> rows_of(const Profile& profile) {
  std::unordered_map<std::string, ProfileRow> rows;
  for (const auto& [stack, n] : profile.stacks) {
    if (stack.empty()) continue;
    rows[stack.back()].self += n;
    // A function that calls itself has the tick once.
    for (const std::string& name : std::set<std::string>(stack.begin(), stack.end())) rows[name].total += n;
  }
  std::vector<ProfileRow> list;
  for (auto& [name, row] : rows) {
    row.name = name;
    list.push_back(row);
  }
  std::sort(list.begin(), list.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return std::tie(b.self, b.total, a.name) < std::tie(a.self, a.total, b.name);
  });
  return list;
}

}  // namespace backstep::session
