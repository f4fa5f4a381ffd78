// Everything here is read from the system-call table: which arguments a call has, how wide they are, what
// they point to and which constants they are printed with. A row that is added there can be asked for at
// once.
#include "events/call_filter_values.h"

#include <sys/syscall.h>

#include <array>
#include <cstring>
#include <map>

#include "guest/syscall_names.h"
#include "guest/syscall_shapes.h"
#include "guest/syscall_table.h"

namespace backstep::events {
namespace {

using guest::Arg;
using guest::ArgSpec;
using guest::Names;
using guest::PieceKind;
using guest::Shape;
using Piece = guest::SyscallView::Piece;

constexpr struct {
  const char* name;
  Fact fact;
} kFacts[] = {{"ret", Fact::Ret},   {"errno", Fact::Errno},    {"fd", Fact::Fd},
              {"path", Fact::Path}, {"name", Fact::Name},      {"nr", Fact::Nr},
              {"tick", Fact::Tick}, {"event", Fact::Event},    {"thread", Fact::Thread},
              {"pid", Fact::Pid},   {"process", Fact::Process}};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Commands whose number fits in 32 bits may be followed by anything; but -1 is meant as such.
Number command(uint64_t value) {
  const auto small = static_cast<int32_t>(value);
  return small < 0 && small > -4096 ? Number{small} : Number{static_cast<uint32_t>(value)};
}

Number number_of(Arg kind, uint64_t value) {
  switch (kind) {
    case Arg::Int:
    case Arg::Fd:
    case Arg::Pid:
    case Arg::Signal:
      return static_cast<int32_t>(value);
    case Arg::Uint:
    case Arg::Mode:
    case Arg::Ioctl:
      return static_cast<uint32_t>(value);
    case Arg::Enum:
    case Arg::Fcntl:
    case Arg::Prctl:
      return command(value);
    case Arg::Flags:  // an int that was sign-extended
      return value >> 32 == 0xffff'ffff ? Number{static_cast<uint32_t>(value)} : Number{value};
    case Arg::Long:
      return static_cast<int64_t>(value);
    default:
      return value;
  }
}

// The argument of that name in this very call; -1: it has none.
int find_argument(const Call& call, const std::string& name) {
  const guest::Syscall& row = guest::syscall_row(call.view.nr);
  for (int i = 0; i < row.argc; i++) {
    const ArgSpec spec = guest::arg_spec(call.view.nr, call.view.args, i);
    if (spec.kind != Arg::None && spec.name && name == spec.name) return i;
  }
  for (int i = 0; i < row.argc; i++)
    if (row.args[i].name && name == row.args[i].name &&
        guest::arg_spec(call.view.nr, call.view.args, i).kind != Arg::None)
      return i;
  return -1;
}

// What was moved through a buffer, or the pieces of one; nullopt: the log does not have it.
std::optional<Text> contents(const Call& call, const ArgSpec& spec, int index) {
  Text text;
  bool found = false;
  uint64_t whole = 0;
  for (const Piece& piece : call.view.pieces) {
    if (piece.arg != index) continue;
    if (piece.kind == PieceKind::Sum) {
      whole += piece.length;
      continue;
    }
    // Of messages, the header is a piece, too.
    if (piece.kind == PieceKind::OutAtArg && (spec.kind == Arg::MsgOut || spec.kind == Arg::MsgIn)) continue;
    text.bytes += text_of(piece.bytes);
    found = true;
  }
  text.cut = whole > text.bytes.size();
  const bool nothing_came = spec.kind == Arg::Out && call.view.result == 0;
  if (!found && !nothing_came) return std::nullopt;
  return text;
}

std::optional<Text> argument_text(const Call& call, int index) {
  if (!call.knows(index)) return std::nullopt;
  const ArgSpec spec = guest::arg_spec(call.view.nr, call.view.args, index);
  switch (spec.kind) {
    case Arg::None:
      return std::nullopt;
    case Arg::Path:
    case Arg::Str:
      for (const Piece& piece : call.view.pieces)
        if (piece.arg == index && piece.kind == PieceKind::Text) return Text{text_of(piece.bytes)};
      return std::nullopt;
    case Arg::Argv: {
      std::optional<Text> text;
      for (const Piece& piece : call.view.pieces) {
        if (piece.arg != index || piece.kind != PieceKind::Text) continue;
        if (text) text->bytes += ' ';
        if (!text) text.emplace();
        text->bytes += text_of(piece.bytes);
      }
      return text;
    }
    case Arg::IovIn:
    case Arg::IovOut:
    case Arg::MsgIn:
    case Arg::MsgOut:
      return contents(call, spec, index);
    case Arg::In:
    case Arg::Out:
    case Arg::InOut:
    case Arg::InStruct:
    case Arg::OutStruct:
      if (spec.shape == Shape::CString || spec.shape == Shape::None) {
        auto text = contents(call, spec, index);
        if (text && spec.shape == Shape::CString)
          text->bytes.resize(std::min(text->bytes.size(), std::strlen(text->bytes.c_str())));
        return text;
      }
      if (!contents(call, spec, index)) return std::nullopt;
      break;
    default:
      break;
  }
  constexpr size_t kEnough = 4096;
  return Text{guest::print_argument(call.view, index, kEnough)};
}

template <typename F>
void each_argument(const Call& call, const F& f) {
  for (int i = 0; i < guest::syscall_row(call.view.nr).argc; i++)
    if (call.knows(i)) f(i, guest::arg_spec(call.view.nr, call.view.args, i));
}

// Descriptors that the call was given, and new ones that it made.
std::vector<Number> descriptors(const Call& call) {
  std::vector<Number> found;
  each_argument(call, [&](int i, const ArgSpec& spec) {
    if (spec.kind == Arg::Fd) found.push_back(number_of(Arg::Fd, call.view.args[i]));
    if (spec.shape != Shape::IntPair || call.failed()) return;
    for (const Piece& piece : call.view.pieces) {
      std::array<int32_t, 2> pair{};
      if (piece.arg != i || piece.kind != PieceKind::OutAtArg || piece.bytes.size() != sizeof pair) continue;
      std::memcpy(pair.data(), piece.bytes.data(), sizeof pair);
      found.insert(found.end(), pair.begin(), pair.end());
    }
  });
  constexpr uint32_t kDup = 0, kDupCloseOnExec = 1030;  // F_DUPFD, F_DUPFD_CLOEXEC
  const auto cmd = static_cast<uint32_t>(call.view.args[1]);
  const bool copied = call.view.nr == SYS_fcntl && (cmd == kDup || cmd == kDupCloseOnExec);
  if (call.view.result >= 0 && (copied || (guest::syscall_row(call.view.nr).traits & guest::kCreatesFd)))
    found.push_back(call.view.result);
  return found;
}

std::vector<Number> fact_numbers(Fact fact, const Call& call) {
  switch (fact) {
    case Fact::Ret:
      return call.returns ? std::vector<Number>{call.ret()} : std::vector<Number>{};
    case Fact::Errno:
      return call.returns ? std::vector<Number>{call.error()} : std::vector<Number>{};
    case Fact::Fd:
      return descriptors(call);
    case Fact::Path: {
      std::vector<Number> found;
      each_argument(call, [&](int i, const ArgSpec& spec) {
        if (spec.kind == Arg::Path) found.push_back(call.view.args[i]);
      });
      return found;
    }
    case Fact::Name:
    case Fact::Nr:
      return {call.view.nr};
    case Fact::Tick:
      return {call.tick};
    case Fact::Event:
      return {call.event};
    case Fact::Thread:
      return {call.thread};
    case Fact::Pid:
      return {call.pid};
    case Fact::Process:
      return {call.process};
  }
  return {};
}

std::vector<Text> fact_texts(Fact fact, const Call& call) {
  std::vector<Text> found;
  if (fact == Fact::Name) return {{guest::syscall_name(call.view.nr)}};
  if (fact == Fact::Errno) {
    const char* name = guest::name_of(Names::Errno, static_cast<uint64_t>(call.error()));
    return call.failed() && name ? std::vector<Text>{{name}} : std::vector<Text>{};
  }
  if (fact == Fact::Path) {
    each_argument(call, [&](int i, const ArgSpec& spec) {
      if (spec.kind != Arg::Path) return;
      if (auto text = argument_text(call, i)) found.push_back(std::move(*text));
    });
    return found;
  }
  for (Number n : fact_numbers(fact, call)) found.push_back({std::to_string(static_cast<int64_t>(n))});
  return found;
}

int place_of(const Variable& variable, const Call& call) {
  if (variable.kind == Variable::ByName) return find_argument(call, variable.name);
  return variable.place < guest::syscall_row(call.view.nr).argc ? variable.place : -1;
}

const std::map<std::string, Number>& constants() {
  static const std::map<std::string, Number> all = [] {
    std::map<std::string, Number> names = {{"NULL", 0}, {"AT_FDCWD", -100}};
    for (int id = 1; id < static_cast<int>(Names::Count); id++)
      for (const guest::NameEntry& entry : guest::name_table(static_cast<Names>(id)))
        names.emplace(entry.name, static_cast<int64_t>(entry.value));
    return names;
  }();
  return all;
}

}  // namespace

std::vector<Number> numbers_of(const Variable& variable, const Call& call) {
  if (variable.kind == Variable::OfCall) return fact_numbers(variable.fact, call);
  const int i = place_of(variable, call);
  if (i < 0 || !call.knows(i)) return {};
  return {number_of(guest::arg_spec(call.view.nr, call.view.args, i).kind, call.view.args[i])};
}

std::vector<Text> texts_of(const Variable& variable, const Call& call) {
  if (variable.kind == Variable::OfCall) return fact_texts(variable.fact, call);
  const int i = place_of(variable, call);
  if (i < 0) return {};
  auto text = argument_text(call, i);
  return text ? std::vector<Text>{std::move(*text)} : std::vector<Text>{};
}

std::optional<Fact> find_fact(const std::string& word) {
  for (const auto& entry : kFacts)
    if (word == entry.name) return entry.fact;
  return std::nullopt;
}

std::vector<std::string> fact_names() {
  std::vector<std::string> names;
  for (const auto& entry : kFacts) names.emplace_back(entry.name);
  return names;
}

std::optional<Number> find_constant(const std::string& word) {
  auto found = constants().find(word);
  return found == constants().end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> constant_names() {
  std::vector<std::string> names;
  for (const auto& [name, value] : constants()) names.push_back(name);
  return names;
}

std::set<std::string> argument_names(uint16_t nr) {
  const guest::Syscall& row = guest::syscall_row(nr);
  std::set<std::string> names;
  auto add = [&](const uint64_t args[6]) {
    for (int i = 0; i < row.argc; i++) {
      const ArgSpec spec = guest::arg_spec(nr, args, i);
      if (spec.kind != Arg::None && spec.name) names.insert(spec.name);
    }
  };
  uint64_t args[6] = {};
  add(args);
  for (int i = 0; i < row.argc; i++) {
    if (row.args[i].name) names.insert(row.args[i].name);
    // What another argument is called may depend on this one's value.
    const Names values = row.args[i].kind == Arg::Fcntl   ? Names::FcntlCommand
                         : row.args[i].kind == Arg::Prctl ? Names::PrctlOption
                                                          : static_cast<Names>(row.args[i].names);
    for (const guest::NameEntry& entry : guest::name_table(values)) {
      args[i] = entry.value;
      add(args);
    }
    args[i] = 0;
  }
  return names;
}

bool is_text_argument(uint16_t nr, const std::string& name) {
  for (const ArgSpec& spec : guest::syscall_row(nr).args)
    if (spec.name && name == spec.name) return spec.kind == Arg::Path || spec.kind == Arg::Str;
  return false;
}

}  // namespace backstep::events
