// Who holds a lock, by the calls that lock and unlock it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "session/session.h"

namespace backstep::session {

// Of one lock at one address. Its taps belong into a sweep from the beginning of the process; it is fed with
// their matches in the order of time. A thread holds the lock from the return of the call that gave it until
// it calls what gives it back; pthread_cond_wait gives it back meanwhile.
class LockHolders {
 public:
  // Throws Error: the program has no locks of that kind.
  LockHolders(Session& session, Address lock);

  const std::vector<timeline::Tap>& taps() const { return taps_; }
  void feed(size_t tap, const replayer::TapRecord& record, const uint8_t* values);

  bool holds(int thread) const;
  std::vector<int> holders() const;  // virtual names of threads

 private:
  enum class Effect : uint8_t { Takes, Waits, Gives };
  struct Row {
    const char* function;
    Effect effect;
    int argument;  // which one is the lock
  };
  static const std::vector<Row>& rows();
  struct Point {
    bool entry = false;
    Effect effect = Effect::Takes;
  };
  // A call that has not returned, by thread and place of its return address.
  using Key = std::pair<int, uint64_t>;
  void add_returns(Address entry);

  Session& session_;
  Address lock_;
  std::vector<timeline::Tap> taps_;
  std::vector<Point> points_;
  std::map<Address, size_t> returns_;
  std::map<Key, Effect> open_;
  std::map<int, uint64_t> held_;  // by thread: how often (a lock may be recursive)
};

}  // namespace backstep::session
