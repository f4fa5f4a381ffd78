// Calls of functions that are known by their names in symbol tables: malloc, pthread_mutex_lock, … Where each
// begins and where it returns, with the registers that matter, in the order of time.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "session/session.h"

namespace backstep::session {

struct KnownFunction {
  std::string_view name;  // as the symbol table has it
  bool local = false;     // a symbol of this name counts even if other files cannot see it
  bool leaving = true;    // it matters when it returns, and with what
};

struct KnownCall {
  enum Kind : uint8_t {
    Enter,
    Jump,   // the function at `stack` is left by a jump, maybe to another function that does its work
    Leave,  // it returns
  };
  Kind kind = Enter;
  size_t function = 0;  // Enter: which of the list
  Position at;
  int thread = 1;      // virtual name
  uint64_t stack = 0;  // the stack pointer, which is at the return address: it tells which call is left
  // Enter:
  uint64_t args[3] = {};
  Address back = 0;
  // Leave:
  uint64_t result = 0;
  bool behind = false;  // `at` is where it returned to, not the instruction that returns
  Tick last_tick() const { return at.tick - (behind ? 1 : 0); }  // that it ran in
};

class KnownCalls {
 public:
  // All functions of these names, in whatever file of the program.
  KnownCalls(Session& session, std::vector<KnownFunction> functions);

  bool any() const { return !points_.empty(); }
  // Might code outside of the files that define it know this name? Who does not know it does not call it.
  bool is_named_elsewhere(std::string_view name) const;
  // False from `take` ends it; returns false if it was ended, by whoever.
  bool run(const Stretch& stretch, const std::function<bool(const KnownCall&)>& take,
           const Watcher& watcher) const;

 private:
  struct Point {
    KnownCall::Kind kind;
    size_t function;
    Address pc;
  };
  void find_entries();
  void find_exits(Address entry);
  std::set<Address> return_addresses(const Stretch& stretch) const;

  Session& session_;
  std::vector<KnownFunction> functions_;
  std::map<Address, size_t> entries_;
  std::map<Address, KnownCall::Kind> exits_;
  std::set<Address> elusive_;  // entries of functions that may be left through a pointer
  std::vector<Point> points_;
};

// Calls that have not returned. Those that have jumped to each other, so that one return leaves them all, are
// a chain: the first one is what the program called.
class OpenCalls {
 public:
  using Chain = std::vector<KnownCall>;

  // The call becomes the last of a chain.
  const Chain& enter(const KnownCall& call);
  // Of a Jump or Leave: the chain that has returned; empty if none has.
  Chain leave(const KnownCall& call);
  // Each call that is open, until `f` says true; whether it did.
  bool any(const std::function<bool(const KnownCall&)>& f) const;
  // In the order in which they began.
  std::vector<Chain> rest() const;

 private:
  struct Open {
    Chain chain;
    bool jumped = false;  // its last one has
  };
  std::unordered_map<uint64_t, Open> open_;  // by stack pointer
};

// What a thread's stack was at each of these moments, in the same order. They need not be sorted.
struct StackAt {
  std::vector<StackFrame> frames;
  bool complete = true;
};
std::vector<StackAt> stacks_at(Session& session, const std::vector<Position>& moments,
                               const Watcher& watcher);

}  // namespace backstep::session
