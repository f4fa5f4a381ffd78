// The text of an errno value as a person wants it: the sentence to understand, the name to search for.
#include "base/error.h"

#include <fmt/format.h>

#include <cstring>

#include "base/printable.h"

namespace backstep {

int tell(const std::exception& e) {
  fmt::print(stderr, "backstep: {}\n", printable(e.what(), true));
  const auto* ours = dynamic_cast<const Error*>(&e);
  return ours ? ours->exit_code : kExitFailure;
}

std::string errno_text(int err) {
  const char* sentence = strerrordesc_np(err);
  const char* name = strerrorname_np(err);
  if (!sentence || !name) return "error " + std::to_string(err);
  return std::string(sentence) + " (" + name + ")";
}

}  // namespace backstep
