// What threads did with locks: mutexes, read-write locks, condition variables, semaphores, spinlocks,
// barriers.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "session/known_calls.h"

namespace backstep::session {

struct LockFunction {
  // What it means for who may come behind whom (races.cc): Take waits for a Give, of the same lock.
  enum Effect : uint8_t { None, Take, TakeShared, Give, Wait, Both, Join, Create } effect;
  const char* symbol;
  const char* operation;  // as the table has it: lock, trylock, unlock, …
  const char* kind;       // of the lock: mutex, rwlock, condition, semaphore, spinlock, barrier; "": no lock
};
const std::vector<LockFunction>& lock_functions();

struct LockOperation {
  const LockFunction* function = nullptr;
  Position at;
  std::optional<Position> left;  // none: it had not returned by the end, or was left otherwise
  int thread = 1;
  Address lock = 0;
  Address second = 0;  // a Wait's mutex
  Address third = 0;   // pthread_create's function
  std::optional<int64_t> result;
  Address caller = 0;  // the return address
};

// As they end, those that did not last. `thread_calls`: with pthread_create and pthread_join. False from
// `take` ends it; returns false if it was ended, by whoever.
struct LocksRequest {
  Stretch stretch;
  bool thread_calls = false;
};
bool locks(Session& session, const LocksRequest& request,
           const std::function<bool(const LockOperation&)>& take, const Watcher& watcher);

}  // namespace backstep::session
