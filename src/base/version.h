// The version of this program, from CMakeLists.txt. It is written into every recording.
#pragma once

namespace backstep {

inline constexpr char kVersion[] = BACKSTEP_VERSION;

}  // namespace backstep
