// A region becomes a function of its own, so what it declares would be gone when it ends. What a later region
// mentions is kept instead, under the frame of the recorded program's function: its value is moved to the
// heap when the region ends (probe/runtime), and later regions have a reference to it. That they know its
// type, a declaration of the same name stands between the two in the copy of the source, where nothing is
// ever run.
//
// Declarations are recognised by their words, which need not be perfect: what is not recognised is not known
// in later regions, and the compiler says so.
#include "probe/region_variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>

namespace backstep::probe {
namespace {

bool begins_no_declaration(std::string_view word) {
  static const std::set<std::string_view> kWords{
      "return",  "if",       "else",      "for",      "while",         "do",      "switch", "case",
      "default", "goto",     "break",     "delete",   "new",           "try",     "throw",  "using",
      "sizeof",  "continue", "typedef",   "extern",   "catch",         "asm",     "struct", "class",
      "union",   "enum",     "namespace", "template", "static_assert", "__asm__", "typeof"};
  return kWords.count(word) > 0;
}

class Statement {
 public:
  Statement(const std::string& text, std::span<const Token> tokens, bool c)
      : text_(text), tokens_(tokens), c_(c) {}

  void declare(std::vector<DeclaredVariable>& to) const {
    if (tokens_.size() < 2 || tokens_[0].kind != Token::Kind::Name) return;
    const bool tagged =
        tokens_[0].text == "struct" || tokens_[0].text == "union" || tokens_[0].text == "enum";
    if (begins_no_declaration(tokens_[0].text) && !tagged) return;
    const size_t first = declarator(tagged ? 2 : 1);
    if (first == 0) return;
    // The words in front of it, without what belongs to this name alone.
    size_t base = first;
    while (base > 0 && (is(base - 1, "*") || is(base - 1, "&") || is(base - 1, "&&"))) base--;
    for (size_t at = first, from = base; at < tokens_.size();) {
      to.push_back(variable(base, from, at));
      at = behind_comma(at);
      from = at;
      while (at < tokens_.size() && (is(at, "*") || is(at, "&"))) at++;
      if (at >= tokens_.size() || tokens_[at].kind != Token::Kind::Name) return;
    }
  }

 private:
  bool is(size_t at, std::string_view sign) const { return tokens_[at].text == sign; }
  std::string between(size_t from, size_t to) const {
    if (from >= to) return "";
    const size_t begin = tokens_[from].offset, end = tokens_[to - 1].offset + tokens_[to - 1].text.size();
    return text_.substr(begin, end - begin);
  }

  // The first name that something is declared as; 0: there is none.
  size_t declarator(size_t from) const {
    int angles = 0;
    for (size_t i = 1; i < tokens_.size(); i++) {
      const std::string_view t = tokens_[i].text;
      if (t == "<") angles++;
      if (t == ">") angles--;
      if (t == ">>") angles -= 2;
      if (angles > 0) continue;
      if (t == "=" || t == "(" || t == "{" || t == "->" || t == "." || t == "[") return 0;
      if (tokens_[i].kind != Token::Kind::Name || i < from) continue;
      const std::string_view before = tokens_[i - 1].text;
      const bool behind_type = tokens_[i - 1].kind == Token::Kind::Name || before == ">" || before == ">>" ||
                               before == "*" || before == "&" || before == "&&";
      static const std::set<std::string_view> kBehind{"=", "{", "[", "(", ","};
      const bool ends = i + 1 == tokens_.size() || kBehind.count(tokens_[i + 1].text);
      if (behind_type && ends) return i;
    }
    return 0;
  }

  size_t behind_comma(size_t at) const {
    int depth = 0;
    for (; at < tokens_.size(); at++) {
      const std::string_view t = tokens_[at].text;
      if (t == "(" || t == "{" || t == "[") depth++;
      if (t == ")" || t == "}" || t == "]") depth--;
      if (t == "," && depth == 0) return at + 1;
    }
    return at;
  }

  // `from`: where the signs in front of the name begin.
  DeclaredVariable variable(size_t base, size_t from, size_t at) const {
    DeclaredVariable v;
    v.name = std::string(tokens_[at].text);
    std::string type;
    bool reference = false;
    for (size_t i = 0; i < base; i++) {
      const std::string_view t = tokens_[i].text;
      v.stays |= t == "static";
      v.deduced |= t == "auto" || t == "__auto_type" || t == "decltype";
      if (t != "static" && t != "constexpr" && t != "register") type += std::string(t) + " ";
    }
    for (size_t i = from; i < at; i++) {
      if (is(i, "&") || is(i, "&&"))
        reference = true;
      else
        type += is(i, "*") ? "*" : "";
    }
    v.stays |= reference;
    size_t brackets = at + 1;
    while (brackets + 1 < tokens_.size() && is(brackets, "[")) {
      while (brackets < tokens_.size() && !is(brackets, "]")) brackets++;
      brackets++;
    }
    const bool array = brackets > at + 1;
    const bool counted = array && !(is(at + 1, "[") && at + 2 < tokens_.size() && is(at + 2, "]"));
    v.deduced |= array && !counted;
    if (v.deduced)
      v.outline = between(0, tokens_.size()) + ";";
    else if (array)
      v.outline = type + v.name + between(at + 1, brackets) + ";";
    else if (c_)
      v.outline = type + v.name + ";";
    else
      v.outline = fmt::format("{0} &{1} = *({0} *)0;", type, v.name);
    return v;
  }

  const std::string& text_;
  std::span<const Token> tokens_;
  bool c_;
};

}  // namespace

std::vector<DeclaredVariable> declared_variables(const std::string& text, const std::vector<Token>& tokens,
                                                 bool c) {
  std::vector<DeclaredVariable> all;
  int depth = 0;
  size_t begin = 0;
  auto is_of_blocks = [&](size_t at) {
    static const std::set<std::string_view> kWords{"if",   "for", "while", "do", "switch",
                                                   "else", "try", "catch", "{"};
    return kWords.count(tokens[at].text) > 0;
  };
  for (size_t i = 0; i < tokens.size(); i++) {
    const std::string_view t = tokens[i].text;
    if (t == "(" || t == "{" || t == "[") depth++;
    if (t == ")" || t == "}" || t == "]") depth--;
    if (depth != 0) continue;
    if (tokens[i].kind == Token::Kind::Directive) begin = i + 1;
    if (t == "}" && is_of_blocks(begin)) begin = i + 1;
    if (t != ";") continue;
    Statement(text, std::span(tokens).subspan(begin, i - begin), c).declare(all);
    begin = i + 1;
  }
  return all;
}

}  // namespace backstep::probe
