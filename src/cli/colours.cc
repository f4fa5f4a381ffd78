// Few of them: what failed is red, what one looks for stands out, what one skips is dim.
#include "cli/colours.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace backstep::cli {

bool shows_colours(FILE* out) {
  const char* unwanted = getenv("NO_COLOR");
  const char* terminal = getenv("TERM");
  if (unwanted && *unwanted) return false;
  return isatty(fileno(out)) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

std::string Paint::operator()(Colour colour, const std::string& text) const {
  if (!colours_ || colour == Colour::Plain || text.empty()) return text;
  const char* code = colour == Colour::Bold ? "1" : colour == Colour::Dim ? "2" : "31";
  return std::string("\033[") + code + "m" + text + "\033[0m";
}

}  // namespace backstep::cli
