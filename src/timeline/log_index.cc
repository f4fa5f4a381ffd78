// One quick walk over the log: of most events only the header and two numbers are looked at (some 10 ns
// each). Lists are kept of what is rare; the rest is looked up again, chunk by chunk, when it is asked for.
#include "timeline/log_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "recording/codec.h"

namespace backstep::timeline {

using recording::EndKind;
using recording::Event;
using recording::EventHeader;
using recording::EventKind;

namespace {

bool has_moment(EventKind kind) {
  switch (kind) {
    case EventKind::Syscall:
    case EventKind::Instr:
    case EventKind::Signal:
    case EventKind::Turn:
    case EventKind::Shared:
    case EventKind::End:
      return true;
    default:
      return false;
  }
}

}  // namespace

void LogIndex::scan(const ChunkStart& start,
                    const std::function<bool(const Moment&, std::span<const uint8_t>)>& f) const {
  Tick tick = start.chunk.first_tick;
  uint64_t number = start.base + start.chunk.first_event, previous = start.previous;
  std::span<const uint8_t> rest = start.chunk.events;
  while (!rest.empty() && number < start.cut) {
    EventHeader header;
    std::memcpy(&header, rest.data(), sizeof header);
    Moment m;
    m.event = number++;
    m.previous = previous;
    m.kind = static_cast<EventKind>(header.kind);
    m.flags = header.flags;
    m.nr = header.nr;
    m.tick = tick;
    m.wall_ns = start.chunk.wall_ns;
    if (has_moment(m.kind) || m.kind == EventKind::Checksum) {
      recording::Cursor c{rest.data() + sizeof header, rest.data() + header.size - 2};
      tick += c.varint();
      m.tick = tick;
      m.pc = c.varint();
    }
    if (!f(m, rest.first(header.size))) return;
    if (has_moment(m.kind)) previous = m.event + 1;
    rest = rest.subspan(header.size);
  }
}

LogIndex::LogIndex(const recording::Recording& recording, uint64_t process) {
  std::vector<uint64_t> cuts;
  for (uint64_t number = process;;) {
    auto file = std::make_unique<recording::LogFile>(recording.log_path(number));
    const recording::FileHeader header = file->header();
    chain_.insert(chain_.begin(), Log{std::move(file)});
    if (static_cast<recording::Birth>(header.birth) != recording::Birth::Fork || header.parent >= number)
      break;
    cuts.insert(cuts.begin(), header.parent_event);
    number = header.parent;
  }
  for (size_t i = 0; i < cuts.size(); i++) {
    chain_[i].cut = chain_[i].base + cuts[i];
    chain_[i + 1].base = chain_[i].cut;
  }
  for (const Log& log : chain_) read(log);
}

void LogIndex::read(const Log& log) {
  recording::LogFile& file = *log.file;
  uint64_t previous = log.base;
  bool ended = false, first = true;
  while (auto chunk = file.next()) {
    if (log.base + chunk->first_event >= log.cut) break;
    chunks_.push_back({*chunk, log.base, previous, log.cut});
    scan(chunks_.back(), [&](const Moment& m, std::span<const uint8_t> bytes) {
      events_ = m.event + 1;
      if (first && log.base && has_moment(m.kind)) {
        first = false;
        birth_ = m.position();
      }
      Event e;
      Tick tick = 0;
      switch (m.kind) {
        case EventKind::Map:
          recording::decode_event(bytes, tick, e);
          if (!e.key.empty()) files_.push_back({e.text, e.key, e.addr, e.offset});
          break;
        case EventKind::Start:
          recording::decode_event(bytes, tick, e);
          start_stack_ = e.values[RSP];
          break;
        case EventKind::Signal: {
          recording::decode_event(bytes, tick, e);
          auto* info = reinterpret_cast<const uint8_t*>(e.body.data());
          signals_.push_back({m, e.signo, {info, info + e.body.size()}});
          break;
        }
        case EventKind::Turn:
          recording::decode_event(bytes, tick, e);
          turns_.push_back({m.tick + 1, e.next_thread});
          break;
        case EventKind::End:
          recording::decode_event(bytes, tick, e);
          ended = true;
          switch (e.end) {
            case EndKind::Exit:
              end_text_ = fmt::format("the program exits with status {} here", e.result);
              break;
            case EndKind::Signal: {
              const char* name = sigabbrev_np(static_cast<int>(e.result));
              end_signal_ = static_cast<int>(e.result);
              end_text_ =
                  fmt::format("the program dies of SIG{} here", name ? name : std::to_string(e.result));
              break;
            }
            case EndKind::Exec:
              end_text_ = "the program becomes another one here (execve)";
              break;
            case EndKind::Stopped:
              end_text_ = "the recording was stopped here while the program ran on";
              break;
          }
          if (e.end != EndKind::Stopped) last_ = m;
          break;
        default:
          break;
      }
      if (has_moment(m.kind)) {
        if (m.kind != EventKind::End) last_ = m;
        previous = m.event + 1;
      }
      return true;
    });
  }
  if (!ended)
    end_text_ = file.damage() ? *file.damage() + "; this is the last moment before it"
                              : "the recorder was ended here, before the program";
}

size_t LogIndex::chunk_of(uint64_t event) const {
  auto it = std::upper_bound(chunks_.begin(), chunks_.end(), event, [](uint64_t n, const ChunkStart& c) {
    return n < c.base + c.chunk.first_event;
  });
  return it == chunks_.begin() ? 0 : static_cast<size_t>(it - chunks_.begin()) - 1;
}

std::optional<Moment> LogIndex::at(uint64_t number) const {
  if (number >= events_) return std::nullopt;
  for (size_t i = chunk_of(number) + 1; i-- > 0;) {
    std::optional<Moment> found;
    scan(chunks_[i], [&](const Moment& m, std::span<const uint8_t>) {
      if (m.event > number) return false;
      if (has_moment(m.kind)) found = m;
      return true;
    });
    if (found) return found;
  }
  return std::nullopt;
}

std::optional<Moment> LogIndex::next_call(uint64_t from,
                                          const std::function<bool(const Moment&)>& wanted) const {
  std::optional<Moment> found;
  for (size_t i = chunk_of(from); i < chunks_.size() && !found; i++)
    scan(chunks_[i], [&](const Moment& m, std::span<const uint8_t>) {
      if (m.event >= from && m.kind == EventKind::Syscall && wanted(m)) found = m;
      return !found;
    });
  return found;
}

std::optional<Moment> LogIndex::previous_call(uint64_t before,
                                              const std::function<bool(const Moment&)>& wanted) const {
  std::optional<Moment> found;
  if (before == 0) return found;
  for (size_t i = chunk_of(before - 1) + 1; i-- > 0 && !found;)
    scan(chunks_[i], [&](const Moment& m, std::span<const uint8_t>) {
      if (m.event < before && m.kind == EventKind::Syscall && wanted(m)) found = m;
      return m.event < before;
    });
  return found;
}

std::optional<Moment> LogIndex::output(const std::string& text, uint64_t from) const {
  std::optional<Moment> found;
  for (size_t i = chunk_of(from); i < chunks_.size() && !found; i++)
    scan(chunks_[i], [&](const Moment& m, std::span<const uint8_t> bytes) {
      if (m.event < from || m.kind != EventKind::Syscall ||
          !(m.flags & (recording::kToStdout | recording::kToStderr)))
        return true;
      Event e;
      Tick tick = 0;
      recording::decode_event(bytes, tick, e);
      for (const recording::Piece& piece : e.pieces)
        if (piece.kind == recording::PieceKind::Text &&
            std::string_view(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size())
                    .find(text) != std::string_view::npos)
          found = m;
      return !found;
    });
  return found;
}

}  // namespace backstep::timeline
