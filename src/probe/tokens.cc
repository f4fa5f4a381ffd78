// A lexer knows all that has to be known before a compiler looks at debug code: which identifiers are in it.
// It need not be strict: whatever it gets wrong in code that is no C++ the compiler will complain about.
#include "probe/tokens.h"

#include <cctype>

namespace backstep::probe {
namespace {

bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' || c == '$' || (c & 0x80);
}
bool in_name(char c) {
  return begins_name(c) || std::isdigit(static_cast<unsigned char>(c));
}

class Lexer {
 public:
  explicit Lexer(std::string_view code) : code_(code) {}

  std::vector<Token> run() {
    for (skip(); at_ < code_.size(); skip()) one();
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < code_.size() ? code_[at_ + ahead] : '\0'; }
  void step() {
    if (peek() == '\n') {
      line_++;
      fresh_ = true;
    }
    at_++;
  }

  // White space and comments.
  void skip() {
    while (at_ < code_.size()) {
      if (std::isspace(static_cast<unsigned char>(peek())) || (peek() == '\\' && peek(1) == '\n')) {
        step();
      } else if (peek() == '/' && peek(1) == '/') {
        while (at_ < code_.size() && peek() != '\n') step();
      } else if (peek() == '/' && peek(1) == '*') {
        while (at_ < code_.size() && !(peek() == '*' && peek(1) == '/')) step();
        at_ += at_ + 2 <= code_.size() ? 2 : 0;
      } else {
        return;
      }
    }
  }

  void one() {
    const size_t start = at_;
    const int line = line_;
    const bool first = fresh_;
    fresh_ = false;
    Token::Kind kind = Token::Kind::Sign;
    if (peek() == '#' && first) {
      kind = Token::Kind::Directive;
      while (at_ < code_.size() && peek() != '\n') {
        if (peek() == '\\' && peek(1) == '\n') step();
        step();
      }
    } else if (begins_name(peek())) {
      kind = Token::Kind::Name;
      while (in_name(peek())) step();
      const std::string_view word = code_.substr(start, at_ - start);
      if ((peek() == '"' || peek() == '\'') && is_prefix(word)) {
        kind = Token::Kind::Text;
        word.back() == 'R' ? raw() : quoted(peek());
      }
    } else if (std::isdigit(static_cast<unsigned char>(peek())) ||
               (peek() == '.' && std::isdigit(static_cast<unsigned char>(peek(1))))) {
      kind = Token::Kind::Number;
      number();
    } else if (peek() == '"' || peek() == '\'') {
      kind = Token::Kind::Text;
      quoted(peek());
    } else {
      sign();
    }
    tokens_.push_back({kind, code_.substr(start, at_ - start), start, line});
  }

  static bool is_prefix(std::string_view word) {
    for (std::string_view p : {"L", "u", "U", "u8", "R", "LR", "uR", "UR", "u8R"})
      if (word == p) return true;
    return false;
  }
  void quoted(char quote) {
    step();
    while (at_ < code_.size() && peek() != quote && peek() != '\n') {
      if (peek() == '\\') step();
      step();
    }
    if (peek() == quote) step();
  }
  void raw() {
    step();
    std::string end = ")";
    while (at_ < code_.size() && peek() != '(') {
      end += peek();
      step();
    }
    end += '"';
    while (at_ < code_.size() && !code_.substr(at_).starts_with(end)) step();
    for (size_t i = 0; i < end.size() && at_ < code_.size(); i++) step();
  }
  void number() {
    while (in_name(peek()) || peek() == '.' || (peek() == '\'' && in_name(peek(1)))) {
      const char c = peek();
      step();
      if ((c == 'e' || c == 'E' || c == 'p' || c == 'P') && (peek() == '+' || peek() == '-')) step();
    }
  }
  void sign() {
    for (std::string_view two : {"->", "::", "##", "<:", ":>"})
      if (code_.substr(at_).starts_with(two)) step();
    step();
  }

  std::string_view code_;
  size_t at_ = 0;
  int line_ = 1;
  bool fresh_ = true;  // nothing on this line so far
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view code) {
  return Lexer(code).run();
}

std::set<std::string, std::less<>> names_in(const std::vector<Token>& tokens) {
  std::set<std::string, std::less<>> names;
  for (const Token& t : tokens)
    if (t.kind == Token::Kind::Name) names.emplace(t.text);
  return names;
}

bool is_keyword(std::string_view word) {
  static const std::set<std::string_view> kWords{
      "alignas",     "alignof",   "and",        "and_eq",    "asm",      "auto",         "bitand",
      "bitor",       "bool",      "break",      "case",      "catch",    "char",         "char8_t",
      "char16_t",    "char32_t",  "class",      "compl",     "concept",  "const",        "consteval",
      "constexpr",   "constinit", "const_cast", "continue",  "co_await", "co_return",    "co_yield",
      "decltype",    "default",   "delete",     "do",        "double",   "dynamic_cast", "else",
      "enum",        "explicit",  "export",     "extern",    "false",    "float",        "for",
      "friend",      "goto",      "if",         "inline",    "int",      "long",         "mutable",
      "namespace",   "new",       "noexcept",   "not",       "not_eq",   "nullptr",      "operator",
      "or",          "or_eq",     "private",    "protected", "public",   "register",     "reinterpret_cast",
      "requires",    "return",    "short",      "signed",    "sizeof",   "static",       "static_assert",
      "static_cast", "struct",    "switch",     "template",  "this",     "thread_local", "throw",
      "true",        "try",       "typedef",    "typeid",    "typename", "typeof",       "union",
      "unsigned",    "using",     "virtual",    "void",      "volatile", "wchar_t",      "while",
      "xor",         "xor_eq"};
  return kWords.count(word) > 0;
}

}  // namespace backstep::probe
