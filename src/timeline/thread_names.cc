// Names are given by prctl to the calling thread and by writing to /proc/…/task/TID/comm to another one; a
// new thread has its creator's. All of it is in the log, so one walk over it tells the names at all times.
#include "timeline/thread_names.h"

#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdio>

namespace backstep::timeline {

using recording::Event;
using recording::EventKind;

namespace {

constexpr size_t kLongest = 15;  // the kernel cuts off what is longer

std::string text_of(const Event& e) {
  for (const recording::Piece& piece : e.pieces)
    if (piece.kind == recording::PieceKind::Text) {
      std::string text(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
      text.resize(std::min(text.find_first_of(std::string_view("\0\n", 2)), text.size()));
      return text;
    }
  return "";
}

// "/proc/self/task/123/comm" -> 123; 0: something else.
int thread_of(const std::string& path) {
  int tid = 0, end = 0;
  if (std::sscanf(path.c_str(), "/proc/self/task/%d/comm%n", &tid, &end) == 1 &&
      static_cast<size_t>(end) == path.size())
    return tid;
  int pid = 0;
  end = 0;
  if (std::sscanf(path.c_str(), "/proc/%d/task/%d/comm%n", &pid, &tid, &end) == 2 &&
      static_cast<size_t>(end) == path.size())
    return tid;
  return 0;
}

bool concerns_names(uint16_t nr) {
  return nr == SYS_prctl || nr == SYS_openat || nr == SYS_open || nr == SYS_write || nr == SYS_close;
}

}  // namespace

ThreadNames::ThreadNames(const LogIndex& log, const std::string& program) {
  names_[1].push_back({0, program.substr(0, kLongest)});
  std::set<uint64_t> starts;
  for (const Moment& m : log.thread_starts()) starts.insert(m.event);
  std::map<int, int> by_tid;
  std::map<int64_t, int> comm_files;  // descriptor -> tid
  int current = 1, last = 1;
  auto name = [&](int thread, uint64_t event, std::string text) {
    text.resize(std::min(text.size(), kLongest));
    names_[thread].push_back({event, std::move(text)});
  };
  log.each(0, [&](const Moment& m, std::span<const uint8_t> bytes) {
    const bool starts_thread = starts.count(m.event) > 0;
    if (m.kind != EventKind::Turn &&
        !(m.kind == EventKind::Syscall && (starts_thread || concerns_names(m.nr))))
      return true;
    if (m.kind == EventKind::Syscall && (m.nr == SYS_write || m.nr == SYS_close) && comm_files.empty())
      return true;
    Event e;
    Tick tick = 0;
    recording::decode_event(bytes, tick, e);
    if (m.kind == EventKind::Turn) {
      current = e.next_thread;
      last = std::max(last, current);  // a child of vfork takes a name as well
      return true;
    }
    if (starts_thread) {
      name(++last, m.event, at(current, m.event));
      by_tid[static_cast<int>(e.result)] = last;
    } else if (m.nr == SYS_prctl) {
      if (e.args[0] == PR_SET_NAME && e.result == 0) name(current, m.event, text_of(e));
    } else if (m.nr == SYS_write) {
      auto file = comm_files.find(static_cast<int64_t>(e.args[0]));
      if (file == comm_files.end() || e.result <= 0) return true;
      auto thread = by_tid.find(file->second);
      name(thread == by_tid.end() ? 1 : thread->second, m.event, text_of(e));
    } else if (m.nr == SYS_close) {
      comm_files.erase(static_cast<int64_t>(e.args[0]));
    } else if (int tid = e.result >= 0 ? thread_of(text_of(e)) : 0) {
      comm_files[e.result] = tid;
    }
    return true;
  });
}

std::string ThreadNames::at(int thread, uint64_t event) const {
  auto found = names_.find(thread);
  if (found == names_.end()) return "";
  const std::vector<Named>& names = found->second;
  auto after = std::upper_bound(names.begin(), names.end(), event,
                                [](uint64_t e, const Named& n) { return e <= n.event; });
  return after == names.begin() ? names.front().name : std::prev(after)->name;
}

}  // namespace backstep::timeline
