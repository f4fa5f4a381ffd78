#include "session/present.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "symbols/unwind.h"

namespace backstep::session {
namespace {

constexpr size_t kMostStackFrames = 512;

// DWARF's number of each general register, by the hardware's.
constexpr size_t kDwarf[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};

// Those registers, by gdb's numbers, that are not known by DWARF's; flags never are in an outer frame.
uint32_t lost_of(uint32_t known) {
  constexpr unsigned kNumbers[17] = {0, 3, 2, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  uint32_t lost = known == ~0u ? 0 : 1u << 17;
  for (unsigned i = 0; i < 17; i++)
    if (!(known >> kNumbers[i] & 1)) lost |= 1u << i;
  return lost;
}

}  // namespace

int Present::tid_or_turn(int tid) {
  return tid ? tid : session_.timeline().present().state().tid;
}

std::vector<ThreadFacts> Present::threads() {
  timeline::Worker& worker = session_.timeline().present();
  const auto state = worker.state();
  std::vector<ThreadFacts> list;
  for (const auto& t : state.threads)
    list.push_back({t.tid, t.name, t.tid == state.tid, t.in_call, worker.registers(t.tid).rip});
  return list;
}

timeline::Registers Present::registers(int tid) {
  return session_.timeline().present().registers(tid_or_turn(tid));
}

std::vector<uint8_t> Present::memory(Address address, uint64_t size) {
  std::vector<uint8_t> bytes;
  while (bytes.size() < size) {
    const auto part = session_.timeline().present().read(address + bytes.size(), size - bytes.size());
    if (part.empty()) break;
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

symbols::Stack Present::unwind(int tid, size_t most, std::vector<symbols::FrameRegisters>* registers) {
  timeline::Worker& worker = session_.timeline().present();
  const timeline::Registers r = worker.registers(tid_or_turn(tid));
  symbols::UnwindRegisters start;
  for (size_t i = 0; i < 16; i++) start.gpr[kDwarf[i]] = r.gpr[i];
  start.gpr[symbols::UnwindRegisters::kRip] = r.rip;
  // Page by page, as stacks are read from one end to the other.
  std::pair<Address, std::vector<uint8_t>> page;
  auto read = [&](uint64_t address, void* to, size_t size) {
    for (size_t done = 0; done < size;) {
      const Address at = address + done, start_of = at & ~(layout::kPage - 1);
      if (page.first != start_of || page.second.empty())
        page = {start_of, worker.read(start_of, layout::kPage)};
      const uint64_t offset = at - start_of;
      if (offset >= page.second.size()) return false;
      const size_t n = std::min<size_t>(size - done, page.second.size() - offset);
      std::memcpy(static_cast<char*>(to) + done, page.second.data() + offset, n);
      done += n;
    }
    return true;
  };
  return symbols::unwind(session_.program(), start, read, most, registers);
}

std::vector<StackFrame> Present::stack(int tid, bool* complete) {
  const symbols::Stack found = unwind(tid, kMostStackFrames);
  *complete = found.complete;
  return session_.named(found);
}

Present::FrameState Present::frame_state(int tid, size_t frame) {
  FrameState state;
  state.registers = registers(tid);
  state.pc = state.registers.rip;
  if (frame == 0) return state;
  std::vector<symbols::FrameRegisters> all;
  const symbols::Stack found = unwind(tid, kMostStackFrames, &all);
  if (frame >= found.frames.size() || frame >= all.size())
    throw Error(fmt::format("there is no frame {}: the stack has {}", frame, found.frames.size()),
                kExitUsage);
  for (size_t i = 0; i < 16; i++) state.registers.gpr[i] = all[frame].values.gpr[kDwarf[i]];
  state.known = all[frame].known & 0x1ffff;
  state.registers.rip = found.frames[frame].pc;
  state.pc = found.frames[frame].call_site ? found.frames[frame].pc - 1 : found.frames[frame].pc;
  return state;
}

// How many functions were inlined at a place, one into the other.
size_t Present::inlined_at(Address pc) const {
  const size_t frames = session_.program().frames_at(pc).size();
  return frames ? frames - 1 : 0;
}

// Names mean what they do in the innermost inlined function; what has no meaning there, in those around it.
symbols::Compiled Present::compile(const std::string& expression, Address pc) {
  std::exception_ptr failed;
  for (size_t outer = 0; !failed || outer <= inlined_at(pc); outer++) {
    try {
      symbols::EventVariables at;
      at.outer = static_cast<unsigned>(outer);
      return session_.compiler().compile(expression, pc, at);
    } catch (const symbols::ExpressionError&) {
      if (!failed) failed = std::current_exception();
    }
  }
  std::rethrow_exception(failed);
}

ValueFacts Present::evaluate(const std::string& expression, const FrameState& state) {
  ValueFacts facts;
  facts.expression = expression;
  const symbols::Compiled compiled = compile(expression, state.pc);
  if (compiled.type) facts.type = compiled.type->text_name();
  if (compiled.optimized_out) {
    facts.text = "<optimized out>";
    facts.why = compiled.why;
    return facts;
  }
  timeline::Worker& worker = session_.timeline().present();
  auto context = std::make_unique<Context>();
  std::memcpy(context->gpr, state.registers.gpr, sizeof context->gpr);
  std::memcpy(context->xsave, state.registers.xsave, sizeof context->xsave);
  context->rip = state.registers.rip, context->rflags = state.registers.rflags;
  auto read = [](uint64_t address, uint64_t* to, unsigned size, const void* w) {
    const auto bytes = static_cast<timeline::Worker*>(const_cast<void*>(w))->read(address, size);
    *to = 0;
    if (bytes.size() != size) return false;
    std::memcpy(to, bytes.data(), size);
    return true;
  };
  replayer::Surroundings around{
      .ctx = *context, .read = read, .argument = &worker, .vectors = state.known == ~0u};
  around.lost_registers = lost_of(state.known);
  around.floats = replayer::float_operation;
  const auto now = worker.state();
  around.set(replayer::kStateTick, now.at.tick);
  around.set(replayer::kStateFsBase, state.registers.fs_base);
  around.set(replayer::kStateGsBase, state.registers.gs_base);
  for (const auto& t : now.threads)
    if (t.tid == now.tid) around.set(replayer::kStateThread, static_cast<uint64_t>(t.name));
  const replayer::Captured value = replayer::capture(compiled.code, around);
  facts.text = symbols::format(compiled, value.bytes, value.readable);
  if (value.readable) {
    facts.json = symbols::to_json(compiled, value.bytes, true);
    return facts;
  }
  facts.why =
      value.bytes.size() == 1
          ? "this thread has not used the library's thread-local variables yet, or the library is not loaded"
          : "it cannot be read here";
  if (!around.lost_registers || !value.bytes.empty()) return facts;
  facts.text = "<not saved>";
  facts.why = "it was in a register that the functions called from here have used since";
  return facts;
}

ValueFacts Present::value(const std::string& expression, int tid, size_t frame) {
  return evaluate(expression, frame_state(tid, frame));
}

std::vector<ValueFacts> Present::locals(int tid, size_t frame) {
  const FrameState state = frame_state(tid, frame);
  std::vector<ValueFacts> list;
  for (size_t outer = 0; outer <= inlined_at(state.pc); outer++)
    for (const auto& local : session_.compiler().locals(state.pc, static_cast<unsigned>(outer))) {
      const bool shadowed = std::any_of(list.begin(), list.end(),
                                        [&](const ValueFacts& v) { return v.expression == local.name; });
      if (!shadowed) list.push_back(evaluate(local.name, state));
    }
  return list;
}

}  // namespace backstep::session
