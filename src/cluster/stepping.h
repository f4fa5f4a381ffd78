// One process of a run moved by a line, an instruction, a function or a message, forwards or backwards.
#pragma once
#include <optional>
#include <string>

#include "cluster/breaking.h"
#include "cluster/sessions.h"

namespace backstep::cluster {

enum class Step : uint8_t {
  Line,         // to the next line of the same function, or out of it
  Instruction,  // one, of the thread that has the turn
  Finish,       // out of the function; backwards, to where it was called
  Message,      // to the next event of the graph: something sent, received, made, waited for
};
std::optional<Step> step_named(const std::string& name);  // line, stepi, finish, message

// Where the process is then. Throws Error: it cannot move any further.
Place step(const Causality& causality, Breaking& breaking, Sessions& sessions, ProcessId process,
           const Place& from, Step step, bool back);

// The cut that the run is in once a process has been moved from `cut` to `place`.
Cut stepped(Breaking& breaking, const Cut& cut, ProcessId process, const Place& place, bool optimistic,
            bool back);

}  // namespace backstep::cluster
