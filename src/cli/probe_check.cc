// Each file is a line that says how it stands to the recorded one; lines that are set in below it say what
// differs, the first ones of many.
#include "cli/probe_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/asking.h"
#include "cli/facts.h"

namespace backstep::cli {
namespace {

using probe::BinaryCheck;
using probe::FunctionCheck;
using probe::SourceCheck;

constexpr size_t kShown = 12;  // of a list

const char* word(BinaryCheck::State state) {
  static constexpr const char* kWords[] = {"same", "described", "changed", "missing"};
  return kWords[state];
}

const char* word(FunctionCheck::State state) {
  static constexpr const char* kWords[] = {"same", "changed", "no-code"};
  return kWords[state];
}

template <class List, class Show>
void print_list(const List& list, Show show) {
  for (size_t i = 0; i < list.size() && i < kShown; i++) put_line("  " + show(list[i]));
  if (list.size() > kShown) put_line(fmt::format("  and {} more", list.size() - kShown));
}

std::string sentence(const BinaryCheck& b) {
  switch (b.state) {
    case BinaryCheck::Same:
      return "the recorded one, in every section";
    case BinaryCheck::Described:
      return fmt::format("the same code and data as recorded; only what describes them differs ({})",
                         fmt::join(b.sections, ", "));
    case BinaryCheck::Changed:
      return fmt::format("not the recorded one: {} differ{}", fmt::join(b.sections, ", "),
                         b.sections.size() == 1 ? "s" : "");
    case BinaryCheck::Missing:
      return "not there any more; the recording has the file";
  }
  return "";
}

std::string sentence(const probe::MovedLines& m) {
  const int there = m.now + m.last - m.first;
  return m.first == m.last ? fmt::format("{}: line {} is line {} now", m.file, m.first, m.now)
                           : fmt::format("{}: lines {} to {} are lines {} to {} now", m.file, m.first, m.last,
                                         m.now, there);
}

std::string sentence(const probe::ChangedFunction& f) {
  const std::string where = f.line ? fmt::format(" ({}:{})", f.file, f.line) : "";
  if (f.size == f.recorded) return fmt::format("{}{}: other code", f.name, where);
  if (f.size == 0) return fmt::format("{}{}: not there any more", f.name, where);
  if (f.recorded == 0) return fmt::format("{}: new", f.name);
  return fmt::format("{}{}: {} bytes of code, {} now", f.name, where, f.recorded, f.size);
}

void print_source(const SourceCheck& s) {
  size_t changed = 0, moved = 0;
  for (const FunctionCheck& f : s.functions) {
    changed += f.state == FunctionCheck::Changed;
    moved += f.state == FunctionCheck::Same && f.line != f.recorded;
  }
  put_line(fmt::format(
      "{}: {}{}{}", s.path,
      changed ? fmt::format("{} of its functions and variables changed since the program was built", changed)
      : s.code.empty() ? std::string("it compiles to the recorded code")
                       : std::string("the lines of its functions are the recorded ones"),
      moved ? fmt::format("; {} moved", moved) : "",
      s.regions ? fmt::format("; {} debug region{}", s.regions, s.regions == 1 ? "" : "s") : ""));
  if (!s.code.empty()) put_line(fmt::format("  the code itself was not compared: {}", s.code));
  std::vector<const FunctionCheck*> told;
  for (const FunctionCheck& f : s.functions)
    if (f.state != FunctionCheck::Same || f.line != f.recorded) told.push_back(&f);
  print_list(told, [](const FunctionCheck* f) {
    if (f->state == FunctionCheck::NoCode)
      return fmt::format("{} (line {}): the recorded program has no code of it", f->name, f->line);
    std::string text = f->name;
    if (f->recorded && f->recorded != f->line)
      text += fmt::format(" (line {}): was at line {}", f->line, f->recorded);
    else if (f->line)
      text += fmt::format(" (line {})", f->line);
    if (f->state == FunctionCheck::Changed)
      text += (f->recorded && f->recorded != f->line ? ", and was changed: " : " was changed: ") + f->why;
    return text;
  });
}

Json to_json(const BinaryCheck& b) {
  Json moved = Json::array(), functions = Json::array();
  for (const auto& m : b.moved)
    moved.push_back({{"file", m.file}, {"first", m.first}, {"last", m.last}, {"now", m.now}});
  for (const auto& f : b.functions)
    functions.push_back({{"function", f.name},
                         {"file", f.file},
                         {"line", f.line},
                         {"recorded_size", f.recorded},
                         {"size", f.size}});
  return {{"file", b.name},         {"compared_with", b.file}, {"state", word(b.state)},
          {"sections", b.sections}, {"lines", moved},          {"functions", functions}};
}

Json to_json(const SourceCheck& s) {
  Json functions = Json::array();
  for (const auto& f : s.functions) {
    Json one{{"function", f.name}, {"state", word(f.state)}, {"line", f.line}, {"recorded_line", f.recorded}};
    if (!f.why.empty()) one["why"] = f.why;
    functions.push_back(std::move(one));
  }
  Json json{{"source", s.path}, {"regions", s.regions}, {"functions", functions}};
  json["code"] = s.code.empty() ? Json("compared") : Json(s.code);
  return json;
}

}  // namespace

void print_check(const probe::Check& check, bool json) {
  if (json) {
    Json files = Json::array(), sources = Json::array();
    for (const auto& b : check.binaries) files.push_back(to_json(b));
    for (const auto& s : check.sources) sources.push_back(to_json(s));
    put_line(Json{{"same", check.same()}, {"files", files}, {"sources", sources}}.dump(
        -1, ' ', false, Json::error_handler_t::replace));
    return;
  }
  for (const BinaryCheck& b : check.binaries) {
    put_line(fmt::format("{}: {}", b.file, sentence(b)));
    print_list(b.moved, [](const auto& m) { return sentence(m); });
    print_list(b.functions, [](const auto& f) { return sentence(f); });
  }
  for (const SourceCheck& s : check.sources) print_source(s);
}

}  // namespace backstep::cli
