// Plain SVG 1.1: lines, paths, text and one style sheet, so that browsers, Inkscape, LaTeX and rsvg show the
// same. What a viewer shows when the pointer rests on an arrow or a mark are <title>s.
#include "cluster/space_time.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "timeline/moments.h"

namespace backstep::cluster {
namespace {

constexpr double kRow = 46, kTop = 54, kBottom = 44, kLetter = 7.2, kMargin = 16;
constexpr double kLabels = 50;  // from one number of the axis to the next
constexpr double kLeastColumn = 7, kMostColumn = 60;

constexpr const char* kStyle =
    "text{font-family:Helvetica,Arial,sans-serif;font-size:12px;fill:#222}"
    ".title{font-size:14px;font-weight:bold}.axis{font-size:10px;fill:#777}"
    ".life{stroke:#444;stroke-width:1.6}.grid{stroke:#e4e4e4;stroke-width:1}"
    ".message{stroke:#1f5fa8;stroke-width:1.3;fill:none}"
    ".order{stroke:#888;stroke-width:1.1;fill:none;stroke-dasharray:5 3}"
    ".signal{stroke:#b8860b;stroke-width:1.2;fill:none;stroke-dasharray:2 2}"
    ".event{fill:#1f5fa8}.cut{stroke:#c02020;stroke-width:2;fill:none;stroke-linejoin:round}"
    ".cutname{fill:#c02020;font-weight:bold}.stop{fill:#c02020}.wait{fill:#fff;stroke:#c02020;stroke-width:1."
    "6}"
    ".end{stroke:#444;stroke-width:1.6}.died{stroke:#c02020;stroke-width:2}";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : to_utf8(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

const char* class_of(const Causality::Link& link) {
  if (link.transfer) return "message";
  return link.edge && link.edge->kind == Edge::Signal ? "signal" : "order";
}

class Drawing {
 public:
  Drawing(const Causality& causality, const Diagram& diagram)
      : causality_(causality), history_(causality.history()), diagram_(diagram), times_(causality) {
    from_ = diagram.from.value_or(0);
    to_ = std::min(diagram.to.value_or(times_.last()), times_.last());
    if (from_ > to_)
      throw Error(fmt::format("the run's logical times are 0 to {}", times_.last()), kExitUsage);
    choose_rows();
    left_ = 0;
    for (ProcessId p : rows_)
      left_ = std::max(left_, kLetter * static_cast<double>(history_.processes[p].name.size()));
    left_ += 2 * kMargin;
    const double columns = to_ - from_ + 1;
    column_ = std::clamp((diagram.width - left_ - 2 * kMargin) / columns, kLeastColumn, kMostColumn);
    width_ = left_ + columns * column_ + 2 * kMargin;
    height_ = kTop + kRow * static_cast<double>(rows_.size()) + kBottom;
  }

  std::string draw() {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} {1:.0f}\">\n"
        "<style>{2}</style>\n<defs>",
        width_, height_, kStyle);
    head("message", "#1f5fa8"), head("order", "#888"), head("signal", "#b8860b");
    out_ += "</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    if (!diagram_.title.empty())
      put("<text class=\"title\" x=\"{:.1f}\" y=\"22\">{}</text>", kMargin, escaped(diagram_.title));
    axis();
    for (ProcessId p : rows_) life(p);
    arrows();
    if (diagram_.cut) cut(*diagram_.cut);
    return out_ + "</svg>\n";
  }

 private:
  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    out_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  void head(const char* name, const char* colour) {
    put("<marker id=\"{}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" "
        "orient=\"auto\"><path d=\"M0 1L10 5L0 9z\" fill=\"{}\"/></marker>",
        name, colour);
  }

  // Only processes that are alive in the part that is shown, unless they were asked for.
  void choose_rows() {
    rows_ = diagram_.processes;
    if (rows_.empty())
      for (ProcessId p = 0; p < history_.processes.size(); p++)
        if (begin(p) <= to_ && end(p) >= from_) rows_.push_back(p);
    for (size_t i = 0; i < rows_.size(); i++) row_[rows_[i]] = i;
  }
  uint32_t begin(ProcessId p) const { return times_.at({p, 0}); }
  uint32_t end(ProcessId p) const { return times_.at({p, causality_.length(p) - 1}); }
  double y(ProcessId p) const { return kTop + kRow * (static_cast<double>(row_.at(p)) + 0.5); }
  double x(double time) const { return left_ + (time - from_ + 0.5) * column_; }
  bool is_shown(uint32_t time) const { return time >= from_ && time <= to_; }

  void axis() {
    const uint32_t step = nice(static_cast<uint32_t>(std::ceil(kLabels / column_)));
    for (uint32_t t = (from_ + step - 1) / step * step; t <= to_; t += step) {
      put("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>", x(t),
          kTop - 6, height_ - kBottom + 6);
      put("<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", x(t),
          height_ - kBottom + 20, t);
    }
    put("<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\">logical time</text>", kMargin,
        height_ - kBottom + 20);
  }
  // 1, 2, 5, 10, 20, …
  static uint32_t nice(uint32_t n) {
    uint32_t power = 1;
    while (power * 10 <= n) power *= 10;
    return n <= power ? power : n <= 2 * power ? 2 * power : n <= 5 * power ? 5 * power : 10 * power;
  }

