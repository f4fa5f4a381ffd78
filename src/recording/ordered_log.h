// The events of all processes of a recording as one sequence, by their order numbers (format.h).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "recording/library.h"
#include "recording/log_reader.h"

namespace backstep::recording {

// One log, with the place of each event among those of the others.
class OrderedLog {
 public:
  // `thread`: the one that the log begins with. Throws Error: cannot be read.
  OrderedLog(const Recording& recording, uint64_t number, int thread);
  bool next();  // false: no more
  const Event& event() const { return event_; }
  uint64_t number() const { return number_; }
  // Grows along the log. An event without a number is where the one before it is, a call that had to wait
  // where it began (but not in front of what the log has before it).
  uint64_t place() const { return place_; }
  std::optional<std::string> damage() const { return reader_.damage(); }

 private:
  uint64_t number_;
  LogReader reader_;
  Event event_;
  uint64_t place_ = 0;
  std::map<int, uint64_t> waiting_;  // by thread: the number of the call that it waits in
};

class OrderedLogs {
 public:
  // `threads`: say which thread an event is of, also in forked processes (for which their ancestors are
  // read).
  OrderedLogs(const Recording& recording, bool threads);
  // The log with the next event; null: no more. Logs are opened when the sequence comes to them.
  const OrderedLog* next();
  // Leaves out the rest of this log.
  void drop(uint64_t number) { dropped_.insert(number); }
  // No numbers: made by an older Backstep. Then the time at which chunks were opened has to do.
  bool by_time() const { return by_time_; }
  struct Damage {
    uint64_t number;
    std::string text;
  };
  const std::vector<Damage>& damage() const { return damage_; }  // of what was read so far

 private:
  struct Entry {
    uint64_t place, number;
    friend bool operator>(const Entry& a, const Entry& b) {
      return a.place != b.place ? a.place > b.place : a.number > b.number;
    }
  };
  void forget(uint64_t number);

  const Recording recording_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::map<uint64_t, std::unique_ptr<OrderedLog>> open_;
  uint64_t current_ = 0;
  std::set<uint64_t> dropped_;
  bool threads_;
  bool by_time_ = false;
  std::vector<Damage> damage_;
};

}  // namespace backstep::recording
