// Events in words: one line for people, one JSON object for programs.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "recording/log_reader.h"

namespace backstep::events {

const char* kind_name(recording::EventKind kind);  // "syscall", "map", …
// Name of what happened: the system call, instruction or signal; else the kind.
std::string event_name(const recording::Event& event);
// All that kind_name() and event_name() can say.
std::vector<std::string> event_names();
// Did the call answer with an error? (One that was not made yet did not.)
bool has_failed(const recording::Event& event);

// What stands behind number and tick in `dump`: `read(3, "…", 64) = 64`, `rdtsc = 0x…`, `map …`.
// `strings`: bytes shown of strings and buffers.
std::string event_text(const recording::Event& event, size_t strings);

nlohmann::ordered_json event_json(const recording::Event& event, size_t strings);

}  // namespace backstep::events
