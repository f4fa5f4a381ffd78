// A Syscall event is a call and has all of it. The others (exit, exit_group, a successful execve) are told by
// what came of them: the End event has the exit status, and the manifest of the program that a process became
// has its command. What nobody wrote down stays unknown rather than guessed.
#include "events/recorded_call.h"

#include <sys/syscall.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "guest/syscall_table.h"
#include "recording/manifest.h"

namespace backstep::events {
namespace {

using guest::Arg;
using guest::Len;
using recording::EndKind;
using recording::EventKind;
using recording::ProcessInfo;

void add_text(guest::SyscallView& view, int argument, const std::string& text) {
  view.pieces.push_back(
      {argument, guest::PieceKind::Text, 0, std::as_bytes(std::span(text.data(), text.size())), 0, 0});
}

constexpr uint8_t kAll = 0x3f;

}  // namespace

guest::SyscallView view_of(const recording::Event& event) {
  guest::SyscallView view;
  view.nr = event.nr;
  view.result = event.result;
  std::copy(std::begin(event.args), std::end(event.args), view.args);
  for (const auto& piece : event.pieces)
    view.pieces.push_back({piece.arg, static_cast<guest::PieceKind>(piece.kind), piece.addr, piece.bytes,
                           piece.crc, piece.length});
  return view;
}

CallReader::CallReader(const recording::Recording& recording) : recording_(recording) {
  for (ProcessInfo& info : recording::list_processes(recording)) {
    if (info.birth == recording::Birth::Exec && info.spawned)
      spawned_[{info.parent, info.parent_event}] = info.number;
    processes_.emplace(info.number, std::move(info));
  }
}

// The program that the process (or its vfork child) becomes with this event; null: none that was recorded.
const ProcessInfo* CallReader::program_of(uint64_t process, const recording::Event& event) const {
  uint64_t number = 0;
  if (event.kind == EventKind::End) {
    if (event.end == EndKind::Exec && event.result > 0) number = static_cast<uint64_t>(event.result);
  } else if (auto spawned = spawned_.find({process, event.number}); spawned != spawned_.end()) {
    number = spawned->second;
  }
  auto info = processes_.find(number);
  return info == processes_.end() || info->second.damaged ? nullptr : &info->second;
}

std::optional<uint16_t> CallReader::number(uint64_t process, const recording::Event& event) const {
  switch (event.kind) {
    case EventKind::Syscall: {
      if (event.result == guest::kNotMade) return std::nullopt;
      if (event.number > 0) return event.nr;
      auto info = processes_.find(process);
      const bool child = info != processes_.end() && info->second.birth == recording::Birth::Fork;
      return child ? std::nullopt : std::optional(event.nr);
    }
    case EventKind::End:
      if (event.flags & recording::kAsynchronous) return std::nullopt;
      if (event.end == EndKind::Exit) return SYS_exit_group;
      if (event.end == EndKind::Exec) return SYS_execve;
      return std::nullopt;
    case EventKind::Turn:
      if (static_cast<recording::TurnReason>(event.nr) != recording::TurnReason::Ended ||
          (event.flags & recording::kAsynchronous))
        return std::nullopt;
      return program_of(process, event) ? SYS_execve : SYS_exit;
    default:
      return std::nullopt;
  }
}

void CallReader::describe_exec(const ProcessInfo& program, Call& call) const {
  try {
    const recording::Manifest m = recording::Manifest::load(recording_.manifest_path(program.number));
    call.texts = m.argv;
    call.texts.push_back(m.exe);
  } catch (const Error&) {
    return;  // killed before it could write one: then the command is not known
  }
  // `texts` does not change from here on, so the pieces may point into it.
  add_text(call.view, 0, call.texts.back());
  for (size_t i = 0; i + 1 < call.texts.size(); i++) add_text(call.view, 1, call.texts[i]);
  call.unknown = static_cast<uint8_t>(kAll & ~3);
}

Call CallReader::call(uint64_t process, const recording::Event& event) const {
  Call call;
  call.process = process;
  if (auto info = processes_.find(process); info != processes_.end()) call.pid = info->second.pid;
  call.thread = event.thread;
  call.event = event.number;
  call.tick = event.tick;
  call.pc = event.pc;
  if (event.kind == EventKind::Syscall) {
    call.view = view_of(event);
    call.inexact = event.flags & recording::kInexact;
    call.denied = event.flags & recording::kDenied;
    return call;
  }
  call.view.nr = number(process, event).value_or(SYS_exit);
  call.unknown = kAll;
  call.returns = call.view.nr == SYS_execve;
  if (call.view.nr == SYS_exit_group) {
    call.view.args[0] = static_cast<uint64_t>(event.result);
    call.unknown &= ~1;
  } else if (const ProcessInfo* program = program_of(process, event)) {
    describe_exec(*program, call);
  }
  return call;
}

guest::PrintedCall print_call(const Call& call, size_t strings) {
  guest::PrintedCall parts = guest::print_parts(call.view, strings);
  if (!call.unknown) return parts;
  for (auto& argument : parts.arguments)
    if (!call.knows(argument.index)) argument.text = "?";
  return parts;
}

bool moves_bytes(uint16_t nr) {
  const guest::Syscall& row = guest::syscall_row(nr);
  if (row.traits & guest::kMovesBytes) return true;
  const bool on_a_file = row.argc > 0 && row.args[0].kind == Arg::Fd;
  if (!on_a_file) return false;
  bool moves = false;
  for (const guest::ArgSpec& a : row.args) {
    if (a.kind == Arg::Str || a.kind == Arg::Path) return false;  // attributes and names, no contents
    if (a.kind == Arg::IovIn || a.kind == Arg::IovOut || a.kind == Arg::MsgIn || a.kind == Arg::MsgOut)
      moves = true;
    if (a.shape != guest::Shape::None) continue;
    if (a.kind == Arg::Out && (a.len == Len::Result || a.len == Len::ResultUpTo)) moves = true;
    if (a.kind == Arg::In && a.len == Len::ByArg && (row.traits & guest::kOutput)) moves = true;
  }
  return moves;
}

uint64_t bytes_moved(const Call& call) {
  return call.view.result > 0 && moves_bytes(call.view.nr) ? static_cast<uint64_t>(call.view.result) : 0;
}

}  // namespace backstep::events
