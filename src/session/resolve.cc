// One function per kind of event says which taps it is. A tap is in code (Pc), on data, at a period, or at
// moments that the log knows: where system calls, signals, new threads and processes are needs no replay.
#include "session/resolve.h"

#include <sys/syscall.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <set>

#include <fmt/format.h>

#include "base/nearest.h"
#include "guest/syscall_table.h"
#include "session/exits.h"
#include "session/memory_place.h"
#include "session/session.h"
#include "symbols/program_names.h"

namespace backstep::session {
namespace {

std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); i++)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

std::string did_you_mean(const std::vector<std::string>& near) {
  return near.empty() ? "" : "; did you mean " + alternatives(near) + "?";
}

using events::Kind;
using events::Spec;
using timeline::Moment;
using timeline::Tap;

constexpr size_t kMostPlaces = 100'000;  // of one event

class Resolver {
 public:
  Resolver(Session& session, const std::string& text, Resolved& result, bool uses_variables)
      : session_(session), text_(text), result_(result), uses_variables_(uses_variables) {}

  void add(const Spec& spec, size_t number) {
    number_ = number;
    const size_t first = result_.taps.size();
    switch (spec.kind) {
      case Kind::Place:
        place(spec);
        break;
      case Kind::Tick:
      case Kind::Point:
        moment(spec);
        break;
      case Kind::Every:
        period(spec);
        break;
      case Kind::Read:
      case Kind::Write:
      case Kind::Change:
      case Kind::Access:
        data(spec);
        break;
      case Kind::Call:
        call(spec);
        break;
      case Kind::Return:
        leave(spec);
        break;
      case Kind::Syscall:
        syscalls(spec);
        break;
      case Kind::Signal:
        signals(spec);
        break;
      case Kind::Thread:
        from_log(session_.timeline().log().thread_starts());
        break;
      case Kind::Fork:
        of_log(Tap::Fork);
        break;
      case Kind::Exec:
        if (log().ends_with_exec()) from_log({log().last()});
        break;
      case Kind::Output:
        output(spec);
        break;
    }
    for (size_t i = first; i < result_.taps.size(); i++) {
      ResolvedTap& r = result_.taps[i];
      r.spec = number;
      r.tap.from = std::max(r.tap.from, spec.from), r.tap.to = std::min(r.tap.to, spec.to);
      r.tap.strict = true;
      if (!condition(spec, r)) result_.taps.erase(result_.taps.begin() + static_cast<ptrdiff_t>(i--));
    }
    if (!spec.condition.empty() && first == result_.taps.size() && failed_) std::rethrow_exception(failed_);
  }

 private:
  const timeline::LogIndex& log() { return session_.timeline().log(); }
  const symbols::Program& program() { return session_.program(); }

  ResolvedTap& code(Address pc) {
    if (result_.taps.size() >= kMostPlaces)
      throw Error(fmt::format("'{}' is more than {} places in the code", text_, kMostPlaces), kExitUsage);
    ResolvedTap& r = result_.taps.emplace_back();
    r.tap.kind = Tap::Pc;
    r.tap.start = r.pc = pc;
    return r;
  }

  // False: it makes no sense at this one of several places.
  bool condition(const Spec& spec, ResolvedTap& r) {
    try {
      symbols::Compiler& compiler = session_.compiler();
      if (!spec.condition.empty())
        r.tap.conditions = {compiler.compile_condition(spec.condition, r.pc, r.offers)};
      if (!r.only_if.empty())
        r.tap.conditions = {compiler.compile_condition(r.only_if_and(spec.condition), r.pc, r.offers)};
      return true;
    } catch (const symbols::ExpressionError& e) {
      if (!failed_)
        failed_ = std::make_exception_ptr(events::SpecError(text_, spec.condition_at + e.column, e.sentence));
      return false;
    }
  }

  void place(const Spec& spec) {
    uint64_t address = 0;
    if (spec.name.starts_with("0x")) {
      const char* end = spec.name.data() + spec.name.size();
      auto [p, error] = std::from_chars(spec.name.data() + 2, end, address, 16);
      if (error != std::errc() || p != end)
        throw Error(fmt::format("'{}' is not an address", spec.name), kExitUsage);
      code(address);
      return;
    }
    const size_t colon = spec.name.rfind(':');
    const bool line = colon != std::string::npos && colon > 0 && spec.name[colon - 1] != ':' &&
                      colon + 1 < spec.name.size() &&
                      spec.name.find_first_not_of("0123456789", colon + 1) == std::string::npos;
    if (!line) {
      const bool body = uses_variables_ || !spec.condition.empty();
      for (const auto& f : functions_named(program(), spec.name, !body)) code(body ? f.body : f.entry);
      return;
    }
    const std::string file = spec.name.substr(0, colon);
    const int number = std::atoi(spec.name.c_str() + colon + 1);
    for (const auto& m : lines_named(program(), file, number)) {
      if (m.line != number)
        result_.notes.push_back(
            fmt::format("line {} of {} has no code; line {} is meant", number, file, m.line));
      for (Address a : m.addresses) code(a).offers.line = m.line;
    }
  }

