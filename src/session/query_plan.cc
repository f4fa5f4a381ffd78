// A condition is used three times. First its words say where to look at all: what it cannot hold without (a
// function, a line, an address) becomes the list of places, so that nothing else is replayed with taps. Then
// it is reduced for each of these places: what is known there (which function it is, which line) is true or
// false. What is left of expressions becomes the tap's own condition, which the replaying process evaluates.
// Only what has to do with stacks is left to whoever collects the matches (query.cc).
#include "session/query_plan.h"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "guest/syscall_table.h"
#include "replay/agent_expression_hot.h"
#include "session/exits.h"
#include "session/memory_place.h"
#include "symbols/program_names.h"

namespace backstep::session {

using events::Query;
using events::QueryCondition;
using timeline::Tap;

namespace {

constexpr size_t kMostQueryPlaces = 100'000;

Remainder constant(bool yes) {
  return {yes ? Remainder::Op::True : Remainder::Op::False};
}

// And, Or: constants are gone, or are all that is left.
Remainder joined(Remainder::Op op, std::vector<Remainder> parts) {
  const bool all = op == Remainder::Op::And;
  const auto absorbing = all ? Remainder::Op::False : Remainder::Op::True;
  const auto neutral = all ? Remainder::Op::True : Remainder::Op::False;
  Remainder r{op};
  for (Remainder& p : parts) {
    if (p.op == absorbing) return p;
    if (p.op != neutral) r.parts.push_back(std::move(p));
  }
  if (r.parts.empty()) return constant(all);
  if (r.parts.size() == 1) return Remainder(r.parts[0]);
  return r;
}

bool is_of_expressions(const Remainder& r) {
  if (r.op >= Remainder::Op::Captured) return false;
  return std::all_of(r.parts.begin(), r.parts.end(), is_of_expressions);
}

void conjuncts_of(Remainder r, std::vector<Remainder>& list) {
  if (r.op != Remainder::Op::And) {
    list.push_back(std::move(r));
    return;
  }
  for (Remainder& p : r.parts) conjuncts_of(std::move(p), list);
}

bool asks_for_stack(const Remainder& r) {
  return r.op == Remainder::Op::Stack || std::any_of(r.parts.begin(), r.parts.end(), asks_for_stack);
}

// Both must hold: whoever has fewer. One of them must: all of both, if both have some.
template <class T>
void add_needs(std::optional<std::vector<T>>& to, const std::optional<std::vector<T>>& more, bool both,
               bool first) {
  if (first) {
    to = more;
  } else if (both) {
    if (more && (!to || more->size() < to->size())) to = more;
  } else if (!to || !more) {
    to.reset();
  } else {
    to->insert(to->end(), more->begin(), more->end());
  }
}

}  // namespace

// --- names ---

FunctionPattern::FunctionPattern(const symbols::Program& program, const std::string& name) : name_(name) {
  if (events::has_wildcards(name)) return;
  for (const auto& f : program.entries(name)) entries_.push_back(f.entry);
}

bool FunctionPattern::fits_name(const std::string& name) const {
  if (name.empty()) return false;
  const symbols::SplitName split = symbols::split_name(name);
  if (!events::has_wildcards(name_))
    return symbols::matches(symbols::split_name(symbols::split_file(name_).function), split);
  return events::fits_wildcards(name_, std::string(split.qualified)) ||
         (!split.parts.empty() && events::fits_wildcards(name_, std::string(split.parts.back())));
}

bool FunctionPattern::fits(const symbols::Program& program, Address pc, const std::string& name,
                           bool inlined) {
  if (fits_name(name)) return true;
  if (inlined || entries_.empty()) return false;
  auto [known, fresh] = known_.try_emplace(pc, false);
  if (fresh) {
    const auto function = program.function_at(pc);
    known->second =
        function && std::find(entries_.begin(), entries_.end(), function->entry) != entries_.end();
  }
  return known->second;
}

FunctionPattern& QueryPlan::pattern(const std::string& name) {
  auto found = patterns_.find(name);
  if (found == patterns_.end())
    found = patterns_.emplace(name, FunctionPattern(session_.program(), name)).first;
  return found->second;
}

// --- what a condition needs ---

QueryPlan::Needs QueryPlan::needs_of(const QueryCondition& c) {
  Needs needs;
  switch (c.op) {
    case QueryCondition::Op::And:
    case QueryCondition::Op::Or:
      for (size_t i = 0; i < c.parts.size(); i++) {
        const Needs part = needs_of(c.parts[i]);
        const bool both = c.op == QueryCondition::Op::And;
        add_needs(needs.functions, part.functions, both, i == 0);
        add_needs(needs.names, part.names, both, i == 0);
        add_needs(needs.sources, part.sources, both, i == 0);
      }
      break;
    case QueryCondition::Op::Function:
      needs.functions = {c.text};
      break;
    case QueryCondition::Op::Stack:
      if (c.frames.back() != "*" && c.frames.back() != "?") needs.functions = {c.frames.back()};
      break;
    case QueryCondition::Op::Name:
      needs.names = {c.text};
      break;
    case QueryCondition::Op::Source:
      needs.sources = {&c};
      break;
    default:
      break;
  }
  return needs;
}

void QueryPlan::expressions_of(const QueryCondition& c, std::vector<const QueryCondition*>& list) const {
  if (c.op == QueryCondition::Op::Expression) list.push_back(&c);
  for (const QueryCondition& part : c.parts) expressions_of(part, list);
}

QueryPlan::QueryPlan(Session& session, const Query& query, const std::vector<std::string>& values,
                     const Watcher& watcher)
    : session_(session), query_(query), watcher_(watcher), needs_(needs_of(query.where)) {
  std::vector<const QueryCondition*> expressions;
  expressions_of(query.where, expressions);
  for (const QueryCondition* c : expressions) {
    uses_variables_ |= names_variables(c->text);
    uses_retval_ |= c->text.find("$retval") != std::string::npos;
  }
  for (const std::string& v : values) {
    uses_variables_ |= names_variables(v);
    uses_retval_ |= v.find("$retval") != std::string::npos;
  }
  for (const QueryCondition* source : needs_.sources.value_or(std::vector<const QueryCondition*>()))
    lines_meant(*source);
  switch (query.type) {
    case Query::Type::FuncEnter:
    case Query::Type::FuncExit:
      add_functions(query.type == Query::Type::FuncEnter);
      break;
    case Query::Type::BlockEntry:
      add_blocks();
      break;
    case Query::Type::Line:
      add_lines();
      break;
    case Query::Type::Store:
    case Query::Type::Load:
      add_accesses();
      break;
    case Query::Type::Syscall:
      add_calls();
      break;
    case Query::Type::Signal:
      add_signals();
      break;
  }
  // A condition that makes sense nowhere is a mistake.
  if (taps_.empty() && failed_) std::rethrow_exception(failed_);
}

// --- where to look ---

std::vector<symbols::Function> QueryPlan::functions_meant(bool with_inlined) {
  const symbols::Program& program = session_.program();
  std::vector<symbols::Function> list;
  std::set<Address> known;
  auto add_real = [&](const symbols::Function& f) {
    if (!f.inlined) {
      if (known.insert(f.entry).second) list.push_back(f);
    } else if (with_inlined) {
      const auto around = program.function_at(f.entry);
      if (around && known.insert(around->entry).second) list.push_back(*around);
    }
  };
  if (needs_.functions) {
    for (const std::string& name : *needs_.functions) {
      if (events::has_wildcards(name)) {
        for (const auto& module : program.modules())
          for (const auto& f : program.all_functions(module))
            if (pattern(name).fits(program, f.entry, f.name, f.inlined)) add_real(f);
        continue;
      }
      const auto copies = with_inlined ? program.functions(name, true) : std::vector<symbols::Function>();
      for (const auto& f : copies.empty() ? functions_named(program, name) : copies) add_real(f);
    }
    return list;
  }
  if (needs_.sources) {
    for (const auto& module : program.modules())
      for (const auto& code : program.line_table(module))
        for (const QueryCondition* source : *needs_.sources)
          if (is_source(*source, code.file, code.line))
            if (const auto f = program.function_at(code.start)) add_real(*f);
    return list;
  }
  for (const auto& module : program.modules())
    for (const auto& f : program.all_functions(module)) add_real(f);
  return list;
}

void QueryPlan::add_functions(bool enter) {
  for (const auto& f : functions_meant(false)) {
    Candidate c;
    c.in_code = c.real_function = true;
    c.function = f.name;
    c.resolved.offers.function = f.entry;
    c.resolved.tap.kind = Tap::Pc;
    c.code = {f.entry, f.entry + 1};
    if (enter) {
      c.resolved.offers.args = true;
      c.resolved.pc = c.resolved.tap.start = uses_variables_ ? f.body : f.entry;
      add(c);
      continue;
    }
    for (const Exit& exit : exits_of(session_.program(), f)) {
      c.resolved.offers.retval = !exit.jump;
      c.resolved.pc = c.resolved.tap.start = exit.pc;
      c.resolved.only_if = exit.only_if;
      c.code = {exit.pc, exit.pc + 1};
      add(c);
    }
  }
}

void QueryPlan::add_blocks() {
  Blocks blocks(session_, watcher_);
  auto add_block = [&](const Block& block) {
    Candidate c;
    c.in_code = true;
    c.code = block;
    c.resolved.tap.kind = Tap::Pc;
    c.resolved.pc = c.resolved.tap.start = block.start;
    add(c);
  };
  if (!needs_.functions && !needs_.sources) {
    for (const Block& block : blocks.executed()) add_block(block);
    return;
  }
  for (const auto& f : functions_meant(true))
    for (const Block& block : blocks.of(f)) add_block(block);
}

void QueryPlan::add_lines() {
  const symbols::Program& program = session_.program();
  std::set<std::pair<std::string, int>> wanted;
  auto add_function = [&](const symbols::Function& f) {
    for (const auto& code : program.line_table(*f.module))
      for (const auto& [from, to] : f.ranges)
        if (code.start >= from && code.start < to) wanted.insert({code.file, code.line});
  };
  if (needs_.sources) {
    for (const auto& module : program.modules())
      for (const auto& code : program.line_table(module))
        for (const QueryCondition* source : *needs_.sources)
          if (is_source(*source, code.file, code.line)) wanted.insert({code.file, code.line});
  } else if (needs_.functions) {
    for (const auto& f : functions_meant(true)) add_function(f);
  } else {
    for (const auto& module : program.modules())
      for (const auto& code : program.line_table(module)) wanted.insert({code.file, code.line});
    if (wanted.empty())
      throw Error("no source lines are known: the program has no debug information (compile it with -g)",
                  kExitUsage);
  }
  std::set<Address> known;
  for (const auto& [file, line] : wanted)
    for (const auto& match : program.lines(file, line)) {
      if (match.line != line) continue;
      for (Address pc : match.addresses) {
        if (!known.insert(pc).second) continue;
        Candidate c;
        c.in_code = true;
        c.code = {pc, pc + 1};
        c.file = match.file, c.line = line;
        c.resolved.tap.kind = Tap::Pc;
        c.resolved.pc = c.resolved.tap.start = pc;
        add(c);
      }
    }
}

// Data is watched where the condition says, by `addr=`. If something can match elsewhere, all loads or stores
// of the code that it can be in are looked at.
void QueryPlan::add_accesses() {
  const bool store = query_.type == Query::Type::Store;
  std::vector<const QueryCondition*> touches;
  std::function<void(const QueryCondition&)> collect = [&](const QueryCondition& c) {
    if (c.op == QueryCondition::Op::Touches) touches.push_back(&c);
    for (const QueryCondition& part : c.parts) collect(part);
  };
  collect(query_.where);
  if (reduce(query_.where, {}).op != Remainder::Op::False) return add_all_accesses(store);
  for (const QueryCondition* touch : touches) {
    Candidate c;
    c.touches = touch;
    ResolvedTap& r = c.resolved;
    r.tap.kind = store ? Tap::Store : Tap::Read;
    r.offers.addr = r.offers.new_value = true;
    r.offers.old_value = store;
    try {
      const MemoryPlace place = memory_behind(session_, touch->text, notes_);
      r.tap.start = place.address, r.tap.length = place.size;
      r.offers.value_type = place.type;
    } catch (const symbols::ExpressionError& e) {
      const size_t column = std::min(e.column, touch->columns.size() - 1);
      throw events::SpecError(query_.text, touch->columns[column], e.sentence);
    }
    add(c);
  }
}

void QueryPlan::add_all_accesses(bool store) {
  std::function<void(const QueryCondition&)> refuse = [&](const QueryCondition& c) {
    if (c.op == QueryCondition::Op::Touches)
      throw events::SpecError(
          query_.text, c.column,
          "addr=… is asked for so that nothing can match elsewhere: addr=&x and …, addr=&x or "
          "addr=&y; of other accesses, compare: addr == 0x…, addr >= &x");
    if (c.op == QueryCondition::Op::Stack)
      throw events::SpecError(query_.text, c.column,
                              fmt::format("the stack of a {} is known where addr=… says which memory it is; "
                                          "func=<…> and src=<…> say which code without that",
                                          store ? "store" : "load"));
    for (const QueryCondition& part : c.parts) refuse(part);
  };
  refuse(query_.where);
  Candidate c;
  c.accesses = true;
  ResolvedTap& r = c.resolved;
  r.tap.kind = Tap::Accesses;
  r.tap.length = store ? Tap::kStores : Tap::kLoads;
  r.offers.addr = r.offers.new_value = true;
  r.offers.old_value = store;
  if (needs_.functions) {
    for (const auto& f : functions_meant(true))
      for (auto [start, end] : f.ranges) r.tap.code.push_back({start, end});
  } else if (needs_.sources) {
    for (const auto& module : session_.program().modules())
      for (const auto& code : session_.program().line_table(module))
        for (const QueryCondition* source : *needs_.sources)
          if (is_source(*source, code.file, code.line)) r.tap.code.push_back({code.start, code.end});
  } else {
    notes_.push_back(
        fmt::format("each {} of the run is looked at, up to where there is a match; func=<…>, src=<…> or "
                    "addr=… make it quick",
                    store ? "store" : "load"));
  }
  if ((needs_.functions || needs_.sources) && r.tap.code.empty()) return;  // no such code
  add(c);
}

void QueryPlan::add_calls() {
  auto add_named = [&](const std::string& name) {
    const Resolved resolved =
        resolve(session_, "syscall " + name + (uses_retval_ ? " after" : " before"), false);
    for (const ResolvedTap& r : resolved.taps) {
      Candidate c;
      c.resolved = r;
      c.name = name;
      add(c);
    }
  };
  if (!needs_.names) return add_named("");
  const std::set<std::string> names(needs_.names->begin(), needs_.names->end());
  for (const std::string& name : names) add_named(name);
}

void QueryPlan::add_signals() {
  auto add_one = [&](const std::string& name) {
    const Resolved resolved = resolve(session_, "signal " + name, false);
    for (const ResolvedTap& r : resolved.taps) {
      Candidate c;
      c.resolved = r;
      c.name = name;
      add(c);
    }
  };
  auto with_prefix = [](const std::string& name) { return name.starts_with("SIG") ? name : "SIG" + name; };
  std::set<std::string> names;
  if (needs_.names) {
    for (const std::string& name : *needs_.names) names.insert(with_prefix(name));
  } else {
    for (int signo = 1; signo < NSIG; signo++)
      if (const char* name = sigabbrev_np(signo)) names.insert(with_prefix(name));
  }
  for (const std::string& name : names) add_one(name);
  if (needs_.names) return;
  // Those without a name.
  Candidate c;
  c.resolved = resolve(session_, "signal", false).taps.at(0);
  for (int signo = 1; signo <= NSIG; signo++)
    if (!sigabbrev_np(signo)) c.resolved.tap.numbers.insert(static_cast<uint64_t>(signo));
  add(c);
}

// --- what is known there ---

// A single line without code stands for the next one that has some; 0: all of the file.
std::pair<int, int> QueryPlan::lines_meant(const QueryCondition& c) {
  auto known = lines_.find(&c);
  if (known != lines_.end()) return known->second;
  const auto found = lines_named(session_.program(), c.text, std::max(c.first, 1));
  std::pair<int, int> lines{c.first, c.last};
  if (c.first && c.first == c.last && found[0].line != c.first) {
    lines = {found[0].line, found[0].line};
    notes_.push_back(
        fmt::format("line {} of {} has no code; line {} is meant", c.first, c.text, found[0].line));
  }
  return lines_.emplace(&c, lines).first->second;
}

bool QueryPlan::is_source(const QueryCondition& source, const std::string& file, int line) {
  const auto [first, last] = lines_meant(source);
  if (first && (line < first || line > last)) return false;
  return symbols::path_ends_with(symbols::clean_path(file, ""), symbols::clean_path(source.text, ""));
}

Remainder QueryPlan::reduced_source(const QueryCondition& c, const Candidate& candidate) {
  if (candidate.line) return constant(is_source(c, candidate.file, candidate.line));
  if (!candidate.in_code) return {Remainder::Op::Source, {}, &c};
  for (Address pc = candidate.code.start; pc < candidate.code.end; pc++) {
    const auto frames = session_.program().frames_at(pc);
    if (!frames.empty() && frames[0].line && is_source(c, frames[0].file, frames[0].line))
      return constant(true);
  }
  return constant(false);
}

Remainder QueryPlan::reduce(const QueryCondition& c, const Candidate& candidate) {
  switch (c.op) {
    case QueryCondition::Op::Always:
      return constant(true);
    case QueryCondition::Op::And:
    case QueryCondition::Op::Or: {
      std::vector<Remainder> parts;
      for (const QueryCondition& part : c.parts) parts.push_back(reduce(part, candidate));
      return joined(c.op == QueryCondition::Op::And ? Remainder::Op::And : Remainder::Op::Or,
                    std::move(parts));
    }
    case QueryCondition::Op::Not: {
      Remainder part = reduce(c.parts[0], candidate);
      if (part.op <= Remainder::Op::False) return constant(part.op == Remainder::Op::False);
      return {Remainder::Op::Not, {std::move(part)}};
    }
    case QueryCondition::Op::Expression:
      return {Remainder::Op::Expression, {}, &c};
    case QueryCondition::Op::Source:
      return reduced_source(c, candidate);
    case QueryCondition::Op::Function: {
      if (!candidate.in_code) return {Remainder::Op::Function, {}, &c};
      const Address pc = candidate.code.start;
      if (candidate.real_function)
        return constant(pattern(c.text).fits(session_.program(), pc, candidate.function, false));
      const auto frames = session_.program().frames_at(pc);
      return constant(!frames.empty() &&
                      pattern(c.text).fits(session_.program(), pc, frames[0].function, frames.size() > 1));
    }
    case QueryCondition::Op::Stack:
      return {Remainder::Op::Stack, {}, &c};
    case QueryCondition::Op::Name:
      if (query_.type == Query::Type::Signal)
        return constant(candidate.name == c.text || candidate.name == "SIG" + c.text);
      if (!candidate.name.empty()) return constant(candidate.name == c.text);
      throw events::SpecError(query_.text, c.column,
                              "a name is asked for by itself, or together with what has to hold as well: "
                              "name=<read> or name=<write>, name=<write> and arg0=1");
    case QueryCondition::Op::Touches: {
      if (!candidate.touches) return constant(false);
      return constant(candidate.touches == &c || candidate.touches->text == c.text);
    }
  }
  return constant(false);
}

// --- what workers evaluate ---

std::string QueryPlan::text_of(const Remainder& r) const {
  switch (r.op) {
    case Remainder::Op::Expression:
      return "(" + r.leaf->text + ")";
    case Remainder::Op::Not:
      return "!" + text_of(r.parts[0]);
    case Remainder::Op::And:
    case Remainder::Op::Or: {
      std::string text;
      for (const Remainder& p : r.parts)
        text += (text.empty() ? "(" : r.op == Remainder::Op::And ? " && " : " || ") + text_of(p);
      return text + ")";
    }
    default:
      return r.op == Remainder::Op::True ? "1" : "0";
  }
}

// `tick < 5000`: the rest of the run need not be looked at.
bool QueryPlan::take_ticks(const Remainder& r, Tap& tap) const {
  if (r.op != Remainder::Op::Expression) return false;
  std::string text = r.leaf->text;
  std::erase_if(text, [](char c) { return std::isspace(static_cast<unsigned char>(c)); });
  static constexpr std::string_view kTick = "$tick";
  if (!text.starts_with(kTick)) return false;
  text.erase(0, kTick.size());
  const size_t digits = text.find_first_not_of("<>=");
  Tick n = 0;
  if (digits == std::string::npos) return false;
  const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n == ~0ull) return false;
  const std::string sign = text.substr(0, digits);
  if (sign == "<" || sign == "<=" || sign == "==") tap.to = std::min(tap.to, sign == "<" ? n : n + 1);
  if (sign == ">" || sign == ">=" || sign == "==") tap.from = std::max(tap.from, sign == ">" ? n + 1 : n);
  return sign == "<" || sign == "<=" || sign == "==" || sign == ">" || sign == ">=";
}

