// Functions of SQL: names for addresses, control points, and what the program's state was at a moment. Those
// of the last kind take the replay there, which is quick if the moments come in the order of time, as they do
// from most tables; answers are kept.
#include <sqlite3.h>

#include <map>

#include <fmt/format.h>

#include "session/present.h"
#include "session/stack_text.h"
#include "timeline/moments.h"
#include "trace/database.h"
#include "trace/virtual_table.h"

namespace backstep::trace {
namespace {

using Arguments = std::vector<Value>;

// The process is the last argument, if it is there.
uint64_t process_at(History& history, const Arguments& arguments, size_t place) {
  if (arguments.size() <= place) return history.process();
  const auto* n = std::get_if<int64_t>(&arguments[place]);
  if (!n || *n < 1) throw Error("a process is a number, as in the table processes", kExitUsage);
  return static_cast<uint64_t>(*n);
}

Address address_at(const Arguments& arguments, size_t place) {
  const auto* n = std::get_if<int64_t>(&arguments[place]);
  if (!n) throw Error("an address is a number: 0x401136, or a column like pc", kExitUsage);
  return static_cast<Address>(*n);
}

Value line_of(History& history, const Arguments& arguments) {
  const auto frames = history.program(process_at(history, arguments, 1)).frames_at(address_at(arguments, 0));
  if (frames.empty() || !frames[0].line) return {};
  return fmt::format("{}:{}", frames[0].file.substr(frames[0].file.rfind('/') + 1), frames[0].line);
}

Value symbol_of(History& history, const Arguments& arguments) {
  const Address pc = address_at(arguments, 0);
  const auto f = history.program(process_at(history, arguments, 1)).function_at(pc);
  if (!f) return {};
  return pc == f->entry ? f->name : fmt::format("{}+{:#x}", f->name, pc - f->entry);
}

Value at(History&, const Arguments& arguments) {
  const auto* tick = std::get_if<int64_t>(&arguments[0]);
  if (!tick || *tick < 0) throw Error("at() takes a tick, and perhaps an address", kExitUsage);
  return timeline::point_text(static_cast<Tick>(*tick), arguments.size() > 1 ? address_at(arguments, 1) : 0);
}

Value value_at(History& history, const Arguments& arguments) {
  const auto* expression = std::get_if<std::string>(&arguments[0]);
  if (!expression) throw Error("value() takes an expression as a text: value('i->name', at)", kExitUsage);
  session::Session& session = history.at(process_at(history, arguments, 2), arguments[1]);
  const session::ValueFacts facts = session::Present(session).value(*expression, 0, 0);
  return captured(facts.json, facts.text);
}

Value stack_at(History& history, const Arguments& arguments) {
  session::Session& session = history.at(process_at(history, arguments, 1), arguments[0]);
  bool complete = true;
  const auto frames = session::Present(session).stack(0, &complete);
  return session::stack_line(frames, complete);
}

Value bytes_at(History& history, const Arguments& arguments) {
  constexpr int64_t kMost = 4 << 20;
  const auto* size = std::get_if<int64_t>(&arguments[1]);
  if (!size || *size < 0 || *size > kMost)
    throw Error(fmt::format("bytes() reads up to {} bytes", kMost), kExitUsage);
  session::Session& session = history.at(process_at(history, arguments, 3), arguments[2]);
  const auto bytes = session::Present(session).memory(address_at(arguments, 0), static_cast<uint64_t>(*size));
  if (bytes.size() < static_cast<size_t>(*size)) return {};
  return Blob{{bytes.begin(), bytes.end()}};
}

// The last match of `stores` before the moment.
Value previous_store(History& history, const Arguments& arguments) {
  constexpr int64_t kWord = 8, kMost = 1 << 20;
  const uint64_t process = process_at(history, arguments, 3);
  int64_t size = kWord;
  if (arguments.size() > 2) {
    const auto* given = std::get_if<int64_t>(&arguments[2]);
    if (!given || *given < 1 || *given > kMost)
      throw Error(fmt::format("a size is a number from 1 to {}", kMost), kExitUsage);
    size = *given;
  }
  session::Session& session = history.session(process);
  session::LogRequest request{
      fmt::format("write {:#x} size {}", address_at(arguments, 0), size), {}, false, {}};
  request.stretch.to = history.moment(process, arguments[1]);
  session::Watcher watcher;
  watcher.progress = history.watcher().progress;
  const auto hits = session.log_last(request, 1, watcher);
  History::check(session);
  return hits.empty() ? Value() : Value(timeline::point_text(hits[0].at.tick, hits[0].at.pc));
}

// What was answered, by function and arguments. An answer never changes: the history is over.
struct Answers {
  Connection* connection;
  const Function* function;
  std::map<Arguments, Value> kept = {};
};

void run(sqlite3_context* context, int count, sqlite3_value** values) {
  constexpr size_t kMostKept = 100'000;
  auto* answers = static_cast<Answers*>(sqlite3_user_data(context));
  const Function& f = *answers->function;
  try {
    if (count < f.least || count > f.most)
      throw Error(fmt::format("{}() is used like this: {}", f.name, f.help.form), kExitUsage);
    Arguments arguments;
    for (int i = 0; i < count; i++) {
      arguments.push_back(value_of(values[i]));
      if (std::holds_alternative<std::monostate>(arguments.back())) return;  // as SQL's functions do: NULL
    }
    auto found = answers->kept.find(arguments);
    if (found == answers->kept.end()) {
      if (answers->kept.size() >= kMostKept) answers->kept.clear();
      found = answers->kept.emplace(arguments, f.run(answers->connection->history, arguments)).first;
    }
    set_result(context, found->second);
  } catch (...) {
    set_failure(context, *answers->connection);
  }
}

}  // namespace

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      {{"line(pc)", "the line of the source at an address: 'parse.c:42'"}, "line", 1, 2, line_of},
      {{"symbol(pc)", "the function there: 'parse+0x1c'"}, "symbol", 1, 2, symbol_of},
      {{"at(tick, pc)", "a control point as a text, @TICK:0xPC; without pc, the start of the tick"},
       "at",
       1,
       2,
       at},
      {{"value('expr', at)", "what an expression is at a moment: a tick, a control point, 'end'"},
       "value",
       2,
       3,
       value_at},
      {{"stack(at)", "the functions on the stack at a moment, the innermost first"}, "stack", 1, 2, stack_at},
      {{"bytes(addr, n, at)", "memory at a moment"}, "bytes", 3, 4, bytes_at},
      {{"previous_store(addr, at, size)",
        "the control point of the last write to an address before a moment"},
       "previous_store",
       2,
       4,
       previous_store},
  };
  return all;
}

void add_functions(sqlite3* db, Connection& connection, const std::vector<Function>& functions) {
  for (const Function& f : functions)
    sqlite3_create_function_v2(db, f.name, -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                               new Answers{&connection, &f}, run, nullptr, nullptr,
                               [](void* answers) { delete static_cast<Answers*>(answers); });
}

}  // namespace backstep::trace