  void moment(const Spec& spec) {
    if (spec.kind == Kind::Point) {
      // An address comes twice in a tick only where a signal handler begins inside of another: both count.
      ResolvedTap& r = code(spec.pc);
      r.tap.from = spec.tick, r.tap.to = spec.tick + 1;
      return;
    }
    ResolvedTap& r = result_.taps.emplace_back();
    r.tap.kind = Tap::Moment;
    r.tap.moments = {{{spec.tick, 0, 0}, 0}};
  }

  void period(const Spec& spec) {
    ResolvedTap& r = result_.taps.emplace_back();
    r.tap.kind = Tap::Period;
    r.tap.length = spec.tick;
  }

  void data(const Spec& spec) {
    ResolvedTap& r = result_.taps.emplace_back();
    r.tap.kind = spec.kind == Kind::Read     ? Tap::Read
                 : spec.kind == Kind::Change ? Tap::Write
                 : spec.kind == Kind::Access ? Tap::Access
                                             : Tap::Store;
    r.offers.addr = r.offers.new_value = true;
    r.offers.old_value = spec.kind != Kind::Read;
    const MemoryPlace place = spec.size ? memory_at(session_, spec.name, *spec.size, result_.notes)
                                        : memory_of(session_, spec.name, result_.notes);
    r.tap.start = place.address, r.tap.length = place.size;
    r.offers.value_type = place.type;
  }

  void call(const Spec& spec) {
    const bool body = uses_variables_ || names_variables(spec.condition);
    for (const auto& f : functions_named(program(), spec.name, !body)) {
      ResolvedTap& r = code(body ? f.body : f.entry);
      r.offers.args = true;
      r.offers.function = f.entry;
    }
  }

  void leave(const Spec& spec) {
    size_t found = 0;
    for (const auto& f : functions_named(program(), spec.name))
      for (const Exit& exit : exits_of(program(), f)) {
        ResolvedTap& r = code(exit.pc);
        r.offers.retval = !exit.jump;
        r.offers.function = f.entry;
        r.only_if = exit.only_if;
        found++;
      }
    if (!found)
      throw Error(
          fmt::format("'{}' does not return: its code has no ret and no jump to another function", spec.name),
          kExitUsage);
  }

  ResolvedTap& from_log(const std::vector<Moment>& moments) {
    ResolvedTap& r = result_.taps.emplace_back();
    r.tap.kind = Tap::Moment;
    for (const Moment& m : moments) r.tap.moments.push_back({m.position(), m.event});
    return r;
  }

  ResolvedTap& of_log(Tap::Kind kind) {
    ResolvedTap& r = result_.taps.emplace_back();
    r.tap.kind = kind;
    r.tap.since = log().own();
    return r;
  }

  // How an argument of a system call is to be read. What depends on another one is a mere word.
  static symbols::EventVariables::CallArgument call_argument(const guest::ArgSpec& spec) {
    using Kind = symbols::EventVariables::CallArgument::Kind;
    using guest::Arg;
    const std::string name = spec.name ? spec.name : "";
    switch (spec.kind) {
      case Arg::Int:
      case Arg::Fd:
      case Arg::Pid:
      case Arg::Signal:
        return {name, Kind::Int};
      case Arg::Uint:
      case Arg::Mode:
        return {name, Kind::Unsigned};
      case Arg::Long:
        return {name, Kind::Long};
      case Arg::Path:
      case Arg::Str:
        return {name, Kind::Text};
      case Arg::None:
      case Arg::Hex:
      case Arg::Size:
      case Arg::Flags:
      case Arg::Enum:
      case Arg::Ioctl:
      case Arg::Fcntl:
      case Arg::Prctl:
      case Arg::Varies:
      case Arg::Unknown:
        return {name, Kind::Word};
      default:
        return {name, Kind::Pointer};
    }
  }

  // Behind a call its arguments are still in their registers, unless it has loaded these, as sigreturn does:
  // so which call it is has to be known.
  static std::vector<symbols::EventVariables::CallArgument> call_arguments(const Spec& spec,
                                                                           const std::set<uint64_t>& wanted) {
    constexpr size_t kMost = 6;
    if (wanted.size() != 1) {
      if (spec.after) return {};
      return std::vector<symbols::EventVariables::CallArgument>(kMost);
    }
    std::vector<symbols::EventVariables::CallArgument> arguments;
    const guest::Syscall& row = guest::syscall_row(*wanted.begin());
    if (spec.after && *wanted.begin() == SYS_rt_sigreturn) return {};
    for (size_t i = 0; i < row.argc && i < kMost; i++) arguments.push_back(call_argument(row.args[i]));
    return arguments;
  }

  void syscalls(const Spec& spec) {
    constexpr unsigned kNumbers = 512;
    std::set<uint64_t> wanted;
    for (unsigned nr = 0; nr < kNumbers && !spec.name.empty(); nr++) {
      const char* name = guest::syscall_row(nr).name;
      if (name && spec.name == name) wanted.insert(nr);
    }
    if (!spec.name.empty() && wanted.empty()) {
      Nearest nearest(spec.name, 3);
      for (unsigned nr = 0; nr < kNumbers; nr++)
        if (const char* name = guest::syscall_row(nr).name) nearest.offer(name);
      throw Error(fmt::format("there is no system call '{}'{}", spec.name, did_you_mean(nearest.names())),
                  kExitUsage);
    }
    ResolvedTap& r = of_log(Tap::Call);
    r.offers.call_args = call_arguments(spec, wanted);
    r.tap.numbers = std::move(wanted);
    r.tap.after = spec.after;
    r.offers.retval = spec.after;
  }

