// Memory that recorded processes share: where in each of them the same byte is, from the logs alone.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "recording/library.h"
#include "recording/tree.h"
#include "session/session.h"

namespace backstep::session {

struct SharedPlace {
  uint64_t process = 0;
  Address address = 0;
  Position before;  // of that process: where it was when the other one got the byte
};

class SharedPlaces {
 public:
  explicit SharedPlaces(const recording::Recording& recording)
      : recording_(recording), processes_(recording::list_processes(recording)) {}

  // Where the other processes have what one of them has at `address` when event `event` of its own log has
  // just told what is there. Empty: it is in no other one, or the recording has no order.
  std::vector<SharedPlace> elsewhere(uint64_t process, uint64_t event, Address address);
  // The number, in the order of all processes, of the last event of a log before event `event` of it that has
  // one.
  uint64_t order_before(uint64_t process, uint64_t event);

 private:
  struct Object {
    uint64_t dev = 0, inode = 0, offset = 0;
  };
  std::optional<Object> object_at(uint64_t process, uint64_t event, Address address) const;
  std::optional<SharedPlace> place_in(uint64_t process, const Object& object, uint64_t order);
  // Of the events that have an order: their numbers, and those of the order.
  const std::vector<std::pair<uint64_t, uint64_t>>& orders(uint64_t process);

  const recording::Recording recording_;
  std::vector<recording::ProcessInfo> processes_;
  std::map<uint64_t, std::vector<std::pair<uint64_t, uint64_t>>> orders_;
};

}  // namespace backstep::session
