// Which events of the logs are calls, and which of these are meant; and calls and totals as JSON, which the
// command line and sessions have in common.
#include "session/syscalls.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "events/call_filter_values.h"
#include "guest/syscall_names.h"
#include "recording/ordered_log.h"
#include "recording/tree.h"
#include "timeline/moments.h"

namespace backstep::session {

using guest::Arg;
using recording::Event;
using Json = nlohmann::ordered_json;

Syscalls::Syscalls(const recording::Recording& recording, SyscallsRequest request)
    : recording_(recording),
      request_(std::move(request)),
      filter_(request_.filter),
      era_(recording, request_.processes.empty() ? 1 : request_.processes.front(), request_.from,
           request_.to),
      reader_(recording) {}

std::optional<events::Call> Syscalls::ask(uint64_t number, const Event& event, Era::Side side) const {
  if (side != Era::Side::Within) return {};
  const auto& meant = request_.processes;
  if (!meant.empty() && std::find(meant.begin(), meant.end(), number) == meant.end()) return {};
  const auto nr = reader_.number(number, event);
  if (!nr || !filter_.selects(*nr)) return {};
  events::Call call = reader_.call(number, event);
  if ((request_.failed && !call.failed()) || !filter_.matches(call)) return {};
  return call;
}

std::vector<DamagedLog> Syscalls::each(const std::function<bool(const events::Call&)>& call) const {
  uint64_t skip = 0, most = request_.limit;
  if (request_.last != kAllCalls) {
    uint64_t matches = 0;
    all([&](const events::Call&) { return ++matches; });
    skip = matches > request_.last ? matches - request_.last : 0;
    most = matches - skip;
  }
  if (most == 0) return {};
  uint64_t count = 0;
  return all([&](const events::Call& c) {
    if (skip > 0) return skip--, true;
    return call(c) && ++count < most;
  });
}

std::vector<DamagedLog> Syscalls::all(const std::function<bool(const events::Call&)>& call) const {
  Era passed = era_;
  return request_.processes.size() == 1 ? of_one(passed, call) : of_all(passed, call);
}

std::vector<DamagedLog> Syscalls::of_one(Era& era,
                                         const std::function<bool(const events::Call&)>& call) const {
  const uint64_t process = request_.processes.front();
  if (recording::is_without_events(recording_, process)) return {};
  recording::LogReader log(recording_.log_path(process), recording::first_thread(recording_, process));
  Event event;
  while (!era.is_over() && log.next(event))
    if (auto c = ask(process, event, era.side(process, event)); c && !call(*c)) return {};
  if (auto damage = log.damage()) return {{process, *damage}};
  return {};
}

std::vector<DamagedLog> Syscalls::of_all(Era& era,
                                         const std::function<bool(const events::Call&)>& call) const {
  recording::OrderedLogs logs(recording_, true);
  while (const recording::OrderedLog* log = era.is_over() ? nullptr : logs.next()) {
    const Era::Side side = era.side(log->number(), log->event());
    if (side == Era::Side::Behind) logs.drop(log->number());
    if (auto c = ask(log->number(), log->event(), side); c && !call(*c)) return {};
  }
  std::vector<DamagedLog> damaged;
  for (const auto& damage : logs.damage()) damaged.push_back({damage.number, damage.text});
  return damaged;
}

std::string error_name(int error) {
  const char* name = guest::name_of(guest::Names::Errno, static_cast<uint64_t>(error));
  return name ? name : std::to_string(error);
}

// An argument as a program wants it: numbers as numbers, texts as they are, all else as it is printed.
static Json argument_json(const events::Call& call, const guest::PrintedCall::Argument& argument,
                          size_t strings) {
  if (!call.knows(argument.index)) return nullptr;
  const events::Variable variable{events::Variable::ByPlace, {}, argument.index, {}};
  const Arg kind = argument.spec.kind;
  switch (kind) {
    case Arg::Int:
    case Arg::Uint:
    case Arg::Long:
    case Arg::Size:
    case Arg::Fd:
    case Arg::Pid: {
      const events::Number n = events::numbers_of(variable, call).at(0);
      return n < 0 ? Json(static_cast<int64_t>(n)) : Json(static_cast<uint64_t>(n));
    }
    case Arg::Argv: {
      Json list = Json::array();
      for (const auto& piece : call.view.pieces)
        if (piece.arg == argument.index && piece.kind == guest::PieceKind::Text)
          list.push_back(to_utf8({reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size()}));
      return list.empty() ? Json(to_utf8(argument.text)) : list;
    }
    default:
      break;
  }
  const bool shaped =
      argument.spec.shape != guest::Shape::None && argument.spec.shape != guest::Shape::CString;
  const bool text = kind == Arg::Path || kind == Arg::Str ||
                    (!shaped && (kind == Arg::In || kind == Arg::Out || kind == Arg::InOut ||
                                 kind == Arg::IovIn || kind == Arg::IovOut));
  if (text) {
    const auto texts = events::texts_of(variable, call);
    if (!texts.empty())
      return to_utf8(kind == Arg::Path ? texts[0].bytes : texts[0].bytes.substr(0, strings));
  }
  return to_utf8(argument.text);
}

Json syscall_json(const events::Call& call, size_t strings) {
  const guest::PrintedCall parts = events::print_call(call, strings);
  Json j = {{"at", timeline::point_text(call.tick, call.pc)},
            {"tick", call.tick},
            {"event", call.event},
            {"process", call.process},
            {"pid", call.pid},
            {"thread", call.thread},
            {"name", parts.name},
            {"nr", call.view.nr}};
  j["args"] = Json::object();
  j["raw"] = Json::array();
  for (const auto& argument : parts.arguments) {
    std::string name = argument.spec.name ? argument.spec.name : fmt::format("arg{}", argument.index);
    if (j["args"].contains(name)) name += fmt::format("_{}", argument.index);
    j["args"][name] = argument_json(call, argument, strings);
    j["raw"].push_back(call.knows(argument.index) ? Json(call.view.args[argument.index]) : Json(nullptr));
  }
  j["ret"] = call.returns ? Json(call.ret()) : Json(nullptr);
  j["error"] = call.failed() ? Json(error_name(call.error())) : Json(nullptr);
  if (call.failed()) j["errno"] = call.error();
  if (call.inexact) j["inexact"] = true;
  if (call.denied) j["denied"] = true;
  j["text"] = to_utf8(parts.line());
  return j;
}

void SyscallTotals::add(const events::Call& call) {
  Row& row = rows_[call.view.nr];
  row.nr = call.view.nr;
  row.calls++;
  row.bytes += events::bytes_moved(call);
  if (call.failed()) row.errors[call.error()]++;
}

std::string SyscallTotals::Row::name() const {
  return guest::syscall_name(nr);
}

uint64_t SyscallTotals::Row::failed() const {
  uint64_t sum = 0;
  for (auto [error, count] : errors) sum += count;
  return sum;
}

std::vector<std::pair<std::string, uint64_t>> SyscallTotals::Row::by_error() const {
  std::vector<std::pair<std::string, uint64_t>> list;
  for (auto [error, count] : errors) list.emplace_back(error_name(error), count);
  std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.second > b.second; });
  return list;
}

std::vector<const SyscallTotals::Row*> SyscallTotals::rows() const {
  std::vector<const Row*> sorted;
  for (const auto& [nr, row] : rows_) sorted.push_back(&row);
  std::sort(sorted.begin(), sorted.end(), [](const Row* a, const Row* b) {
    return a->calls != b->calls ? a->calls > b->calls : a->name() < b->name();
  });
  return sorted;
}

Json SyscallTotals::to_json() const {
  Json all = Json::array();
  for (const Row* row : rows()) {
    Json errors = Json::object();
    for (const auto& [name, count] : row->by_error()) errors[name] = count;
    all.push_back({{"name", row->name()},
                   {"nr", row->nr},
                   {"calls", row->calls},
                   {"errors", row->failed()},
                   {"bytes", row->bytes},
                   {"by_error", errors}});
  }
  return all;
}

}  // namespace backstep::session