void QueryPlan::keep_failure(const QueryCondition& leaf, const symbols::ExpressionError& e) {
  if (failed_) return;
  const size_t column = leaf.columns[std::min(e.column, leaf.columns.size() - 1)];
  failed_ = std::make_exception_ptr(events::SpecError(query_.text, column, e.sentence));
}

// False: it makes no sense at this place.
bool QueryPlan::compile(QueryTap& tap, std::vector<Remainder>& conjuncts) {
  const ResolvedTap& r = tap.resolved;
  std::string text;
  std::vector<const QueryCondition*> leaves;
  std::function<void(const Remainder&)> collect = [&](const Remainder& part) {
    if (part.op == Remainder::Op::Expression) leaves.push_back(part.leaf);
    for (const Remainder& p : part.parts) collect(p);
  };
  for (const Remainder& c : conjuncts) {
    text += (text.empty() ? "" : " && ") + text_of(c);
    collect(c);
  }
  text = r.only_if_and(text);
  if (text.empty()) return true;
  // One by one first, so that a mistake is shown where it is.
  for (const QueryCondition* leaf : leaves) {
    try {
      session_.compiler().compile_condition(leaf->text, r.pc, r.offers);
    } catch (const symbols::ExpressionError& e) {
      keep_failure(*leaf, e);
      return false;
    }
  }
  tap.resolved.tap.conditions = {session_.compiler().compile_condition(text, r.pc, r.offers)};
  return true;
}

