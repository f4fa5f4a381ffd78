// Stacks below a heading, as commands that look for mistakes show them.
#pragma once
#include <string>

#include "session/known_calls.h"
#include "session/session.h"

namespace backstep::cli {

// A frame on each line. False: nobody reads any more.
bool print_frames(const std::vector<session::StackFrame>& frames, bool complete);
void print_stack(const std::string& heading, const session::StackAt& stack);
std::string point_of(const session::Position& at);  // @TICK:0xPC

}  // namespace backstep::cli
