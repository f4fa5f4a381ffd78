// Finding and verifying what a log holds. Every event carries the low half of the chunk's running CRC, so
// the intact part of a damaged or cut chunk is known to the event.
#include "recording/log_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

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
#include "recording/log_parts.h"

namespace backstep::recording {

namespace {

using layout::kPage;

// Where the last chunk begins: chunks that others follow do not change any more, packed ones never. `size`
// becomes less if the file did.
uint64_t find_tail(int fd, uint64_t& size) {
  FileHeader file{};
  uint64_t at = 0;
  if (pread(fd, &file, sizeof file, 0) == sizeof file) at = file.header_size;
  while (at < size) {
    struct {
      PackedHeader packed;
      ChunkHeader chunk;
    } both{};
    const ssize_t got = pread(fd, &both, sizeof both, static_cast<off_t>(at));
    if (got <= 0) {
      size = at;
      break;
    }
    uint64_t stored = both.packed.size + sizeof both;
    if (got < static_cast<ssize_t>(sizeof both) || both.packed.magic != kPackedMagic) {
      ChunkHeader chunk{};
      std::memcpy(&chunk, &both, sizeof chunk);
      if (got < static_cast<ssize_t>(sizeof chunk) || chunk.magic != kChunkMagic ||
          chunk.header_crc != chunk_header_crc(chunk) || chunk.capacity < sizeof chunk ||
          chunk.capacity >= size - at)
        break;
      stored = chunk.capacity;
    }
    at += stored;
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

bool is_zero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
}

bool is_header_size(uint32_t size) {
  return size >= sizeof(FileHeader) && size % 64 == 0 && size <= 65536;
}

}  // namespace

LogFile::LogFile(const std::string& path) : path_(path) {
  // Counted first: those that others follow are complete then.
  const uint32_t count = count_parts(path);
  parts_.push_back(open_part(path, count == 1));
  take_header(path);
  add_parts(count);
  at_ = parts_[0].begin;
  offset_ = parts_[0].start;
}

LogFile::Part LogFile::open_part(const std::string& path, bool last) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) throw Error(fmt::format("cannot open the log {}: {}", path, errno_text(errno)));
  struct stat st {};
  fstat(fd.get(), &st);
  auto size = static_cast<uint64_t>(st.st_size);
  const uint64_t tail = last ? find_tail(fd.get(), size) : size;
  Part part;
  part.mapped = size;
  void* p = size ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0) : MAP_FAILED;
  if (p == MAP_FAILED)
    throw Error(fmt::format("the log {} is empty: nothing was recorded", path), kExitDivergence);
  // The process may be at it still, and cuts the last chunk when it ends: what is mapped of that would be
  // gone from under us. So we have a copy of it.
  const uint64_t copied = tail / kPage * kPage;
  if (copied < size) {
    if (mmap(static_cast<uint8_t*>(p) + copied, size - copied, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
      munmap(p, part.mapped);
      throw Error(fmt::format("cannot map the log {}: {}", path, errno_text(errno)));
    }
    size = copy_tail(fd.get(), static_cast<uint8_t*>(p), copied, size);
  }
  part.data = {static_cast<const uint8_t*>(p), size};
  return part;
}

void LogFile::take_header(const std::string& path) {
  Part& part = parts_[0];
  FileHeader header{};
  if (part.data.size() < sizeof header)
    throw Error(fmt::format("the log {} is damaged: it ends inside its header", path), kExitDivergence);
  std::memcpy(&header, part.data.data(), sizeof header);
  if (std::memcmp(header.magic, kLogMagic, sizeof header.magic) != 0)
    throw Error(fmt::format("{} is not a Backstep log, or its header is damaged", path), kExitDivergence);
  if (header.version > kLogVersion)
    throw Error(
        fmt::format(
            "{} has log format version {}; this Backstep knows versions up to {}. Replay it with a newer "
            "Backstep.",
            path, header.version, kLogVersion),
        kExitDivergence);
  header_ = header;
  part.begin = part.start = header.header_size;
  const bool clean = header.version != 0 && is_header_size(header.header_size) && header.process != 0 &&
                     part.data.size() >= part.begin &&
                     header.check == hot::crc32c(0, &header, offsetof(FileHeader, check)) &&
                     is_zero(part.data.subspan(sizeof header, part.begin - sizeof header));
  if (!clean)
    throw Error(fmt::format("the log {} is damaged: its header makes no sense", path), kExitDivergence);
  size_ = part.data.size();
}

