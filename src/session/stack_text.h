// A backtrace in one line: "malloc < parse (parse.c:42) < main (main.c:7)".
#pragma once
#include <string>
#include <vector>

#include "session/session.h"

namespace backstep::session {

std::string stack_line(const std::vector<StackFrame>& stack, bool complete);
// "parse (parse.c:42)", or an address if nothing is known.
std::string frame_text(const StackFrame& frame);

}  // namespace backstep::session
