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
    if (count_ == seen_.size() && !history_.explaining) history_.keep(question_, std::move(seen_));
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

// From the end of the stretch back: parts of a few windows first, larger ones then, each swept forwards and
// its rows turned round. A part with too many rows for that is swept in halves.
void newest_first(History& history, const Question& question, RowPull& pull, uint64_t process, Part part) {
  constexpr size_t kMostAtOnce = 20'000;
  const std::string_view column = tick_column(*question.table);
  Session& session = history.session(process);
  const timeline::LogIndex& log = session.timeline().log();
  const auto range = question.range(column);
  const auto first = static_cast<int64_t>(log.birth().value_or(Position{}).tick);
  int64_t low = std::max(range.low.value_or(first), first);
  const int64_t high = std::min(range.high.value_or(INT64_MAX), static_cast<int64_t>(log.last().tick));
  std::vector<int64_t> begins{low};  // of windows
  for (const Position& cut : session.timeline().cuts())
    if (const auto tick = static_cast<int64_t>(cut.tick); tick > begins.back() && tick <= high)
      begins.push_back(tick);
  std::vector<std::pair<int64_t, int64_t>> open;  // the last one is the next
  for (int64_t end = high, step = 1; !begins.empty() && begins.front() <= end; step *= 2) {
    begins.resize(begins.size() - std::min<size_t>(static_cast<size_t>(step) - 1, begins.size() - 1));
    open.insert(open.begin(), {begins.back(), end});
    end = begins.back() - 1;
    begins.pop_back();
  }
  while (!open.empty()) {
    const auto [from, to] = open.back();
    open.pop_back();
    Question here = question;
    for (auto [op, tick] : {std::pair(Op::GreaterEqual, from), std::pair(Op::LessEqual, to)})
      here.constraints.push_back({*question.table->column(column), op, true, false, {Value(tick)}});
    std::vector<Row> rows;
    {
      RowPull some([&](RowPull& inner) { part(history, here, inner, process); });
      while (auto row = some.next()) {
        rows.push_back(std::move(*row));
        if (rows.size() > kMostAtOnce && from < to) break;
      }
    }
    if (rows.size() > kMostAtOnce && from < to) {
      const int64_t middle = from + (to - from) / 2;
      open.push_back({from, middle});
      open.push_back({middle + 1, to});
      continue;
    }
    for (auto row = rows.rbegin(); row != rows.rend(); ++row)
      if (!pull.put(std::move(*row))) return;
  }
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
  if (history.explaining) {
    // Nothing is found then, and nothing is to be kept of it.
  } else if (auto rows = history.kept(whole.text())) {
    return std::make_unique<ReadyRows>(std::move(rows));
  } else if (whole.constraints.size() < asked.constraints.size()) {
    if (auto before = history.kept(asked.text())) return std::make_unique<ReadyRows>(std::move(before));
    if (whole.table->can_answer(whole) && history.is_asked_often(whole.text())) question = whole;
  }
  auto processes = replayed_processes_of(history, question);
  return std::make_unique<SweptRows>(
      history, question, [&history, question, part, processes = std::move(processes)](RowPull& pull) {
        for (uint64_t p : processes)
          question.newest_first ? newest_first(history, question, pull, p, part)
                                : part(history, question, pull, p);
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

namespace {

using Outlook = timeline::Timeline::Outlook;

// What its sweeps would replay, tables of contents and checkpoints considered. They are begun, in a way that
// finds nothing: so what a query without matches would do behind its first sweep is not counted.
Outlook outlook_of(History& history, const Question& question, uint64_t process) {
  Question of_one = question;
  const auto column = *question.table->column("process");
  std::erase_if(of_one.constraints, [&](const Constraint& c) { return c.column == column; });
  of_one.constraints.push_back({column, Op::Equal, true, false, {number(process)}});
  Outlook outlook;
  timeline::Timeline& timeline = history.session(process).timeline();
  timeline.outlook = &outlook;
  history.explaining = true;
  struct Undo {
    History& history;
    timeline::Timeline& timeline;
    ~Undo() { timeline.outlook = nullptr, history.explaining = false; }
  } undo{history, timeline};
  const auto rows = question.table->open(history, of_one);
  while (rows->next()) {
  }
  return outlook;
}

// The same where values are those of rows of another table.
Outlook outlook_by_ticks(History& history, const Question& question, uint64_t process) {
  const auto ticks = static_cast<int64_t>(history.facts(process)->ticks);
  const auto range = question.range(tick_column(*question.table));
  const int64_t low = std::clamp<int64_t>(range.low.value_or(0), 0, ticks);
  const int64_t high = std::clamp<int64_t>(range.high.value_or(ticks), low, ticks);
  Outlook outlook;
  outlook.ticks = static_cast<Tick>(high - low);
  outlook.windows = 1;
  for (const auto& c : recording::CheckpointFolder(history.recording(), process).list(nullptr))
    outlook.windows += c.header.tick > static_cast<Tick>(low) && c.header.tick < static_cast<Tick>(high);
  return outlook;
}

}  // namespace

std::string explain_sweep(History& history, const Question& question) {
  const Table& table = *question.table;
  if (!table.can_answer(question))
    return fmt::format("found by replaying, which needs to know what to look for: say what {} is",
                       table.needs_text());
  const bool joined = std::any_of(question.constraints.begin(), question.constraints.end(),
                                  [](const Constraint& c) { return !c.known && !c.list; });
  const bool known = std::all_of(question.constraints.begin(), question.constraints.end(),
                                 [](const Constraint& c) { return c.known; });
  std::string text;
  for (uint64_t process : replayed_processes_of(history, question)) {
    const auto* facts = history.facts(process);
    if (!facts) continue;
    const auto outlook =
        known ? outlook_of(history, question, process) : outlook_by_ticks(history, question, process);
    const double share =
        static_cast<double>(outlook.ticks) / static_cast<double>(std::max<Tick>(facts->ticks, 1));
    const double slower = table.cost(history, question).time / cost_of_sweep(history, question).time;
    text += fmt::format("{}{} ticks of process #{} are replayed ({:.0f} % of it), in {} window{}",
                        text.empty() ? "" : "; ", outlook.ticks, process, 100 * share, outlook.windows,
                        outlook.windows == 1 ? "" : "s");
    if (outlook.quiet)
      text += fmt::format("; {} more are known to hold nothing (tables of contents)", outlook.quiet);
    if (facts->cpu_ns)
      text += fmt::format("; about {:.2g} s of processor time",
                          slower * share * static_cast<double>(*facts->cpu_ns) / 1e9);
  }
  if (text.empty()) text = "nothing: there is no such process";
  if (joined)
    text += "; once for each row of the tables before, and less of it where those say from when to when";
  if (history.kept(question.text())) text += "; but what was found the last time is kept";
  return text;
}

}  // namespace backstep::trace
