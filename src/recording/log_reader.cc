// Finding and verifying what a log holds. Every event carries the low half of the chunk's running CRC, so
// the intact part of a damaged or cut chunk is known to the event.
#include "recording/log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "engine/layout.h"
#include "guest/syscall_table.h"
#include "recording/codec.h"
#include "recording/event_check.h"

namespace backstep::recording {

namespace {

using layout::kPage;

// Where the last chunk begins: chunks that others follow do not change any more. `size` becomes less if the
// file did.
uint64_t find_tail(int fd, uint64_t& size) {
  FileHeader file{};
  uint64_t at = 0;
  if (pread(fd, &file, sizeof file, 0) == sizeof file) at = file.header_size;
  while (at < size) {
    ChunkHeader chunk{};
    const ssize_t got = pread(fd, &chunk, sizeof chunk, static_cast<off_t>(at));
    if (got <= 0) {
      size = at;
    } else if (got < static_cast<ssize_t>(sizeof chunk) || chunk.magic != kChunkMagic ||
               chunk.header_crc != chunk_header_crc(chunk) || chunk.capacity < sizeof chunk ||
               chunk.capacity >= size - at) {
      break;
    } else {
      at += chunk.capacity;
    }
  }
  return std::min(at, size);
}

// [from, size) of the file into memory of which most may stay untouched: what is zero there is so already.
// How far the file goes now.
uint64_t copy_tail(int fd, uint8_t* data, uint64_t from, uint64_t size) {
  std::vector<uint8_t> buffer(std::min<uint64_t>(size - from, 1 << 20));
  while (from < size) {
    const ssize_t got =
        pread(fd, buffer.data(), std::min<uint64_t>(buffer.size(), size - from), static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    for (uint64_t at = 0; at < static_cast<uint64_t>(got);) {
      const uint64_t n = std::min<uint64_t>(kPage - (from + at) % kPage, static_cast<uint64_t>(got) - at);
      if (std::any_of(&buffer[at], &buffer[at] + n, [](uint8_t b) { return b != 0; }))
        std::memcpy(data + from + at, &buffer[at], n);
      at += n;
    }
    from += static_cast<uint64_t>(got);
  }
  return from;
}

}  // namespace

LogFile::LogFile(const std::string& path) : path_(path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) throw Error(fmt::format("cannot open the log {}: {}", path, errno_text(errno)));
  struct stat st {};
  fstat(fd.get(), &st);
  auto size = static_cast<uint64_t>(st.st_size);
  const uint64_t tail = find_tail(fd.get(), size);
  mapped_ = size;
  void* p = size ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0) : MAP_FAILED;
  if (p == MAP_FAILED)
    throw Error(fmt::format("the log {} is empty: nothing was recorded", path), kExitDivergence);
  data_ = {static_cast<const uint8_t*>(p), size};
  // The process may be at it still, and cuts the last chunk when it ends: what is mapped of that would be
  // gone from under us. So we have a copy of it.
  const uint64_t copied = tail / kPage * kPage;
  if (copied < size) {
    if (mmap(static_cast<uint8_t*>(p) + copied, size - copied, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
      throw Error(fmt::format("cannot map the log {}: {}", path, errno_text(errno)));
    size = copy_tail(fd.get(), static_cast<uint8_t*>(p), copied, size);
    data_ = data_.first(size);
  }
  FileHeader header{};
  if (size < sizeof header)
    throw Error(fmt::format("the log {} is damaged: it ends inside its header", path), kExitDivergence);
  std::memcpy(&header, p, sizeof header);
  if (std::memcmp(header.magic, kLogMagic, sizeof header.magic) != 0)
    throw Error(fmt::format("{} is not a Backstep log, or its header is damaged", path), kExitDivergence);
  if (header.version > kLogVersion)
    throw Error(
        fmt::format(
            "{} has log format version {}; this Backstep knows versions up to {}. Replay it with a newer "
            "Backstep.",
            path, header.version, kLogVersion),
        kExitDivergence);
  if (header.version == 0 || header.header_size < sizeof header || header.header_size % 64 ||
      header.header_size > 65536)
    throw Error(fmt::format("the log {} is damaged: its header makes no sense", path), kExitDivergence);
  header_ = header;
  offset_ = header.header_size;
  bool clean = header.process != 0 && size >= offset_ &&
               header.check == hot::crc32c(0, &header, offsetof(FileHeader, check));
  for (uint64_t i = sizeof header; i < offset_ && i < size; i++) clean = clean && data_[i] == 0;
  if (!clean)
    throw Error(fmt::format("the log {} is damaged: its header makes no sense", path), kExitDivergence);
}

LogFile::~LogFile() {
  if (mapped_) munmap(const_cast<uint8_t*>(data_.data()), mapped_);
}

uint64_t LogFile::start_ns() const {
  ChunkHeader first{};
  if (data_.size() - std::min<uint64_t>(data_.size(), header_.header_size) < sizeof first) return 0;
  std::memcpy(&first, data_.data() + header_.header_size, sizeof first);
  return first.header_crc == chunk_header_crc(first) ? first.wall_ns : 0;
}

std::optional<Chunk> LogFile::next() {
  while (!damage_ && offset_ < data_.size()) {
    ChunkHeader header{};
    if (data_.size() - offset_ < sizeof header) {
      damage_ =
          fmt::format("the log is cut off at byte {}, inside the header of chunk {}", data_.size(), chunks_);
      return std::nullopt;
    }
    std::memcpy(&header, data_.data() + offset_, sizeof header);
    // A recorder that was killed while it made a chunk leaves zeroes; the header's checksum would come last.
    if (!ended_ && header.state == 0 && header.header_crc == 0 &&
        std::all_of(data_.begin() + static_cast<ptrdiff_t>(offset_ + sizeof header), data_.end(),
                    [](uint8_t b) { return b == 0; }))
      return std::nullopt;
    if (header.magic != kChunkMagic || header.index != chunks_ || header.first_event != events_ ||
        header.header_crc != chunk_header_crc(header)) {
      damage_ = fmt::format("the log is damaged at byte {}: chunk {} (from event {}) is not there", offset_,
                            chunks_, events_);
      return std::nullopt;
    }
    const uint8_t* start = data_.data() + offset_ + sizeof header;
    uint64_t available = data_.size() - offset_ - sizeof header;
    auto used = static_cast<uint32_t>(header.state);
    auto crc = static_cast<uint32_t>(header.state >> 32);
    uint32_t running = 0;
    uint64_t at = 0;
    EventKind last_kind = EventKind::None;
    Tick tick = header.first_tick;
    const char* wrong = nullptr;
    Event checked;
    while (at < used) {
      EventHeader event{};
      if (available - at < kMinEvent) break;
      std::memcpy(&event, start + at, sizeof event);
      if (event.size < kMinEvent || event.size > available - at || at + event.size > used) break;
      uint32_t sum = hot::crc32c(running, start + at, event.size - 2);
      uint16_t check;
      std::memcpy(&check, start + at + event.size - 2, 2);
      if (check != static_cast<uint16_t>(sum)) break;
      wrong = check_event({start + at, event.size}, tick, checked);
      if (wrong) break;
      running = sum;
      at += event.size;
      last_kind = static_cast<EventKind>(event.kind);
      events_++;
    }
    // A closed log (last event: End) is followed by zeroes up to the next page, other chunks up to the next
    // one; in the last one of a log that was killed the beginnings of an event may be there.
    bool closed = ended_ = last_kind == EventKind::End;
    uint64_t rest =
        std::min<uint64_t>(available, header.capacity - std::min<uint64_t>(header.capacity, sizeof header));
    const bool followed = available > rest;
    for (uint64_t i = at; (closed || followed) && at == used && i < rest; i++)
      if (start[i] != 0) {
        damage_ = fmt::format("the log is damaged at byte {}, behind the last event of chunk {}",
                              offset_ + sizeof header + i, chunks_);
        break;
      }
    if (wrong) {
      damage_ = fmt::format("the log is damaged at byte {}: event {} {}", offset_ + sizeof header + at,
                            events_, wrong);
    } else if (at < used) {
      damage_ = fmt::format("the log is damaged or cut off at byte {}, in event {}",
                            offset_ + sizeof header + at, events_);
    } else if (running != crc) {
      damage_ =
          fmt::format("the log is damaged somewhere in events {} to {} (chunk {} at byte {}: wrong checksum)",
                      header.first_event, events_, chunks_, offset_);
    } else if (header.capacity < sizeof header || header.capacity < used) {
      damage_ =
          fmt::format("the log is damaged at byte {}: chunk {} has an impossible size", offset_, chunks_);
    }
    const uint64_t here = std::exchange(offset_, offset_ + header.capacity);
    chunks_++;
    if (at > 0)
      return Chunk{{start, at},
                   header.first_event,
                   header.first_tick,
                   header.first_order,
                   header.wall_ns,
                   header_.version < kChannelVersion
                       ? 0
                       : header.monotonic_low | static_cast<uint64_t>(header.monotonic_high) << 32,
                   here,
                   header.index};
  }
  return std::nullopt;
}

std::optional<Chunk> LogFile::seek(uint64_t offset, uint32_t index, uint64_t first_event, uint64_t wall_ns) {
  if (offset < header_.header_size || offset > data_.size()) return std::nullopt;
  offset_ = offset;
  chunks_ = index;
  events_ = first_event;
  ended_ = false;
  damage_.reset();
  auto chunk = next();
  return chunk && chunk->offset == offset && chunk->wall_ns == wall_ns ? chunk : std::nullopt;
}

namespace {

bool decode_pieces(Cursor& c, Event& e) {
  while (c.p < c.end) {
    Piece piece;
    uint8_t tag = c.u8();
    piece.arg = tag & 7;
    piece.kind = static_cast<PieceKind>(tag >> 3);
    switch (piece.kind) {
      case PieceKind::OutAtArg:
      case PieceKind::OutAt:
      case PieceKind::Text:
      case PieceKind::TextAt: {
        const bool elsewhere = piece.kind == PieceKind::OutAt || piece.kind == PieceKind::TextAt;
        piece.addr = elsewhere ? c.varint() : piece.arg < 6 ? e.args[piece.arg] : 0;
        piece.length = c.varint();
        const uint8_t* bytes = c.bytes(piece.length);
        if (!c.ok) return false;
        piece.bytes = {reinterpret_cast<const std::byte*>(bytes), piece.length};
        break;
      }
      case PieceKind::Sum:
        piece.length = c.varint();
        piece.crc = c.u32();
        break;
      default:
        return false;
    }
    if (!c.ok) return false;
    e.pieces.push_back(piece);
  }
  return true;
}

std::string take_text(Cursor& c) {
  uint64_t n = c.varint();
  const uint8_t* bytes = c.bytes(n);
  return c.ok ? std::string(reinterpret_cast<const char*>(bytes), n) : std::string();
}

}  // namespace

namespace {

ChannelName take_channel(Cursor& c, uint16_t reason) {
  ChannelName n;
  n.reason = static_cast<ChannelReason>(reason);
  n.fd = static_cast<int>(c.signed_varint());
  n.object = static_cast<ChannelObject>(c.varint());
  n.device = c.varint(), n.inode = c.varint();
  n.cookie = c.varint(), n.net = c.varint();
  n.family = static_cast<int>(c.varint()), n.type = static_cast<int>(c.varint());
  n.protocol = static_cast<int>(c.varint());
  n.peer_pid = static_cast<int>(c.signed_varint());
  for (auto* address : {&n.local, &n.peer}) {
    const uint64_t size = c.varint();
    const auto* bytes = reinterpret_cast<const std::byte*>(c.bytes(size));
    if (bytes) *address = {bytes, size};
  }
  return n;
}

// The runs of a Shared event become pieces, with the bytes between them if those are zero.
bool decode_runs(Cursor& c, Event& e) {
  static constexpr std::byte kZeroes[kSharedPage] = {};
  e.length = kSharedPage;
  uint64_t at = 0;
  auto add = [&](const std::byte* from, uint64_t n) {
    if (n == 0) return;
    Piece piece;
    piece.addr = e.addr + at;
    piece.bytes = {from, n};
    e.pieces.push_back(piece);
  };
  while (c.ok && c.p < c.end) {
    const uint64_t same = c.varint(), count = c.varint();
    const auto* bytes = reinterpret_cast<const std::byte*>(c.bytes(count));
    if (!c.ok || same > kSharedPage - at || count > kSharedPage - at - same) return false;
    if (e.flags & kFromZero) add(kZeroes, same);
    at += same;
    add(bytes, count);
    at += count;
  }
  if (e.flags & kFromZero) add(kZeroes, kSharedPage - at);
  return c.ok;
}

}  // namespace

bool decode_event(std::span<const uint8_t> bytes, Tick& tick, Event& e, uint64_t* order) {
  EventHeader header{};
  if (bytes.size() < kMinEvent) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  // What it has allocated is used again.
  Event fresh;
  fresh.number = e.number;
  fresh.pieces = std::move(e.pieces), fresh.values = std::move(e.values);
  fresh.pieces.clear(), fresh.values.clear();
  e = std::move(fresh);
  e.kind = static_cast<EventKind>(header.kind);
  e.flags = header.flags;
  e.nr = header.nr;
  e.size = header.size;
  Cursor c{bytes.data() + sizeof header, bytes.data() + bytes.size() - 2};
  uint64_t unknown = 0;
  if (e.flags & kOrdered) e.order = c.order(order ? *order : unknown);
  e.body = {reinterpret_cast<const std::byte*>(c.p), static_cast<size_t>(c.end - c.p)};
  auto place = [&] {
    const Tick before = tick;
    tick += c.varint();
    if (tick < before) c.ok = false;
    e.tick = tick;
    e.pc = c.varint();
  };
  e.tick = tick;
  switch (e.kind) {
    case EventKind::Syscall: {
      place();
      e.digest = c.u32();
      e.result = c.signed_varint();
      const guest::Syscall& row = guest::syscall_row(e.nr);
      for (int i = 0; i < row.argc; i++) e.args[i] = c.varint();
      return c.ok && decode_pieces(c, e);
    }
    case EventKind::Instr: {
      place();
      e.digest = c.u32();
      uint64_t n = c.varint();
      for (uint64_t i = 0; i < n && c.ok; i++) e.values.push_back(c.varint());
      break;
    }
    case EventKind::Signal:
      place();
      e.digest = c.u32();
      e.signo = static_cast<int>(c.varint());
      e.body = {reinterpret_cast<const std::byte*>(c.p), static_cast<size_t>(c.end - c.p)};
      break;
    case EventKind::Map:
      e.addr = c.varint();
      e.length = c.varint();
      e.prot = static_cast<int>(c.varint());
      e.map_flags = static_cast<int>(c.varint());
      e.offset = c.varint();
      e.text = take_text(c);
      e.key = take_text(c);
      e.dev = c.varint();
      e.inode = c.varint();
      break;
    case EventKind::Memory:
      e.addr = c.varint();
      e.body = {reinterpret_cast<const std::byte*>(c.p), static_cast<size_t>(c.end - c.p)};
      e.length = e.body.size();
      break;
    case EventKind::Resize:
      place();
      [[fallthrough]];
    case EventKind::FileSize:
      e.dev = c.varint();
      e.inode = c.varint();
      e.length = c.varint();
      e.body = {};
      if (c.ok && c.p < c.end && e.kind == EventKind::FileSize) {
        e.offset = c.varint();
        if (!c.ok) return false;
        e.body = {reinterpret_cast<const std::byte*>(c.p), static_cast<size_t>(c.end - c.p)};
        return true;
      }
      break;
    case EventKind::Start:
      while (c.p < c.end && c.ok) e.values.push_back(c.varint());
      return c.ok && e.values.size() == 21;
    case EventKind::Shared:
      place();
      e.digest = c.u32();
      e.addr = c.varint();
      return c.ok && decode_runs(c, e);
    case EventKind::Gap: {
      place();
      e.digest = c.u32();
      e.length = c.varint();
      e.ticks = c.varint();
      constexpr int kValues = 22;
      for (int i = 0; i < kValues; i++) e.values.push_back(c.varint());
      const auto* vectors = reinterpret_cast<const std::byte*>(c.bytes(kGapVectors));
      if (!c.ok || c.p != c.end) return false;
      e.body = {vectors, kGapVectors};
      break;
    }
    case EventKind::Turn:
      place();
      e.digest = c.u32();
      e.next_thread = static_cast<int>(c.varint());
      break;
    case EventKind::Checksum:
      place();
      e.digest = c.u32();
      break;
    case EventKind::Note:
      e.text.assign(reinterpret_cast<const char*>(c.p), static_cast<size_t>(c.end - c.p));
      break;
    case EventKind::Channel:
      e.channel = take_channel(c, e.nr);
      break;
    case EventKind::End:
      place();
      e.end = static_cast<EndKind>(c.u8());
      e.result = c.signed_varint();
      break;
    default:
      return false;
  }
  return c.ok;
}

bool LogReader::next(Event& event) {
  while (rest_.empty()) {
    if (damage_) return false;
    auto chunk = file_.next();
    if (!chunk) return false;
    rest_ = chunk->events;
    tick_ = chunk->first_tick;
    order_ = first_order_ = chunk->first_order;
    wall_ns_ = chunk->wall_ns, monotonic_ns_ = chunk->monotonic_ns;
    number_ = chunk->first_event;
  }
  uint32_t size;
  std::memcpy(&size, rest_.data() + 4, 4);
  event.number = number_;
  if (!decode_event(rest_.first(size), tick_, event, &order_)) {
    damage_ = fmt::format("event {} cannot be decoded", number_);
    rest_ = {};
    return false;
  }
  rest_ = rest_.subspan(size);
  number_++;
  event.thread = thread_;
  if (event.kind == EventKind::Turn) thread_ = event.next_thread;
  return true;
}

}  // namespace backstep::recording
