// Where was this text written? The log has the first bytes of each write and how many there were; that is the
// answer if the program writes short pieces. For longer ones the guest is replayed with its output on: it
// comes in the order of the log, so the lengths there say which byte belongs to which call. Text that several
// calls wrote one after the other, a line piece by piece, is found at the call that wrote its first byte.
// stdout and stderr are two streams. What is not found there may have gone elsewhere; such writes are not
// made again by a replay, but the program's memory has what it gave them.
//
// What was read is in the log as a whole, so for that nothing is replayed; each descriptor is a stream.
#include <sys/syscall.h>

#include <algorithm>
#include <map>

#include "recording/codec.h"
#include "timeline/timeline.h"
#include "timeline/written_bytes.h"

namespace backstep::timeline {
namespace {

struct Write {
  Moment moment;
  bool to_stderr = false;
  uint64_t length = 0;
  std::string known;  // its beginning
};

// One of the two streams, as far as it can still matter.
class Stream {
 public:
  explicit Stream(const std::string& text) : text_(text) {}

  // The call that wrote the first byte of the text, once it is complete.
  const Write* append(const Write& write, std::string_view bytes) {
    parts_.push_back({&write, recent_.size()});
    recent_ += bytes;
    if (size_t at = recent_.find(text_); at != std::string::npos) {
      auto part = std::upper_bound(parts_.begin(), parts_.end(), at,
                                   [](size_t a, const Part& p) { return a < p.start; });
      // A part of no length begins where the next one does.
      return std::prev(part)->write;
    }
    drop(recent_.size() > text_.size() ? recent_.size() - text_.size() + 1 : 0);
    return nullptr;
  }

  // The earliest of those that it still speaks of; null: there is none.
  const Write* first() const { return parts_.empty() ? nullptr : parts_.front().write; }

 private:
  struct Part {
    const Write* write;
    size_t start;
  };
  void drop(size_t n) {
    recent_.erase(0, n);
    while (parts_.size() > 1 && parts_[1].start <= n) parts_.erase(parts_.begin());
    for (Part& p : parts_) p.start = p.start > n ? p.start - n : 0;
  }

