#include "session/profile.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "session/hits.h"
#include "session/instructions.h"
#include "session/stack_text.h"

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

// The same for stacks with the same names.
std::string key_of(const symbols::Stack& stack) {
  std::string key(1, stack.complete ? 'c' : '?');
  for (const symbols::Frame& f : stack.frames) {
    key.append(reinterpret_cast<const char*>(&f.pc), sizeof f.pc);
    key += f.call_site ? 'c' : '.';
  }
  return key;
}

// Outermost first.
std::vector<std::string> names_of(const Session& session, const symbols::Stack& stack, bool lines) {
  std::vector<std::string> names;
  if (!stack.complete) names.push_back("[unknown]");
  const std::vector<StackFrame> frames = session.named(stack);
  for (auto f = frames.rbegin(); f != frames.rend(); ++f)
    names.push_back(entry_name(session, f->pc, f->function, f->file, f->line, lines));
  return names;
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
  // Most samples have a stack that was there before.
  struct Seen {
    uint64_t* count;
    bool complete;
  };
  std::unordered_map<std::string, Seen> seen;
  sweep.record = [&](const replayer::TapRecord&, const uint8_t* bytes) {
    CapturedValues values(bytes);
    symbols::UnwindRegisters registers;
    const auto gpr = values.next();
    std::memcpy(registers.gpr, gpr.data(), std::min(gpr.size(), sizeof registers.gpr));
    const symbols::Stack found =
        unwound(session, registers, registers.gpr[symbols::UnwindRegisters::kRsp], values.next());
    const auto [known, fresh] = seen.try_emplace(key_of(found));
    if (fresh) known->second = {&result.stacks[names_of(session, found, request.lines)], found.complete};
    ++*known->second.count;
    if (!known->second.complete) result.cut++;
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
