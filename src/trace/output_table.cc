// What a program wrote to its stdout and stderr, line by line. The log has the first bytes of each write and
// how many there were; where that is not all of it, the replay is taken to the call, and the rest read from
// the program's memory. Calls are met in the order of time, so all of this together is one replay at most.
#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "recording/tree.h"
#include "session/present.h"
#include "timeline/moments.h"
#include "timeline/written_bytes.h"
#include "trace/table.h"

namespace backstep::trace {
namespace {

using recording::Event;

std::string from_memory(session::Session& session, const Event& e) {
  session::Present present(session);
  return timeline::written_bytes(
      e, [&](uint64_t address, uint64_t size) { return present.memory(address, size); });
}

class Output : public Rows {
 public:
  Output(History& history, const Question& question)
      : history_(history), processes_(processes_of(history, question)) {}

  bool next() override {
    while (lines_.empty())
      if (!read_one()) return false;
    now_ = std::move(lines_.front());
    lines_.pop_front();
    return true;
  }
  Value value(size_t column) override { return now_[column]; }

 private:
  struct Stream {
    std::string text;  // of the line that is not over
    int64_t line = 0;
    ControlPoint at;  // … of its first byte
    uint64_t event = 0;
    int thread = 1;
  };

  // False: that was the last one.
  bool read_one() {
    if (!reader_) {
      if (next_ == processes_.size()) return false;
      process_ = processes_[next_++];
      const auto& r = history_.recording();
      reader_ =
          std::make_unique<recording::LogReader>(r.log_path(process_), recording::first_thread(r, process_));
      streams_[0] = streams_[1] = {};
    }
    history_.listen();
    Event e;
    if (!reader_->next(e)) {
      if (auto damage = reader_->damage()) history_.damaged(process_, *damage);
      for (int fd : {1, 2})
        if (!streams_[fd - 1].text.empty()) end_line(fd, false);
      reader_.reset();
      return true;
    }
    if (e.kind == recording::EventKind::Syscall && e.result > 0 &&
        (e.flags & (recording::kToStdout | recording::kToStderr)))
      add(e, e.flags & recording::kToStdout ? 1 : 2);
    return true;
  }

  std::string text_of(const Event& e) {
    std::string known;
    for (const recording::Piece& piece : e.pieces)
      if (piece.kind == recording::PieceKind::Text)
        known.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
    const auto length = static_cast<uint64_t>(e.result);
    if (known.size() < length)
      return from_memory(history_.at(process_, fmt::format("event {}", e.number)), e);
    known.resize(length);
    return known;
  }

  void add(const Event& e, int fd) {
    Stream& s = streams_[fd - 1];
    const std::string text = text_of(e);
    for (size_t at = 0; at < text.size();) {
      if (s.text.empty()) s.at = {e.tick, e.pc}, s.event = e.number, s.thread = e.thread;
      const size_t end = text.find('\n', at);
      s.text.append(text, at, std::min(end, text.size()) - at);
      if (end == std::string::npos) return;
      end_line(fd, true);
      at = end + 1;
    }
  }

  void end_line(int fd, bool complete) {
    Stream& s = streams_[fd - 1];
    lines_.push_back({number(process_), static_cast<int64_t>(fd), ++s.line, std::move(s.text),
                      static_cast<int64_t>(complete), number(s.at.tick), number(s.at.pc),
                      timeline::point_text(s.at.tick, s.at.pc), number(s.event),
                      static_cast<int64_t>(s.thread)});
    s.text.clear();
  }

  History& history_;
  std::vector<uint64_t> processes_;
  size_t next_ = 0;
  uint64_t process_ = 0;
  std::unique_ptr<recording::LogReader> reader_;
  Stream streams_[2];
  std::deque<Row> lines_;
  Row now_;
};

std::unique_ptr<Rows> open_output(History& history, const Question& question) {
  return std::make_unique<Output>(history, question);
}

Cost cost_of_output(History& history, const Question& question) {
  double events = 0;
  for (uint64_t p : processes_of(history, question)) events += static_cast<double>(history.facts(p)->events);
  return {1000 + events, 1 + events / 10};
}

std::string explain_output(History&, const Question&) {
  return "read from the logs; long writes, of which the log has only the beginning, are replayed up to";
}

}  // namespace

void add_output_table(std::vector<Table>& tables) {
  tables.push_back({"output",
                    "what processes wrote to their stdout and stderr, line by line",
                    {{"process", "INT", kEqual, "its number, as in processes"},
                     {"fd", "INT", kNothing, "1: stdout, 2: stderr, as they were when the recording began"},
                     {"line", "INT", kNothing, "which line of this process and stream, from 1 on"},
                     {"text", "TEXT", kNothing, "without the end of the line"},
                     {"complete", "INT", kNothing, "0: the last one, without an end of line"},
                     {"tick", "INT", kNothing, "of the call that wrote its first byte"},
                     {"pc", "ADDRESS INT", kNothing, ""},
                     {"at", "TEXT", kNothing, "the control point in front of that call"},
                     {"event", "INT", kNothing, "its number in the log"},
                     {"thread", "INT", kNothing, "that made it"}},
                    {},
                    {},
                    false,
                    cost_of_output,
                    open_output,
                    explain_output});
}

}  // namespace backstep::trace
