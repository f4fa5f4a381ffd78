// The compiler sees more than the user wrote, and what it says about the rest helps nobody: only what is
// about the user's lines is kept, if there is any. It is told not to print lines of source, because it would
// read snippets' from files that do not exist; so that is done here.
#include "probe/complaints.h"

#include <set>

#include <fmt/format.h>

namespace backstep::probe {
namespace {

// "'int& n' is unavailable: SENTENCE": ours.
std::string own_sentence(const std::string& text) {
  static const std::string kMark = " is unavailable: ";
  const size_t at = text.find(kMark);
  return at == std::string::npos ? text : text.substr(at + kMark.size());
}

std::string with_source(const Complaint& c, const std::vector<std::string>& lines) {
  std::string out = fmt::format("{}:{}:{}: {}: {}\n", c.file, c.line, c.column, c.kind, own_sentence(c.text));
  if (c.line < 1 || static_cast<size_t>(c.line) > lines.size()) return out;
  // A long line is shown around the place.
  constexpr size_t kWidth = 110, kBefore = 60;
  std::string line = lines[static_cast<size_t>(c.line) - 1];
  size_t column = c.column > 0 ? static_cast<size_t>(c.column) - 1 : std::string::npos;
  if (line.size() > kWidth && column != std::string::npos && column > kBefore && column < line.size()) {
    line = "…" + line.substr(column - kBefore);
    column = kBefore + 3;  // bytes of the ellipsis
  }
  if (line.size() > kWidth) line = line.substr(0, kWidth) + "…";
  out += fmt::format("  {}\n", line);
  if (column > line.size()) return out;
  std::string indent;
  for (const char ch : line.substr(0, column))
    if ((ch & 0xc0) != 0x80) indent += ch == '\t' ? '\t' : ' ';
  return out + fmt::format("  {}^\n", indent);
}

}  // namespace

std::string complaints_text(const Toolchain::Outcome& outcome,
                            const std::map<std::string, std::vector<std::string>>& sources,
                            const std::string& summary) {
  constexpr size_t kMost = 12;
  std::string mine, others;
  std::set<std::string> told;
  size_t count = 0;
  bool keep = false;
  for (const Complaint& c : outcome.complaints()) {
    const bool note = c.kind == "note";
    if (c.kind == "warning") keep = false;
    if (c.kind == "warning" || (note && !keep)) continue;
    const auto source = sources.find(c.file);
    // A note about code of ours or of a header says nothing to the user.
    if (note && source == sources.end()) continue;
    if (note && c.text == "declared here") continue;
    keep = source != sources.end();
    const std::string text = with_source(c, keep ? source->second : std::vector<std::string>{});
    if (!told.insert(text).second || count++ >= kMost) continue;
    (keep ? mine : others) += text;
  }
  std::string text = mine.empty() ? others.empty() ? outcome.errors : others : mine;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return summary + "\n" + text;
}

}  // namespace backstep::probe
