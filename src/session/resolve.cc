// A specification becomes taps: its kind says which (session/kind.h), and each gets the condition and the era
// that all kinds may have.
#include "session/resolve.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "session/kind.h"
#include "session/session.h"
#include "symbols/program_names.h"

namespace backstep::session {
namespace {

// The conditions of a specification, at each of its places. False: it makes no sense at this one.
bool add_condition(Resolving& r, const events::Spec& spec, ResolvedTap& tap, std::exception_ptr& failed) {
  try {
    symbols::Compiler& compiler = r.session.compiler();
    if (!spec.condition.empty())
      tap.tap.conditions = {compiler.compile_condition(spec.condition, tap.pc, tap.offers)};
    if (!tap.only_if.empty())
      tap.tap.conditions = {compiler.compile_condition(tap.only_if_and(spec.condition), tap.pc, tap.offers)};
    return true;
  } catch (const symbols::ExpressionError& e) {
    if (!failed)
      failed = std::make_exception_ptr(events::SpecError(r.text, spec.condition_at + e.column, e.sentence));
    return false;
  }
}

// The taps of the `number`th specification of an event.
void add_taps(Resolving& r, const events::Spec& spec, size_t number) {
  auto& taps = r.result.taps;
  const size_t first = taps.size();
  kind_of(spec).taps(r, spec);
  std::exception_ptr failed;
  for (size_t i = first; i < taps.size(); i++) {
    ResolvedTap& one = taps[i];
    one.spec = number;
    one.tap.from = std::max(one.tap.from, spec.from), one.tap.to = std::min(one.tap.to, spec.to);
    one.tap.strict = true;
    if (!add_condition(r, spec, one, failed)) taps.erase(taps.begin() + static_cast<ptrdiff_t>(i--));
  }
  if (!spec.condition.empty() && first == taps.size() && failed) std::rethrow_exception(failed);
}

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
    const char* nothing = program.has_sources()
                              ? ": it is no source file of the program, and none has a similar name"
                              : ": the program has no debug information (compile it with -g)";
    throw Error(fmt::format("no code of '{}:{}' is known{}", file, line,
                            near.empty() ? nothing
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
  result.event = parse_event(text);
  Resolving resolving(session, text, result, uses_variables);
  const auto specs = events::specs_of(result.event);
  for (size_t i = 0; i < specs.size(); i++) add_taps(resolving, *specs[i], i);
  return result;
}

}  // namespace backstep::session
