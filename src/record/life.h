// Whether another process is still there, and is still the one it was.
#pragma once
#include <cstdint>

namespace backstep::recorder {

struct Life {
  char state = 'X';  // as in /proc/PID/stat; 'X': there is no such process
  uint32_t parent = 0;
  uint64_t started = 0;  // pids are used again; with this time they name one process
};
Life life_of(uint32_t pid);

// Zombies count as dead: they hold nothing, and nobody may be there to collect them but the one that asks.
// `started` 0: not known.
bool is_dead(uint32_t pid, uint64_t started);

}  // namespace backstep::recorder
