// Traces of windows on disk.
//
//   header | chunks | index      the index says where the chunks are and to which words they store, and has
//                                the last stores to each word (level 2) of all of the window
//
// Chunks (trace_chunk.h) can be read without each other. Each has a checksum, so what is damaged is noticed
// when it is needed.
//
// A recording is a stranger's file: all that is read is checked before it is used. A trace that is damaged is
// as good as none: the window is replayed.
#include "recording/window_trace.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>

#include "base/error.h"
#include "recording/trace_columns.h"
#include "recording/whole_file.h"

namespace backstep::recording {
namespace {

namespace fs = std::filesystem;

constexpr char kTraceMagic[8] = {'B', 'K', 'S', 'T', 'E', 'P', 'W', 'T'};
constexpr uint32_t kTraceVersion = 2;
constexpr int kIndexTightness = 3;           // of compression
constexpr uint64_t kSaneIndex = 4ull << 30;  // bytes, uncompressed
constexpr uint64_t kSaneChunk = 1ull << 30;  // bytes, as they are
constexpr char kTraceSuffix[] = ".stores";

struct TraceHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_size;
  uint64_t process;
  uint64_t log;  // as in CheckpointHeader: which recording it is of
  WindowBounds bounds;
  uint64_t level;
  uint64_t stores;
  uint64_t index_offset, index_size;  // up to the end of the file
  uint64_t index_check;               // XXH3-64 of its bytes as they are
  uint64_t links_size;                // of the last stores in the index, as they are
  uint64_t check;                     // XXH3-64 of the bytes before it
};
static_assert(sizeof(TraceHeader) == 136);

std::optional<TraceHeader> trace_header_of(const std::vector<uint8_t>& bytes) {
  TraceHeader h;
  if (bytes.size() < sizeof h) return std::nullopt;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (std::memcmp(h.magic, kTraceMagic, sizeof h.magic) != 0 || h.version != kTraceVersion ||
      h.header_size != sizeof h || h.check != XXH3_64bits(&h, offsetof(TraceHeader, check)) ||
      (h.level != 2 && h.level != 3) || h.index_offset < sizeof h || h.index_size > kSaneIndex)
    return std::nullopt;
  return h;
}

Error damaged_trace(const std::string& path) {
  return Error(fmt::format("the trace {} is not used: it is damaged", fs::path(path).filename().string()));
}

// Which words a chunk stores to.
Contents words_of(const Backlinks& links) {
  Contents words;
  for (const Backlinks::Word& w : links.words) {
    const uint64_t page = w.address & ~(kPageSize - 1), bit = w.address % kPageSize / 8;
    if (words.pages.empty() || words.pages.back().address != page) words.pages.push_back({page, {}});
    words.pages.back().words[bit / 64] |= 1ull << bit % 64;
  }
  for (const Backlinks::Large& l : links.large) {
    // By start, and apart.
    if (!words.ranges.empty() && l.start <= words.ranges.back().end) {
      words.ranges.back().end = std::max(words.ranges.back().end, l.end);
    } else {
      words.ranges.push_back({l.start, l.end});
    }
  }
  return words;
}

std::span<const uint8_t> header_bytes(const TraceHeader& header) {
  return {reinterpret_cast<const uint8_t*>(&header), sizeof header};
}

}  // namespace

bool WindowTrace::touches(const Chunk& chunk, std::span<const AddressRange> data) {
  return data.empty() || std::any_of(data.begin(), data.end(), [&](const AddressRange& r) {
           return chunk.words.wrote(r.start, r.end);
         });
}

std::vector<uint8_t> WindowTrace::bytes_of(const Chunk& chunk) const {
  std::vector<uint8_t> bytes = read_part(path_, chunk.offset, chunk.size);
  if (bytes.size() != chunk.size || XXH3_64bits(bytes.data(), bytes.size()) != chunk.check)
    throw damaged_trace(path_);
  return bytes;
}

