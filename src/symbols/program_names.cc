// Function names are compared by their parts. "f" must find "ns::Class::f<int>(char) const", "Class::f" must
// not find "Base::f", and "operator<" has no template arguments. So both what was asked for and what a file
// contains go through one scanner, which knows three things about C++ names: brackets nest, "operator" is
// followed by signs that are no brackets, and a space outside of brackets ends a return type.
#include "symbols/program_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

namespace backstep::symbols {
namespace {

constexpr std::string_view kAnonymous = "(anonymous namespace)";

bool is_word(char c) {
  return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || (c & 0x80);
}

bool word_at(std::string_view text, size_t at, std::string_view word) {
  return text.substr(at).starts_with(word) && (at == 0 || !is_word(text[at - 1])) &&
         (at + word.size() == text.size() || !is_word(text[at + word.size()]));
}

// Behind "operator" and its signs, or behind the type of a conversion.
size_t skip_operator(std::string_view text, size_t at) {
  at += strlen("operator");
  std::string_view rest = text.substr(at);
  if (rest.starts_with("()") || rest.starts_with("[]")) return at + 2;
  // "operator<<int>" is "operator<" of int, as DWARF writes it: the other has a space, "operator<< <int>".
  if (rest.starts_with("<<") && rest.size() > 2 && !strchr(" (=[", rest[2])) return at + 1;
  static constexpr std::array<std::string_view, 24> kLong = {
      "<<=", ">>=", "->*", "<=>", "<<", ">>", "<=", ">=", "->", "==", "!=", "++",
      "--",  "&&",  "||",  "+=",  "-=", "*=", "/=", "%=", "^=", "&=", "|=", "\"\""};
  for (std::string_view op : kLong)
    if (rest.starts_with(op)) return at + op.size();
  if (!rest.empty() && strchr("<>=+-*/%^&|~!,", rest[0])) return at + 1;
  if (!rest.starts_with(' ')) return at;
  while (at < text.size() && text[at] != '(' && text[at] != '<')
    at++;  // "operator unsigned long", "operator new[]"
  return at;
}

// Behind the bracket that closes the one at `at`; the end of the text if none does.
size_t skip_brackets(std::string_view text, size_t at) {
  size_t depth = 0;
  for (; at < text.size(); at++) {
    char c = text[at];
    if (c == 'o' && word_at(text, at, "operator")) {
      at = skip_operator(text, at) - 1;
      continue;
    }
    if (c == '-' && at + 1 < text.size() && text[at + 1] == '>')
      at++;
    else if (strchr("(<[{", c))
      depth++;
    else if (strchr(")>]}", c) && --depth == 0)
      return at + 1;
  }
  return at;
}

// The parameters of a type are the same with other spaces.
bool same_without_spaces(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  for (;;) {
    while (i < a.size() && a[i] == ' ') i++;
    while (j < b.size() && b[j] == ' ') j++;
    if (i == a.size() || j == b.size()) return i == a.size() && j == b.size();
    if (a[i++] != b[j++]) return false;
  }
}

bool same_part(std::string_view asked, std::string_view part) {
  return same_without_spaces(asked, part) || same_without_spaces(asked, without_arguments(part));
}

// "(int)" also stands for "(int) const"; "(void)" for "()".
bool same_parameters(std::string_view asked, std::string_view parameters) {
  if (same_without_spaces(asked, "(void)")) asked = "()";
  if (same_without_spaces(asked, parameters)) return true;
  return same_without_spaces(asked, parameters.substr(0, skip_brackets(parameters, 0)));
}

// Behind " const" and the like.
size_t skip_qualifiers(std::string_view text, size_t at) {
  for (;;) {
    std::string_view rest = text.substr(at);
    if (rest.starts_with(" const"))
      at += strlen(" const");
    else if (rest.starts_with(" volatile"))
      at += strlen(" volatile");
    else if (rest.starts_with(" &"))
      at += rest.starts_with(" &&") ? 3 : 2;
    else
      return at;
  }
}

// Rust's symbols end in "::h" and sixteen digits.
bool is_rust_hash(std::string_view part) {
  return part.size() == 17 && part[0] == 'h' &&
         std::all_of(part.begin() + 1, part.end(), [](unsigned char c) { return isxdigit(c); });
}

}  // namespace

SplitName split_name(std::string_view text) {
  if (size_t clone = text.find(" [clone "); clone != std::string_view::npos) text = text.substr(0, clone);
  while (text.ends_with(' ')) text.remove_suffix(1);
  while (text.starts_with(' ')) text.remove_prefix(1);
  if (text.starts_with("::")) text.remove_prefix(2);
  SplitName name;
  size_t begin = 0, part = 0, at = 0;
  auto end_part = [&] { name.parts.push_back(text.substr(part, at - part)); };
  while (at < text.size()) {
    if (text[at] == 'o' && word_at(text, at, "operator")) {
      at = skip_operator(text, at);
    } else if (text.substr(at).starts_with("::")) {
      end_part();
      part = at += 2;
    } else if (text.substr(at).starts_with(kAnonymous)) {
      at += kAnonymous.size();
    } else if (text[at] == '(' && !text.substr(part, at - part).ends_with("decltype")) {
      // What is local to a function: "f(int) const::Local::g".
      size_t behind = skip_qualifiers(text, skip_brackets(text, at));
      if (!text.substr(behind).starts_with("::")) break;
      at = behind;
    } else if (strchr("(<[{", text[at])) {
      at = skip_brackets(text, at);
    } else if (text[at] == ' ' && at + 1 < text.size() && text[at + 1] != '<') {
      begin = part = ++at;
      name.parts.clear();
    } else {
      at++;
    }
  }
  end_part();
  size_t end = at;
  if (name.parts.size() > 1 && is_rust_hash(name.parts.back())) {
    end -= name.parts.back().size() + 2;
    name.parts.pop_back();
  }
  name.qualified = text.substr(begin, end - begin);
  if (at < text.size()) name.parameters = text.substr(at);
  return name;
}

std::string_view without_arguments(std::string_view part) {
  size_t from = word_at(part, 0, "operator") ? skip_operator(part, 0) : 0;
  size_t end = part.find_first_of("<[(", from);
  if (end == std::string_view::npos || end == 0) return part;
  part = part.substr(0, end);
  while (part.ends_with(' ')) part.remove_suffix(1);
  return part;
}

bool matches(const SplitName& asked, const SplitName& function) {
  if (asked.parameters && function.parameters && !same_parameters(*asked.parameters, *function.parameters))
    return false;
  size_t have = function.parts.size();
  for (size_t want = asked.parts.size(); want > 0; want--) {
    // Nobody writes the name of what has none.
    while (have > 0 && function.parts[have - 1] == kAnonymous && asked.parts[want - 1] != kAnonymous) have--;
    if (have == 0 || !same_part(asked.parts[want - 1], function.parts[have - 1])) return false;
    have--;
  }
  return true;
}

CloneName split_clone(std::string_view symbol) {
  CloneName name{symbol.substr(0, symbol.find('@', 1)), false};
  size_t dot = name.base.find('.', 1);
  if (dot == std::string_view::npos || dot == 0) return name;
  std::string_view suffix = name.base.substr(dot);
  static constexpr std::array<std::string_view, 8> kSuffixes = {
      ".isra", ".constprop", ".lto_priv", ".part", ".cold", ".localalias", ".llvm", ".clone"};
  for (std::string_view known : kSuffixes)
    if (suffix.starts_with(known)) {
      name.fragment =
          suffix.find(".cold") != std::string_view::npos || suffix.find(".part.") != std::string_view::npos;
      name.base = name.base.substr(0, dot);
      break;
    }
  return name;
}

void identifiers(std::string_view symbol, std::vector<std::string_view>& out) {
  if (!symbol.starts_with("_Z") && !symbol.starts_with("_R")) {
    out.push_back(split_clone(symbol).base);
    return;
  }
  for (size_t at = 2; at < symbol.size();) {
    if (!isdigit(static_cast<unsigned char>(symbol[at]))) {
      at++;
      continue;
    }
    size_t length = 0;
    while (at < symbol.size() && isdigit(static_cast<unsigned char>(symbol[at])) && length < symbol.size())
      length = length * 10 + static_cast<size_t>(symbol[at++] - '0');
    if (length == 0 || length > symbol.size() - at) continue;
    out.push_back(symbol.substr(at, length));
    at += length;
  }
}

AskedFunction split_file(std::string_view text) {
  size_t end = std::min(text.find_first_of("(<"), text.size());
  for (size_t at = 0; at < end; at++) {
    if (text[at] != ':') continue;
    if (at + 1 < text.size() && text[at + 1] == ':')
      at++;
    else
      return {text.substr(0, at), text.substr(at + 1)};
  }
  return {{}, text};
}

bool path_ends_with(std::string_view path, std::string_view asked) {
  if (asked.empty() || !path.ends_with(asked)) return false;
  return path.size() == asked.size() || asked[0] == '/' || path[path.size() - asked.size() - 1] == '/';
}

std::string clean_path(std::string_view path, std::string_view folder) {
  std::string whole;
  if (!path.starts_with('/') && !folder.empty()) whole = std::string(folder) + "/";
  whole += path;
  std::vector<std::string_view> parts;
  std::string_view rest = whole;
  while (!rest.empty()) {
    std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty() && parts.back() != "..")
      parts.pop_back();
    else
      parts.push_back(part);
  }
  std::string clean;
  for (std::string_view part : parts) {
    if (!clean.empty() || whole.starts_with('/')) clean += '/';
    clean += part;
  }
  return clean;
}

}  // namespace backstep::symbols
