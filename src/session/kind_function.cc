// Functions: in front of the first instruction, and of those that leave them.
#include "session/kind.h"

#include <fmt/format.h>

#include "events/reader.h"
#include "session/exits.h"
#include "session/session.h"

namespace backstep::session {
namespace {

void read_function(events::Reader& r, events::Spec& s) {
  s.name = r.rest();
  if (s.name.empty()) r.fail("the name of a function is missing here, as in 'call malloc'");
}

void call_taps(Resolving& r, const events::Spec& spec) {
  const bool body = r.uses_variables || names_variables(spec.condition);
  for (const auto& f : functions_named(r.program(), spec.name, !body)) {
    ResolvedTap& tap = r.code(body ? f.body : f.entry);
    tap.offers.args = true;
    tap.offers.function = f.entry;
    tap.offers.outer = symbols::EventVariables::kNotInlined;
  }
}

void return_taps(Resolving& r, const events::Spec& spec) {
  size_t found = 0;
  for (const auto& f : functions_named(r.program(), spec.name))
    for (const Exit& exit : exits_of(r.program(), f)) {
      ResolvedTap& tap = r.code(exit.pc);
      tap.offers.retval = !exit.jump;
      tap.offers.function = f.entry;
      tap.offers.outer = symbols::EventVariables::kNotInlined;
      tap.only_if = exit.only_if;
      found++;
    }
  if (!found)
    throw Error(
        fmt::format("'{}' does not return: its code has no ret and no jump to another function", spec.name),
        kExitUsage);
}

}  // namespace

extern const KindOfEvent kCall{{"call", read_function, {{"call F", "F is called; $arg0… are its arguments"}}},
                               call_taps};
extern const KindOfEvent kReturn{
    {"return",
     read_function,
     {{"return F", "F is left by its ret, or by a jump to another function; $retval"}}},
    return_taps};

}  // namespace backstep::session