  void life(ProcessId p) {
    const ProcessOfRun& process = history_.processes[p];
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", left_ - kMargin / 2, y(p) + 4,
        escaped(process.name));
    if (begin(p) > to_ || end(p) < from_) return;
    const double first = begin(p) < from_ ? left_ : x(begin(p)),
                 last = end(p) > to_ ? x(to_ + 0.5) : x(end(p));
    put("<line class=\"life\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>", first, y(p), last,
        y(p));
    if (end(p) <= to_) {
      const bool died = process.how && process.how->kind == recording::EndKind::Signal;
      put("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
          died ? "died" : "end", last, y(p) - 6, last, y(p) + 6);
    }
    for (EventCount i = 1; i + 1 < causality_.length(p); i++) {
      const GraphEvent e{p, i};
      if (is_shown(times_.at(e)))
        put("<circle class=\"event\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.2\"><title>{}</title></circle>",
            x(times_.at(e)), y(p), escaped(causality_.text(e)));
    }
  }

  void arrows() {
    size_t count = 0;
    causality_.graph().in_order([&](const GraphEdge& e) {
      if (!row_.count(e.from.process) || !row_.count(e.to.process) || times_.at(e.to) < from_ ||
          times_.at(e.from) > to_)
        return;
      if (++count > diagram_.most_arrows)
        throw Error(fmt::format("more than {} arrows are too many for a picture: choose a part with --from "
                                "and --to (logical times "
                                "0 to {}), or fewer processes with --only",
                                diagram_.most_arrows, times_.last()),
                    kExitUsage);
      arrow(e);
    });
  }
  void arrow(const GraphEdge& e) {
    const Causality::Link link = causality_.link(e);
    // What begins or ends outside of the part is cut at its border.
    double x1 = x(times_.at(e.from)), y1 = y(e.from.process), x2 = x(times_.at(e.to)), y2 = y(e.to.process);
    const double low = left_, high = x(to_ + 0.5);
    const double slope = (y2 - y1) / (x2 - x1);
    const bool arrives = x2 <= high;
    if (x1 < low) y1 += slope * (low - x1), x1 = low;
    if (!arrives) y2 -= slope * (x2 - high), x2 = high;
    put("<path class=\"{0}\" d=\"M{1:.1f} {2:.1f}L{3:.1f} {4:.1f}\"{5}><title>{6} to {7}: {8}</title></path>",
        class_of(link), x1, y1, x2, y2,
        arrives ? fmt::format(" marker-end=\"url(#{})\"", class_of(link)) : "",
        escaped(causality_.text(e.from)), escaped(causality_.text(e.to)), escaped(causality_.text(link)));
  }

  // Between the last event that has happened in it and the next one.
  double cut_x(ProcessId p, EventCount count) const {
    const double before = count ? times_.at({p, count - 1}) : times_.at({p, 0}) - 1.0;
    const double after = count < causality_.length(p) ? times_.at({p, count}) : before + 1;
    return x(std::clamp(before + std::min(0.5, (after - before) / 2), from_ - 0.5, to_ + 0.5));
  }
  void cut(const Cut& cut) {
    const Counts counts = counts_of(causality_, cut);
    std::string path;
    double first = 0;
    for (ProcessId p : rows_) {
      const double at = cut_x(p, counts[p]);
      if (path.empty()) {
        first = at;
        path = fmt::format("M{:.1f} {:.1f}", at, kTop - 8);
      }
      path += fmt::format("L{:.1f} {:.1f}L{:.1f} {:.1f}", at, y(p) - kRow * 0.3, at, y(p) + kRow * 0.3);
    }
    put("<path class=\"cut\" d=\"{}\"/>", path);
    if (!cut.name.empty())
      put("<text class=\"cutname\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>", first,
          kTop - 13, escaped(cut.name));
    for (ProcessId p : rows_) {
      const Place& place = cut.places[p];
      if (!place.stopped && !place.waits) continue;
      put("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.2\"><title>{}</title></circle>",
          place.stopped ? "stop" : "wait", cut_x(p, counts[p]), y(p),
          escaped(fmt::format("{}: {}", timeline::point_text(place.at.tick, place.at.pc), place.why)));
    }
  }

  const Causality& causality_;
  const History& history_;
  const Diagram& diagram_;
  LogicalTime times_;
  uint32_t from_ = 0, to_ = 0;
  std::vector<ProcessId> rows_;
  std::map<ProcessId, size_t> row_;
  double left_ = 0, column_ = 0, width_ = 0, height_ = 0;
  std::string out_;
};

}  // namespace

LogicalTime::LogicalTime(const Causality& causality) {
  const size_t processes = causality.graph().processes();
  times_.resize(processes);
  std::vector<EventCount> done(processes, 0);
  for (ProcessId p = 0; p < processes; p++) times_[p].resize(causality.length(p), 0);
  // What nothing came to is one later than what was before it.
  auto up_to = [&](ProcessId p, EventCount end) {
    for (; done[p] < end; done[p]++)
      if (done[p]) times_[p][done[p]] = std::max(times_[p][done[p]], times_[p][done[p] - 1] + 1);
  };
  causality.graph().in_order([&](const GraphEdge& e) {
    up_to(e.from.process, e.from.index + 1);
    up_to(e.to.process, e.to.index);
    uint32_t& time = times_[e.to.process][e.to.index];
    time = std::max(time, times_[e.from.process][e.from.index] + 1);
  });
  for (ProcessId p = 0; p < processes; p++) {
    up_to(p, causality.length(p));
    last_ = std::max(last_, times_[p].back());
  }
}

std::string space_time_svg(const Causality& causality, const Diagram& diagram) {
  return Drawing(causality, diagram).draw();
}

}  // namespace backstep::cluster