// A part that is damaged ends the log, when one comes there: what is before it is used.
void LogFile::add_parts(uint32_t count) {
  for (uint32_t number = 2; number <= count; number++) {
    const std::string path = part_path(path_, number);
    Part part = open_part(path, number == count);
    PartHeader header{};
    if (part.data.size() >= sizeof header) std::memcpy(&header, part.data.data(), sizeof header);
    const bool clean = std::memcmp(header.magic, kPartMagic, sizeof header.magic) == 0 &&
                       header.version == header_.version && header.header_size == kPartHeader &&
                       header.process == header_.process && header.part == number && header.reserved == 0 &&
                       header.check == hot::crc32c(0, &header, offsetof(PartHeader, check)) &&
                       part.data.size() >= header.header_size && header.start > parts_.back().start &&
                       is_zero(part.data.subspan(sizeof header, header.header_size - sizeof header));
    part.begin = header.header_size;
    part.start = clean ? header.start : 0;  // 0: damaged
    parts_.push_back(part);
    if (!clean) return;
    size_ = part.start + part.data.size() - part.begin;
  }
}

LogFile::~LogFile() {
  for (const Part& part : parts_)
    if (part.mapped) munmap(const_cast<uint8_t*>(part.data.data()), part.mapped);
}

uint64_t LogFile::start_ns() const {
  const Part& part = parts_[0];
  ChunkHeader first{};
  PackedHeader packed{};
  std::span<const uint8_t> rest = part.data.subspan(std::min<uint64_t>(part.data.size(), part.begin));
  if (rest.size() < sizeof first) return 0;
  std::memcpy(&packed, rest.data(), sizeof packed);
  if (packed.magic == kPackedMagic) rest = rest.subspan(sizeof packed);
  if (rest.size() < sizeof first) return 0;
  std::memcpy(&first, rest.data(), sizeof first);
  return first.header_crc == chunk_header_crc(first) ? first.wall_ns : 0;
}

// False: there is nothing behind what was read.
bool LogFile::enter_part() {
  while (at_ >= parts_[part_].data.size()) {
    if (part_ + 1 == parts_.size()) return false;
    const Part& next = parts_[part_ + 1];
    if (next.start != offset_) {
      damage_ = fmt::format("the log is damaged: {} is not its part {}",
                            part_path(path_, static_cast<uint32_t>(part_ + 2)), part_ + 2);
      return false;
    }
    part_++;
    at_ = next.begin;
  }
  return true;
}

// The packed chunk at `at` in a part, unpacked. Nullopt: there is no such thing.
std::optional<LogFile::Found> LogFile::find_packed(const Part& part, uint64_t at) const {
  constexpr uint64_t kHeaders = sizeof(PackedHeader) + sizeof(ChunkHeader);
  constexpr uint64_t kMostRatio = 1 << 16;  // what Zstandard can make of a frame, and more
  Found found;
  PackedHeader packed{};
  if (part.data.size() - at < kHeaders) return std::nullopt;
  std::memcpy(&packed, part.data.data() + at, sizeof packed);
  std::memcpy(&found.header, part.data.data() + at + sizeof packed, sizeof found.header);
  if (packed.header_check != packed_header_check(packed, found.header) ||
      packed.size > part.data.size() - at - kHeaders)
    return std::nullopt;
  const uint8_t* frame = part.data.data() + at + kHeaders;
  const auto used = static_cast<uint32_t>(found.header.state);
  if (packed.check != hot::crc32c(0, frame, packed.size) || used / kMostRatio > packed.size ||
      ZSTD_getFrameContentSize(frame, packed.size) != used)
    return std::nullopt;
  found.available = used;
  found.stored = kHeaders + packed.size;
  for (const auto& [of, memory] : unpacked_)
    if (of == frame) found.memory = memory;
  if (!found.memory) {
    const std::shared_ptr<uint8_t[]> memory(new uint8_t[std::max<uint32_t>(used, 1)]);
    if (ZSTD_decompress(memory.get(), used, frame, packed.size) != used) return std::nullopt;
    found.memory = memory;
    unpacked_[unpacked_next_++ % kKept] = {frame, memory};
  }
  found.start = found.memory.get();
  return found;
}

