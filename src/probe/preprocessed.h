// A source file with debug regions as the preprocessor leaves it, taken apart.
#pragma once
#include <string>
#include <vector>

#include "probe/tokens.h"

namespace backstep::probe {

// A piece of the text between BACKSTEP_BEGIN and BACKSTEP_END.
struct SourceRegion {
  std::string file;                     // as the compiler knows it
  int line = 0, last = 0;               // of BACKSTEP_BEGIN and BACKSTEP_END
  size_t begin = 0, end = 0;            // offsets in the text: of the first word, behind the last one
  size_t code_begin = 0, code_end = 0;  // … of what is between them
  std::string next;                     // the first word behind it
  int next_line = 0;
  std::vector<Token> tokens;  // of the code
};

class Preprocessed {
 public:
  // Throws Error: a region that does not end, or is left by `return`.
  explicit Preprocessed(std::string text);

  const std::string& text() const { return text_; }
  const std::vector<SourceRegion>& regions() const { return regions_; }
  // Without its regions; lines stay where they are.
  std::string without_regions() const;
  // Each region replaced by what `replacement` makes of it.
  template <class F>
  std::string with_regions(F replacement) const {
    std::string out;
    size_t from = 0;
    for (size_t i = 0; i < regions_.size(); i++) {
      out += text_.substr(from, regions_[i].begin - from) + replacement(regions_[i], i);
      from = regions_[i].end;
    }
    return out + text_.substr(from);
  }

 private:
  std::string text_;
  std::vector<SourceRegion> regions_;
};

}  // namespace backstep::probe
