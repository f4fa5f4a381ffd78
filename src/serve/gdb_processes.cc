// The processes of the recording in one session.
//
// gdb follows a live program through fork, vfork and execve, and so it does here; each log has a timeline of
// its own, and this file changes over between them:
//
// * execve: a log ends, and its successor begins with the new program. A movement that comes to the end of
//   the one goes on at the start of the other, with the stop reply that a live execve has; gdb then drops the
//   old symbols, reads the new ones and sets its breakpoints again. `reverse-continue` at the start of the
//   new program is the same, the other way round: gdb is told that the process executes the old program, and
//   finds it at its last moment. Single steps back stop at the start: gdb forgets at an execve that it was
//   stepping, and would run on to the beginning of all.
// * fork: gdb may go on with the child. It then detaches from the parent, and the session is about the
//   child's timeline, which has the parent's past.
// * vfork: the child's life in its parent's memory is in the parent's log, as a thread's. gdb is told of it
//   when it is over, behind the call, so that breakpoints in between were met; the next thing that it hears
//   is that the parent has its memory again. If it goes on with the child, the child's next news is its
//   execve.
// * `attach PID`, and `monitor process`: any other process. gdb has several at the same time as inferiors;
//   each stays where it is in time while another one moves.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "recording/process_facts.h"
#include "recording/tree.h"
#include "serve/gdb_server.h"

