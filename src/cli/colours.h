// Colours on a terminal, and only there.
#pragma once
#include <cstdio>
#include <string>

namespace backstep::cli {

enum class Colour { Plain, Bold, Dim, Red };

// Is that a terminal that shows them, and does the user want them (https://no-color.org)?
bool shows_colours(FILE* out);

class Paint {
 public:
  explicit Paint(bool colours) : colours_(colours) {}
  std::string operator()(Colour colour, const std::string& text) const;

 private:
  bool colours_;
};

}  // namespace backstep::cli