bool WindowTrace::each(std::span<const AddressRange> data,
                       const std::function<bool(const TracedStore&)>& take) const {
  for (const Chunk& c : chunks_)
    if (touches(c, data) && !each_store(bytes_of(c), data, take)) return false;
  return true;
}

void WindowTrace::check(std::span<const AddressRange> data) const {
  for (const Chunk& c : chunks_)
    if (touches(c, data)) bytes_of(c);
}

TraceFolder::TraceFolder(const Recording& recording, uint64_t process)
    : dir_(fs::absolute(ContentsFolder::dir(recording))),
      process_(process),
      log_identity_(CheckpointFolder(recording, process).log_identity()) {}

std::vector<TraceFolder> TraceFolder::others() const {
  const Recording recording(fs::path(dir_).parent_path());
  std::vector<TraceFolder> found;
  for (const uint64_t process : recording.processes())
    if (process != process_) found.emplace_back(recording, process);
  return found;
}

std::vector<TraceFolder::Entry> TraceFolder::list(std::vector<std::string>* notes) const {
  std::vector<Entry> found;
  std::error_code ec;
  const std::string prefix = fmt::format("process-{}-", process_);
  for (const auto& file : fs::directory_iterator(dir_, ec)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(kTraceSuffix)) continue;
    try {
      const auto header = trace_header_of(read_part(file.path(), 0, sizeof(TraceHeader)));
      std::string wrong;
      if (!header || header->index_offset + header->index_size != file.file_size()) {
        wrong = "it is damaged, or of another version";
      } else if (header->log != log_identity_ || header->process != process_) {
        wrong = "it belongs to another recording";
      }
      if (!wrong.empty()) throw Error(fmt::format("the trace {} is not used: {}", name, wrong));
      found.push_back({file.path(), header->bounds, static_cast<int>(header->level), header->stores,
                       file.file_size(), sizeof *header + header->links_size});
    } catch (const std::exception& e) {
      if (notes) notes->push_back(e.what());
    }
  }
  auto when = [](const Entry& e) {
    return std::tuple(e.bounds.from_tick, e.bounds.from_event, e.bounds.from_pc);
  };
  std::sort(found.begin(), found.end(), [&](const Entry& a, const Entry& b) { return when(a) < when(b); });
  return found;
}

WindowTrace TraceFolder::read(const Entry& entry) const {
  const auto header = trace_header_of(read_part(entry.path, 0, sizeof(TraceHeader)));
  if (!header) throw damaged_trace(entry.path);
  const std::vector<uint8_t> packed = read_part(entry.path, header->index_offset, header->index_size);
  if (packed.size() != header->index_size || XXH3_64bits(packed.data(), packed.size()) != header->index_check)
    throw damaged_trace(entry.path);
  const std::vector<uint8_t> raw = unsqueeze(packed, kSaneIndex);
  Cursor in{raw.data(), raw.data() + raw.size()};
  WindowTrace trace;
  trace.level = static_cast<int>(header->level);
  trace.count = header->stores;
  trace.path_ = entry.path;
  trace.chunks_.resize(in.count(5));
  uint64_t offset = sizeof *header;
  for (WindowTrace::Chunk& c : trace.chunks_) {
    c.offset = offset;
    c.size = in.varint(), c.check = in.varint(), c.count = in.varint();
    const uint64_t size = in.varint();
    const uint8_t* words = in.bytes(size);
    if (!in.ok || c.size > kSaneChunk || c.size > header->index_offset - offset)
      throw damaged_trace(entry.path);
    c.words = Contents::unpack({words, size});
    offset += c.size;
  }
  const uint64_t size = in.varint();
  const uint8_t* links = in.bytes(size);
  if (!in.ok || in.p != in.end || offset != header->index_offset) throw damaged_trace(entry.path);
  trace.links = Backlinks::unpack({links, size});
  return trace;
}

