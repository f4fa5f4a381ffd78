// A place in the code: a line, the first instruction of a function, an address.
#include "session/kind.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "events/reader.h"
#include "session/session.h"

namespace backstep::session {
namespace {

void read_place(events::Reader& r, events::Spec& s) {
  s.name = r.rest();
  if (s.name.starts_with("*")) s.name.erase(0, 1);
  if (s.name.empty()) r.fail("a place is missing here, such as foo.c:12");
}

// What begins with no kind's word.
void read_plain_place(events::Reader& r, events::Spec& s) {
  const std::string word = r.peek_word();
  read_place(r, s);
  if (s.name.find(' ') != std::string::npos && s.name.find('(') == std::string::npos &&
      s.name.find('<') == std::string::npos)
    r.fail(fmt::format("'{}' is no kind of event; 'backstep events' lists them", word));
}

// How many of the functions that were inlined at a place are called by the line that it belongs to, so that
// they have not begun.
unsigned calls_out(const symbols::Program& program, Address pc, const symbols::LineMatch& line) {
  const auto frames = program.frames_at(pc);
  for (size_t i = 0; i < frames.size(); i++)
    if (frames[i].line == line.line && frames[i].file == line.file) return static_cast<unsigned>(i);
  return 0;
}

void place_taps(Resolving& r, const events::Spec& spec) {
  uint64_t address = 0;
  if (spec.name.starts_with("0x")) {
    const char* end = spec.name.data() + spec.name.size();
    auto [p, error] = std::from_chars(spec.name.data() + 2, end, address, 16);
    if (error != std::errc() || p != end)
      throw Error(fmt::format("'{}' is not an address", spec.name), kExitUsage);
    r.code(address);
    return;
  }
  const size_t colon = spec.name.rfind(':');
  const bool line = colon != std::string::npos && colon > 0 && spec.name[colon - 1] != ':' &&
                    colon + 1 < spec.name.size() &&
                    spec.name.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (!line) {
    const bool body = r.uses_variables || !spec.condition.empty();
    for (const auto& f : functions_named(r.program(), spec.name, !body))
      r.code(body ? f.body : f.entry).offers.outer = symbols::EventVariables::kNotInlined;
    return;
  }
  const std::string file = spec.name.substr(0, colon);
  const int number = std::atoi(spec.name.c_str() + colon + 1);
  for (const auto& m : lines_named(r.program(), file, number)) {
    if (m.line != number)
      r.note(fmt::format("line {} of {} has no code; line {} is meant", number, file, m.line));
    for (Address a : m.addresses) r.code(a).offers.outer = calls_out(r.program(), a, m);
  }
}

}  // namespace

extern const KindOfEvent kPlainPlace{
    {"",
     read_plain_place,
     {{"foo.c:12, pc foo.c:12", "the line is about to be executed (each place of its code)"},
      {"0x401136, pc main", "this instruction; the first one of a function"}}},
    place_taps};
extern const KindOfEvent kPlace{{"pc", read_place}, place_taps};

}  // namespace backstep::session