// Does an expression read memory or registers (but for the program counter)?
bool reads_state(const std::vector<uint8_t>& code) {
  constexpr uint8_t kRip = 16;
  for (size_t at = 0; at < code.size();) {
    const uint8_t op = code[at];
    const int operands = replayer::operands_of(op);
    const bool memory = (op >= replayer::kRef8 && op <= replayer::kRef64) || op == replayer::kFloatRef80;
    const bool register_of_others =
        op == replayer::kReg && !(at + 2 < code.size() && code[at + 1] == 0 && code[at + 2] == kRip);
    if (operands < 0 || memory || register_of_others || op == replayer::kVector) return true;
    at += 1 + static_cast<size_t>(operands);
  }
  return false;
}

// What workers are to evaluate for a part that they cannot decide alone. False: it makes no sense here.
bool QueryPlan::capture(QueryTap& tap, Remainder& r) {
  if (r.op == Remainder::Op::Expression) {
    const ResolvedTap& at = tap.resolved;
    try {
      session_.compiler().compile_condition(r.leaf->text, at.pc, at.offers);
      const auto compiled = session_.compiler().compile("!!(" + r.leaf->text + ")", at.pc, at.offers);
      if (tap.accesses && reads_state(compiled.code.code))
        throw events::SpecError(
            query_.text, r.leaf->columns.empty() ? r.leaf->column : r.leaf->columns[0],
            "what a variable is worth is not known at a store or load that is not looked for at an "
            "address (addr=&x): this can be about addr, oldval, newval, pc, tick, thread and the "
            "addresses of variables");
      (tap.accesses ? tap.of_access : tap.resolved.tap.values).push_back(compiled.code);
    } catch (const symbols::ExpressionError& e) {
      keep_failure(*r.leaf, e);
      return false;
    }
    r.op = Remainder::Op::Captured;
    r.value = tap.captured++;
  }
  return std::all_of(r.parts.begin(), r.parts.end(), [&](Remainder& p) { return capture(tap, p); });
}