  const std::string& text_;
  std::string recent_;
  std::vector<Part> parts_;
};

// What the log has of the bytes that a call wrote.
std::string beginning_of(const recording::Event& e) {
  std::string known;
  for (const recording::Piece& piece : e.pieces)
    if (piece.kind == recording::PieceKind::Text)
      known.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
  if (e.result >= 0 && known.size() > static_cast<uint64_t>(e.result))
    known.resize(static_cast<size_t>(e.result));
  return known;
}

bool is_write(uint16_t nr) {
  for (const int write :
       {SYS_write, SYS_writev, SYS_pwrite64, SYS_pwritev, SYS_pwritev2, SYS_sendto, SYS_sendmsg})
    if (nr == write) return true;
  return false;
}

std::optional<Write> output_of(const Moment& m, std::span<const uint8_t> bytes) {
  if (m.kind != recording::EventKind::Syscall || !(m.flags & (recording::kToStdout | recording::kToStderr)))
    return std::nullopt;
  recording::Event e;
  Tick tick = 0;
  recording::decode_event(bytes, tick, e);
  if (e.result <= 0) return std::nullopt;
  return Write{m, !(m.flags & recording::kToStdout), static_cast<uint64_t>(e.result), beginning_of(e)};
}

std::vector<Write> writes_of(const LogIndex& log, uint64_t from) {
  std::vector<Write> writes;
  log.each(from, [&](const Moment& m, std::span<const uint8_t> bytes) {
    if (auto write = output_of(m, bytes)) writes.push_back(std::move(*write));
    return true;
  });
  return writes;
}

}  // namespace

std::optional<std::string> Timeline::output_between(const Position& from, const Position& to) const {
  std::string text;
  bool known = true;
  log_.each(from.event, [&](const Moment& m, std::span<const uint8_t> bytes) {
    if (m.event >= to.event) return false;
    auto write = output_of(m, bytes);
    if (write && (known = write->known.size() == write->length)) text += write->known;
    return known;
  });
  if (!known) return std::nullopt;
  return text;
}

std::optional<Moment> Timeline::find_output(const std::string& text, uint64_t from) {
  attention.stop_asked = false;
  auto moment = find_shown_output(text, from);
  return moment || attention.stop_asked ? moment : find_other_output(text, from);
}

// To stdout and stderr.
std::optional<Moment> Timeline::find_shown_output(const std::string& text, uint64_t from) {
  const std::vector<Write> writes = writes_of(log_, from);
  Stream streams[2] = {Stream(text), Stream(text)};
  size_t next = 0;
  // As long as the log knows all of it.
  for (; next < writes.size() && writes[next].known.size() == writes[next].length; next++)
    if (auto* w = streams[writes[next].to_stderr].append(writes[next], writes[next].known)) return w->moment;
  if (next == writes.size()) return std::nullopt;

  Position at;
  Worker worker = worker_at(writes[next].moment.position(), at);
  Arrival halt = run_to(worker, at, writes[next].moment.position());
  if (halt.why != Arrival::There) return std::nullopt;
  std::string written;
  Attention ear = attention;
  ear.output = [&](const std::string& bytes) { written += bytes; };
  Until until;
  until.point = log_.last().position();
  for (bool more = true; more;) {
    until.tick = halt.at.tick + slice_;
    const Tick begin = halt.at.tick;
    halt = worker.run(until, true, &ear);
    learn(worker.took(), begin, halt.at.tick);
    more = halt.why == Arrival::AtTick && !ear.stop_asked;
    size_t taken = 0;
    for (; next < writes.size() && written.size() - taken >= writes[next].length; next++) {
      const std::string_view bytes = std::string_view(written).substr(taken, writes[next].length);
      if (auto* w = streams[writes[next].to_stderr].append(writes[next], bytes)) return w->moment;
      taken += writes[next].length;
    }
    written.erase(0, taken);
    if (more && next < writes.size()) keep(worker, halt.at);
  }
  attention.stop_asked = ear.stop_asked;
  return std::nullopt;
}

// To files, pipes, sockets: each descriptor is a stream. Of a long write the program's memory has the rest.
std::optional<Moment> Timeline::find_other_output(const std::string& text, uint64_t from) {
  struct Call {
    Write write;
    recording::Event event;
  };
  std::vector<Call> calls;
  log_.each(from, [&](const Moment& m, std::span<const uint8_t> bytes) {
    if (m.kind != recording::EventKind::Syscall || !(is_write(m.nr) || m.nr == SYS_close) ||
        m.flags & (recording::kToStdout | recording::kToStderr))
      return true;
    recording::Event e;
    Tick tick = 0;
    recording::decode_event(bytes, tick, e);
    if (m.nr != SYS_close && e.result <= 0) return true;
    Write w{m, false, static_cast<uint64_t>(std::max<int64_t>(e.result, 0)), beginning_of(e)};
    e.pieces.clear();  // they lie in the log, which moves on
    calls.push_back({std::move(w), std::move(e)});
    return true;
  });
  std::map<uint64_t, Stream> streams;
  Worker worker;
  Position at;
  for (const Call& call : calls) {
    const uint64_t fd = call.event.args[0];
    if (call.write.moment.nr == SYS_close) {
      streams.erase(fd);
      continue;
    }
    std::string bytes = call.write.known;
    if (bytes.size() < call.write.length) {
      if (!worker) worker = worker_at(call.write.moment.position(), at);
      const Arrival halt = run_to(worker, at, call.write.moment.position());
      if (halt.why != Arrival::There || attention.stop_asked) return std::nullopt;
      at = halt.at;
      bytes = written_bytes(call.event,
                            [&](uint64_t address, uint64_t size) { return worker.read(address, size); });
    }
    if (const Write* w = streams.try_emplace(fd, text).first->second.append(call.write, bytes))
      return w->moment;
  }
  return std::nullopt;
}

}  // namespace backstep::timeline

namespace backstep::timeline {
namespace {

bool is_read(uint16_t nr) {
  for (const int read :
       {SYS_read, SYS_readv, SYS_pread64, SYS_preadv, SYS_preadv2, SYS_recvfrom, SYS_recvmsg})
    if (nr == read) return true;
  return false;
}

}  // namespace

std::optional<Moment> Timeline::find_input(const std::string& text, uint64_t from) const {
  struct Input {
    std::map<uint64_t, Write> calls;  // of one descriptor, as far as its stream may speak of them
    Stream stream;
  };
  std::map<uint64_t, Input> inputs;  // by descriptor
  std::optional<Moment> found;
  log_.each(from, [&](const Moment& m, std::span<const uint8_t> bytes) {
    if (m.kind != recording::EventKind::Syscall || (!is_read(m.nr) && m.nr != SYS_close && m.nr != SYS_dup2))
      return true;
    recording::Event e;
    Tick tick = 0;
    recording::decode_event(bytes, tick, e);
    const uint64_t fd = e.args[m.nr == SYS_dup2 ? 1 : 0];
    if (!is_read(m.nr)) {  // from here on it is something else
      inputs.erase(fd);
      return true;
    }
    if (e.result <= 0) return true;
    std::string data;
    for (const recording::Piece& piece : e.pieces)
      if (piece.kind == recording::PieceKind::OutAtArg || piece.kind == recording::PieceKind::OutAt)
        data.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
    if (m.nr != SYS_recvmsg) data.resize(std::min<size_t>(data.size(), static_cast<size_t>(e.result)));
    Input& input = inputs.try_emplace(fd, Input{{}, Stream(text)}).first->second;
    const Write& call = input.calls.try_emplace(m.event, Write{m, false, data.size(), ""}).first->second;
    if (const Write* w = input.stream.append(call, data)) found = w->moment;
    if (const Write* first = input.stream.first())
      input.calls.erase(input.calls.begin(), input.calls.lower_bound(first->moment.event));
    return !found;
  });
  return found;
}

}  // namespace backstep::timeline
