// Tables of contents, in memory and on disk.
//
//   header | body          one file for each window; the body is what pack() makes, compressed
//
// A table says what was *written to*, not what was changed: a variable that is set and set back, or set to
// what it was, is in it. A page takes 72 bytes before it is compressed, eight of its words a bit each.
//
// A recording is a stranger's file: all that is read is checked before it is used. A table that is damaged is
// as good as none: the window is replayed.
#include "recording/contents.h"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>

#include "base/error.h"
#include "recording/codec.h"
#include "recording/shared_folder.h"
#include "recording/whole_file.h"

namespace backstep::recording {
namespace {

namespace fs = std::filesystem;

constexpr char kContentsMagic[8] = {'B', 'K', 'S', 'T', 'E', 'P', 'T', 'C'};
constexpr uint32_t kContentsVersion = 1;
constexpr int kContentsLevel = 3;               // of compression
constexpr uint64_t kSaneContents = 1ull << 30;  // bytes, uncompressed
constexpr char kContentsSuffix[] = ".contents";

struct ContentsHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_size;
  uint64_t process;
  uint64_t log;  // as in CheckpointHeader: which recording it is of
  WindowBounds bounds;
  uint64_t body_size, body_raw_size;
  uint64_t body_check;  // XXH3-64 of the compressed bytes
  uint64_t check;       // XXH3-64 of the bytes before it
};
static_assert(sizeof(ContentsHeader) == 112);

bool meets(const std::vector<AddressRange>& ranges, uint64_t start, uint64_t end) {
  auto r = std::partition_point(ranges.begin(), ranges.end(),
                                [&](const auto& range) { return range.end <= start; });
  return r != ranges.end() && r->start < end;
}

class Packer {
 public:
  void number(uint64_t v) {
    uint8_t bytes[10];
    const uint8_t* end = put_varint(bytes, v);
    out.insert(out.end(), bytes, bytes + (end - bytes));
  }
  void ranges(const std::vector<AddressRange>& list) {
    number(list.size());
    uint64_t last = 0;
    for (const AddressRange& r : list) {
      number(r.start - last);
      number(r.end - r.start);
      last = r.end;
    }
  }
  std::vector<uint8_t> out;
};

std::vector<AddressRange> ranges_of(Cursor& in) {
  std::vector<AddressRange> list(in.count(2));
  uint64_t last = 0;
  for (AddressRange& r : list) {
    r.start = last + in.varint();
    r.end = r.start + in.varint();
    if (r.start < last || r.end <= r.start) in.ok = false;
    last = r.end;
  }
  return list;
}

// The header of a file's first bytes; nullopt: it is not one.
std::optional<ContentsHeader> header_of(const std::vector<uint8_t>& bytes) {
  ContentsHeader h;
  if (bytes.size() < sizeof h) return std::nullopt;
  std::memcpy(&h, bytes.data(), sizeof h);
  if (std::memcmp(h.magic, kContentsMagic, sizeof h.magic) != 0 || h.version != kContentsVersion ||
      h.header_size != sizeof h || h.check != XXH3_64bits(&h, offsetof(ContentsHeader, check)) ||
      h.body_raw_size > kSaneContents)
    return std::nullopt;
  return h;
}

}  // namespace

std::string window_file_name(uint64_t process, const WindowBounds& bounds, const std::string& suffix) {
  return fmt::format("process-{}-{}-{}-{:x}{}", process, bounds.from_tick, bounds.from_event, bounds.from_pc,
                     suffix);
}

bool Contents::wrote(uint64_t start, uint64_t end) const {
  if (start >= end) return false;
  if (meets(ranges, start, end)) return true;
  constexpr uint64_t kWord = 8;
  auto page = std::partition_point(pages.begin(), pages.end(),
                                   [&](const Page& p) { return p.address + kPageSize <= start; });
  for (; page != pages.end() && page->address < end; ++page) {
    const uint64_t first = (std::max(start, page->address) - page->address) / kWord;
    const uint64_t last = (std::min(end, page->address + kPageSize) - 1 - page->address) / kWord;
    for (uint64_t word = first; word <= last; word++)
      if (page->words[word / 64] >> (word % 64) & 1) return true;
  }
  return false;
}

bool Contents::executed(uint64_t start, uint64_t end) const {
  return meets(code, start, end);
}

bool Contents::changed_as_a_whole(uint64_t start, uint64_t end) const {
  return meets(ranges, start, end);
}

