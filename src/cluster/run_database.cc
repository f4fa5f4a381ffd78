// Tables of single recordings become tables of the run by a name: where they say "process" there is a number,
// which means nothing among several hosts. So each of them is put into an envelope, whose column `process` is
// a name like "A/server". A question is handed on to the recordings of the hosts that it names, with the
// names turned into numbers; in the rows that come back numbers are turned into names.
//
// Tables that are found by replaying need to be told the process: what is the query's own one in a single
// recording is nobody here.
#include "cluster/run_database.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "timeline/moments.h"

namespace backstep::cluster {

using trace::Question;
using trace::Table;
using trace::Value;

// One of the tables of a recording, for all recordings of the run.
class RecordingsTable {
 public:
  RecordingsTable(RunDatabase& run, const Table& inner)
      : run_(run), inner_(inner), place_(inner.column("process")) {}

  // Questions to the recordings of single hosts.
  struct Part {
    HostId host;
    Question question;
  };
  std::vector<Part> parts(const Question& question) const {
    const History& h = run_.causality_.history();
    std::vector<std::vector<int64_t>> numbers(h.hosts.size());
    const auto names = place_ ? trace::equal_texts(question, "process") : std::nullopt;
    if (names)
      for (const std::string& name : *names)
        if (const ProcessId p = h.find(name); p != kNone && h.processes[p].name == name)
          numbers[h.processes[p].host].push_back(static_cast<int64_t>(h.processes[p].log));
    std::vector<Part> parts;
    for (HostId host = 0; host < h.hosts.size(); host++)
      if (!names || !numbers[host].empty()) parts.push_back({host, part(question, numbers[host])});
    return parts;
  }

  const Table& inner() const { return inner_; }
  std::optional<size_t> place() const { return place_; }
  RunDatabase& run() const { return run_; }

 private:
  Question part(const Question& question, const std::vector<int64_t>& numbers) const {
    Question q;
    q.table = &inner_;
    q.used = question.used;
    q.all_processes = numbers.empty();
    for (const trace::Constraint& c : question.constraints)
      if (!place_ || c.column != *place_) q.constraints.push_back(c);
    if (numbers.empty()) return q;
    trace::Constraint c;
    c.column = *place_;
    c.list = numbers.size() > 1;
    for (int64_t n : numbers) c.values.emplace_back(n);
    q.constraints.push_back(c);
    return q;
  }

  RunDatabase& run_;
  const Table& inner_;
  std::optional<size_t> place_;
};

namespace {

// Names of processes by host and number.
std::string name_of(const History& h, HostId host, int64_t number) {
  for (const ProcessOfRun& p : h.processes)
    if (p.host == host && static_cast<int64_t>(p.log) == number) return p.name;
  return fmt::format("{}/#{}", h.hosts[host].name, number);
}

// Rows of one host after those of another.
class AllRows : public trace::Rows {
 public:
  using Open = std::function<std::unique_ptr<trace::Rows>(const RecordingsTable::Part&)>;
  AllRows(const History& history, std::vector<RecordingsTable::Part> parts, std::optional<size_t> process,
          Open open)
      : history_(history), parts_(std::move(parts)), process_(process), open_(std::move(open)) {}

  bool next() override {
    for (; part_ < parts_.size(); part_++, rows_.reset()) {
      if (!rows_) rows_ = open_(parts_[part_]);
      if (rows_->next()) return true;
    }
    return false;
  }
  Value value(size_t column) override {
    Value v = rows_->value(column);
    if (column != process_) return v;
    const auto* n = std::get_if<int64_t>(&v);
    return n ? Value(name_of(history_, parts_[part_].host, *n)) : v;
  }

 private:
  const History& history_;
  std::vector<RecordingsTable::Part> parts_;
  std::optional<size_t> process_;
  Open open_;
  size_t part_ = 0;
  std::unique_ptr<trace::Rows> rows_;
};

ProcessId process_at(const History& h, const std::vector<Value>& arguments, size_t place) {
  const auto* name = std::get_if<std::string>(&arguments[place]);
  const ProcessId p = name ? h.find(*name) : kNone;
  if (p == kNone)
    throw Error(fmt::format("'{}' is no process of the run; the table processes has their names",
                            name ? *name : "that"),
                kExitUsage);
  return p;
}

// An event of the log, or what is between two of them: N - 0.5.
struct Instant {
  uint64_t next;  // the first event that is not before it
  bool is_event;  // … and it is this one
  uint64_t behind() const { return next + is_event; }
  bool operator<(const Instant& other) const {
    return std::pair(next, is_event) < std::pair(other.next, other.is_event);
  }
};

Instant instant_at(const History& h, ProcessId p, const std::vector<Value>& arguments, size_t place) {
  const auto* whole = std::get_if<int64_t>(&arguments[place]);
  const auto* between = std::get_if<double>(&arguments[place]);
  constexpr double kMost = 1e15;
  if (!(whole && *whole >= 0) && !(between && *between > -1 && *between < kMost))
    throw Error("an event is a number, as in the columns event and those that end in _event", kExitUsage);
  const uint64_t base = h.processes[p].base;
  if (whole) return {base + static_cast<uint64_t>(*whole), true};
  const double next = std::ceil(*between);
  return {base + static_cast<uint64_t>(next), next == *between};
}

// Whether an event of one process's log happened before one of another's. What an event needed is looked up
// once for many questions, since joins ask for all pairs.
class Order {
 public:
  explicit Order(const Causality& causality) : causality_(causality) {}