// The next chunk as it lies in its file. Nullopt: there is none, or (`damage_`) it is damaged.
std::optional<LogFile::Found> LogFile::find() {
  if (!enter_part()) return std::nullopt;
  const Part& part = parts_[part_];
  const uint64_t left = part.data.size() - at_;
  auto not_there = [&] {
    damage_ = fmt::format("the log is damaged at byte {}: chunk {} (from event {}) is not there", offset_,
                          chunks_, events_);
    return std::nullopt;
  };
  Found found;
  if (left < sizeof found.header) {
    damage_ =
        fmt::format("the log is cut off at byte {}, inside the header of chunk {}", offset_ + left, chunks_);
    return std::nullopt;
  }
  std::memcpy(&found.header, part.data.data() + at_, sizeof found.header);
  if (found.header.magic == kPackedMagic && header_.version >= kPartsVersion) {
    auto packed = find_packed(part, at_);
    if (!packed) return not_there();
    found = *packed;
  } else {
    // A recorder that was killed while it made a chunk leaves zeroes; the header's checksum would come last.
    if (!ended_ && part_ + 1 == parts_.size() && found.header.state == 0 && found.header.header_crc == 0 &&
        is_zero(part.data.subspan(at_ + sizeof found.header)))
      return std::nullopt;
    found.start = part.data.data() + at_ + sizeof found.header;
    found.available = left - sizeof found.header;
    found.stored = found.header.capacity;
  }
  const ChunkHeader& header = found.header;
  if (header.magic != kChunkMagic || header.index != chunks_ || header.first_event != events_ ||
      header.header_crc != chunk_header_crc(header))
    return not_there();
  return found;
}

// A closed log (last event: End) is followed by zeroes up to the next page, other chunks up to the next one;
// in the last one of a log that was killed the beginnings of an event may be there.
void LogFile::check_rest(const Found& found, uint64_t used) {
  if (found.memory) return;
  const uint64_t rest =
      std::min<uint64_t>(found.available, found.header.capacity -
                                              std::min<uint64_t>(found.header.capacity, sizeof found.header));
  const bool followed = found.available > rest || part_ + 1 < parts_.size();
  if (!ended_ && !followed) return;
  for (uint64_t i = used; i < rest; i++)
    if (found.start[i] != 0) {
      damage_ = fmt::format("the log is damaged at byte {}, behind the last event of chunk {}",
                            offset_ + sizeof found.header + i, chunks_);
      return;
    }
}

std::optional<Chunk> LogFile::next() {
  while (!damage_) {
    const auto found = find();
    if (!found) return std::nullopt;
    const ChunkHeader& header = found->header;
    const uint8_t* start = found->start;
    const uint64_t available = found->available;
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
    ended_ = last_kind == EventKind::End;
    if (at == used) check_rest(*found, at);
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
    at_ += found->stored;
    chunks_++;
    if (at > 0)
      return Chunk{{start, at},
                   found->memory,
                   at,
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

// Where in which file that is; nullopt: there is nothing.
std::optional<LogFile::Spot> LogFile::spot_of(uint64_t offset) const {
  size_t number = 0;
  while (number + 1 < parts_.size() && parts_[number + 1].start != 0 && parts_[number + 1].start <= offset)
    number++;
  const Part& part = parts_[number];
  uint64_t at = part.begin, start = part.start;
  // Packed chunks are as long as they are.
  while (start < offset) {
    ChunkHeader chunk{};
    PackedHeader packed{};
    if (at > part.data.size() || part.data.size() - at < sizeof chunk + sizeof packed) return std::nullopt;
    std::memcpy(&packed, part.data.data() + at, sizeof packed);
    if (packed.magic != kPackedMagic) break;
    std::memcpy(&chunk, part.data.data() + at + sizeof packed, sizeof chunk);
    at += sizeof packed + sizeof chunk + packed.size;
    start += chunk.capacity;
  }
  if (start > offset || at + (offset - start) > part.data.size()) return std::nullopt;
  return Spot{number, at + (offset - start)};
}

std::optional<Chunk> LogFile::seek(uint64_t offset, uint32_t index, uint64_t first_event, uint64_t wall_ns) {
  const auto spot = spot_of(offset);
  if (!spot) return std::nullopt;
  part_ = spot->part, at_ = spot->at;
  offset_ = offset;
  chunks_ = index;
  events_ = first_event;
  ended_ = false;
  damage_.reset();
  auto chunk = next();
  return chunk && chunk->offset == offset && chunk->wall_ns == wall_ns ? chunk : std::nullopt;
}

Chunk LogFile::again(const Chunk& chunk) const {
  Chunk c = chunk;
  const auto spot = c.events.empty() && c.size ? spot_of(c.offset) : std::nullopt;
  if (!spot) return c;
  if (const auto found = find_packed(parts_[spot->part], spot->at); found && found->available >= c.size) {
    c.memory = found->memory;
    c.events = {found->start, c.size};
  }
  return c;
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
    chunk_ = *chunk;
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
