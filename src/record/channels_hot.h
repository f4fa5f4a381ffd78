// Who is at the other end: what the log gets to know of pipes and sockets when they are made, come in a
// message, or get an address. Hot world.
//
// Descriptors mean something in one process only, and what a program asks of the kernel need not say whom it
// talks to. The kernel has names that others see, too: the number of a pipe, a socket's cookie and its two
// addresses, in a network namespace. They are asked for when a call of the trait kChannels is over, so
// nothing is asked where bytes are read and written. What is written down is an event of its own behind the
// call's (EventKind::Channel), which a replay leaves out.
#pragma once
#include <cstdint>

#include "guest/syscall_table.h"
#include "recording/log_writer.h"

namespace backstep::recorder {

// How much room the events of this call need; 0: there is nothing to be told.
uint64_t channel_room(uint64_t nr, const uint64_t args[6], int64_t result);
// Writes them. There is as much room in the log.
void log_channels(recording::Appender& log, uint64_t nr, const uint64_t args[6], int64_t result);

// One descriptor that the program begins with, if it is a pipe or a socket.
inline constexpr uint64_t kChannelEvent = 400;  // bytes that are enough for one event
void log_channel_at_start(recording::Appender& log, int fd);

}  // namespace backstep::recorder
