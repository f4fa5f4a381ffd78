// Which build of our program this is.
#pragma once
#include <string_view>

namespace backstep {

// The bytes that the linker has put into it; empty: it has no id, so what depends on the build cannot be
// kept.
std::string_view build_id();

}  // namespace backstep
