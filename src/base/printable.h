// Names and sentences that a recording holds, for a terminal.
#pragma once
#include <string>

namespace backstep {

// What a terminal would take for a command (control characters, also as UTF-8) or cannot show is written as
// \xNN; newlines and tabs stay if `lines`.
std::string printable(const std::string& text, bool lines = false);

}  // namespace backstep
