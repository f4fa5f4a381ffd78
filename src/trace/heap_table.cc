// Blocks of the heap as a table (session/heap.h). What a block is depends on all that was allocated before,
// so the run is replayed from its beginning, whatever the query says; it ends early if nobody asks when
// blocks were freed. Stacks are fetched by a second replay, and only if the query looks at them.
#include "session/heap.h"

#include <fmt/format.h>

#include "session/stack_text.h"
#include "timeline/moments.h"
#include "trace/swept.h"

namespace backstep::trace {
namespace {

using session::HeapBlock;
using session::HeapDeed;
using session::Session;

// The control point of a block that realloc has made another, by its number.
using AllocatedAt = std::map<uint64_t, std::string>;

std::string point_of(const HeapDeed& deed) {
  return timeline::point_text(deed.at.tick, deed.at.pc);
}

struct BlockStacks {
  Value allocated, freed;
};

Row block_row(uint64_t process, Session& session, const Question& question, const HeapBlock& b,
              const AllocatedAt& points, const BlockStacks& stacks) {
  const HeapDeed& a = b.allocated;
  session::StackFrame caller;
  if (question.uses("caller") || question.uses("file") || question.uses("line")) {
    const auto frames = session.program().frames_at(a.caller - 1);
    if (!frames.empty()) caller = {a.caller, frames[0].function, frames[0].file, frames[0].line, false};
  }
  auto link = [&](uint64_t number) {
    auto found = points.find(number);
    return found == points.end() ? Value() : Value(found->second);
  };
  return {number(process),
          b.failed() ? Value() : number(b.address),
          number(b.size),
          std::string(a.function->name),
          static_cast<int64_t>(a.thread),
          number(a.at.tick),
          point_of(a),
          b.freed ? number(b.freed->at.tick) : Value(),
          b.freed ? Value(point_of(*b.freed)) : Value(),
          b.freed ? Value(std::string(b.freed->function->name)) : Value(),
          b.freed ? Value(static_cast<int64_t>(b.freed->thread)) : Value(),
          b.freed ? number(b.freed->at.tick - a.at.tick) : Value(),
          link(b.resized_from),
          link(b.resized_to),
          known_text(caller.function),
          known_text(caller.file),
          caller.line ? Value(int64_t{caller.line}) : Value(),
          stacks.allocated,
          stacks.freed};
}

void put_with_stacks(History& history, const Question& question, RowPull& pull, uint64_t process,
                     const std::vector<HeapBlock>& blocks, const AllocatedAt& points) {
  Session& session = history.session(process);
  std::vector<session::Position> moments;
  for (const HeapBlock& b : blocks) {
    moments.push_back(b.allocated.at);
    if (b.freed) moments.push_back(b.freed->at);
  }
  const auto stacks = session::stacks_at(session, moments, watcher_of(history, pull));
  History::check(session);
  size_t next = 0;
  auto text = [&] {
    const session::StackAt& s = stacks[next++];
    return Value(session::stack_line(s.frames, s.complete));
  };
  for (const HeapBlock& b : blocks) {
    BlockStacks of_block;
    of_block.allocated = text();
    if (b.freed) of_block.freed = text();
    if (!pull.put(block_row(process, session, question, b, points, of_block))) return;
  }
}

std::unique_ptr<Rows> open_allocs(History& history, const Question& question) {
  return swept(
      history, question, [](History& history, const Question& question, RowPull& pull, uint64_t process) {
        Session& session = history.session(process);
        const auto ticks = question.range("allocated");
        if (ticks.empty()) return;
        const bool stacks = question.uses("stack") || question.uses("freed_stack");
        const bool links = question.uses("realloc_of") || question.uses("realloc_to");
        session::HeapRequest request;
        request.failures = true;
        request.frees = links;
        for (const char* c : {"freed", "freed_at", "freed_by", "freed_thread", "ticks", "freed_stack"})
          request.frees |= question.uses(c);
        if (ticks.high) request.last = static_cast<Tick>(std::max<int64_t>(0, *ticks.high));
        // Links and stacks are known when all is over.
        std::vector<HeapBlock> waiting;
        AllocatedAt points;
        session::HeapListener listener;
        listener.block = [&](const HeapBlock& b) {
          if (links) points[b.number] = point_of(b.allocated);
          if (!ticks.holds(static_cast<int64_t>(b.allocated.at.tick))) return true;
          if (!stacks && !links) return pull.put(block_row(process, session, question, b, {}, {}));
          waiting.push_back(b);
          return true;
        };
        session::heap(session, request, listener, watcher_of(history, pull));
        History::check(session);
        if (stacks) return put_with_stacks(history, question, pull, process, waiting, points);
        for (const HeapBlock& b : waiting)
          if (!pull.put(block_row(process, session, question, b, points, {}))) return;
      });
}

}  // namespace

void add_heap_table(std::vector<Table>& tables) {
  tables.push_back(
      {"allocs",
       "blocks of the heap, in the order in which they were freed; those that were not come last",
       {kReplayedProcess,
        {"address", "ADDRESS INT", kNothing, "where; NULL: the call failed"},
        {"size", "INT", kNothing, "bytes that were asked for"},
        {"function", "TEXT", kNothing,
         "malloc, calloc, realloc, operator new, …: the outermost, if several did it"},
        {"thread", "INT", kNothing, "its number: 1 is the first"},
        {"allocated", "INT", kRange, "the tick in which the function was called"},
        {"allocated_at", "TEXT", kNothing, "the control point of its first instruction"},
        {"freed", "INT", kNothing, "when it was given back; NULL: never"},
        {"freed_at", "TEXT", kNothing, "the control point"},
        {"freed_by", "TEXT", kNothing, "free, operator delete, realloc, …"},
        {"freed_thread", "INT", kNothing, ""},
        {"ticks", "INT", kNothing, "how long it was there"},
        {"realloc_of", "TEXT", kNothing, "allocated_at of the block that realloc made this one of"},
        {"realloc_to", "TEXT", kNothing, "… of the one that it has made of this one"},
        {"caller", "TEXT", kNothing, "the function that called"},
        {"file", "TEXT", kNothing, "… from where"},
        {"line", "INT", kNothing, ""},
        {"stack", "TEXT", kNothing, "of the call, the innermost first; takes a second replay"},
        {"freed_stack", "TEXT", kNothing, "of the one that freed it, likewise"}},
       {},
       {},
       true,
       cost_of_sweep,
       open_allocs,
       explain_sweep});
}

}  // namespace backstep::trace
