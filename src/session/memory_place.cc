// What is known at the beginning is quick to ask for; what a pointer leads to may be there at the end only:
// what a null pointer leads to is near 0, where no program has memory.
#include "session/memory_place.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "session/fixed_reads.h"
#include "session/hits.h"
#include "session/session.h"
#include "symbols/local_names.h"
#include "symbols/thread_locals.h"

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

// What is thread-local, wherever the threads have it in the course of the run.
//
// Of the program's own variables, the distance from the thread pointer is all there is to know. Blocks of
// libraries come and go: when one is opened or closed, when a thread touches its variables for the first
// time. Where they are is told by a few words of memory (symbols::ThreadLocals::inputs), so whatever is
// written to these is looked at: it may make a new place. At each place a guard says whether it is the
// variable's at that moment.
class PlacesOfThreads {
 public:
  // `names_it`: the expression names the memory; else it is its address.
  PlacesOfThreads(Session& session, const std::string& expression, bool names_it, const MemoryPlace& any)
      : session_(session),
        expression_(expression),
        names_it_(names_it),
        any_(any),
        inputs_(session.program().thread_locals().inputs()) {}

  std::vector<MemoryPlace> find() {
    find_threads();
    moves_ = moves();
    if (moves_) {
      constexpr int kMostRounds = 8;
      for (int round = 0; round < kMostRounds && !fresh_.empty(); round++) watch(std::exchange(fresh_, {}));
    }
    std::vector<MemoryPlace> places;
    for (const auto& [thread, life] : threads_)
      for (Address address : life.addresses)
        places.push_back({address, any_.size, any_.type, life.first, life.end, guard(life, address)});
    return places;
  }
  size_t threads() const {
    return static_cast<size_t>(std::count_if(threads_.begin(), threads_.end(),
                                             [](const auto& t) { return !t.second.addresses.empty(); }));
  }

 private:
  struct Life {
    Tick first = ~0ull, last = 0, end = ~0ull;
    uint64_t fs_base = 0;
    std::set<Address> addresses;
  };
  struct Watched {
    int thread;
    size_t input;
    Address start;
    auto operator<=>(const Watched&) const = default;
  };

  // Bytecode for the address; `fs_base` 0: in the thread at hand.
  std::vector<uint8_t> address(uint64_t fs_base) {
    symbols::EventVariables of;
    if (fs_base) of.fs_base = fs_base;
    return names_it_ ? session_.compiler().compile_place(expression_, 0, of).address
                     : session_.compiler().compile(expression_, 0, of).code.code;
  }

  // The address, then where the inputs are.
  std::vector<replayer::CapturedExpression> values(uint64_t fs_base) {
    std::vector<replayer::CapturedExpression> list{{address(fs_base), replayer::Capture::Scalar, 8}};
    for (const auto& input : inputs_) {
      symbols::Code code = input.address;
      if (fs_base) code.fix(replayer::kStateFsBase, fs_base);
      list.push_back({code.bytes(), replayer::Capture::Scalar, 8});
    }
    return list;
  }

  static std::optional<Address> next_address(CapturedValues& captured) {
    bool readable = false;
    uint64_t value = 0;
    const auto word = captured.next(&readable);
    if (readable) std::memcpy(&value, word.data(), std::min(word.size(), sizeof value));
    return readable && is_address(value) ? std::optional(value) : std::nullopt;
  }

  void take(int thread, CapturedValues& captured) {
    if (const auto address = next_address(captured)) threads_[thread].addresses.insert(*address);
    for (size_t i = 0; i < inputs_.size(); i++)
      if (const auto start = next_address(captured); start && known_.insert({thread, i, *start}).second)
        fresh_.push_back({thread, i, *start});
  }