  void signals(const Spec& spec) {
    int wanted = 0;
    if (!spec.name.empty()) {
      for (int signo = 1; signo < NSIG; signo++)
        if (const char* name = sigabbrev_np(signo);
            name && (spec.name == name || spec.name == std::string("SIG") + name))
          wanted = signo;
      if (!wanted) {
        const std::string asked = spec.name.starts_with("SIG") ? spec.name : "SIG" + spec.name;
        Nearest nearest(asked, 3);
        for (int signo = 1; signo < NSIG; signo++)
          if (const char* name = sigabbrev_np(signo)) nearest.offer(std::string("SIG") + name);
        throw Error(fmt::format("there is no signal '{}'{}", spec.name, did_you_mean(nearest.names())),
                    kExitUsage);
      }
    }
    ResolvedTap& r = of_log(Tap::Signal);
    if (wanted) r.tap.numbers = {static_cast<uint64_t>(wanted)};
  }

  void output(const Spec& spec) {
    std::vector<Moment> moments;
    for (uint64_t from = log().own();;) {
      const auto m = session_.timeline().find_output(spec.name, from);
      if (!m) break;
      moments.push_back(*m);
      from = m->event + 1;
    }
    from_log(moments);
  }

  Session& session_;
  const std::string& text_;
  Resolved& result_;
  bool uses_variables_;
  size_t number_ = 0;
  std::exception_ptr failed_;
};

}  // namespace

std::vector<symbols::Function> functions_named(const symbols::Program& program, const std::string& name,
                                               bool only_entries) {
  std::vector<symbols::Function> found = only_entries ? program.entries(name) : program.functions(name);
  if (!found.empty()) return found;
  if (const auto copies = program.functions(name, true); !copies.empty()) {
    const symbols::Function& f = copies.front();
    throw Error(fmt::format("'{}' was inlined wherever it is called, so it is never entered{}", name,
                            f.line ? fmt::format("; name a line of it, such as {}:{}",
                                                 f.file.substr(f.file.rfind('/') + 1), f.line)
                                   : ""),
                kExitUsage);
  }
  throw Error(fmt::format("there is no function '{}' in the recorded program{}", name,
                          did_you_mean(program.nearest_functions(name))),
              kExitUsage);
}

// The last one before `line` that has code; 0: none, or there is no such file.
static int last_line(const symbols::Program& program, const std::string& file, int line) {
  int some = 0, none = line;
  while (none - some > 1) {
    const int middle = some + (none - some) / 2;
    (program.lines(file, middle).empty() ? none : some) = middle;
  }
  return some;
}

std::vector<symbols::LineMatch> lines_named(const symbols::Program& program, const std::string& file,
                                            int line) {
  auto found = program.lines(file, line);
  if (found.empty()) {
    if (const int last = last_line(program, file, line))
      throw Error(fmt::format("{} has no code at line {} or behind it; the last line that has some is {}",
                              file, line, last),
                  kExitUsage);
    const auto near = program.nearest_files(file);
    throw Error(fmt::format("no code of '{}:{}' is known{}", file, line,
                            near.empty() ? ": the program has no debug information (compile it with -g)"
                                         : "; files with that name or a similar one: " + alternatives(near)),
                kExitUsage);
  }
  std::set<std::string> files;
  for (const auto& m : found) files.insert(m.file);
  if (files.size() > 1)
    throw Error(fmt::format("'{}:{}' is ambiguous: {}; write more of the path", file, line,
                            alternatives({files.begin(), files.end()})),
                kExitUsage);
  return found;
}

bool names_variables(const std::string& expression) {
  auto in_word = [&](size_t i) {
    return i < expression.size() &&
           (std::isalnum(static_cast<unsigned char>(expression[i])) || expression[i] == '_');
  };
  for (size_t i = 0; i < expression.size(); i++) {
    const auto c = static_cast<unsigned char>(expression[i]);
    if (std::isalpha(c) || c == '_') return true;
    if (c != '$' && !std::isdigit(c)) continue;
    while (in_word(i + 1)) i++;
  }
  return false;
}

std::string ResolvedTap::only_if_and(const std::string& condition) const {
  if (condition.empty() || only_if.empty()) return condition.empty() ? only_if : condition;
  return "(" + only_if + ") && (" + condition + ")";
}

Resolved resolve(Session& session, const std::string& text, bool uses_variables) {
  Resolved result;
  result.event = events::parse(text);
  Resolver resolver(session, text, result, uses_variables);
  const auto specs = events::specs_of(result.event);
  for (size_t i = 0; i < specs.size(); i++) resolver.add(*specs[i], i);
  return result;
}

}  // namespace backstep::session