namespace backstep::serve {
namespace {

// Timelines that nobody looks at any more are kept in case one returns to them; the oldest goes.
constexpr size_t kIdle = 3;

std::string command_of(const recording::ProcessInfo& info) {
  return fmt::format("{}", fmt::join(info.argv, " "));
}

}  // namespace

GdbServer::Attached& GdbServer::selected() {
  auto found = attached_.find(pid_);
  if (found == attached_.end())
    throw Error("no process of the recording is attached; `attach PID` or `run` shows one");
  return found->second;
}

Debuggee& GdbServer::at() {
  Attached& a = selected();
  if (!a.view) {
    a.view = &held(a.log);
    if (std::exchange(a.at_birth, false)) {
      a.view->timeline.go_to_birth();
      a.view->forget();
      if (a.view->timeline.attention.stop_asked) interrupted_ = std::chrono::steady_clock::now();
    }
  }
  if (!a.borrowed) last_log_ = a.log;
  if (a.view->log() != files_of_) {
    files_of_ = a.view->log();
    files_.of(a.view->timeline.log());
  }
  return *a.view;
}

Debuggee& GdbServer::held(uint64_t log) {
  auto found = held_.find(log);
  if (found == held_.end()) {
    auto fresh = std::make_unique<Debuggee>(options_, library_, recording_, log, ear_);
    // Ctrl-C on the way there: what follows stops at once.
    if (fresh->timeline.attention.stop_asked) interrupted_ = std::chrono::steady_clock::now();
    // One with checkpoints of the user's stays.
    std::vector<std::pair<uint64_t, uint64_t>> idle;
    for (auto& [number, debuggee] : held_)
      if (debuggee->timeline.checkpoints().empty() &&
          std::none_of(attached_.begin(), attached_.end(),
                       [view = debuggee.get()](const auto& a) { return a.second.view == view; }))
        idle.emplace_back(debuggee->used, number);
    if (idle.size() > kIdle) held_.erase(std::min_element(idle.begin(), idle.end())->second);
    give_code(*fresh);
    found = held_.emplace(log, std::move(fresh)).first;
  }
  found->second->used = ++uses_;
  found->second->timeline.attention = ear_;
  return *found->second;
}

std::optional<int> GdbServer::process_of(std::string_view thread) {
  if (!thread.starts_with('p') || thread.starts_with("p-1")) return 0;
  thread.remove_prefix(1);
  const auto pid = take_hex(thread);
  return pid ? std::optional(static_cast<int>(*pid)) : std::nullopt;
}

void GdbServer::give_code(Debuggee& debuggee) {
  if (!code_.any()) return;
  if (!companion_) {
    companion_ = std::make_unique<probe::Companion>(debuggee.session, code_);
    for (const std::string& note : companion_->built().notes) fmt::print(stderr, "backstep: {}\n", note);
  }
  if (!companion_->fits(debuggee.session)) return;
  companion_->go_along(debuggee.session, false,
                       [this, &debuggee](const probe::Note& note) { tell_note(debuggee, note); });
}

// (What it prints is the process's output.)
void GdbServer::tell_note(Debuggee& debuggee, const probe::Note& note) {
  using replayer::DebugNote;
  std::string text = (note.kind == DebugNote::Json ? "" : "backstep: ") + note.sentence() + "\n";
  if (note.kind == DebugNote::Mark) {
    try {
      timeline::add_bookmark(recording_, note.text, debuggee.log(), {note.at.tick, note.at.pc},
                             "by debug code");
      return;
    } catch (const Error& e) {
      text = fmt::format("backstep: {}: {}\n", note.place(), e.what());
    }
  }
  if (stream_) tell(text);
}

// The process that a thread's name is about. False: gdb cannot mean that.
bool GdbServer::select(std::string_view thread) {
  const std::optional<int> pid = process_of(thread);
  if (pid == 0) return true;
  if (!pid || !attached_.count(*pid)) return false;
  pid_ = *pid;
  return true;
}

// `bc` and the like name no process: the last Hc does.
void GdbServer::select_to_continue() {
  if (attached_.count(continue_pid_)) pid_ = continue_pid_;
}

void GdbServer::attach(uint64_t log) {
  Debuggee& debuggee = held(log);
  pid_ = debuggee.pid;
  Attached& a = attached_[pid_];
  a = {};
  a.log = log;
  a.view = &debuggee;
  at();
}

std::optional<std::string> GdbServer::detach(int pid) {
  if (auto found = attached_.find(pid);
      found != attached_.end() && std::exchange(found->second.leave_due, false))
    return "OK";
  attached_.erase(pid);
  if (attached_.empty()) return extended_ ? std::optional<std::string>("OK") : std::nullopt;
  if (pid == pid_) pid_ = attached_.begin()->first;
  return "OK";
}

std::string GdbServer::attach_packet(std::string_view packet) {
  const auto pid = take_hex(packet);
  if (!pid) return "E01";
  auto known = attached_.find(static_cast<int>(*pid));
  const bool pending = known != attached_.end() && known->second.pending;
  if (known != attached_.end() && !pending) return error_text("this process is attached already");
  const uint64_t chosen = std::exchange(attach_to_, 0);
  if (chosen && held(chosen).pid == static_cast<int>(*pid)) {
    attach(chosen);
  } else {
    attach(recording::find_process(recording_, fmt::format("pid:{}", *pid)));
  }
  selected().leave_due = pending;
  at().forget();
  return last_stop_ = stop_reply("T05");
}

// The program that gdb has seen last, or that of the session, whichever it has not got as an inferior.
std::string GdbServer::run_again() {
  for (const uint64_t log : {last_log_, options_.process}) {
    if (attached_.count(held(log).pid)) continue;
    attach(log);
    timeline().go_to_start();
    at().forget();
    return last_stop_ = stop_reply("T05");
  }
  return error_text("another inferior has this process");
}

std::vector<std::string> GdbServer::thread_ids() {
  std::vector<std::string> all;
  for (auto& [pid, process] : attached_) {
    if (!process.view || process.borrowed) {
      all.push_back(thread_id(pid, pid));
    } else {
      for (const auto& t : process.view->state().threads) all.push_back(thread_id(pid, t.tid));
    }
  }
  return all;
}

std::string GdbServer::change_program(uint64_t log, Where where) {
  Debuggee& other = held(log);
  if (where == Start) other.timeline.go_to_start();
  if (where == End && other.timeline.go_to_end().why == Arrival::Interrupted)
    interrupted_ = std::chrono::steady_clock::now();  // gdb must be told of the program first
  if (where == End) other.timeline.come_from_behind();
  other.forget();
  Attached& a = selected();
  a = {};
  a.log = log;
  a.view = &other;
  return last_stop_ = stop_reply(fmt::format("T05exec:{};", to_hex(other.manifest.exe)));
}

std::optional<std::string> GdbServer::beyond(const Arrival& arrival, Way way) {
  if (!exec_events_) return std::nullopt;
  const timeline::LogIndex& log = timeline().log();
  uint64_t other = 0;
  if (arrival.why == Arrival::End && way == Forwards) other = log.successor();
  if (arrival.why == Arrival::Begin && way == Backwards && !log.spawned()) other = log.predecessor();
  if (!other) return std::nullopt;
  try {
    return change_program(other, way == Forwards ? Start : End);
  } catch (const Error& e) {
    tell(fmt::format("backstep: {}\n", e.what()));
    return std::nullopt;
  }
}

std::string GdbServer::before_the_beginning() {
  const timeline::LogIndex& log = timeline().log();
  const uint64_t before = log.predecessor();
  if (!before) return "";
  if (log.spawned())
    return fmt::format(
        "backstep: process #{} has started this program (vfork, posix_spawn); `monitor process #{}` leads "
        "there.\n",
        before, before);
  return fmt::format(
      "backstep: the program begins here (execve); before, the process ran another one (#{}){}.\n", before,
      exec_events_ ? ": reverse-continue goes back into it" : "");
}

// A new process; it shares what gdb has set in its parent.
std::string GdbServer::fork_head(const Arrival& arrival) {
  Attached& parent = selected();
  Attached child;
  child.log = arrival.child;
  child.points = parent.points;
  child.at_birth = child.pending = true;
  const bool vfork = arrival.vfork && caught_.vforks;
  parent.vfork_done = vfork;
  if (parent.vfork_done || !child.log) {
    child.borrowed = true;
    child.view = parent.view;
  }
  attached_[arrival.pid] = std::move(child);
  return fmt::format("{}:{};", vfork ? "vfork" : "fork", thread_id(arrival.pid, arrival.pid));
}

// What gdb is to hear before anything moves.
std::optional<std::string> GdbServer::pending_reply() {
  for (auto& [pid, process] : attached_) process.pending = false;
  Attached& a = selected();
  if (a.borrowed && a.log) return change_program(a.log, Start);
  if (!a.log) {
    tell(fmt::format(
        "backstep: nothing more of process {} was recorded. `run` returns to the start; with `set "
        "follow-fork-mode parent` gdb stays with the parent.\n",
        pid_));
    const std::string reply = fmt::format("W00;process:{:x}", pid_);
    attached_.erase(pid_);
    return reply;
  }
  if (std::exchange(a.vfork_done, false)) return last_stop_ = stop_reply("T05vforkdone:;");
  if (const uint64_t log = std::exchange(a.change_to, 0)) {
    // gdb goes on behind an execve that nobody wants to catch.
    std::string reply = change_program(log, Stay);
    selected().gone_to = Arrival{};
    return reply;
  }
  if (a.gone_to) return stop_reply(*std::exchange(a.gone_to, std::nullopt));
  return std::nullopt;
}

std::string GdbServer::list_processes() {
  std::string text;
  const uint64_t here = attached_.count(pid_) ? at().log() : 0;
  for (const recording::ProcessInfo& info : recording::list_processes(recording_)) {
    if (info.empty || info.damaged) continue;
    recording::ProcessFacts facts;
    facts.info = info;
    text += fmt::format("{} #{:<4} {:>8}  {:<5}  {:<7}  {}\n", info.number == here ? '*' : ' ', info.number,
                        info.pid, recording::birth_name(info), facts.end_text(), command_of(info));
  }
  return text;
}

std::string GdbServer::process_command(const std::vector<std::string>& words) {
  if (words.size() == 1) return list_processes();
  const std::string where = words.size() > 2 ? words[2] : "";
  if (words.size() > 3 || (!where.empty() && where != "start" && where != "end"))
    return "process [#N | PID [start | end]]\n";
  try {
    const uint64_t log = recording::find_process(recording_, words[1]);
    Debuggee& other = held(log);
    timeline::Timeline& timeline = other.timeline;
    if (where == "start") timeline.go_to_birth();
    if (where == "end") timeline.go_to_end();
    other.forget();
    const std::string name = fmt::format("process #{}, pid {}, at {}", log, other.pid, other.monitor.where());
    auto known = attached_.find(other.pid);
    if (known == attached_.end() || known->second.pending) {
      attach_to_ = log;
      return fmt::format("{}: `attach {}` in a new inferior shows it\n", name, other.pid);
    }
    if (known->second.log != log || !where.empty()) {
      if (known->second.log != log) {
        known->second.change_to = log;
      } else {
        known->second.gone_to = Arrival{};
      }
      return fmt::format("{}: the next step shows it\n", name);
    }
    return fmt::format("{}: this is {}\n", name, other.pid == pid_ ? "it" : "another inferior");
  } catch (const Error& e) {
    return fmt::format("{}\n", e.what());
  }
}

}  // namespace backstep::serve
