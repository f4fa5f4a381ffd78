// A lock is taken when the call returns 0 (or EOWNERDEAD: it is taken, and its last owner has died), and
// which lock it was is known at the entry only. So both are watched, and belong together by the place of the
// return address on the stack, as in calls.cc.
//
// Where these functions return cannot be left to symbols: glibc's pthread_mutex_lock jumps to code that has
// no name in a stripped library. So control is followed from the entry, over all direct jumps. A ret that is
// not one of this call's is harmless, as it finds no call at its place of the stack.
#include "session/lock_holders.h"

#include <cerrno>
#include <cstring>
#include <deque>
#include <set>

#include <fmt/format.h>

#include "isa/decode.h"
#include "session/hits.h"

namespace backstep::session {

using timeline::Tap;

namespace {

constexpr size_t kMostFollowed = 20'000;  // instructions

// The ret instructions that control can come to from here without a call.
std::vector<Address> returns_behind(const symbols::Program& program, Address entry) {
  std::vector<Address> found;
  std::set<Address> seen;
  std::deque<Address> open{entry};
  while (!open.empty() && seen.size() < kMostFollowed) {
    Address pc = open.front();
    open.pop_front();
    const symbols::Module* module = program.module_at(pc);
    while (module && seen.size() < kMostFollowed && seen.insert(pc).second) {
      constexpr size_t kLongestInstruction = 15;
      const std::string_view text = module->elf().bytes(pc - module->bias, kLongestInstruction);
      const isa::Insn in = isa::decode(reinterpret_cast<const uint8_t*>(text.data()), text.size());
      if (in.cls == isa::Class::Bad || in.length == 0 || in.cls == isa::Class::Trap) break;
      const Address next = pc + in.length, target = next + static_cast<Address>(static_cast<int64_t>(in.rel));
      if (in.cls == isa::Class::Ret) found.push_back(pc);
      if (in.cls == isa::Class::Jcc || in.cls == isa::Class::Jmp || in.cls == isa::Class::Loop)
        open.push_back(target);
      if (in.cls == isa::Class::Ret || in.cls == isa::Class::Jmp || in.cls == isa::Class::JmpInd) break;
      pc = next;
    }
  }
  return found;
}

}  // namespace

const std::vector<LockHolders::Row>& LockHolders::rows() {
  static const std::vector<Row> table = {
      {"pthread_mutex_lock", Effect::Takes, 0},      {"pthread_mutex_trylock", Effect::Takes, 0},
      {"pthread_mutex_timedlock", Effect::Takes, 0}, {"pthread_mutex_clocklock", Effect::Takes, 0},
      {"pthread_mutex_unlock", Effect::Gives, 0},    {"pthread_cond_wait", Effect::Waits, 1},
      {"pthread_cond_timedwait", Effect::Waits, 1},  {"pthread_cond_clockwait", Effect::Waits, 1},
  };
  return table;
}

LockHolders::LockHolders(Session& session, Address lock) : session_(session), lock_(lock) {
  std::set<std::pair<Address, Effect>> known;
  bool takes = false;
  for (const Row& row : rows())
    for (const auto& f : session.program().entries(row.function)) {
      if (!known.insert({f.entry, row.effect}).second) continue;
      takes |= row.effect == Effect::Takes;
      Tap tap;
      tap.start = f.entry;
      tap.action = Tap::Log;
      tap.values.push_back(session.compiler().compile("$rsp", f.entry).code);
      // Of other locks nothing has to be known.
      const char* argument = row.argument ? "$rsi" : "$rdi";
      tap.conditions = {
          session.compiler().compile_condition(fmt::format("{} == {:#x}", argument, lock), f.entry)};
      taps_.push_back(std::move(tap));
      points_.push_back({true, row.effect});
      if (row.effect != Effect::Gives) add_returns(f.entry);
    }
  if (!takes)
    throw Error("the recorded program has no pthread_mutex_lock, so who holds a lock cannot be told",
                kExitUsage);
}

void LockHolders::add_returns(Address entry) {
  for (Address pc : returns_behind(session_.program(), entry)) {
    if (!returns_.try_emplace(pc, taps_.size()).second) continue;
    Tap tap;
    tap.start = pc;
    tap.action = Tap::Log;
    tap.values.push_back(session_.compiler().compile("$rsp", pc).code);
    tap.values.push_back(session_.compiler().compile("(int)$rax", pc).code);
    taps_.push_back(std::move(tap));
    points_.push_back({});
  }
}

void LockHolders::feed(size_t tap, const replayer::TapRecord& record, const uint8_t* bytes) {
  CapturedValues values(bytes);
  const Key key{record.thread, values.word()};
  const Point& p = points_[tap];
  if (p.entry) {
    auto held = held_.find(record.thread);
    if (p.effect != Effect::Takes && held != held_.end() && --held->second == 0) held_.erase(held);
    if (p.effect != Effect::Gives) open_[key] = p.effect;
    return;
  }
  auto call = open_.find(key);
  if (call == open_.end()) return;
  const auto result = static_cast<int>(values.word());
  // Whoever has waited has the lock again, whatever the result is.
  if (call->second == Effect::Waits || result == 0 || result == EOWNERDEAD) held_[record.thread]++;
  open_.erase(call);
}

bool LockHolders::holds(int thread) const {
  return held_.count(thread) > 0;
}

std::vector<int> LockHolders::holders() const {
  std::vector<int> list;
  for (const auto& [thread, times] : held_) list.push_back(thread);
  return list;
}

}  // namespace backstep::session
