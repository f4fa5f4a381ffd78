// System calls, in front of them or behind them. The log says where they are.
#include "session/kind.h"

#include <sys/syscall.h>

#include <set>

#include <fmt/format.h>

#include "base/nearest.h"
#include "events/reader.h"
#include "guest/syscall_table.h"

namespace backstep::session {
namespace {

void read_syscall(events::Reader& r, events::Spec& s) {
  s.after = r.last_word({"after", "before"}) == "after";
  s.name = r.rest();
  if (s.name == "after" || s.name == "before") s.after = s.name == "after", s.name.clear();
  if (s.name.find(' ') != std::string::npos)
    r.fail("one system call is expected here, then 'before' or 'after', as in 'syscall write after'");
}

// How an argument of a system call is to be read. What depends on another one is a mere word.
symbols::EventVariables::CallArgument call_argument(const guest::ArgSpec& spec) {
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
std::vector<symbols::EventVariables::CallArgument> call_arguments(const events::Spec& spec,
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

void syscall_taps(Resolving& r, const events::Spec& spec) {
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
  ResolvedTap& tap = r.of_log(timeline::Tap::Call);
  tap.offers.call_args = call_arguments(spec, wanted);
  tap.tap.numbers = std::move(wanted);
  tap.tap.after = spec.after;
  tap.offers.retval = spec.after;
}

}  // namespace

extern const KindOfEvent kSyscall{
    {"syscall",
     read_syscall,
     {{"syscall [NAME] [before|after]",
       "a system call; $arg0… or, of one that is named, $fd, $path…; after it its result in $retval"}}},
    syscall_taps};

}  // namespace backstep::session
