// A walk over one of these tables is a sweep of the session (session/session.h): exact, and on all
// processors. Rows are handed on while the sweep still runs, and a query that has enough ends it. In a join
// that may be one sweep for each row of the tables before it; what was found is therefore kept, if it is not
// too much, for the next time that the same is asked.
#include "trace/swept.h"

#include <algorithm>

#include <fmt/format.h>

#include "recording/checkpoint_file.h"

namespace backstep::trace {
namespace {

using session::Position;
using session::Session;
using session::Stretch;

class SweptRows : public Rows {
 public:
  SweptRows(History& history, const Question& question, RowPull::Producer producer)
      : history_(history), question_(question.text()), pull_(std::move(producer)) {}

  bool next() override {
    auto row = pull_.next();
    if (row) {
      now_ = std::move(*row);
      if (seen_.size() < History::kMostKept) seen_.push_back(now_);
      count_++;
      return true;
    }
    if (count_ == seen_.size()) history_.keep(question_, std::move(seen_));
    return false;
  }
  Value value(size_t column) override { return now_[column]; }

 private:
  History& history_;
  std::string question_;
  RowPull pull_;
  Row now_;
  std::vector<Row> seen_;  // the first ones
  size_t count_ = 0;
};

const char* tick_column(const Table& table) {
  for (const char* name : {"tick", "enter", "since", "allocated"})
    if (table.column(name)) return name;
  return "tick";
}

// The same, whenever it happens.
Question of_any_time(const Question& question) {
  Question whole = question;
  const char* column = tick_column(*question.table);
  std::erase_if(whole.constraints, [&](const Constraint& c) {
    return whole.table->columns[c.column].name == std::string_view(column);
  });
  return whole;
}

// Which part of the run, from 0 to 1. Bounds whose value is not known yet are taken for narrow ones, as those
// of joins are.
double share_of(History& history, const Question& question) {
  const char* column = tick_column(*question.table);
  const auto* facts = history.facts(history.process());
  const double ticks = std::max(1.0, facts ? static_cast<double>(facts->ticks) : 1.0);
  const auto range = question.range(column);
  const double low = range.low ? std::max(0.0, static_cast<double>(*range.low)) : 0;
  const double high = range.high ? std::min(ticks, static_cast<double>(*range.high)) : ticks;
  double share = std::clamp((high - low) / ticks, 0.0, 1.0);
  const bool unknown_low = question.is_bounded(column, false) && !range.low;
  const bool unknown_high = question.is_bounded(column, true) && !range.high;
  if (unknown_low && unknown_high) return share * 0.01;
  return unknown_low || unknown_high ? share * 0.5 : share;
}

}  // namespace

session::Watcher watcher_of(History& history, RowPull& pull) {
  session::Watcher w;
  w.progress = [&](double done) {
    if (history.watcher().progress) history.watcher().progress(done);
    pull.pause();
  };
  w.note = [&](const std::string& sentence) { history.note(sentence); };
  return w;
}

// A join with "from when to when" asks the same of many stretches. After a few of them the whole run is swept
// instead, which SQLite picks the rows of: if they are not too many, that was the last sweep.
std::unique_ptr<Rows> swept(History& history, const Question& asked, Part part) {
  Question question = asked;
  const Question whole = of_any_time(asked);
  if (auto rows = history.kept(whole.text())) return std::make_unique<ReadyRows>(std::move(rows));
  if (whole.constraints.size() < asked.constraints.size()) {
    if (auto rows = history.kept(asked.text())) return std::make_unique<ReadyRows>(std::move(rows));
    if (history.is_asked_often(whole.text())) question = whole;
  }
  auto processes = replayed_processes_of(history, question);
  return std::make_unique<SweptRows>(
      history, question, [&history, question, part, processes = std::move(processes)](RowPull& pull) {
        for (uint64_t p : processes) part(history, question, pull, p);
      });
}

std::optional<Stretch> stretch_of(Session& session, const Question::Range& ticks) {
  const timeline::LogIndex& log = session.timeline().log();
  const Position first = log.birth().value_or(Position{});
  const Tick last = log.last().tick;
  if (ticks.empty() || (ticks.high && *ticks.high < static_cast<int64_t>(first.tick)) ||
      (ticks.low && *ticks.low > static_cast<int64_t>(last)))
    return std::nullopt;
  Stretch s;
  if (ticks.low && *ticks.low > static_cast<int64_t>(first.tick))
    s.from = Position{static_cast<Tick>(*ticks.low), 0, 0};
  if (ticks.high && *ticks.high < static_cast<int64_t>(last))
    s.to = Position{static_cast<Tick>(*ticks.high) + 1, 0, 0};
  return s;
}

Cost cost_of_sweep(History& history, const Question& question) {
  constexpr double kStart = 5'000, kTicksPerMicrosecond = 20, kRows = 1'000;
  const double share = share_of(history, question);
  const auto* facts = history.facts(history.process());
  const double ticks = facts ? static_cast<double>(facts->ticks) : 0;
  return {kStart + share * ticks / kTicksPerMicrosecond, 1 + share * kRows};
}

std::string explain_sweep(History& history, const Question& question) {
  const Table& table = *question.table;
  if (!table.can_answer(question))
    return fmt::format("found by replaying, which needs to know what to look for: say what {} is",
                       table.needs_text());
  const bool joined = std::any_of(question.constraints.begin(), question.constraints.end(),
                                  [](const Constraint& c) { return !c.known && !c.list; });
  std::string text;
  for (uint64_t process : replayed_processes_of(history, question)) {
    const auto* facts = history.facts(process);
    if (!facts) continue;
    const auto range = question.range(tick_column(table));
    const Tick low = range.low ? static_cast<Tick>(std::max<int64_t>(0, *range.low)) : 0;
    const Tick high = range.high
                          ? std::min<Tick>(static_cast<Tick>(std::max<int64_t>(0, *range.high)), facts->ticks)
                          : facts->ticks;
    size_t windows = 1;
    for (const auto& c : recording::CheckpointFolder(history.recording(), process).list(nullptr))
      windows += c.header.tick > low && c.header.tick < high;
    const double share =
        facts->ticks ? static_cast<double>(high - std::min(low, high)) / static_cast<double>(facts->ticks)
                     : 0;
    text += fmt::format("{}ticks {} to {} of process #{} are replayed ({:.0f} % of it), in {} window{}",
                        text.empty() ? "" : "; ", low, high, process, 100 * share, windows,
                        windows == 1 ? "" : "s");
    if (facts->cpu_ns)
      text += fmt::format("; about {:.2g} s of processor time",
                          share * static_cast<double>(*facts->cpu_ns) / 1e9);
  }
  if (text.empty()) text = "nothing: there is no such process";
  if (joined)
    text += "; once for each row of the tables before, and less of it where those say from when to when";
  if (history.kept(question.text())) text += "; but what was found the last time is kept";
  return text;
}

}  // namespace backstep::trace
