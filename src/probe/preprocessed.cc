// The preprocessor has done the difficult part: macros are replaced, headers are in, and line markers ("# 12
// "file.c"") say where everything comes from. Regions are two words that no program has (see
// include/backstep/debug.h).
#include "probe/preprocessed.h"

#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"

namespace backstep::probe {
namespace {

const std::string_view kBegin = "backstep_region_begin", kEnd = "backstep_region_end";

// Where in the user's files the text is.
struct Position {
  std::string file;
  int presumed = 1,
      physical = 1;  // the marker said that line `physical` of the text is line `presumed` of the file

  // "# 12 "file.c" 1" or "#line 12 "file.c"".
  void read(const Token& t) {
    const std::string line(t.text);
    size_t at = line.find_first_of("0123456789");
    const size_t quote = line.find('"');
    if (at == std::string::npos || (line[1] != ' ' && !line.starts_with("#line"))) return;
    if (line.substr(1, at - 1).find_first_not_of(" line") != std::string::npos) return;
    presumed = std::atoi(line.c_str() + at);
    physical = t.line + 1;
    if (quote == std::string::npos) return;
    const size_t end = line.find('"', quote + 1);
    file = line.substr(quote + 1, end - quote - 1);
  }
  int line(int of_text) const { return presumed + of_text - physical; }
};

// Is this `return` one that leaves the region? That of a lambda in it does not.
bool in_lambda(const std::vector<Token>& tokens, size_t at) {
  int depth = 0;
  for (size_t i = at; i-- > 0;) {
    if (tokens[i].text == "}") depth++;
    if (tokens[i].text == "{" && depth-- == 0) {
      depth = 0;
      // "[…] {", "[…] (…) … {"
      for (size_t j = i; j-- > 0 && i - j < 64;) {
        if (tokens[j].text == "]") return true;
        if (tokens[j].text == ";" || tokens[j].text == "{" || tokens[j].text == "}") break;
      }
    }
  }
  return false;
}

void check(const SourceRegion& region) {
  for (size_t i = 0; i < region.tokens.size(); i++)
    if (region.tokens[i].text == "return" && !in_lambda(region.tokens, i))
      throw Error(fmt::format(
          "{}:{}: a debug region cannot be left by 'return': it has one entry and one exit (write an 'if' "
          "around the rest)",
          region.file, region.line));
}

}  // namespace

Preprocessed::Preprocessed(std::string text) : text_(std::move(text)) {
  Position position;
  std::optional<SourceRegion> open;
  SourceRegion* closed = nullptr;
  for (const Token& t : tokens_of(text_)) {
    if (t.kind == Token::Kind::Directive) {
      position.read(t);
      continue;
    }
    const int line = position.line(t.line);
    if (t.text == kBegin) {
      if (open)
        throw Error(fmt::format("{}:{}: a debug region begins in one that began at line {}", position.file,
                                line, open->line));
      open.emplace();
      open->file = position.file, open->line = line;
      open->begin = t.offset, open->code_begin = t.offset + t.text.size();
    } else if (t.text == kEnd) {
      if (!open)
        throw Error(fmt::format("{}:{}: BACKSTEP_END without a BACKSTEP_BEGIN", position.file, line));
      open->last = line;
      open->code_end = t.offset;
      open->end = t.offset + t.text.size();
      check(*open);
      regions_.push_back(std::move(*open));
      open.reset();
      closed = &regions_.back();
    } else if (open) {
      open->tokens.push_back(t);
    } else if (closed && t.text != ";") {
      closed->next = t.text;
      closed->next_line = line;
      closed = nullptr;
    }
  }
  if (open)
    throw Error(fmt::format("{}:{}: this debug region does not end: BACKSTEP_END is missing", open->file,
                            open->line));
  for (SourceRegion& r : regions_)  // tokens refer to the text, which has not moved
    for (Token& t : r.tokens) t.text = std::string_view(text_).substr(t.offset, t.text.size());
}

std::string Preprocessed::without_regions() const {
  return with_regions([&](const SourceRegion& r, size_t) {
    std::string lines = ";";
    for (size_t i = r.begin; i < r.end; i++)
      if (text_[i] == '\n') lines += '\n';
    return lines;
  });
}

}  // namespace backstep::probe
