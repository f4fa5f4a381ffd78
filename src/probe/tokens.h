// C and C++ as words: enough to know which names debug code mentions, and where.
#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace backstep::probe {

struct Token {
  enum class Kind : uint8_t { Name, Number, Text, Sign, Directive };
  Kind kind = Kind::Sign;
  std::string_view text;  // Directive: the whole line, with its continuations
  size_t offset = 0;      // in the code
  int line = 1;           // counted from 1
};

// Comments and white space are left out; what is no C either is a sign. The tokens refer to `code`.
std::vector<Token> tokens_of(std::string_view code);

std::set<std::string, std::less<>> names_in(const std::vector<Token>& tokens);

// Words that are no names in C++, whatever they are in other languages.
bool is_keyword(std::string_view word);

}  // namespace backstep::probe
