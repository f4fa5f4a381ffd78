// Stacks of calls that came with a match; a backtrace in one line: "malloc < parse (parse.c:42) < main
// (main.c:7)".
#pragma once
#include <span>
#include <string>
#include <vector>

#include "session/session.h"

namespace backstep::session {

// A stack without names, from registers and the bytes at rsp.
symbols::Stack unwound(const Session& session, const symbols::UnwindRegisters& registers, Address stack,
                       std::span<const uint8_t> bytes);
std::string stack_line(const std::vector<StackFrame>& stack, bool complete);
// "parse"; "0x1145b10a in libfoo.so", if it is a function without a name.
std::string frame_name(const StackFrame& frame);
// "parse (parse.c:42)", or an address if nothing is known.
std::string frame_text(const StackFrame& frame);

}  // namespace backstep::session
