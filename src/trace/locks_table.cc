// Operations on locks as a table (session/locks.h).
#include "session/locks.h"

#include "session/stack_text.h"
#include "symbols/data_names.h"
#include "timeline/moments.h"
#include "trace/swept.h"

namespace backstep::trace {
namespace {

using session::LockOperation;
using session::Session;

class LockRows {
 public:
  LockRows(Session& session, const Question& question, uint64_t process)
      : session_(session), question_(question), process_(process), names_(session.program()) {}

  Row row(const LockOperation& o, const Value& stack) {
    session::StackFrame caller;
    if (question_.uses("caller") || question_.uses("file") || question_.uses("line")) {
      const auto frames = session_.program().frames_at(o.caller - 1);
      if (!frames.empty()) caller = {o.caller, frames[0].function, frames[0].file, frames[0].line, false};
    }
    const bool wait = o.function->effect == session::LockFunction::Wait;
    return {number(process_),
            static_cast<int64_t>(o.thread),
            std::string(o.function->operation),
            std::string(o.function->kind),
            number(o.lock),
            question_.uses("name") ? known_text(names_.at(o.lock)) : Value(),
            number(o.at.tick),
            timeline::point_text(o.at.tick, o.at.pc),
            o.left ? number(o.left->tick) : Value(),
            o.left ? Value(timeline::point_text(o.left->tick, o.left->pc)) : Value(),
            o.left ? number(o.left->tick - o.at.tick) : Value(),
            o.result ? Value(*o.result) : Value(),
            wait ? number(o.second) : Value(),
            known_text(caller.function),
            known_text(caller.file),
            caller.line ? Value(int64_t{caller.line}) : Value(),
            stack};
  }

 private:
  Session& session_;
  const Question& question_;
  uint64_t process_;
  symbols::DataNames names_;
};

void sweep_locks(History& history, const Question& question, RowPull& pull, uint64_t process) {
  Session& session = history.session(process);
  const auto ticks = question.range("tick");
  const auto stretch = stretch_of(session, ticks);
  if (!stretch) return;
  // How an operation ended may be seen only behind the stretch.
  session::LocksRequest request{*stretch, false};
  request.stretch.to = std::nullopt;
  LockRows rows(session, question, process);
  std::vector<LockOperation> waiting;  // for their stacks
  const bool stacks = question.uses("stack");
  bool more = true;
  session::locks(
      session, request,
      [&](const LockOperation& o) {
        if (!ticks.holds(static_cast<int64_t>(o.at.tick))) return true;
        if (!stacks) return more = pull.put(rows.row(o, {}));
        waiting.push_back(o);
        return true;
      },
      watcher_of(history, pull));
  History::check(session);
  if (!more || waiting.empty()) return;
  std::vector<session::Position> moments;
  for (const LockOperation& o : waiting) moments.push_back(o.at);
  const auto found = session::stacks_at(session, moments, watcher_of(history, pull));
  History::check(session);
  for (size_t i = 0; i < waiting.size(); i++)
    if (!pull.put(rows.row(waiting[i], session::stack_line(found[i].frames, found[i].complete)))) return;
}

std::unique_ptr<Rows> open_locks(History& history, const Question& question) {
  return swept(history, question, sweep_locks);
}

}  // namespace

void add_locks_table(std::vector<Table>& tables) {
  tables.push_back(
      {"locks",
       "what threads did with mutexes, read-write locks, condition variables, semaphores, …, as it ended",
       {kReplayedProcess,
        {"thread", "INT", kNothing, "its number: 1 is the first"},
        {"operation", "TEXT", kNothing, "lock, trylock, timedlock, unlock, rdlock, wrlock, wait, signal, …"},
        {"kind", "TEXT", kNothing, "mutex, rwlock, condition, semaphore, spinlock, barrier"},
        {"lock", "ADDRESS INT", kNothing, "its address"},
        {"name", "TEXT", kNothing, "the variable that it is or is part of, if that has a symbol"},
        {"tick", "INT", kRange, "when the function was called"},
        {"at", "TEXT", kNothing, "the control point of its first instruction"},
        {"got", "INT", kNothing, "when it returned: the lock was had from then on; NULL: it did not"},
        {"got_at", "TEXT", kNothing, "the control point of the instruction that returns"},
        {"ticks", "INT", kNothing, "between the two, of all threads: how long it waited"},
        {"result", "INT", kNothing, "0: it was successful; else as the function's manual has it"},
        {"mutex", "ADDRESS INT", kNothing, "of a condition's wait: given up meanwhile"},
        {"caller", "TEXT", kNothing, "the function that called"},
        {"file", "TEXT", kNothing, "… from where"},
        {"line", "INT", kNothing, ""},
        {"stack", "TEXT", kNothing, "the innermost first; takes a second replay"}},
       {},
       {},
       true,
       cost_of_sweep,
       open_locks,
       explain_sweep});
}

}  // namespace backstep::trace
