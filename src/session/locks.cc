// Calls of the pthread functions, which C's mtx_lock and C++'s std::mutex come down to. One that calls
// another for the same lock is one operation: that of the outermost, if the thread has not left it.
#include "session/locks.h"

#include <algorithm>

namespace backstep::session {

const std::vector<LockFunction>& lock_functions() {
  using F = LockFunction;
  static const std::vector<F> all = {
      {F::Take, "pthread_mutex_lock", "lock", "mutex"},
      {F::Take, "pthread_mutex_trylock", "trylock", "mutex"},
      {F::Take, "pthread_mutex_timedlock", "timedlock", "mutex"},
      {F::Take, "pthread_mutex_clocklock", "timedlock", "mutex"},
      {F::Give, "pthread_mutex_unlock", "unlock", "mutex"},
      {F::Take, "mtx_lock", "lock", "mutex"},
      {F::Take, "mtx_trylock", "trylock", "mutex"},
      {F::Take, "mtx_timedlock", "timedlock", "mutex"},
      {F::Give, "mtx_unlock", "unlock", "mutex"},
      {F::TakeShared, "pthread_rwlock_rdlock", "rdlock", "rwlock"},
      {F::TakeShared, "pthread_rwlock_tryrdlock", "tryrdlock", "rwlock"},
      {F::TakeShared, "pthread_rwlock_timedrdlock", "timedrdlock", "rwlock"},
      {F::TakeShared, "pthread_rwlock_clockrdlock", "timedrdlock", "rwlock"},
      {F::Take, "pthread_rwlock_wrlock", "wrlock", "rwlock"},
      {F::Take, "pthread_rwlock_trywrlock", "trywrlock", "rwlock"},
      {F::Take, "pthread_rwlock_timedwrlock", "timedwrlock", "rwlock"},
      {F::Take, "pthread_rwlock_clockwrlock", "timedwrlock", "rwlock"},
      {F::Give, "pthread_rwlock_unlock", "unlock", "rwlock"},
      {F::Wait, "pthread_cond_wait", "wait", "condition"},
      {F::Wait, "pthread_cond_timedwait", "timedwait", "condition"},
      {F::Wait, "pthread_cond_clockwait", "timedwait", "condition"},
      {F::Wait, "cnd_wait", "wait", "condition"},
      {F::Wait, "cnd_timedwait", "timedwait", "condition"},
      {F::Give, "pthread_cond_signal", "signal", "condition"},
      {F::Give, "pthread_cond_broadcast", "broadcast", "condition"},
      {F::Give, "cnd_signal", "signal", "condition"},
      {F::Give, "cnd_broadcast", "broadcast", "condition"},
      {F::Take, "sem_wait", "wait", "semaphore"},
      {F::Take, "sem_trywait", "trywait", "semaphore"},
      {F::Take, "sem_timedwait", "timedwait", "semaphore"},
      {F::Take, "sem_clockwait", "timedwait", "semaphore"},
      {F::Give, "sem_post", "post", "semaphore"},
      {F::Take, "pthread_spin_lock", "lock", "spinlock"},
      {F::Take, "pthread_spin_trylock", "trylock", "spinlock"},
      {F::Give, "pthread_spin_unlock", "unlock", "spinlock"},
      {F::Both, "pthread_barrier_wait", "wait", "barrier"},
      {F::Create, "pthread_create", "create", ""},
      {F::Join, "pthread_join", "join", ""},
  };
  return all;
}

namespace {

class LockBooks {
 public:
  LockBooks(const std::vector<size_t>& rows, const std::function<bool(const LockOperation&)>& take)
      : rows_(rows), take_(take) {}

  bool take(const KnownCall& call) {
    if (call.kind == KnownCall::Enter) {
      open_.enter(call);
      return true;
    }
    const OpenCalls::Chain chain = open_.leave(call);
    return chain.empty() || is_part(chain.front()) || take_(operation(chain.front(), &call));
  }
  bool end() {
    for (const OpenCalls::Chain& chain : open_.rest())
      if (!is_part(chain.front()) && !take_(operation(chain.front(), nullptr))) return false;
    return true;
  }

 private:
  const LockFunction& function_of(const KnownCall& call) const {
    return lock_functions()[rows_[call.function]];
  }
  // … of another operation on the same lock.
  bool is_part(const KnownCall& call) const {
    return open_.any([&](const KnownCall& o) {
      return o.thread == call.thread && o.stack > call.stack && o.at < call.at && o.args[0] == call.args[0] &&
             std::string_view(function_of(o).kind) == function_of(call).kind;
    });
  }
  LockOperation operation(const KnownCall& call, const KnownCall* left) const {
    LockOperation o;
    o.function = &function_of(call);
    o.at = call.at;
    o.thread = call.thread;
    o.lock = call.args[0];
    o.second = call.args[1];
    o.third = call.args[2];
    o.caller = call.back;
    if (!left) return o;
    o.left = left->at;
    o.result = static_cast<int32_t>(left->result);
    return o;
  }

  const std::vector<size_t>& rows_;  // of lock_functions(), by number of the call's function
  const std::function<bool(const LockOperation&)>& take_;
  OpenCalls open_;
};

}  // namespace

bool locks(Session& session, const LocksRequest& request,
           const std::function<bool(const LockOperation&)>& take, const Watcher& watcher) {
  std::vector<KnownFunction> known;
  std::vector<size_t> rows;
  for (size_t i = 0; i < lock_functions().size(); i++) {
    const LockFunction& f = lock_functions()[i];
    if (!request.thread_calls && !*f.kind) continue;
    known.push_back({f.symbol, false, true});
    rows.push_back(i);
  }
  LockBooks books(rows, take);
  bool enough = false;
  const bool complete =
      KnownCalls(session, known)
          .run(
              request.stretch, [&](const KnownCall& c) { return !(enough = !books.take(c)); }, watcher);
  return complete && books.end();
}

}  // namespace backstep::session