  // Looked at when each begins and when it runs for the last time.
  void find_threads() {
    const timeline::LogIndex& log = session_.timeline().log();
    const auto& turns = log.turns();
    for (size_t i = 0; i < turns.size(); i++) {
      Life& life = threads_[turns[i].thread];
      life.first = std::min(life.first, turns[i].tick);
      life.last = turns[i].tick, life.end = i + 1 < turns.size() ? turns[i + 1].tick + 1 : ~0ull;
    }
    timeline::Tap tap;
    tap.kind = timeline::Tap::Moment;
    tap.action = timeline::Tap::Log;
    tap.values = {{symbols::Code().state(replayer::kStateFsBase).bytes(), replayer::Capture::Scalar, 8}};
    for (auto& value : values(0)) tap.values.push_back(std::move(value));
    for (const auto& [thread, life] : threads_) {
      tap.moments.push_back({{life.first, 0, 0}, 0});
      tap.moments.push_back({{life.last, 0, 0}, 0});
    }
    tap.moments.push_back({log.last().position(), 0});
    std::sort(tap.moments.begin(), tap.moments.end(),
              [](const auto& a, const auto& b) { return a.at < b.at; });
    timeline::Sweep sweep;
    sweep.taps.list.push_back(tap);
    sweep.record = [&](const replayer::TapRecord& record, const uint8_t* bytes) {
      CapturedValues captured(bytes);
      if (const auto fs_base = next_address(captured)) threads_[record.thread].fs_base = *fs_base;
      take(record.thread, captured);
      return true;
    };
    session_.timeline().sweep(sweep);
  }

  // Does where it is depend on memory?
  bool moves() {
    constexpr uint64_t kSome = 0x10000;
    const auto reads = fixed_reads(address(kSome));
    return !reads || !reads->empty();
  }

  void watch(const std::vector<Watched>& inputs) {
    timeline::Sweep sweep;
    std::vector<int> owner;
    for (const Watched& w : inputs) {
      const Life& life = threads_[w.thread];
      if (!life.fs_base) continue;
      timeline::Tap tap;
      tap.kind = timeline::Tap::Store;
      tap.action = timeline::Tap::Log;
      tap.start = w.start, tap.length = inputs_[w.input].size;
      tap.from = life.first, tap.to = life.end;
      tap.values = values(life.fs_base);
      sweep.taps.list.push_back(std::move(tap));
      owner.push_back(w.thread);
    }
    sweep.record = [&](const replayer::TapRecord& record, const uint8_t* bytes) {
      CapturedValues captured(bytes);
      take(owner[record.tap], captured);
      return true;
    };
    session_.timeline().sweep(sweep);
  }

  // Is it at this place, in the thread that lived so?
  std::vector<uint8_t> guard(const Life& life, Address place) {
    if (!moves_ || !life.fs_base) return {};
    std::vector<uint8_t> code = address(life.fs_base);
    code.pop_back();  // kEnd
    const auto compare = symbols::Code().constant(place).op(replayer::kEqual).bytes();
    code.insert(code.end(), compare.begin(), compare.end());
    return code;
  }

  Session& session_;
  std::string expression_;
  bool names_it_;
  MemoryPlace any_;
  std::vector<symbols::ThreadLocals::Input> inputs_;
  bool moves_ = false;
  std::map<int, Life> threads_;
  std::set<Watched> known_;
  std::vector<Watched> fresh_;
};

}  // namespace

std::vector<MemoryPlace> memory_of_threads(Session& session, const std::string& expression,
                                           std::optional<uint64_t> size, std::vector<std::string>& notes) {
  MemoryPlace any;
  if (size) {
    if (!session.compiler().compile(expression, 0).of_thread)
      return {memory_at(session, expression, *size, notes)};
    any.size = *size;
  } else {
    const auto place = compiled_place(session, expression);
    if (!place.of_thread) return {memory_of(session, expression, notes)};
    any.size = place.size, any.type = place.type;
  }
  PlacesOfThreads threads(session, expression, !size, any);
  auto places = threads.find();
  if (places.empty())
    throw Error(fmt::format("'{}' cannot be read: it is no memory in any thread", expression), kExitUsage);
  if (threads.threads() > 1)
    notes.push_back(fmt::format("'{}' is thread-local: that of each of the {} threads is meant", expression,
                                threads.threads()));
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
