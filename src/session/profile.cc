#include "session/profile.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "session/hits.h"

namespace backstep::session {

Profile profile(Session& session, const ProfileRequest& request, const Watcher& watcher) {
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
    for (auto f = frames.rbegin(); f != frames.rend(); ++f) {
      std::string name = f->function;
      if (name.empty()) {
        const symbols::Module* m = session.program().module_at(f->pc);
        name = m ? "[" + m->name.substr(m->name.rfind('/') + 1) + "]" : "[code without a file]";
      }
      if (request.lines && f->line)
        name += fmt::format(" ({}:{})", f->file.substr(f->file.rfind('/') + 1), f->line);
      stack.push_back(std::move(name));
    }
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
