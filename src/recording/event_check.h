// The one place that says what an event can be. Checksums keep accidents away, but not a stranger who makes
// them anew: LogFile lets no event through that is not right in itself, so that all who read logs, the
// replayer's hot half included, may take a thread's number, a signal or an address for one. What depends on
// the state of the program (is that memory mapped, is there such a thread?) the replayer checks.
#pragma once
#include "recording/log_reader.h"

namespace backstep::recording {

// What is wrong with it, as the end of "event N …"; null: nothing.
const char* wrong_with(const Event& event);

// An event as it is in the log, of at least kMinEvent bytes: null, or what is wrong. `tick` is the running
// one.
const char* check_event(std::span<const uint8_t> bytes, Tick& tick, Event& scratch);

// Addresses that a program can have memory at: nothing of the engine's. Our own program, libraries and stacks
// lie among those above guest::kGuestEnd: there only the guest's map says whose memory it is.
bool is_guest_range(uint64_t address, uint64_t length);

}  // namespace backstep::recording
