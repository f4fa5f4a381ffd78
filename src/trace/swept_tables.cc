// What only a replay knows: calls, stores, the history of variables, the execution of lines. A walk over one
// of these tables is a sweep of the session (session/session.h), over the ticks that the query allows: exact,
// and on all processors. Rows are handed on while the sweep still runs, and a query that has enough ends it.
//
// A sweep has to know what to look for, so each table needs a column to be told. In a join that is one sweep
// for each row of the tables before it; what was found is therefore kept, if it is not too much, for the next
// time that the same is asked.
#include <sqlite3.h>

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "recording/checkpoint_file.h"
#include "session/accesses.h"
#include "session/blocks.h"
#include "session/calls.h"
#include "session/kind.h"
#include "session/present.h"
#include "session/resolve.h"
#include "timeline/moments.h"
#include "trace/swept.h"

namespace backstep::trace {
namespace {

using session::Position;
using session::Session;
using session::Stretch;
using timeline::point_text;

// A specification that is what was meant, however the texts in it look: a name could contain a condition.
std::string checked_spec(const std::string& kind, const std::string& name) {
  const std::string spec = kind + " " + name;
  bool good = false;
  try {
    const events::Event e = session::parse_event(spec);
    good = e.op == events::Event::Op::One && e.spec.kind->word == kind && e.spec.name == name &&
           e.spec.condition.empty();
  } catch (const Error&) {
    good = false;
  }
  if (!good) throw Error(fmt::format("'{}' is not something that can be looked for", name), kExitUsage);
  return spec;
}

struct Source {
  Value function, file, line;
};
Source source_of(Session& session, Address pc) {
  const auto frames = session.program().frames_at(pc);
  if (frames.empty()) return {};
  return {known_text(frames[0].function), known_text(frames[0].file),
          frames[0].line ? Value(int64_t{frames[0].line}) : Value()};
}

bool uses_source(const Question& question) {
  return question.uses("function") || question.uses("file") || question.uses("line");
}

// ---- calls ----

// The functions that a question is about, and what it calls them, by entry. A name finds the same ones as for
// 'backstep calls': "malloc" is what libc has under another name as well.
struct Asked {
  std::vector<symbols::Function> functions;
  std::map<Address, std::string> names;

