// What gdb is told at its start.
#pragma once
#include <string_view>

namespace backstep::serve {

extern const std::string_view kGdbScript;

}  // namespace backstep::serve
