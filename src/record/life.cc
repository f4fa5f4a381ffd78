#include "record/life.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>

namespace backstep::recorder {

Life life_of(uint32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  Life life;
  std::string skipped;
  fields >> life.state >> life.parent;
  for (int i = 5; i < 22; i++) fields >> skipped;
  fields >> life.started;
  return life;
}

bool is_dead(uint32_t pid, uint64_t started) {
  const Life life = life_of(pid);
  // There may be no /proc here (chroot), or it shows none of other users' (hidepid).
  if (life.state == 'X') return kill(static_cast<int>(pid), 0) != 0 && errno == ESRCH;
  if (life.state == 'Z' || life.state == 'x') return true;
  return started != 0 && started != life.started;
}

}  // namespace backstep::recorder