  bool happened_before(ProcessId p, const Instant& a, ProcessId q, const Instant& b) {
    if (p == q) return a < b;
    // All that b needed, and whether what a gave next, if it gave anything, is among it.
    const EventCount given = causality_.count_at(p, {0, a.next, 0});
    return needs(q, causality_.count_at(q, {0, b.behind(), 0}))[p] > given;
  }

 private:
  const Counts& needs(ProcessId q, EventCount count) {
    constexpr size_t kMostKept = 1000;
    auto [it, fresh] = kept_.try_emplace({q, count});
    if (!fresh) return it->second;
    if (kept_.size() > kMostKept) {
      kept_.clear();
      it = kept_.try_emplace({q, count}).first;
    }
    Counts inside(causality_.graph().processes(), 0);
    inside[q] = count;
    return it->second = causality_.graph().least(inside).counts;
  }

  const Causality& causality_;
  std::map<std::pair<ProcessId, EventCount>, Counts> kept_;
};

}  // namespace

RunDatabase::RunDatabase(const Causality& causality, const CutFolder& cuts, const ReplayOptions& options,
                         const timeline::Attention& ear, const session::Watcher& watcher)
    : causality_(causality),
      options_(options),
      ear_(ear),
      watcher_(watcher),
      hosts_(causality.history().hosts.size()) {
  if (hosts_.empty()) throw Error("the run has no hosts");
  add_run_tables(schema_.tables, causality, cuts);
  add_recordings_tables();
  add_functions();
  database_ = std::make_unique<trace::Database>(host(0), schema_);
}

bool RunDatabase::has_damage() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [](const auto& h) { return h && h->has_damage(); });
}

trace::History& RunDatabase::host(HostId id) {
  if (!hosts_[id]) {
    const recording::Recording recording(causality_.history().hosts[id].recording);
    ReplayOptions options = options_;
    options.recording = recording.dir();
    options.quiet = true;
    hosts_[id] =
        std::make_unique<trace::History>(options, recording::Library::standard(), recording, ear_, watcher_);
  }
  return *hosts_[id];
}

void RunDatabase::add_recordings_tables() {
  std::set<std::string_view> taken;
  for (const Table& t : schema_.tables) taken.insert(t.name);
  for (const Table& inner : trace::tables()) {
    if (taken.count(inner.name)) continue;
    Table t = inner;
    const auto envelope = std::make_shared<RecordingsTable>(*this, inner);
    if (const auto place = envelope->place()) {
      t.columns[*place].type = "TEXT";
      t.columns[*place].uses = trace::kEqual;
      t.columns[*place].meaning = "the process: its name in the run";
    }
    t.orders.clear();
    t.has_newest_first = false;
    if (inner.of_one_process && envelope->place()) {
      if (t.needs.empty()) t.needs.push_back({});
      for (auto& columns : t.needs) columns.push_back("process");
    }
    t.of_one_process = false;
    // What it costs is asked while a query is planned, when names need not be known yet: then as for one
    // process.
    t.cost = [envelope](trace::History&, const Question& q) {
      trace::Cost cost{1, 1};
      for (const auto& part : envelope->parts(q)) {
        const trace::Cost one = envelope->inner().cost(envelope->run().host(part.host), part.question);
        cost.time += one.time, cost.rows += one.rows;
      }
      return cost;
    };
    t.open = [envelope](trace::History&, const Question& q) {
      return std::make_unique<AllRows>(envelope->run().causality_.history(), envelope->parts(q),
                                       envelope->place(), [envelope](const RecordingsTable::Part& part) {
                                         return envelope->inner().open(envelope->run().host(part.host),
                                                                       part.question);
                                       });
    };
    t.explain = [envelope](trace::History&, const Question& q) {
      std::string text;
      for (const auto& part : envelope->parts(q))
        text += fmt::format("{}{}: {}", text.empty() ? "" : "; ",
                            envelope->run().causality_.history().hosts[part.host].name,
                            envelope->inner().explain(envelope->run().host(part.host), part.question));
      return text.empty() ? std::string("nothing: the run has no such process") : text;
    };
    schema_.tables.push_back(std::move(t));
  }
}

void RunDatabase::add_functions() {
  const History& h = causality_.history();
  const auto order = std::make_shared<Order>(causality_);
  schema_.functions.push_back(
      {{"happened_before(process, event, process, event)",
        "1: the first event must have happened before the second, whatever the clocks say"},
       "happened_before",
       4,
       4,
       [order, &h](trace::History&, const std::vector<Value>& a) {
         const ProcessId p = process_at(h, a, 0), q = process_at(h, a, 2);
         return Value(int64_t{order->happened_before(p, instant_at(h, p, a, 1), q, instant_at(h, q, a, 3))});
       }});
  // Those of a recording, with the process's name in the place of its number, and always there.
  for (const trace::Function& inner : trace::functions()) {
    trace::Function f = inner;
    const bool of_process = inner.most > inner.least && inner.name != std::string_view("at");
    if (of_process) {
      f.least = f.most;
      const std::string form = inner.help.form;
      f.help.form = texts_.emplace_back(form.substr(0, form.size() - 1) + ", process)").c_str();
      f.run = [this, &inner, &h](trace::History&, std::vector<Value> a) {
        const ProcessId p = process_at(h, a, a.size() - 1);
        a.back() = static_cast<int64_t>(h.processes[p].log);
        return inner.run(host(h.processes[p].host), a);
      };
    }
    schema_.functions.push_back(std::move(f));
  }
}

}  // namespace backstep::cluster