TraceFolder::Entry TraceFolder::write(const WindowBounds& bounds, int level,
                                      std::span<const Part> parts) const {
  TraceHeader header{};
  ColumnPacker index;
  Backlinks links;
  std::vector<uint8_t> chunks;
  index.number(level == 3 ? parts.size() : 0);
  for (const Part& part : parts) {
    header.stores += part.count;
    links.append(part.links);
    if (level != 3) continue;
    const std::vector<uint8_t> words = words_of(part.links).pack();
    for (const uint64_t v :
         {uint64_t{part.stores.size()}, uint64_t{XXH3_64bits(part.stores.data(), part.stores.size())},
          part.count, uint64_t{words.size()}})
      index.number(v);
    index.bytes(words);
    chunks.insert(chunks.end(), part.stores.begin(), part.stores.end());
  }
  const std::vector<uint8_t> last = links.pack();
  index.number(last.size());
  index.bytes(last);
  const std::vector<uint8_t> packed = squeeze(index.out, kIndexTightness);

  std::memcpy(header.magic, kTraceMagic, sizeof header.magic);
  header.version = kTraceVersion;
  header.header_size = sizeof header;
  header.process = process_;
  header.log = log_identity_;
  header.bounds = bounds;
  header.level = static_cast<uint64_t>(level);
  header.index_offset = sizeof header + chunks.size();
  header.index_size = packed.size();
  header.index_check = XXH3_64bits(packed.data(), packed.size());
  header.links_size = last.size();
  header.check = XXH3_64bits(&header, offsetof(TraceHeader, check));
  const std::string name = window_file_name(process_, bounds, kTraceSuffix);
  write_whole(dir_, name, {header_bytes(header), chunks, packed});
  return {dir_ + "/" + name,          bounds, level, header.stores, header.index_offset + packed.size(),
          sizeof header + last.size()};
}

// The time of the file says it. (One that cannot be set, in a recording that is not ours, does not matter.)
void TraceFolder::note_use(const Entry& entry) {
  std::error_code ec;
  fs::last_write_time(entry.path, fs::file_time_type::clock::now(), ec);
}

int64_t TraceFolder::last_use(const Entry& entry) {
  std::error_code ec;
  const auto used = fs::last_write_time(entry.path, ec);
  return ec ? 0 : static_cast<int64_t>(used.time_since_epoch().count());
}

std::optional<TraceFolder::Entry> TraceFolder::reduced(const Entry& entry) const {
  WindowTrace trace;
  try {
    trace = read(entry);
  } catch (const Error&) {
    remove(entry);
    return std::nullopt;
  }
  std::error_code ec;
  const auto used = fs::last_write_time(entry.path, ec);
  const Part all{trace.count, std::move(trace.links), {}};
  const Entry smaller = write(entry.bounds, 2, std::span(&all, 1));
  if (!ec) fs::last_write_time(smaller.path, used, ec);
  return smaller;
}

// If this is ended in the middle, the second one is there twice, which does no harm.
std::optional<TraceFolder::Entry> TraceFolder::merged(const Entry& first, const Entry& second) const {
  Part parts[2];
  for (size_t i = 0; i < 2; i++) {
    try {
      WindowTrace trace = read(i == 0 ? first : second);
      parts[i] = {trace.count, std::move(trace.links), {}};
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  std::error_code ec;
  auto used = fs::last_write_time(first.path, ec);
  if (!ec) used = std::max(used, fs::last_write_time(second.path, ec));
  WindowBounds bounds = first.bounds;
  bounds.to_tick = second.bounds.to_tick;
  bounds.to_event = second.bounds.to_event, bounds.to_pc = second.bounds.to_pc;
  const Entry both = write(bounds, 2, parts);
  remove(second);
  if (!ec) fs::last_write_time(both.path, used, ec);
  return both;
}

void TraceFolder::remove(const Entry& entry) {
  std::error_code ec;
  fs::remove(entry.path, ec);
  if (ec) throw Error(fmt::format("cannot remove {}: {}", entry.path, ec.message()));
}

}  // namespace backstep::recording
