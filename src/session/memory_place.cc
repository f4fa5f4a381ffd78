// What is known at the beginning is quick to ask for; what a pointer leads to may be there at the end only:
// what a null pointer leads to is near 0, where no program has memory.
#include "session/memory_place.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "session/hits.h"
#include "session/session.h"
#include "symbols/local_names.h"

namespace backstep::session {
namespace {

constexpr Address kLeastAddress = 0x10000;          // the kernel's mmap_min_addr
constexpr Address kLastAddress = 0x7fff'ffff'ffff;  // of programs

bool is_address(const std::optional<uint64_t>& address) {
  return address && *address >= kLeastAddress && *address <= kLastAddress;
}

// The value of bytecode at the present.
std::optional<uint64_t> value_now(Session& session, const std::vector<uint8_t>& code) {
  timeline::Worker& worker = session.timeline().present();
  const auto state = worker.state();
  const auto registers = worker.registers(state.tid);
  static Context ctx;
  std::memcpy(ctx.gpr, registers.gpr, sizeof ctx.gpr);
  ctx.rip = registers.rip, ctx.rflags = registers.rflags;
  auto read = [](uint64_t address, uint64_t* to, unsigned size, const void* w) {
    const auto bytes = static_cast<timeline::Worker*>(const_cast<void*>(w))->read(address, size);
    *to = 0;
    if (bytes.size() != size) return false;
    std::memcpy(to, bytes.data(), size);
    return true;
  };
  replayer::Surroundings around{.ctx = ctx, .read = read, .argument = &worker};
  around.floats = replayer::float_operation;
  around.set(replayer::kStateFsBase, registers.fs_base);
  around.set(replayer::kStateTick, state.at.tick);
  const replayer::Value v = replayer::evaluate(code.data(), code.size(), around);
  return v.known ? std::optional(v.value) : std::nullopt;
}

// The address that bytecode comes to.
Address address_of(Session& session, const std::vector<uint8_t>& code, const std::string& name,
                   std::vector<std::string>& notes) {
  auto address = value_now(session, code);
  if (!is_address(address)) {
    const Position now = session.timeline().now();
    session.timeline().go_to_end();
    address = value_now(session, code);
    session.timeline().go_to(now);
    if (is_address(address))
      notes.push_back(fmt::format("'{}' is {:#x} at the end of the recording", name, *address));
  }
  if (!is_address(address))
    throw Error(
        fmt::format("'{}' cannot be read: it is no memory, neither at the start nor at the end", name),
        kExitUsage);
  return *address;
}

bool is_name(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// A local variable has no place of its own, but whoever names one may not think of that.
symbols::Compiler::Place compiled_place(Session& session, const std::string& lvalue) {
  try {
    return session.compiler().compile_place(lvalue, 0);
  } catch (const symbols::ExpressionError&) {
    const auto local = is_name(lvalue) ? symbols::find_local(session.program(), lvalue) : std::nullopt;
    if (!local) throw;
    const std::string line = local->line && !local->file.empty()
                                 ? fmt::format("{}:{}", local->file, local->line)
                                 : local->function;
    throw Error(
        fmt::format("'{}' is a local variable of '{}', which lives elsewhere in each call: log '{}' "
                    "'{{&{}}}' says where; then watch that, as in 'write 0x29fffefff470 size 4 in [A,B)'",
                    lvalue, local->function, line, lvalue),
        kExitUsage);
  }
}

// Each thread's own: looked at when the thread begins and when it runs for the last time, because libraries
// may have got theirs only then.
std::vector<MemoryPlace> of_each_thread(Session& session, const std::vector<uint8_t>& address,
                                        const MemoryPlace& any) {
  struct Life {
    Tick first = 0, last = 0, end = ~0ull;
    Address address = 0;
  };
  const timeline::LogIndex& log = session.timeline().log();
  std::map<int, Life> threads;
  const auto& turns = log.turns();
  for (size_t i = 0; i < turns.size(); i++) {
    Life& life = threads.try_emplace(turns[i].thread, Life{.first = turns[i].tick}).first->second;
    life.last = turns[i].tick, life.end = i + 1 < turns.size() ? turns[i + 1].tick + 1 : ~0ull;
  }
  timeline::Sweep sweep;
  timeline::Tap tap;
  tap.kind = timeline::Tap::Moment;
  tap.action = timeline::Tap::Log;
  tap.values = {{address, replayer::Capture::Scalar, 8}};
  for (const auto& [thread, life] : threads) {
    tap.moments.push_back({{life.first, 0, 0}, 0});
    tap.moments.push_back({{life.last, 0, 0}, 0});
  }
  tap.moments.push_back({log.last().position(), 0});
  std::sort(tap.moments.begin(), tap.moments.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  sweep.taps.list.push_back(tap);
  sweep.record = [&](const replayer::TapRecord& record, const uint8_t* bytes) {
    bool readable = false;
    uint64_t value = 0;
    const auto word = CapturedValues(bytes).next(&readable);
    if (readable) std::memcpy(&value, word.data(), std::min(word.size(), sizeof value));
    if (is_address(value)) threads[record.thread].address = value;
    return true;
  };
  session.timeline().sweep(sweep);
  std::vector<MemoryPlace> places;
  for (const auto& [thread, life] : threads)
    if (life.address) places.push_back({life.address, any.size, any.type, life.first, life.end});
  return places;
}

}  // namespace

std::vector<MemoryPlace> memory_of_threads(Session& session, const std::string& expression,
                                           std::optional<uint64_t> size, std::vector<std::string>& notes) {
  std::vector<uint8_t> address;
  MemoryPlace any;
  if (size) {
    const symbols::Compiled compiled = session.compiler().compile(expression, 0);
    if (!compiled.of_thread) return {memory_at(session, expression, *size, notes)};
    address = compiled.code.code, any.size = *size;
  } else {
    const auto place = compiled_place(session, expression);
    if (!place.of_thread) return {memory_of(session, expression, notes)};
    address = place.address, any.size = place.size, any.type = place.type;
  }
  auto places = of_each_thread(session, address, any);
  if (places.empty())
    throw Error(fmt::format("'{}' cannot be read: it is no memory in any thread", expression), kExitUsage);
  if (places.size() > 1)
    notes.push_back(fmt::format("'{}' is thread-local: that of each of the {} threads is meant", expression,
                                places.size()));
  return places;
}

MemoryPlace memory_of(Session& session, const std::string& lvalue, std::vector<std::string>& notes) {
  const auto place = compiled_place(session, lvalue);
  return {address_of(session, place.address, lvalue, notes), place.size, place.type};
}

MemoryPlace memory_at(Session& session, const std::string& address, uint64_t size,
                      std::vector<std::string>& notes) {
  const auto code = session.compiler().compile(address, 0).code.code;
  return {address_of(session, code, address, notes), size, nullptr};
}

MemoryPlace memory_behind(Session& session, const std::string& pointer, std::vector<std::string>& notes) {
  const symbols::Compiled compiled = session.compiler().compile(pointer, 0);
  if (compiled.type && compiled.type->kind == symbols::Type::Kind::Pointer) {
    try {
      return memory_of(session, "*(" + pointer + ")", notes);
    } catch (const symbols::ExpressionError&) {
      // void *: one byte
    }
  }
  return memory_at(session, "(unsigned long)(" + pointer + ")", 1, notes);
}

MemoryPlace object_named(Session& session, const std::string& expression, std::vector<std::string>& notes) {
  const symbols::Compiled compiled = session.compiler().compile(expression, 0);
  const bool itself = compiled.type && (compiled.type->kind == symbols::Type::Kind::Struct ||
                                        compiled.type->kind == symbols::Type::Kind::Array);
  return itself ? memory_of(session, expression, notes) : memory_behind(session, expression, notes);
}

}  // namespace backstep::session