void QueryPlan::add(const Candidate& candidate) {
  Remainder whole = reduce(query_.where, candidate);
  if (whole.op == Remainder::Op::False) return;
  QueryTap tap;
  tap.resolved = candidate.resolved;
  tap.whole_functions = candidate.real_function;
  tap.accesses = candidate.accesses;
  Tap& t = tap.resolved.tap;
  t.action = Tap::Log;
  t.strict = true;
  std::vector<Remainder> all, here, later;
  if (whole.op != Remainder::Op::True) conjuncts_of(std::move(whole), all);
  for (Remainder& c : all) {
    if (take_ticks(c, t)) continue;
    (is_of_expressions(c) && !tap.accesses ? here : later).push_back(std::move(c));
  }
  tap.rest = joined(Remainder::Op::And, std::move(later));
  tap.needs_stack = asks_for_stack(tap.rest);
  if (!compile(tap, here) || !capture(tap, tap.rest)) return;
  if (taps_.size() >= kMostQueryPlaces)
    throw Error(
        fmt::format("this is more than {} places in the code: say more of where it is, with func=<…>, "
                    "src=<…> or stack=<…,f>",
                    kMostQueryPlaces),
        kExitUsage);
  taps_.push_back(std::move(tap));
}

}  // namespace backstep::session
