// The grammar of moments. What a name means in a given log (does it have that event? which tick was it at
// that time?) is for those who have the log.
#include "timeline/moments.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "timeline/times.h"

namespace backstep::timeline {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kWords[] = {"event", "output", "input", "start",   "end",
                                       "first", "last",   "next",  "previous"};

std::optional<uint64_t> number(const std::string& text) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  uint64_t value = std::strtoull(text.c_str(), &end, 0);
  if (*end || errno) return std::nullopt;
  return value;
}

// Ticks are printed with and without separators.
std::optional<uint64_t> parse_tick(std::string digits) {
  std::erase(digits, ',');
  const bool plain = !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  if (plain) digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));  // not octal
  return number(digits);
}

MomentName parse_event(const std::string& digits) {
  const auto n = number(digits);
  if (!n) throw Error("event N: N is a number, as 'backstep dump' shows it", kExitUsage);
  MomentName moment;
  moment.kind = MomentName::Event;
  moment.event = *n;
  return moment;
}

MomentName parse_percent(const std::string& text) {
  char* end = nullptr;
  MomentName moment;
  moment.kind = MomentName::Percent;
  moment.percent = std::strtod(text.c_str(), &end);
  if (std::string_view(end) != "%" || !(moment.percent >= 0 && moment.percent <= 100))
    throw Error("N%: N is between 0 and 100", kExitUsage);
  return moment;
}

}  // namespace

std::optional<ControlPoint> parse_point(const std::string& text) {
  if (!text.starts_with('@')) return std::nullopt;
  size_t colon = text.find(':');
  auto tick = parse_tick(text.substr(1, colon == std::string::npos ? colon : colon - 1));
  ControlPoint point;
  if (!tick) return std::nullopt;
  point.tick = *tick;
  if (colon != std::string::npos) {
    std::string pc = text.substr(colon + 1);
    auto address = number(pc.starts_with("0x") ? pc : "0x" + pc);
    if (!address) return std::nullopt;
    point.pc = *address;
  }
  return point;
}

std::string point_text(Tick tick, Address pc) {
  return pc ? fmt::format("@{}:{:#x}", tick, pc) : fmt::format("@{}", tick);
}

bool is_moment_word(std::string_view word) {
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

std::string bookmarks_path(const recording::Recording& recording) {
  return recording.dir() + "/bookmarks.json";
}

Json load_bookmarks(const recording::Recording& recording) {
  std::ifstream in(bookmarks_path(recording));
  if (!in) return Json::object();
  const Json all = Json::parse(in, nullptr, false);
  Json marks = Json::object();
  if (!all.is_object()) return marks;
  for (auto& [name, mark] : all.items()) {
    if (!mark.is_object() || !mark.contains("at") || !mark["at"].is_string()) continue;
    if (mark.contains("process") && !mark["process"].is_number_unsigned()) continue;
    if (mark.contains("note") && !mark["note"].is_string()) continue;
    marks[name] = mark;
  }
  return marks;
}

namespace {

void save_bookmarks(const recording::Recording& recording, const Json& bookmarks) {
  const std::string path = bookmarks_path(recording), fresh = path + ".new";
  {
    std::ofstream out(fresh);
    out << bookmarks.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    if (!out.flush()) throw Error("cannot write " + fresh);
  }
  if (rename(fresh.c_str(), path.c_str()) != 0)
    throw Error("cannot write " + path + ": " + errno_text(errno));
}

}  // namespace

void add_bookmark(const recording::Recording& recording, const std::string& name, uint64_t process,
                  const ControlPoint& at, const std::string& note) {
  const bool one_word = name.find_first_of(" \t\r\n") == std::string::npos;
  if (name.empty() || !std::isalpha(static_cast<unsigned char>(name[0])) || !one_word || is_moment_word(name))
    throw Error(
        "a bookmark's name is one word that starts with a letter, and is not one of 'goto's own words",
        kExitUsage);
  Json marks = load_bookmarks(recording);
  marks[name] = {{"at", point_text(at.tick, at.pc)}, {"process", process}, {"note", note}};
  save_bookmarks(recording, marks);
}

bool remove_bookmark(const recording::Recording& recording, const std::string& name) {
  Json marks = load_bookmarks(recording);
  if (!marks.erase(name)) return false;
  save_bookmarks(recording, marks);
  return true;
}

MomentName parse_moment(const std::string& text, const recording::Recording& recording) {
  std::istringstream in(text);
  std::string first, second;
  in >> first >> second;
  MomentName moment;
  if (first == "start" || first == "first") return moment;
  if (first == "end" || first == "last") {
    moment.kind = MomentName::End;
    return moment;
  }
  if (first == "event") return parse_event(second);
  if (first.starts_with("event:")) return parse_event(first.substr(6));
  if (first.starts_with('+') || (first.find(':') != std::string::npos && !first.starts_with('@'))) {
    const auto ns = parse_time(first, recording.manifest().start_ns);
    if (!ns)
      throw Error("a time is HH:MM[:SS[.FRACTION]], or +1.5s, +200ms, +2m from the start of the recording",
                  kExitUsage);
    moment.kind = MomentName::Time;
    moment.ns = *ns;
    return moment;
  }
  if (first.ends_with('%')) return parse_percent(first);
  moment.kind = MomentName::Point;
  std::optional<ControlPoint> point = parse_point(first);
  if (!point && !first.empty() && std::isdigit(static_cast<unsigned char>(first[0])))
    point = parse_point("@" + first);
  if (!point) {
    const Json marks = load_bookmarks(recording);
    if (marks.contains(first)) {
      const Json& mark = marks[first];
      if (mark.contains("process")) moment.process = mark["process"].get<uint64_t>();
      point = parse_point(mark["at"].get<std::string>());
    }
  }
  if (!point)
    throw Error(fmt::format("'{}' is neither a control point (@TICK:0xPC) nor a bookmark", first),
                kExitUsage);
  moment.point = *point;
  return moment;
}

}  // namespace backstep::timeline
