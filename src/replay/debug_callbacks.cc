// Callbacks that debug code asks for while it runs: taps beside those that were installed, whose action is to
// call it.
//
// What an event is (which addresses a function has, when the log says that a system call was made) only the
// controller knows, so it is asked, in the middle of the run. The answer depends on nothing but the question,
// so it is the same in every replay.
//
// A callback begins when the call that has asked for it is over, at the next place where the taps are not in
// use (Replayer::renew_callbacks); one that is not wanted any more is not called from that moment on, and its
// taps are taken out later. All of this is the debug code's state: it goes along with checkpoints, and it
// stays when the debugger installs other taps for another movement.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/entry.h"
#include "guest/syscall_table.h"
#include "replay/debug_world.h"

namespace backstep::replayer {
namespace {

constexpr size_t kMostCallbacks = 100'000, kMostTaps = 200'000;
constexpr uint64_t kMostWatched = 1 << 20;  // bytes
constexpr uint64_t kMostText = 4096;

// As an event is written; empty: it is none of those that are named.
std::string event_of(uint64_t kind, const backstep_on& what, const std::string& text) {
  switch (kind) {
    case BACKSTEP_ON_CALL:
      return "call " + text;
    case BACKSTEP_ON_RETURN:
      return "return " + text;
    case BACKSTEP_ON_LINE:
    case BACKSTEP_ON_EVENT:
      return text;
    case BACKSTEP_ON_SYSCALL_BEFORE:
    case BACKSTEP_ON_SYSCALL_AFTER: {
      const char* const side = kind == BACKSTEP_ON_SYSCALL_AFTER ? " after" : "";
      if (what.number == -1) return fmt::format("syscall{}", side);
      const char* const name = guest::syscall_row(static_cast<uint64_t>(what.number)).name;
      return name ? fmt::format("syscall {}{}", name, side) : "";
    }
    default:
      return "";
  }
}

}  // namespace

// Of memory, ticks and places: no names are needed. A sentence: what is wrong.
std::string DebugWorld::tap_of(uint64_t kind, const backstep_on& what, Tap& tap) const {
  tap.start = what.address;
  tap.length = what.size;
  switch (kind) {
    case BACKSTEP_ON_PC:
      tap.kind = Tap::Pc;
      return layout::is_probe(what.address) ? "asks for a callback at an address of its own" : "";
    case BACKSTEP_ON_TICK:
      tap.kind = Tap::Period;
      tap.length = static_cast<uint64_t>(what.number);
      return what.number > 0 ? "" : fmt::format("asks for a callback every {} ticks", what.number);
    default:
      break;
  }
  tap.kind = kind == BACKSTEP_ON_READ ? Tap::Read : Tap::Store;
  if (what.size == 0 || what.size > kMostWatched || what.address + what.size < what.address)
    return fmt::format("asks for callbacks of {} bytes of memory; it can be from 1 to {}", what.size,
                       kMostWatched);
  if (!DebugMemory::is_free_of(what.address, what.address + what.size))
    return fmt::format(
        "asks for callbacks of memory of its own, at {:#x}; they are of the recorded program's",
        what.address);
  for (Address page = layout::page_down(what.address); page < what.address + what.size;
       page += layout::kPage) {
    const guest::Region* r = process_.map.find(page);
    if (tap.kind == Tap::Read && r && (r->prot & PROT_EXEC))
      return fmt::format("asks for reads of memory at {:#x}, which cannot be watched: its page holds code",
                         page);
  }
  return "";
}

// A sentence: why it is not possible, and the error for it.
std::string DebugWorld::find_taps(Callback& callback, int64_t& error) const {
  const backstep_on& what = callback.what;
  switch (callback.kind) {
    case BACKSTEP_ON_PC:
    case BACKSTEP_ON_READ:
    case BACKSTEP_ON_WRITE:
    case BACKSTEP_ON_TICK: {
      error = EINVAL;
      std::string wrong = tap_of(callback.kind, what, callback.taps.emplace_back());
      if (!wrong.empty()) return wrong;
      break;
    }
    default: {
      const std::string event = event_of(callback.kind, what, callback.text);
      error = EINVAL;
      if (event.empty())
        return callback.kind == BACKSTEP_ON_SYSCALL_BEFORE || callback.kind == BACKSTEP_ON_SYSCALL_AFTER
                   ? fmt::format("asks for callbacks of system call {}, which there is not", what.number)
                   : "asks for callbacks of nothing";
      DebugAnswer answer = ask({DebugQuestion::Event, bs_debug.at, event});
      error = ENOENT;
      if (!answer.failure.empty())
        return fmt::format("asks for callbacks of '{}': {}", event, answer.failure);
      callback.taps = std::move(answer.taps.list);
    }
  }
  for (Tap& tap : callback.taps) {
    tap.action = Tap::Run;
    tap.function = callback.function, tap.cookie = callback.cookie;
    tap.owner = callback.owner;
    tap.strict = true;
    tap.vector = false;
  }
  return "";
}

int64_t DebugWorld::on(const uint64_t args[6]) {
  auto refuse = [&](const std::string& sentence, int64_t result) {
    complain(sentence);
    return -result;
  };
  backstep_on what{};
  if (!bs_guarded_copy(&what, reinterpret_cast<const void*>(args[1]), sizeof what)) return -EFAULT;
  Callback callback;
  callback.kind = args[0];
  callback.function = args[2], callback.cookie = args[3];
  callback.owner = bs_debug.tap;
  if (!layout::is_probe(callback.function))
    return refuse(fmt::format("asks for a callback to {:#x}, which is no function of the debug code",
                              callback.function),
                  EINVAL);
  if (mode == DebugMode::Stateless)
    return refuse(
        "asks for callbacks; code that keeps nothing from one call to the next (--parallel) cannot have any",
        ENOTSUP);
  size_t taps = 0;
  for (const auto& [id, other] : callbacks_) taps += other.taps.size();
  if (callbacks_.size() >= kMostCallbacks || taps >= kMostTaps)
    return refuse(fmt::format("has {} callbacks already, which is the most there can be (backstep::off)",
                              callbacks_.size()),
                  ENOSPC);
  if (what.text) {
    const auto text = string_at(reinterpret_cast<Address>(what.text), kMostText);
    if (!text) return -EFAULT;
    callback.text = *text;
  }
  callback.what = what;
  callback.what.text = nullptr;
  int64_t error = 0;
  if (const std::string wrong = find_taps(callback, error); !wrong.empty()) return refuse(wrong, error);
  const int id = next_callback_++;
  callbacks_.emplace(id, std::move(callback));
  callbacks_changed_ = true;
  return id;
}

int64_t DebugWorld::off(uint64_t id) {
  const auto found = callbacks_.find(static_cast<int>(id));
  if (found == callbacks_.end()) return -ENOENT;
  for (const size_t index : found->second.indexes) {
    taps_.retire(index);
    gone_.insert(index);
  }
  callbacks_.erase(found);
  callbacks_changed_ = true;
  return 0;
}

DebugWorld::Changes DebugWorld::set_callbacks(const Position& now, bool fresh) {
  callbacks_changed_ = false;
  Changes changes;
  changes.gone = std::exchange(gone_, {});
  for (const size_t index : changes.gone) {
    changes.data |= taps_.spec(index).is_data();
    taps_.remove(index);
  }
  for (auto& [id, callback] : callbacks_) {
    if (!callback.indexes.empty()) continue;
    for (const Tap& tap : callback.taps) {
      callback.indexes.push_back(taps_.add(tap, now, fresh));
      changes.data |= tap.is_data();
    }
  }
  return changes;
}

void DebugWorld::set_callbacks_again(const Position& now) {
  for (auto& [id, callback] : callbacks_) callback.indexes.clear();
  gone_.clear();
  set_callbacks(now, true);
}

void DebugWorld::leave_out(Taps& taps) const {
  for (Tap& tap : taps.list)
    if (tap.action == Tap::Run && retired_.count(tap.function)) tap.off = true;
}

// What has run for too long is not called again: neither a place of the set nor a callback.
void DebugWorld::retire() {
  if (bs_debug.number == kNoTap) return;
  const Address function = bs_debug.function;
  taps_.retire(bs_debug.number);
  for (const auto& [id, callback] : callbacks_)
    if (std::count(callback.indexes.begin(), callback.indexes.end(), bs_debug.number)) {
      off(static_cast<uint64_t>(id));
      return;
    }
  retired_.insert(function);
}

// Where the recorded program is: the controller knows how to read its stack.
int64_t DebugWorld::tell_stack(const uint64_t args[6]) {
  const DebugAnswer answer = ask({DebugQuestion::Stack, bs_debug.at, "", guests_stack()});
  if (!answer.failure.empty()) return -EIO;
  auto give = [](Address to, const void* from, uint64_t size) {
    return size == 0 ||
           (DebugMemory::owns(to, size) && bs_guarded_copy(reinterpret_cast<void*>(to), from, size));
  };
  const uint64_t pcs = args[0] ? std::min<uint64_t>(answer.pcs.size(), args[1] / sizeof(uint64_t)) : 0;
  if (!give(args[0], answer.pcs.data(), pcs * sizeof(uint64_t))) return -EFAULT;
  if (args[2] && args[3]) {
    const std::string text = answer.text.substr(0, args[3] - 1);
    if (!give(args[2], text.c_str(), text.size() + 1)) return -EFAULT;
  }
  return static_cast<int64_t>(answer.pcs.size());
}

std::vector<uint8_t> DebugWorld::guests_stack() const {
  const SetAside& g = bs_debug.guest;
  static constexpr int kOrder[16] = {RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP,
                                     R8,  R9,  R10, R11, R12, R13, R14, R15};
  std::vector<uint64_t> words;
  for (const int r : kOrder) words.push_back(g.gpr[r]);
  words.push_back(bs_debug.at.pc);
  constexpr uint64_t kMost = 96 << 10;
  const Address from = g.gpr[RSP];
  const guest::Region* region = process_.map.find(from);
  const uint64_t size = region ? std::min(region->end - from, kMost) : 0;
  const size_t head = words.size() * sizeof words[0];
  std::vector<uint8_t> bytes(head + size);
  std::memcpy(bytes.data(), words.data(), head);
  if (size && !bs_guarded_copy(bytes.data() + head, reinterpret_cast<const void*>(from), size))
    bytes.resize(head);
  return bytes;
}

}  // namespace backstep::replayer