std::vector<uint8_t> Contents::pack() const {
  Packer out;
  out.ranges(ranges);
  out.ranges(code);
  out.number(pages.size());
  uint64_t last = 0;
  for (const Page& p : pages) {
    out.number(p.address / kPageSize - last);
    last = p.address / kPageSize;
  }
  for (const Page& p : pages) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(p.words.data());
    out.out.insert(out.out.end(), bytes, bytes + sizeof p.words);
  }
  return std::move(out.out);
}

Contents Contents::unpack(std::span<const uint8_t> bytes) {
  Contents c;
  Cursor in{bytes.data(), bytes.data() + bytes.size()};
  c.ranges = ranges_of(in);
  c.code = ranges_of(in);
  c.pages.resize(in.count(1 + sizeof(Page::words)));
  uint64_t last = 0;
  for (Page& p : c.pages) {
    const uint64_t step = in.varint();
    if ((step == 0 && &p != c.pages.data()) || last + step < last || last + step > ~0ull / kPageSize)
      in.ok = false;
    last += step;
    p.address = last * kPageSize;
  }
  if (in.ok && static_cast<uint64_t>(in.end - in.p) == c.pages.size() * sizeof(Page::words)) {
    for (Page& p : c.pages) {
      std::memcpy(p.words.data(), in.p, sizeof p.words);
      in.p += sizeof p.words;
    }
    return c;
  }
  throw Error("a table of contents is damaged: it makes no sense");
}

ContentsFolder::ContentsFolder(const Recording& recording, uint64_t process)
    : dir_(fs::absolute(dir(recording))),
      process_(process),
      log_identity_(CheckpointFolder(recording, process).log_identity()) {}

std::vector<ContentsFolder::Entry> ContentsFolder::list(std::vector<std::string>* notes) const {
  std::vector<Entry> found;
  std::error_code ec;
  const std::string prefix = fmt::format("process-{}-", process_);
  for (const auto& file : fs::directory_iterator(dir_, ec)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(kContentsSuffix)) continue;
    try {
      const auto header = header_of(read_part(file.path(), 0, sizeof(ContentsHeader)));
      std::string wrong;
      if (!header) {
        wrong = "it is damaged, or of another version";
      } else if (header->log != log_identity_ || header->process != process_) {
        wrong = "it belongs to another recording";
      }
      if (!wrong.empty()) throw Error(fmt::format("the table of contents {} is not used: {}", name, wrong));
      found.push_back({file.path(), header->bounds, file.file_size()});
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

Contents ContentsFolder::read(const Entry& entry) const {
  const std::vector<uint8_t> bytes = read_part(entry.path, 0, kSaneContents);
  const auto header = header_of(bytes);
  const std::string name = fs::path(entry.path).filename().string();
  auto damaged = [&] {
    return Error(fmt::format("the table of contents {} is not used: it is damaged", name));
  };
  if (!header || header->body_size != bytes.size() - sizeof *header) throw damaged();
  const uint8_t* body = bytes.data() + sizeof *header;
  if (XXH3_64bits(body, header->body_size) != header->body_check) throw damaged();
  std::vector<uint8_t> raw(header->body_raw_size);
  if (ZSTD_decompress(raw.data(), raw.size(), body, header->body_size) != raw.size()) throw damaged();
  return Contents::unpack(raw);
}

ContentsFolder::Entry ContentsFolder::write(const WindowBounds& bounds, const Contents& contents) const {
  const std::vector<uint8_t> raw = contents.pack();
  if (raw.size() > kSaneContents) throw Error("a table of contents would be larger than 1 GB");
  std::vector<uint8_t> packed(ZSTD_compressBound(raw.size()));
  const size_t n = ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), kContentsLevel);
  if (ZSTD_isError(n))
    throw Error(fmt::format("cannot compress a table of contents: {}", ZSTD_getErrorName(n)));
  ContentsHeader header{};
  std::memcpy(header.magic, kContentsMagic, sizeof header.magic);
  header.version = kContentsVersion;
  header.header_size = sizeof header;
  header.process = process_;
  header.log = log_identity_;
  header.bounds = bounds;
  header.body_size = n;
  header.body_raw_size = raw.size();
  header.body_check = XXH3_64bits(packed.data(), n);
  header.check = XXH3_64bits(&header, offsetof(ContentsHeader, check));
  const std::string name = window_file_name(process_, bounds, kContentsSuffix);
  const auto* head = reinterpret_cast<const uint8_t*>(&header);
  write_whole(dir_, name, {std::span(head, sizeof header), std::span(packed.data(), n)});
  return {dir_ + "/" + name, bounds, sizeof header + n};
}

uint64_t ContentsFolder::disk(const Recording& recording) {
  return folder_size(dir(recording));
}

uint64_t ContentsFolder::remove(const Recording& recording) {
  return remove_folder(dir(recording));
}

}  // namespace backstep::recording
