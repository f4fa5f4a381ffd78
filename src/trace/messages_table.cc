// What processes and threads said to each other through pipes and sockets: a row for each piece of a write
// that a read has got. It comes from the logs (session/messages.h says how), so nothing is replayed.
#include <fmt/format.h>

#include "session/messages.h"
#include "timeline/moments.h"
#include "trace/table.h"

namespace backstep::trace {
namespace {

using session::Message;
using session::Transfer;

class MessageRows : public Rows {
 public:
  explicit MessageRows(History& history) : all_(history.messages().all()) {}

  bool next() override { return next_++ < all_.size(); }
  Value value(size_t column) override {
    const Message& m = all_[next_ - 1];
    const Transfer &w = *m.write, &r = *m.read;
    switch (column) {
      case 0:
        return std::string(session::message_kind_name(m.kind));
      case 1:
        return number(w.process);
      case 2:
        return number(r.process);
      case 3:
        return number(m.bytes);
      case 4:
        return number(w.began);
      case 5:
        return timeline::point_text(w.began, w.pc);
      case 6:
        return static_cast<int64_t>(w.thread);
      case 7:
        return number(w.event);
      case 8:
        return number(w.part + m.write_byte);
      case 9:
        return number(r.tick);
      case 10:
        return timeline::point_text(r.tick, r.pc);
      case 11:
        return static_cast<int64_t>(r.thread);
      case 12:
        return number(r.event);
      case 13:
        return number(r.part + m.read_byte);
      case 14:
        return static_cast<int64_t>(m.checked);
      case 15:
        return static_cast<int64_t>(r.peek);
      default:
        return r.data.empty() ? Value() : Value(r.data.substr(m.read_byte, m.bytes));
    }
  }

 private:
  const std::vector<Message>& all_;
  size_t next_ = 0;
};

uint64_t events_of_all(History& history) {
  uint64_t events = 0;
  for (const auto& p : history.processes()) events += p.events;
  return events;
}

}  // namespace

void add_messages_table(std::vector<Table>& tables) {
  tables.push_back(
      {"messages",
       "what one process or thread wrote to a pipe or a socket and another one read",
       {{"kind", "TEXT", kNothing, "pipe, socket pair, socket"},
        {"sender", "INT", kNothing, "the process that wrote"},
        {"receiver", "INT", kNothing, "the process that read"},
        {"bytes", "INT", kNothing, "how many of what was written were read at once"},
        {"sent", "INT", kNothing, "the sender's tick when it made the call"},
        {"sent_at", "TEXT", kNothing, "its control point"},
        {"sent_thread", "INT", kNothing, ""},
        {"sent_event", "INT", kNothing, "number of the call in the sender's log"},
        {"sent_byte", "INT", kNothing, "the first one, of what the call wrote"},
        {"received", "INT", kNothing, "the receiver's tick when the call had it"},
        {"received_at", "TEXT", kNothing, "its control point"},
        {"received_thread", "INT", kNothing, ""},
        {"received_event", "INT", kNothing, "number of the call in the receiver's log"},
        {"received_byte", "INT", kNothing, "the first one, of what the call read"},
        {"checked", "INT", kNothing,
         "1: the checksum of what was written is that of what was read; 0: by the order of the calls alone"},
        {"peeked", "INT", kNothing, "1: they stayed there, to be read again (MSG_PEEK)"},
        {"data", "TEXT", kNothing, "the bytes"}},
       {},
       {},
       false,
       [](History& history, const Question&) {
         const auto events = static_cast<double>(events_of_all(history));
         return Cost{100 + events, 1 + events / 10};
       },
       [](History& history, const Question&) -> std::unique_ptr<Rows> {
         return std::make_unique<MessageRows>(history);
       },
       [](History& history, const Question&) {
         return fmt::format("read from the logs of all {} processes, {} events; nothing is replayed",
                            history.processes().size(), events_of_all(history));
       }});
}

}  // namespace backstep::trace
