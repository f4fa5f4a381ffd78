// A recorder that was killed wrote no manifest, and a forked child that became another program at once did
// not either; their logs tell how far they came.
#include "recording/process_facts.h"

#include <signal.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "recording/log_reader.h"

namespace backstep::recording {

namespace {

void complete_from_log(const Recording& r, ProcessFacts& facts) {
  ProcessInfo& info = facts.info;
  if (info.end) {
    facts.ticks = info.end->ticks;
    facts.events = info.end->events;
    return;
  }
  if (info.empty) return;
  try {
    LogReader log(r.log_path(info.number));
    Event event;
    while (log.next(event)) {
      facts.ticks = std::max(facts.ticks, event.tick);
      facts.events++;
      if (event.kind == EventKind::End)
        info.end = Manifest::End{event.end, event.result, -1, event.tick, facts.events, {}, -1};
    }
  } catch (const Error&) {
    info.damaged = true;
  }
}

}  // namespace

std::string ProcessFacts::end_text() const {
  if (info.empty) return "killed";
  if (info.damaged) return "damaged";
  if (!info.end) return "-";
  switch (info.end->kind) {
    case EndKind::Exit:
      return fmt::format("exit {}", info.end->status);
    case EndKind::Signal: {
      const char* name = sigabbrev_np(static_cast<int>(info.end->status));
      return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", info.end->status);
    }
    case EndKind::Exec:
      return info.end->status ? fmt::format("exec {}", info.end->status) : "exec";
    case EndKind::Stopped:
      return "stopped";
  }
  return "?";
}

std::vector<ProcessFacts> process_facts(const Recording& recording) {
  std::vector<ProcessFacts> all;
  std::map<uint64_t, uint64_t> starts;
  for (ProcessInfo& info : list_processes(recording)) {
    starts[info.number] = info.start_ns;
    ProcessFacts facts;
    facts.info = std::move(info);
    complete_from_log(recording, facts);
    all.push_back(std::move(facts));
  }
  for (ProcessFacts& facts : all) {
    const auto& end = facts.info.end;
    if (!end) continue;
    if (end->cpu_ns >= 0) facts.cpu_ns = end->cpu_ns;
    if (end->duration_ns >= 0) {
      facts.duration_ns = end->duration_ns;
    } else if (auto next = starts.find(static_cast<uint64_t>(end->status));
               end->kind == EndKind::Exec && next != starts.end() && facts.info.start_ns &&
               next->second >= facts.info.start_ns) {
      facts.duration_ns = static_cast<int64_t>(next->second - facts.info.start_ns);
    }
  }
  return all;
}

TreeFacts tree_facts(const std::vector<ProcessFacts>& all) {
  TreeFacts tree;
  std::map<std::string, size_t> ends;
  for (const ProcessFacts& facts : all) {
    tree.logs++;
    tree.processes += facts.begins_process();
    tree.events += facts.events;
    tree.ticks += facts.ticks;
    tree.cpu_ns += facts.cpu_ns.value_or(0);
    const auto& end = facts.info.end;
    if (end && end->kind == EndKind::Exec && end->status) continue;  // goes on in another log
    ends[facts.info.end || facts.info.empty || facts.info.damaged ? facts.end_text() : "without an end"]++;
  }
  tree.ends.assign(ends.begin(), ends.end());
  std::stable_sort(tree.ends.begin(), tree.ends.end(), [](auto& a, auto& b) { return a.second > b.second; });
  return tree;
}

}  // namespace backstep::recording