  void add(symbols::Function function, const std::string& name) {
    if (names.try_emplace(function.entry, name).second) functions.push_back(std::move(function));
  }
};

Asked functions_of(History& history, Session& session, const Question& question) {
  constexpr size_t kMost = 2'000;
  const symbols::Program& program = session.program();
  Asked asked;
  if (const auto names = equal_texts(question, "function")) {
    for (const std::string& name : *names) {
      try {
        for (auto& f : session::functions_named(program, name, false)) asked.add(std::move(f), name);
      } catch (const Error& e) {
        history.note(e.what());
      }
    }
  } else {
    std::vector<std::pair<Op, std::string>> patterns;
    for (Op op : {Op::Like, Op::Glob})
      if (const Constraint* c = question.find("function", op))
        if (const auto* text = std::get_if<std::string>(&c->values[0])) patterns.emplace_back(op, *text);
    if (patterns.empty()) return asked;
    auto fits = [&](const std::string& name) {
      return std::all_of(patterns.begin(), patterns.end(), [&](const auto& p) {
        return p.first == Op::Like ? sqlite3_strlike(p.second.c_str(), name.c_str(), 0) == 0
                                   : sqlite3_strglob(p.second.c_str(), name.c_str()) == 0;
      });
    };
    for (const symbols::Module& m : program.modules())
      for (auto& f : program.all_functions(m))
        if (!f.inlined && fits(f.name)) asked.add(f, f.name);
  }
  if (asked.functions.size() > kMost)
    throw Error(fmt::format("these are {} functions; calls of more than {} are not looked for at once",
                            asked.functions.size(), kMost),
                kExitUsage);
  return asked;
}

constexpr size_t kArgumentColumns = 6;

Row call_row(uint64_t process, const std::string& name, const session::Call& call) {
  using End = session::Call::End;
  std::string args;
  for (const auto& [argument, value] : call.args) {
    if (!args.empty()) args += ", ";
    if (!argument.empty()) args.append(argument).append("=");
    args += value;
  }
  if (!call.args_known) args += args.empty() ? "…" : ", …";
  const bool has_result = call.end == End::Returned && !call.result.empty();
  Row row{number(process),
          name,
          args,
          has_result ? captured(call.result_json, call.result) : Value(),
          has_result ? Value(call.result) : Value(),
          std::string(call.end == End::Returned ? "returned"
                      : call.end == End::Jumped ? "jumped"
                                                : "unknown"),
          number(call.at.tick),
          call.left ? number(call.left->tick) : Value(),
          call.left ? number(call.left->tick - call.at.tick) : Value(),
          static_cast<int64_t>(call.thread),
          point_text(call.at.tick, call.at.pc),
          call.left ? Value(point_text(call.left->tick, call.left->pc)) : Value(),
          number(call.at.pc),
          known_text(call.function),
          known_text(call.caller.function),
          known_text(call.caller.file),
          call.caller.line ? Value(int64_t{call.caller.line}) : Value(),
          number(call.caller.pc)};
  for (size_t i = 0; i < kArgumentColumns; i++)
    row.push_back(i < call.args_json.size() ? captured(call.args_json[i], call.args[i].second) : Value());
  return row;
}

std::unique_ptr<Rows> open_calls(History& history, const Question& question) {
  return swept(history, question,
               [](History& history, const Question& question, RowPull& pull, uint64_t process) {
                 Session& session = history.session(process);
                 const auto stretch = stretch_of(session, question.range("enter"));
                 if (!stretch) return;
                 session::CallsRequest request;
                 const Asked asked = functions_of(history, session, question);
                 if (asked.functions.empty()) return;
                 request.functions = asked.functions;
                 request.stretch = *stretch;
                 request.to_their_end = false;
                 for (const char* column : {"ret", "result", "end", "exit", "ticks", "left"})
                   request.to_their_end |= question.uses(column);
                 session::calls_as_they_end(
                     session, request,
                     [&](const session::Call& call) {
                       return pull.put(call_row(process, asked.names.at(call.at.pc), call));
                     },
                     watcher_of(history, pull));
                 History::check(session);
               });
}

// ---- stores ----

// Memory that a question is about: what to look for, and how the row calls it.
struct Watched {
  std::string spec;
  Value name;
};

std::vector<Watched> watched_of(const Question& question) {
  std::vector<Watched> list;
  if (const auto names = equal_texts(question, "name")) {
    for (const std::string& name : *names) list.push_back({checked_spec("write", name), name});
    return list;
  }
  constexpr int64_t kWord = 8, kMost = 1 << 20;
  const auto sizes = question.range("size");
  const int64_t size = sizes.low && sizes.low == sizes.high ? *sizes.low : kWord;
  auto add = [&](int64_t address, int64_t length) {
    if (address < 0 || length <= 0) return;
    if (length > kMost)
      throw Error(fmt::format("{} bytes are too many to look at at once: {} at most", length, kMost),
                  kExitUsage);
    list.push_back({fmt::format("write {:#x} size {}", static_cast<uint64_t>(address), length), Value()});
  };
  if (const auto values = equal(question, "addr")) {
    for (const Value& v : *values)
      if (const auto* address = std::get_if<int64_t>(&v)) add(*address, size);
    return list;
  }
  const auto range = question.range("addr");
  if (!range.empty()) add(*range.low, *range.high - *range.low + 1);
  return list;
}

// What the code of some functions loads or stores, one by one.
void sweep_accesses(History& history, const Question& question, RowPull& pull, uint64_t process, bool loads) {
  Session& session = history.session(process);
  const auto stretch = stretch_of(session, question.range("tick"));
  if (!stretch) return;
  session::AccessRequest request;
  request.stretch = *stretch;
  request.stores = !loads, request.loads = loads;
  // By where a piece of its code begins: the name that a function was asked for under.
  std::map<Address, std::string> names;
  if (question.has("function")) {
    const Asked asked = functions_of(history, session, question);
    for (const symbols::Function& f : asked.functions)
      for (const auto& [start, end] : f.ranges) {
        request.code.push_back({start, end});
        names[start] = asked.names.at(f.entry);
      }
    if (request.code.empty()) return;
  }
  if (const auto values = equal(question, "addr")) {
    for (const Value& v : *values)
      if (const auto* address = std::get_if<int64_t>(&v))
        request.data.push_back({static_cast<Address>(*address), static_cast<Address>(*address) + 1});
    if (request.data.empty()) return;
  } else if (const auto range = question.range("addr"); range.low || range.high) {
    if (range.empty()) return;
    request.data.push_back({static_cast<Address>(range.low.value_or(0)),
                            static_cast<Address>(range.high.value_or(INT64_MAX - 1)) + 1});
  }
  const bool with_source = uses_source(question);
  session::accesses(
      session, request,
      [&](const session::Access& a) {
        Source s = with_source ? source_of(session, a.pc) : Source();
        if (auto name = names.upper_bound(a.pc); name != names.begin()) s.function = std::prev(name)->second;
        Row row{number(process)};
        if (!loads) row.emplace_back();
        for (Value& v : Row{number(a.address), int64_t{a.size}, number(a.tick), number(a.pc),
                            point_text(a.tick, a.pc), static_cast<int64_t>(a.thread), number(a.old_value)})
          row.push_back(std::move(v));
        if (!loads) row.push_back(number(a.new_value));
        for (Value& v : Row{s.function, s.file, s.line}) row.push_back(std::move(v));
        return pull.put(std::move(row));
      },
      watcher_of(history, pull));
  History::check(session);
}

std::unique_ptr<Rows> open_loads(History& history, const Question& question) {
  return swept(history, question,
               [](History& history, const Question& question, RowPull& pull, uint64_t process) {
                 sweep_accesses(history, question, pull, process, true);
               });
}

// They are all looked at by who wants some of them.
Cost cost_of_accesses(History& history, const Question& question) {
  constexpr double kSlower = 4, kMore = 100;
  const Cost sweep = cost_of_sweep(history, question);
  if (question.has("name") || (question.has("addr") && question.table->column("name"))) return sweep;
  return {kSlower * sweep.time, kMore * sweep.rows};
}

// Can a place be watched for it? Else all stores of the stretch are looked at.
bool is_watched(const Question& question) {
  constexpr int64_t kMost = 1 << 20;
  if (question.has("name") || equal(question, "addr")) return true;
  const auto range = question.range("addr");
  return range.low && range.high && (range.empty() || *range.high - *range.low < kMost);
}

std::unique_ptr<Rows> open_stores(History& history, const Question& question) {
  return swept(
      history, question, [](History& history, const Question& question, RowPull& pull, uint64_t process) {
        if (!is_watched(question)) return sweep_accesses(history, question, pull, process, false);
        Session& session = history.session(process);
        const auto stretch = stretch_of(session, question.range("tick"));
        if (!stretch) return;
        const bool with_source = uses_source(question);
        for (const Watched& w : watched_of(question)) {
          bool more = true;
          session.log(
              {w.spec, {"$addr", "$size", "$old", "$new"}, false, *stretch},
              [&](const session::Hit& h) {
                const Source s = with_source ? source_of(session, h.at.pc) : Source();
                return more = pull.put({number(process), w.name, captured(h.json[0], h.values[0]),
                                        captured(h.json[1], h.values[1]), number(h.at.tick), number(h.at.pc),
                                        point_text(h.at.tick, h.at.pc), static_cast<int64_t>(h.thread),
                                        captured(h.json[2], h.values[2]), captured(h.json[3], h.values[3]),
                                        s.function, s.file, s.line});
              },
              watcher_of(history, pull));
          History::check(session);
          if (!more) return;
        }
      });
}

// ---- variables ----

// The history of one variable: a row for each value that it had. It is complete when the next value comes.
class VariableHistory {
 public:
  VariableHistory(RowPull& pull, uint64_t process, const std::string& name)
      : pull_(pull), process_(process), name_(name) {}

