// One quick walk over the log: of most events only the header and two numbers are looked at (some 10 ns
// each). Lists are kept of what is rare; the rest is looked up again, chunk by chunk, when it is asked for.
#include "timeline/log_index.h"

#include <fmt/format.h>
#include <linux/sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "guest/syscall_table.h"
#include "guest/thread.h"
#include "recording/codec.h"
#include "recording/tree.h"

namespace backstep::timeline {

using recording::EndKind;
using recording::Event;
using recording::EventHeader;
using recording::EventKind;

namespace {

bool has_moment(EventKind kind) {
  switch (kind) {
    case EventKind::Syscall:
    case EventKind::Instr:
    case EventKind::Signal:
    case EventKind::Turn:
    case EventKind::Shared:
    case EventKind::Resize:
    case EventKind::Gap:
    case EventKind::End:
      return true;
    default:
      return false;
  }
}

// System calls that start a process or a thread.
bool makes_tasks(uint16_t nr) {
  return nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone || nr == SYS_clone3;
}

}  // namespace

void LogIndex::scan(const ChunkStart& start,
                    const std::function<bool(const Moment&, std::span<const uint8_t>)>& f) const {
  Tick tick = start.chunk.first_tick;
  uint64_t number = start.base + start.chunk.first_event, previous = start.previous;
  const recording::Chunk chunk = start.file->again(start.chunk);
  std::span<const uint8_t> rest = chunk.events;
  while (!rest.empty() && number < start.cut) {
    EventHeader header;
    std::memcpy(&header, rest.data(), sizeof header);
    Moment m;
    m.event = number++;
    m.previous = previous;
    m.kind = static_cast<EventKind>(header.kind);
    m.flags = header.flags;
    m.nr = header.nr;
    m.tick = tick;
    m.wall_ns = start.chunk.wall_ns;
    if (has_moment(m.kind) || m.kind == EventKind::Checksum) {
      recording::Cursor c{rest.data() + sizeof header, rest.data() + header.size - 2};
      c.skip_order(header.flags);
      tick += c.varint();
      m.tick = tick;
      m.pc = c.varint();
      if (m.kind == EventKind::Syscall) {
        c.u32();  // the registers' digest
        m.made = c.signed_varint() != guest::kNotMade;
      }
    }
    if (!f(m, rest.first(header.size))) return;
    if (has_moment(m.kind)) previous = m.event + 1;
    rest = rest.subspan(header.size);
  }
}

LogIndex::LogIndex(const recording::Recording& recording, uint64_t process) {
  std::vector<uint64_t> cuts;
  for (uint64_t number = process;;) {
    auto file = std::make_unique<recording::LogFile>(recording.log_path(number));
    const recording::FileHeader header = file->header();
    chain_.insert(chain_.begin(), Log{std::move(file)});
    if (static_cast<recording::Birth>(header.birth) != recording::Birth::Fork || header.parent >= number)
      break;
    cuts.insert(cuts.begin(), header.parent_event);
    number = header.parent;
  }
  for (size_t i = 0; i < cuts.size(); i++) {
    chain_[i].cut = chain_[i].base + cuts[i];
    chain_[i + 1].base = chain_[i].cut;
  }
  find_relatives(recording);
  for (const Log& log : chain_) read(log);
}

// Which events are forks: each child says where it began. A child of vfork that executed a program says so in
// the log of that program.
void LogIndex::find_relatives(const recording::Recording& recording) {
  const recording::FileHeader own = chain_.back().file->header();
  const auto birth = static_cast<recording::Birth>(own.birth);
  for (const recording::ProcessInfo& info : recording::list_processes(recording)) {
    if (info.damaged) continue;
    if (birth == recording::Birth::Exec && info.number == own.parent) {
      predecessor_ = info.number;
      spawned_ = info.pid != own.pid;
    }
    for (const Log& log : chain_) {
      if (info.parent != log.file->header().process) continue;
      const uint64_t event = log.base + info.parent_event;
      if (info.birth == recording::Birth::Fork) children_[event] = info.number;
      if (info.birth == recording::Birth::Exec && info.pid != log.file->header().pid && event <= log.cut)
        spawned_children_.insert({static_cast<int>(info.pid), {event, info.number}});
    }
  }
}

void LogIndex::read(const Log& log) {
  constexpr int64_t kInterrupted = 128 + SIGINT;  // what programs that catch it, and shells, exit with
  recording::LogFile& file = *log.file;
  uint64_t previous = log.base;
  bool ended = false, first = true;
  while (auto chunk = file.next()) {
    if (log.base + chunk->first_event >= log.cut) break;
    const ChunkStart start{*chunk, &file, log.base, previous, log.cut};
    chunks_.push_back(start);
    chunks_.back().chunk.forget_events();
    scan(start, [&](const Moment& m, std::span<const uint8_t> bytes) {
      events_ = m.event + 1;
      if (first && log.base && has_moment(m.kind)) {
        first = false;
        forking_threads_.push_back(turns_.back().thread);
        birth_ = {m.tick, m.event + 1, m.pc + 2};
      }
      Event e;
      Tick tick = 0;
      switch (m.kind) {
        case EventKind::Map:
          recording::decode_event(bytes, tick, e);
          if (!e.key.empty()) files_.push_back({e.text, e.key, e.addr, e.offset});
          break;
        case EventKind::Note:
        case EventKind::Channel:
          notes_.insert(m.event);
          break;
        case EventKind::Start:
          recording::decode_event(bytes, tick, e);
          start_stack_ = e.values[RSP];
          break;
        case EventKind::Signal: {
          recording::decode_event(bytes, tick, e);
          auto* info = reinterpret_cast<const uint8_t*>(e.body.data());
          signals_.push_back({m, e.signo, {info, info + e.body.size()}});
          break;
        }
        case EventKind::Gap:
          recording::decode_event(bytes, tick, e);
          gaps_.emplace_back(m.tick, m.tick + e.ticks);
          break;
        case EventKind::Turn:
          recording::decode_event(bytes, tick, e);
          turns_.push_back({m.tick + 1, e.next_thread});
          if (static_cast<recording::TurnReason>(m.nr) == recording::TurnReason::Vforked)
            vforks_waiting_.push_back(m.pc);
          break;
        case EventKind::Syscall:
          if (!makes_tasks(m.nr)) break;
          recording::decode_event(bytes, tick, e);
          note_fork(m, e);
          break;
        case EventKind::End:
          recording::decode_event(bytes, tick, e);
          ended = true;
          end_call_ = e.end == EndKind::Exit || e.end == EndKind::Exec;
          switch (e.end) {
            case EndKind::Exit:
              was_ended_ = e.result == kInterrupted;
              end_text_ = fmt::format("the program exits with status {} here", e.result);
              break;
            case EndKind::Signal: {
              const char* name = sigabbrev_np(static_cast<int>(e.result));
              end_signal_ = static_cast<int>(e.result);
              end_text_ =
                  fmt::format("the program dies of SIG{} here", name ? name : std::to_string(e.result));
              break;
            }
            case EndKind::Exec:
              end_exec_ = true;
              successor_ = static_cast<uint64_t>(e.result);
              end_text_ = e.result
                              ? fmt::format(
                                    "the program becomes another one here (execve); `backstep replay -p {}` "
                                    "goes on with it",
                                    e.result)
                              : "the program becomes another one here (execve)";
              break;
            case EndKind::Stopped:
              end_text_ = "the recording was stopped here while the program ran on";
              break;
          }
          if (e.end != EndKind::Stopped) last_ = m;
          break;
        default:
          break;
      }
      if (has_moment(m.kind)) {
        if (m.kind != EventKind::End) last_ = m;
        previous = m.event + 1;
      }
      return true;
    });
  }
  if (!ended) {
    was_ended_ = !file.damage();
    end_text_ = file.damage() ? *file.damage() + "; this is the last moment before it"
                              : "the recorder was ended here, before the program";
  }
}

// Which of these calls made a process and not a thread: what clone3 was asked for is not in the log, but then
// the child has a log, or has run as a child of vfork.
void LogIndex::note_fork(const Moment& m, const Event& e) {
  if (e.result <= 0) return;
  bool forks = m.nr == SYS_fork || m.nr == SYS_vfork || children_.count(m.event) ||
               (m.nr == SYS_clone && !(e.args[0] & CLONE_THREAD) && !guest::is_lodger(e.args[0]));
  ForkMoment fork{m, static_cast<int>(e.result), false, 0};
  if (!vforks_waiting_.empty() && vforks_waiting_.back() == m.pc) {
    vforks_waiting_.pop_back();
    forks = fork.vfork = true;
    // The same pid may have been given out several times.
    auto [first, last] = spawned_children_.equal_range(fork.pid);
    for (; first != last; ++first)
      if (first->second.event <= m.event && first->second.log > fork.child) fork.child = first->second.log;
  } else if (auto child = children_.find(m.event); child != children_.end()) {
    fork.child = child->second;
  }
  if (forks) {
    forks_.push_back(fork);
  } else {
    thread_starts_.push_back(m);
  }
}

void LogIndex::each(uint64_t from,
                    const std::function<bool(const Moment&, std::span<const uint8_t>)>& f) const {
  bool more = true;
  for (size_t i = chunk_of(from); i < chunks_.size() && more; i++)
    scan(chunks_[i], [&](const Moment& m, std::span<const uint8_t> bytes) {
      return more = m.event < from || f(m, bytes);
    });
}

bool LogIndex::is_before(const replayer::Position& a, const replayer::Position& b) const {
  if (a.tick != b.tick || a.event == b.event) return a < b;
  // The first number that the next event can have there.
  auto first = [this](const replayer::Position& p) {
    const auto next = next_moment(p.event, [](const Moment&) { return true; });
    return replayer::Position{p.tick, next ? next->previous : ~0ull, p.pc};
  };
  return first(a) < first(b);
}

std::optional<Moment> LogIndex::next_moment(uint64_t from,
                                            const std::function<bool(const Moment&)>& wanted) const {
  std::optional<Moment> found;
  each(from, [&](const Moment& m, std::span<const uint8_t>) {
    if (has_moment(m.kind) && wanted(m)) found = m;
    return !found;
  });
  return found;
}

std::optional<Moment> LogIndex::previous_moment(uint64_t before,
                                                const std::function<bool(const Moment&)>& wanted) const {
  std::optional<Moment> found;
  if (before == 0) return found;
  for (size_t i = chunk_of(before - 1) + 1; i-- > 0 && !found;)
    scan(chunks_[i], [&](const Moment& m, std::span<const uint8_t>) {
      if (m.event < before && has_moment(m.kind) && wanted(m)) found = m;
      return m.event < before;
    });
  return found;
}

size_t LogIndex::chunk_of(uint64_t event) const {
  auto it = std::upper_bound(chunks_.begin(), chunks_.end(), event, [](uint64_t n, const ChunkStart& c) {
    return n < c.base + c.chunk.first_event;
  });
  return it == chunks_.begin() ? 0 : static_cast<size_t>(it - chunks_.begin()) - 1;
}

std::optional<Moment> LogIndex::at(uint64_t number) const {
  if (number >= events_) return std::nullopt;
  for (size_t i = chunk_of(number) + 1; i-- > 0;) {
    std::optional<Moment> found;
    scan(chunks_[i], [&](const Moment& m, std::span<const uint8_t>) {
      if (m.event > number) return false;
      if (has_moment(m.kind)) found = m;
      return true;
    });
    if (found) return found;
  }
  return std::nullopt;
}

bool LogIndex::may_be_call(const Moment& m, std::optional<uint64_t> nr) const {
  switch (m.kind) {
    case EventKind::Syscall:
      return m.made && (!nr || m.nr == recording::logged_number(*nr));
    case EventKind::Turn:
      if (static_cast<recording::TurnReason>(m.nr) != recording::TurnReason::Ended) return false;
      break;
    case EventKind::End:
      if (!end_call_) return false;
      break;
    default:
      return false;
  }
  return !nr || *nr == SYS_exit || *nr == SYS_exit_group || *nr == SYS_execve || *nr == SYS_execveat;
}

std::optional<Moment> LogIndex::next_call(uint64_t from,
                                          const std::function<bool(const Moment&)>& wanted) const {
  return next_moment(from, [&](const Moment& m) { return may_be_call(m, std::nullopt) && wanted(m); });
}

std::optional<Moment> LogIndex::previous_call(uint64_t before,
                                              const std::function<bool(const Moment&)>& wanted) const {
  return previous_moment(before, [&](const Moment& m) { return may_be_call(m, std::nullopt) && wanted(m); });
}

}  // namespace backstep::timeline
