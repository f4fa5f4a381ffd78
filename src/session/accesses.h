// Each load and store of a stretch of the run, with what was there.
#pragma once
#include <functional>
#include <vector>

#include "recording/checkpoint_file.h"
#include "session/session.h"

namespace backstep::session {

struct Access {
  Tick tick = 0;
  uint64_t event = 0;  // with tick and pc: the position in front of the instruction
  Address pc = 0;
  int thread = 1;  // virtual name
  Address address = 0;
  // A repeated string instruction is one access of all that it goes through, and so is each piece of memory
  // that a system call writes.
  uint32_t size = 0;
  bool store = false;
  bool by_kernel = false;  // for the system call at pc, or for a signal that is delivered there
  // The first eight bytes as a number, little-endian. Of a load both are what it read.
  uint64_t old_value = 0, new_value = 0;
};

struct AccessRequest {
  Stretch stretch;
  bool stores = true, loads = false;
  std::vector<recording::AddressRange> data;  // memory that is accessed; empty: any
  std::vector<recording::AddressRange> code;  // instructions that access it; empty: any
  int thread = 0;                             // virtual name; 0: any
};

// Calls `take` with each one in the order of time; false from it: enough. An instruction that reads and
// writes is a load and then a store. Windows are replayed on all processors, as in all sweeps.
void accesses(Session& session, const AccessRequest& request, const std::function<bool(const Access&)>& take,
              const Watcher& watcher);

}  // namespace backstep::session
