// A profile as a picture: stacks as towers, as wide as the ticks that went there.
#pragma once
#include <string>

#include "session/profile.h"

namespace backstep::cli {

// An SVG that needs nothing else; the pointer over a box says what it is.
std::string flame_graph(const session::Profile& profile, const std::string& title);

}  // namespace backstep::cli