  void begin(const Value& value) { row_ = {value, Value(), Value(), Value(), Value(), {}}; }
  // False: nobody wants more.
  bool change(const session::Hit& h, const Value& value, const Source& source) {
    const Value before = row_ ? row_->value : Value();
    if (row_ && !put(number(h.at.tick))) return false;
    row_ = {value, before, number(h.at.tick), point_text(h.at.tick, h.at.pc), static_cast<int64_t>(h.thread),
            source};
    return true;
  }
  bool end() { return !row_ || put({}); }
  bool has_begun() const { return row_.has_value(); }

 private:
  struct Known {
    Value value, before, since, at, thread;
    Source source;
  };
  bool put(const Value& until) {
    return pull_.put({number(process_), name_, row_->value, row_->before, row_->since, until, row_->at,
                      row_->thread, row_->source.function, row_->source.file, row_->source.line});
  }

  RowPull& pull_;
  uint64_t process_;
  std::string name_;
  std::optional<Known> row_;
};

// At the beginning of the process.
Value first_value(Session& session, const std::string& name) {
  try {
    session.timeline().go_to_birth();
    History::check(session);
    const session::ValueFacts facts = session::Present(session).value(name, 0, 0);
    return captured(facts.json, facts.text);
  } catch (const symbols::ExpressionError&) {
    return {};  // a pointer that leads nowhere yet
  }
}

void sweep_variable(History& history, const Question& question, RowPull& pull, uint64_t process,
                    const std::string& name) {
  constexpr uint64_t kWord = 8;
  Session& session = history.session(process);
  Question::Range ticks = question.range("since");
  auto stretch = stretch_of(session, ticks);
  if (!stretch) return;
  // Until when a value lasted may only be seen behind the stretch.
  if (question.uses("until")) stretch->to = std::nullopt;
  const bool small = session.compiler().compile_place(name, 0).size <= kWord;
  // Of what is longer than a word, $old and $new are its first one.
  const Value first = small || ticks.low ? Value() : first_value(session, name);
  VariableHistory variable(pull, process, name);
  bool more = true;
  const bool with_source = uses_source(question);
  session::LogRequest request{checked_spec("change", name), {"$old", "$new", name}, false, *stretch};
  session.log(
      request,
      [&](const session::Hit& h) {
        if (!variable.has_begun() && !ticks.low)
          variable.begin(small ? captured(h.json[0], h.values[0]) : first);
        if (ticks.high && static_cast<int64_t>(h.at.tick) > *ticks.high) {
          variable.change(h, {}, {});
          return more = false;
        }
        return more = variable.change(h, captured(h.json[small ? 1 : 2], h.values[small ? 1 : 2]),
                                      with_source ? source_of(session, h.at.pc) : Source());
      },
      watcher_of(history, pull));
  History::check(session);
  if (!more) return;
  if (!variable.has_begun() && !ticks.low) variable.begin(small ? first_value(session, name) : first);
  variable.end();
}

std::unique_ptr<Rows> open_variables(History& history, const Question& question) {
  return swept(history, question,
               [](History& history, const Question& question, RowPull& pull, uint64_t process) {
                 if (const auto names = equal_texts(question, "name"))
                   for (const std::string& name : *names)
                     sweep_variable(history, question, pull, process, name);
               });
}

// ---- executed ----

std::unique_ptr<Rows> open_executed(History& history, const Question& question) {
  return swept(
      history, question, [](History& history, const Question& question, RowPull& pull, uint64_t process) {
        Session& session = history.session(process);
        const auto stretch = stretch_of(session, question.range("tick"));
        const auto files = equal_texts(question, "file");
        const auto lines = equal(question, "line");
        if (!files || !lines || !stretch) return;
        for (const std::string& file : *files)
          for (const Value& value : *lines) {
            const auto* line = std::get_if<int64_t>(&value);
            if (!line || *line <= 0 || *line > INT32_MAX) continue;
            // A line without code is never executed; as a place it would stand for the next one.
            const auto found = session.program().lines(file, static_cast<int>(*line));
            if (!found.empty() &&
                std::none_of(found.begin(), found.end(), [&](const auto& m) { return m.line == *line; }))
              continue;
            const std::string place = fmt::format("{}:{}", file, *line);
            bool more = true;
            session.log(
                {checked_spec("pc", place), {}, false, *stretch},
                [&](const session::Hit& h) {
                  return more = pull.put(
                             {number(process), file, *line, number(h.at.tick), number(h.at.pc),
                              point_text(h.at.tick, h.at.pc), static_cast<int64_t>(h.thread),
                              question.uses("function") ? source_of(session, h.at.pc).function : Value()});
                },
                watcher_of(history, pull));
            History::check(session);
            if (!more) return;
          }
      });
}

// ---- blocks ----

void sweep_blocks(History& history, const Question& question, RowPull& pull, uint64_t process) {
  Session& session = history.session(process);
  const auto stretch = stretch_of(session, question.range("tick"));
  if (!stretch) return;
  const session::Watcher watcher = watcher_of(history, pull);
  session::Blocks blocks(session, watcher);
  const Asked asked = functions_of(history, session, question);
  struct Known {
    session::Block block;
    std::string function;
    Source source;
  };
  std::map<Address, Known> known;
  for (const symbols::Function& f : asked.functions)
    for (const session::Block& block : blocks.of(f))
      known.try_emplace(block.start, Known{block, asked.names.at(f.entry), source_of(session, block.start)});
  if (known.empty()) return;
  timeline::Sweep sweep;
  for (const auto& [pc, entry] : known) {
    timeline::Tap& tap = sweep.taps.list.emplace_back();
    tap.kind = timeline::Tap::Pc;
    tap.action = timeline::Tap::Log;
    tap.start = pc;
  }
  sweep.from = stretch->from, sweep.to = stretch->to;
  sweep.progress = watcher.progress;
  sweep.record = [&](const replayer::TapRecord& record, const uint8_t*) {
    const Known& k = known.at(record.pc);
    return pull.put({number(process), k.function, number(record.tick), number(record.pc), number(k.block.end),
                     point_text(record.tick, record.pc), static_cast<int64_t>(record.thread), k.source.file,
                     k.source.line});
  };
  session.timeline().sweep(sweep);
  History::check(session);
}

std::unique_ptr<Rows> open_blocks(History& history, const Question& question) {
  return swept(history, question, sweep_blocks);
}

}  // namespace

void add_swept_tables(std::vector<Table>& tables) {
  tables.push_back(
      {"calls",
       "calls of functions, as 'backstep calls' lists them, in the order in which they end",
       {kReplayedProcess,
        {"function", "TEXT", kEqual | kPattern, "has to be said: =, IN, LIKE or GLOB"},
        {"args", "TEXT", kNothing, "with their names, if those are known"},
        {"ret", "ANY", kNothing, "the result; NULL: none, or not known"},
        {"result", "TEXT", kNothing, "the same as people read it"},
        {"end", "TEXT", kNothing,
         "returned; jumped: a tail call; unknown: not by the end, or left by longjmp or an exception"},
        {"enter", "INT", kRange, "the tick in which it began"},
        {"exit", "INT", kNothing, "the tick in which it ended"},
        {"ticks", "INT", kNothing, "how long it took"},
        {"thread", "INT", kNothing, "its number: 1 is the first"},
        {"at", "TEXT", kNothing, "the control point of its first instruction"},
        {"left", "TEXT", kNothing, "… of the instruction that leaves it"},
        {"pc", "ADDRESS INT", kNothing, "the address of its first instruction"},
        {"symbol", "TEXT", kNothing, "its name there, if it was asked for under another one"},
        {"caller", "TEXT", kNothing, "the function that called it"},
        {"file", "TEXT", kNothing, "… from where"},
        {"line", "INT", kNothing, ""},
        {"back", "ADDRESS INT", kNothing, "the return address"},
        {"arg0", "ANY", kNothing, "the first argument, and so on"},
        {"arg1", "ANY", kNothing, ""},
        {"arg2", "ANY", kNothing, ""},
        {"arg3", "ANY", kNothing, ""},
        {"arg4", "ANY", kNothing, ""},
        {"arg5", "ANY", kNothing, ""}},
       {},
       {{"function"}},
       true,
       cost_of_sweep,
       open_calls,
       explain_sweep});
  tables.push_back(
      {"stores",
       "writes to memory, by the program or by the kernel for it",
       {kReplayedProcess,
        {"name", "TEXT", kEqual, "a global or static variable, or any place: 'list->value'"},
        {"addr", "ADDRESS INT", kEqual | kRange, "the place; this, name, function or tick has to be said"},
        {"size", "INT", kEqual, "its bytes; of an address 8, if nothing is said"},
        {"tick", "INT", kRange, "when"},
        {"pc", "ADDRESS INT", kNothing, "the instruction that writes"},
        {"at", "TEXT", kNothing, "its control point"},
        {"thread", "INT", kNothing, "its number: 1 is the first"},
        {"oldval", "ANY", kNothing, "what was there; of more than 8 bytes the first 8 as a number"},
        {"newval", "ANY", kNothing, "what is there then"},
        {"function", "TEXT", kEqual | kPattern, "that wrote"},
        {"file", "TEXT", kNothing, ""},
        {"line", "INT", kNothing, ""}},
       {{"tick"}},
       {{"name"}, {"addr"}, {"function"}, {"tick"}},
       true,
       cost_of_accesses,
       open_stores,
       explain_sweep,
       true});
  tables.push_back(
      {"loads",
       "reads of memory by the program, each one",
       {kReplayedProcess,
        {"addr", "ADDRESS INT", kEqual | kRange, "where it begins; this, function or tick has to be said"},
        {"size", "INT", kNothing, "how many bytes; a repeated string instruction reads all at once"},
        {"tick", "INT", kRange, "when"},
        {"pc", "ADDRESS INT", kNothing, "the instruction that reads"},
        {"at", "TEXT", kNothing, "its control point"},
        {"thread", "INT", kNothing, "its number: 1 is the first"},
        {"value", "INT", kNothing, "what was there; of more than 8 bytes the first 8"},
        {"function", "TEXT", kEqual | kPattern, "that read"},
        {"file", "TEXT", kNothing, ""},
        {"line", "INT", kNothing, ""}},
       {{"tick"}},
       {{"addr"}, {"function"}, {"tick"}},
       true,
       cost_of_accesses,
       open_loads,
       explain_sweep,
       true});
  tables.push_back(
      {"variables",
       "the values that a variable had, one after the other",
       {kReplayedProcess,
        {"name", "TEXT", kEqual, "a global or static variable; has to be said"},
        {"value", "ANY", kNothing, "structures and arrays as JSON"},
        {"oldval", "ANY", kNothing, "the value before"},
        {"since", "INT", kRange, "the tick in which it got it; NULL: it had it from the start"},
        {"until", "INT", kNothing, "… in which it got the next one; NULL: it kept it to the end"},
        {"at", "TEXT", kNothing, "the control point of the instruction that wrote it"},
        {"thread", "INT", kNothing, "that wrote it"},
        {"function", "TEXT", kNothing, ""},
        {"file", "TEXT", kNothing, ""},
        {"line", "INT", kNothing, ""}},
       {{"since"}},
       {{"name"}},
       true,
       cost_of_sweep,
       open_variables,
       explain_sweep});
  tables.push_back({"executed",
                    "each time that a line of the source was executed",
                    {kReplayedProcess,
                     {"file", "TEXT", kEqual, "its path or the end of it; has to be said"},
                     {"line", "INT", kEqual, "has to be said, too"},
                     {"tick", "INT", kRange, "when"},
                     {"pc", "ADDRESS INT", kNothing, "its first instruction there"},
                     {"at", "TEXT", kNothing, "the control point in front of it"},
                     {"thread", "INT", kNothing, "its number: 1 is the first"},
                     {"function", "TEXT", kNothing, "that it is in"}},
                    {{"tick"}},
                    {{"file", "line"}},
                    true,
                    cost_of_sweep,
                    open_executed,
                    explain_sweep,
                    true});
  tables.push_back(
      {"blocks",
       "each time that a basic block was entered",
       {kReplayedProcess,
        {"function", "TEXT", kEqual | kPattern, "that it is part of; has to be said: =, IN, LIKE or GLOB"},
        {"tick", "INT", kRange, "when"},
        {"pc", "ADDRESS INT", kNothing, "its first instruction"},
        {"end", "ADDRESS INT", kNothing, "the address behind its last one"},
        {"at", "TEXT", kNothing, "the control point in front of it"},
        {"thread", "INT", kNothing, "its number: 1 is the first"},
        {"file", "TEXT", kNothing, "of its first instruction"},
        {"line", "INT", kNothing, ""}},
       {{"tick"}},
       {{"function"}},
       true,
       cost_of_sweep,
       open_blocks,
       explain_sweep,
       true});
}

}  // namespace backstep::trace
