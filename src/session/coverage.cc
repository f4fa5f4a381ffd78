// Workers know which blocks of code they executed; of those in which the guest was stopped in the middle they
// do not know whether it came to the end. Those few instructions are counted in a second sweep.
#include "session/coverage.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "session/hits.h"
#include "session/modules.h"

namespace backstep::session {
namespace {

using timeline::Tap;

struct Range {
  Address start = 0, end = 0;
};

void join(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  size_t used = 0;
  for (const Range& r : ranges) {
    if (used && r.start <= ranges[used - 1].end) {
      ranges[used - 1].end = std::max(ranges[used - 1].end, r.end);
    } else {
      ranges[used++] = r;
    }
  }
  ranges.resize(used);
}

bool meets(const std::vector<Range>& ranges, Address start, Address end) {
  auto r = std::partition_point(ranges.begin(), ranges.end(), [&](const Range& x) { return x.end <= start; });
  return r != ranges.end() && r->start < end;
}

std::vector<Range> executed(Session& session, const Stretch& stretch, const Watcher& watcher) {
  std::vector<Range> ranges;
  std::set<Address> maybe;
  timeline::Sweep sweep;
  Tap tap;
  tap.kind = Tap::Cover;
  tap.action = Tap::Log;
  sweep.taps.list.push_back(tap);
  sweep.from = stretch.from, sweep.to = stretch.to;
  sweep.progress = watcher.progress;
  sweep.record = [&](const replayer::TapRecord&, const uint8_t* bytes) {
    CapturedValues values(bytes);
    const auto sure = values.next(), unsure = values.next();
    const size_t n = ranges.size();
    ranges.resize(n + sure.size() / sizeof(Range));
    if (!sure.empty()) std::memcpy(ranges.data() + n, sure.data(), sure.size());
    std::vector<Address> list(unsure.size() / sizeof(Address));
    if (!list.empty()) std::memcpy(list.data(), unsure.data(), unsure.size());
    maybe.insert(list.begin(), list.end());
    join(ranges);
    return true;
  };
  session.timeline().sweep(sweep);
  std::erase_if(maybe, [&](Address pc) { return meets(ranges, pc, pc + 1); });
  if (maybe.empty()) return ranges;

  timeline::Sweep second;
  second.from = stretch.from, second.to = stretch.to;
  for (Address pc : maybe) {
    Tap count;
    count.action = Tap::Count;
    count.start = pc;
    second.taps.list.push_back(count);
  }
  const auto swept = session.timeline().sweep(second);
  for (size_t i = 0; i < swept.counts.size(); i++)
    if (swept.counts[i].matches) ranges.push_back({second.taps.list[i].start, second.taps.list[i].start + 1});
  join(ranges);
  return ranges;
}

}  // namespace

size_t Coverage::File::executed_lines() const {
  return static_cast<size_t>(
      std::count_if(lines.begin(), lines.end(), [](const auto& l) { return l.second; }));
}

size_t Coverage::File::executed_functions() const {
  return static_cast<size_t>(
      std::count_if(functions.begin(), functions.end(), [](const auto& f) { return f.second.executed; }));
}

void Coverage::add(const Coverage& other) {
  for (const auto& [path, theirs] : other.files) {
    File& file = files[path];
    for (const auto& [line, yes] : theirs.lines) file.lines[line] |= yes;
    for (const auto& [name, function] : theirs.functions) {
      auto [it, fresh] = file.functions.try_emplace(name, function);
      it->second.executed |= function.executed;
    }
  }
}

void Coverage::subtract(const Coverage& other) {
  for (auto& [path, file] : files) {
    auto theirs = other.files.find(path);
    if (theirs != other.files.end()) {
      std::erase_if(file.lines, [&](const auto& l) {
        auto same = theirs->second.lines.find(l.first);
        return same != theirs->second.lines.end() && same->second;
      });
      std::erase_if(file.functions, [&](const auto& f) {
        auto same = theirs->second.functions.find(f.first);
        return same != theirs->second.functions.end() && same->second.executed;
      });
    }
    std::erase_if(file.lines, [](const auto& l) { return !l.second; });
    std::erase_if(file.functions, [](const auto& f) { return !f.second.executed; });
  }
  std::erase_if(files, [](const auto& f) { return f.second.lines.empty() && f.second.functions.empty(); });
}

Coverage coverage(Session& session, const Stretch& stretch, bool system, const Watcher& watcher) {
  const std::vector<Range> ranges = executed(session, stretch, watcher);
  Coverage result;
  for (const symbols::Module& module : session.program().modules()) {
    if (!system && is_of_the_system(module.name)) continue;
    for (const auto& code : session.program().line_table(module))
      if (code.line > 0 && code.start < code.end)
        result.files[code.file].lines[code.line] |= meets(ranges, code.start, code.end);
    for (const auto& f : session.program().all_functions(module)) {
      if (f.file.empty() || f.ranges.empty()) continue;
      auto& entry = result.files[f.file].functions[f.full.empty() ? f.name : f.full];
      entry.name = f.full.empty() ? f.name : f.full;
      entry.line = f.line;
      for (const auto& [start, end] : f.ranges) entry.executed |= meets(ranges, start, end);
    }
  }
  return result;
}

}  // namespace backstep::session
