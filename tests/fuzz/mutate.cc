// A stranger's recording: changes fields of one, and makes all checksums anew, so that it is refused, if it
// is, for what it says and not for a wrong sum. Usage: mutate_recording SEED DIR [FILE...]. The same seed
// makes the same changes of the same recording, and prints what they are.
//
// This tool has the formats from docs/trace-format.md, not from the reader, whose mistakes it is to find; of
// the program it uses only checksums and numbers' encodings.
#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/hot.h"
#include "recording/codec.h"

namespace {

namespace fs = std::filesystem;
using namespace backstep;
using Bytes = std::vector<uint8_t>;

std::mt19937_64 dice;
uint64_t below(uint64_t n) {
  return n ? dice() % n : 0;
}
bool one_in(uint64_t n) {
  return below(n) == 0;
}

// Numbers at which something begins or ends: sizes, signs, pages, and the addresses of engine/layout.h.
uint64_t interesting(uint64_t old) {
  static const uint64_t kNumbers[] = {0,
                                      1,
                                      2,
                                      3,
                                      6,
                                      7,
                                      8,
                                      31,
                                      63,
                                      64,
                                      65,
                                      127,
                                      128,
                                      255,
                                      256,
                                      4095,
                                      4096,
                                      4097,
                                      0xffff,
                                      0x10000,
                                      0x7fff'ffff,
                                      0x8000'0000,
                                      0xffff'ffff,
                                      0x1'0000'0000,
                                      0x1140'0000,
                                      0x4fff'f000,
                                      0x6000'0000,
                                      0x7ff0'0000,
                                      0x7ff1'0000,
                                      0x2000'0000'0000,
                                      0x29ff'fef0'0000,
                                      0x2e00'0000'0000,
                                      0x3000'0000'0000,
                                      0x4fff'ffff'f000,
                                      0x5000'0000'0000,
                                      0x5555'5555'5000,
                                      0x7fff'ffff'f000,
                                      0x8000'0000'0000,
                                      1ull << 62,
                                      1ull << 63,
                                      ~0ull,
                                      ~4095ull};
  switch (below(4)) {
    case 0:
      return old + below(17) - 8;
    case 1:
      return one_in(2) ? old + 4096 * (below(9) - 4) : old ^ 1ull << below(64);
    case 2:
      return dice() >> below(64);
    default:
      return kNumbers[below(std::size(kNumbers))];
  }
}

template <class T>
T get(const Bytes& b, size_t at) {
  T value{};
  if (at + sizeof value <= b.size()) std::memcpy(&value, b.data() + at, sizeof value);
  return value;
}
template <class T>
void put(Bytes& b, size_t at, T value) {
  if (at + sizeof value <= b.size()) std::memcpy(b.data() + at, &value, sizeof value);
}

Bytes read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_file(const fs::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

Bytes compress(const Bytes& raw) {
  Bytes packed(ZSTD_compressBound(raw.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 1));
  return packed;
}
Bytes decompress(const uint8_t* packed, size_t size, uint64_t raw_size) {
  Bytes raw(std::min<uint64_t>(raw_size, 64 << 20));
  const size_t n = ZSTD_decompress(raw.data(), raw.size(), packed, size);
  raw.resize(ZSTD_isError(n) ? 0 : n);
  return raw;
}

// Somewhere in these bytes: a number, as fixed width or as a varint; bytes; or the length.
std::string change_bytes(Bytes& b, size_t from, bool varints) {
  if (b.size() <= from) return "nothing";
  const size_t at = from + below(b.size() - from);
  switch (below(varints ? 6 : 3)) {
    case 0:
      b[at] ^= static_cast<uint8_t>(1u << below(8));
      return fmt::format("bit at {}", at);
    case 1: {
      const size_t word = at & ~size_t{7};
      const uint64_t value = interesting(get<uint64_t>(b, word));
      put(b, word, value);
      return fmt::format("word at {} = {:#x}", word, value);
    }
    case 2:
      if (one_in(4)) {
        b.resize(at);
        return fmt::format("cut at {}", at);
      }
      for (size_t i = at; i < std::min(b.size(), at + 8); i++) b[i] = static_cast<uint8_t>(dice());
      return fmt::format("noise at {}", at);
    default: {
      recording::Cursor c{b.data() + at, b.data() + b.size()};
      const uint64_t old = c.varint(), value = interesting(old);
      uint8_t fresh[10];
      const uint8_t* end = recording::put_varint(fresh, value);
      const Bytes rest(c.ok ? c.p : b.data() + b.size(), const_cast<const uint8_t*>(b.data()) + b.size());
      b.resize(at);
      b.insert(b.end(), fresh, fresh + (end - fresh));
      b.insert(b.end(), rest.begin(), rest.end());
      return fmt::format("number at {}: {:#x} = {:#x}", at, old, value);
    }
  }
}

// --- logs ---

struct Event {
  uint8_t kind, flags;
  uint16_t nr;
  Bytes body;
};
struct Chunk {
  Bytes header;
  std::vector<Event> events;
};
constexpr size_t kHeader = 64, kChunkState = 32;

struct Log {
  Bytes header;  // FileHeader, and what is behind it
  std::vector<Chunk> chunks;
  bool keep_counts = false;            // headers of chunks say what they said
  bool packed = false, lying = false;  // chunks are compressed; what is said of that is not so

  explicit Log(const Bytes& file) {
    const uint32_t first = get<uint32_t>(file, 12);
    header.assign(file.begin(), file.begin() + static_cast<ptrdiff_t>(std::min<size_t>(first, file.size())));
    for (size_t at = first; at + kHeader <= file.size();) {
      Chunk chunk;
      chunk.header.assign(file.begin() + static_cast<ptrdiff_t>(at),
                          file.begin() + static_cast<ptrdiff_t>(at + kHeader));
      const auto used = get<uint32_t>(chunk.header, kChunkState);
      for (size_t e = at + kHeader; e < at + kHeader + used;) {
        const auto size = get<uint32_t>(file, e + 4);
        if (size < 10 || e + size > file.size()) break;
        chunk.events.push_back({file[e],
                                file[e + 1],
                                get<uint16_t>(file, e + 2),
                                {file.begin() + static_cast<ptrdiff_t>(e + 8),
                                 file.begin() + static_cast<ptrdiff_t>(e + size - 2)}});
        e += size;
      }
      const auto capacity = get<uint32_t>(chunk.header, 24);
      chunks.push_back(std::move(chunk));
      if (capacity < kHeader) break;
      at += capacity;
    }
  }

  Bytes bytes() {
    put<uint64_t>(header, 56, hot::crc32c(0, header.data(), 56));
    Bytes file = header;
    uint64_t number = 0;
    for (Chunk& chunk : chunks) {
      Bytes events;
      uint32_t crc = 0;
      for (const Event& e : chunk.events) {
        Bytes one{e.kind, e.flags, 0, 0, 0, 0, 0, 0};
        put(one, 2, e.nr);
        put(one, 4, static_cast<uint32_t>(e.body.size() + 10));
        one.insert(one.end(), e.body.begin(), e.body.end());
        crc = hot::crc32c(crc, one.data(), one.size());
        one.push_back(static_cast<uint8_t>(crc));
        one.push_back(static_cast<uint8_t>(crc >> 8));
        events.insert(events.end(), one.begin(), one.end());
      }
      if (!keep_counts) put(chunk.header, 8, number);
      number += chunk.events.size();
      const size_t whole = (kHeader + events.size() + 4095) / 4096 * 4096;
      if (!keep_counts) put(chunk.header, 24, static_cast<uint32_t>(whole));
      Bytes head = chunk.header;
      put<uint64_t>(head, kChunkState, 0);
      put<uint32_t>(head, 52, 0);
      put<uint32_t>(head, 52, hot::crc32c(0, head.data(), head.size()));
      put<uint64_t>(head, kChunkState, events.size() | static_cast<uint64_t>(crc) << 32);
      if (packed) {
        add_packed(file, head, events);
        continue;
      }
      file.insert(file.end(), head.begin(), head.end());
      file.insert(file.end(), events.begin(), events.end());
      file.resize(file.size() + whole - kHeader - events.size());
    }
    return file;
  }

  void add_packed(Bytes& file, Bytes& head, const Bytes& events) const {
    Bytes frame = compress(events), pack(16);
    if (lying && one_in(2) && !frame.empty())
      frame[below(frame.size())] ^= static_cast<uint8_t>(1u << below(8));
    put<uint32_t>(pack, 0, 0x5a4e4843);
    put(pack, 4, static_cast<uint32_t>(lying && one_in(3) ? interesting(frame.size()) : frame.size()));
    put(pack, 8, hot::crc32c(0, frame.data(), frame.size()));
    if (lying && one_in(3)) put(head, kChunkState, static_cast<uint32_t>(interesting(events.size())));
    put(pack, 12, hot::crc32c(hot::crc32c(0, pack.data(), 12), head.data(), head.size()));
    for (const Bytes* bytes :
         {const_cast<const Bytes*>(&pack), const_cast<const Bytes*>(&head), const_cast<const Bytes*>(&frame)})
      file.insert(file.end(), bytes->begin(), bytes->end());
  }
};

// Of a kind by chance, so that rare ones come as often as others.
std::pair<Chunk*, size_t> some_event(Log& log) {
  std::map<uint8_t, std::vector<std::pair<Chunk*, size_t>>> kinds;
  for (Chunk& c : log.chunks)
    for (size_t i = 0; i < c.events.size(); i++) kinds[c.events[i].kind].emplace_back(&c, i);
  if (kinds.empty()) return {nullptr, 0};
  auto kind = std::next(kinds.begin(), static_cast<ptrdiff_t>(below(kinds.size())));
  return kind->second[below(kind->second.size())];
}

// Where an event's own fields begin: behind tick, pc and the digest of registers, a change of which would be
// seen before all else.
size_t own_fields(const Event& e) {
  recording::Cursor c{e.body.data(), e.body.data() + e.body.size()};
  c.skip_order(e.flags);
  static const std::string kPlaces("\1\2\3\7\x9\xb\xc\xd\xe");
  if (kPlaces.find(static_cast<char>(e.kind)) == std::string::npos)
    return static_cast<size_t>(c.p - e.body.data());
  c.varint(), c.varint();
  if (e.kind != 9 && e.kind != 14) c.u32();
  return c.ok ? static_cast<size_t>(c.p - e.body.data()) : 0;
}

std::string change_log(Bytes& file) {
  Log log(file);
  std::string done;
  if (log.chunks.empty()) return "no chunks";
  if (one_in(12)) {
    const size_t at = 8 + 4 * below(12);
    const auto value = interesting(get<uint32_t>(log.header, at));
    one_in(2) ? put(log.header, at, static_cast<uint32_t>(value)) : put(log.header, at & ~size_t{7}, value);
    done = fmt::format("file header at {} = {:#x}", at, value);
  } else if (one_in(10)) {
    Chunk& chunk = log.chunks[below(log.chunks.size())];
    const size_t at = 4 * below(16);
    const auto value = interesting(get<uint32_t>(chunk.header, at));
    one_in(2) ? put(chunk.header, at, static_cast<uint32_t>(value))
              : put(chunk.header, at & ~size_t{7}, value);
    log.keep_counts = true;
    done = fmt::format("chunk header at {} = {:#x}", at, value);
  } else {
    for (uint64_t n = 1 + below(3); n > 0; n--) {
      auto [chunk, i] = some_event(log);
      if (!chunk) break;
      Event& e = chunk->events[i];
      done += fmt::format("event of kind {} ({}): ", e.kind, i);
      switch (below(12)) {
        case 0:
          e.kind = static_cast<uint8_t>(below(16));
          done += fmt::format("kind {}", e.kind);
          break;
        case 1:
          e.flags ^= static_cast<uint8_t>(1u << below(8));
          done += fmt::format("flags {:#x}", e.flags);
          break;
        case 2:
          e.nr = static_cast<uint16_t>(interesting(e.nr));
          done += fmt::format("nr {}", e.nr);
          break;
        case 3:
          chunk->events.erase(chunk->events.begin() + static_cast<ptrdiff_t>(i));
          done += "gone";
          break;
        case 4: {
          auto [from, k] = some_event(log);
          const Event copy = from->events[k];
          chunk->events.insert(chunk->events.begin() + static_cast<ptrdiff_t>(i), copy);
          done += fmt::format("one of kind {} before it", copy.kind);
          break;
        }
        case 5:
          done += change_bytes(e.body, 0, true);
          break;
        default:
          done += change_bytes(e.body, own_fields(e), true);
      }
      done += "; ";
    }
    if (one_in(8)) log.keep_counts = true;
  }
  log.packed = one_in(3);
  log.lying = log.packed && one_in(3);
  if (log.packed) done += log.lying ? "packed wrongly" : "packed";
  file = log.bytes();
  return done;
}

// --- files with a header that ends in its XXH3-64 ---

struct Layout {
  size_t size, first;                 // of the header; where its fields begin that may be changed
  size_t offset, packed, raw, check;  // fields about the body; offset 0: it follows the header
};

std::string change_header(Bytes& file, const Layout& l) {
  const size_t at = l.first + 8 * below((l.size - l.first) / 8);
  const uint64_t value = interesting(get<uint64_t>(file, at));
  put(file, at, value);
  put<uint64_t>(file, l.size - 8, XXH3_64bits(file.data(), std::min(file.size(), l.size - 8)));
  return fmt::format("header at {} = {:#x}", at, value);
}

std::string change_packed(Bytes& file, const Layout& l, bool varints) {
  std::string done;
  const size_t start = l.offset ? get<uint64_t>(file, l.offset) : l.size;
  if (file.size() < l.size || start > file.size()) return "no such file";
  if (one_in(4)) return change_header(file, l);
  Bytes body = decompress(file.data() + start, file.size() - start, get<uint64_t>(file, l.raw));
  for (uint64_t n = 1 + below(3); n > 0; n--) done += change_bytes(body, 0, varints) + "; ";
  const Bytes packed = compress(body);
  file.resize(start);
  file.insert(file.end(), packed.begin(), packed.end());
  put<uint64_t>(file, l.packed, packed.size());
  put<uint64_t>(file, l.raw, body.size());
  put<uint64_t>(file, l.check, XXH3_64bits(packed.data(), packed.size()));
  put<uint64_t>(file, l.size - 8, XXH3_64bits(file.data(), l.size - 8));
  return done;
}

// The index of a trace of stores is a varint, its size, and a frame; so are the chunks in front of it.
std::string change_trace(Bytes& file) {
  constexpr size_t kSize = 136, kIndex = 96;
  const uint64_t start = get<uint64_t>(file, kIndex);
  if (file.size() < kSize || start > file.size() || one_in(4))
    return change_header(file, {kSize, 16, 0, 0, 0, 0});
  std::string done;
  const bool index = start == kSize || one_in(2);
  const size_t from = index ? start : kSize;
  recording::Cursor c{file.data() + from, file.data() + file.size()};
  const uint64_t raw = c.varint();
  const auto skipped = static_cast<size_t>(c.p - file.data());
  const size_t size =
      index ? file.size() - skipped : ZSTD_findFrameCompressedSize(c.p, file.size() - skipped);
  if (ZSTD_isError(size)) return "nothing";
  Bytes body = decompress(c.p, size, raw);
  for (uint64_t n = 1 + below(3); n > 0; n--) done += change_bytes(body, 0, true) + "; ";
  uint8_t number[10];
  const uint8_t* end = recording::put_varint(number, one_in(8) ? interesting(body.size()) : body.size());
  const Bytes packed = compress(body);
  Bytes whole(file.begin(), file.begin() + static_cast<ptrdiff_t>(from));
  whole.insert(whole.end(), number, number + (end - number));
  whole.insert(whole.end(), packed.begin(), packed.end());
  if (!index) {
    // The index has its checksum and size, which are wrong now; what is behind it moves.
    if (whole.size() <= start) whole.resize(start);
    whole.resize(start);
    whole.insert(whole.end(), file.begin() + static_cast<ptrdiff_t>(start), file.end());
  }
  file = whole;
  put<uint64_t>(file, kIndex + 8, file.size() - start);
  put<uint64_t>(file, kIndex + 16, XXH3_64bits(file.data() + start, file.size() - start));
  put<uint64_t>(file, kSize - 8, XXH3_64bits(file.data(), kSize - 8));
  return (index ? "index: " : "chunk: ") + done;
}

// --- the rest ---

std::string change_json(Bytes& file) {
  using Json = nlohmann::ordered_json;
  Json j = Json::parse(file.begin(), file.end(), nullptr, false);
  if (j.is_discarded()) return "no JSON";
  std::vector<Json*> all;
  std::function<void(Json&)> collect = [&](Json& node) {
    all.push_back(&node);
    if (node.is_structured())
      for (auto& child : node) collect(child);
  };
  collect(j);
  Json& node = *all[1 + below(all.size() - 1)];
  const Json kValues[] = {nullptr,
                          true,
                          -1,
                          0,
                          1e300,
                          ~0ull,
                          "",
                          "\x1b[2J",
                          "../../..",
                          Json::array(),
                          Json::object(),
                          Json{{"hex", "66ff"}},
                          Json{{"hex", "6"}},
                          Json{{"hex", 7}}};
  const std::string before = node.dump();
  node = one_in(3) ? Json(interesting(1)) : kValues[below(std::size(kValues))];
  const std::string done = fmt::format("{} becomes {}", before.substr(0, 60), node.dump());
  if (j.is_object()) j["check"] = "00000000";
  std::string text = j.dump(2) + "\n";
  const uint32_t sum = hot::crc32c(0, text.data(), text.size());
  constexpr std::string_view kCheck = "\"check\": \"";
  if (const size_t at = text.rfind(kCheck); at != std::string::npos)
    text.replace(at + kCheck.size(), 8, fmt::format("{:08x}", sum));
  file.assign(text.begin(), text.end());
  return done;
}

std::string change_tree(Bytes& file) {
  const size_t at = one_in(3) ? 2048 + 64 * below(3) : 8 * below(6);
  const uint64_t value = interesting(get<uint32_t>(file, at));
  const auto number = static_cast<uint32_t>(value);
  put(file, at, at >= 2048 ? value : number | static_cast<uint64_t>(hot::crc32c(0, &number, 4)) << 32);
  return fmt::format("word at {} = {:#x}", at, value);
}

std::string change(const fs::path& path) {
  Bytes file = read_file(path);
  const std::string name = path.filename(), kind = path.extension();
  std::string done;
  if (kind == ".log") {
    done = change_log(file);
  } else if (kind == ".json") {
    done = change_json(file);
  } else if (kind == ".checkpoint") {
    done = change_packed(file, {136, 32, 72, 80, 88, 96}, false);
  } else if (kind == ".contents") {
    done = change_packed(file, {112, 32, 0, 80, 88, 96}, true);
  } else if (kind == ".stores") {
    done = change_trace(file);
  } else if (name == "tree") {
    done = change_tree(file);
  } else {
    done = change_bytes(file, 0, false);
  }
  write_file(path, file);
  return done;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: mutate_recording SEED DIR [FILE...]\n");
    return 2;
  }
  const fs::path dir = argv[2];
  dice.seed(std::stoull(argv[1]));
  std::map<std::string, std::vector<fs::path>> kinds;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    const fs::path& path = entry.path();
    const std::string extension = path.extension();
    if (path.parent_path().parent_path().filename() == "files" || path.filename() == "lock") continue;
    kinds[extension.empty() ? path.filename().string() : extension].push_back(path);
  }
  std::vector<fs::path> chosen(argv + 3, argv + argc);
  for (uint64_t n = one_in(8) ? 2 : 1; chosen.empty() && n > 0; n--) {
    // Logs are half of it.
    auto kind = kinds.find(".log");
    if (kind == kinds.end() || one_in(2))
      kind = std::next(kinds.begin(), static_cast<ptrdiff_t>(below(kinds.size())));
    std::sort(kind->second.begin(), kind->second.end());
    chosen.push_back(kind->second[below(kind->second.size())]);
  }
  for (const fs::path& path : chosen) fmt::print("{}: {}\n", fs::relative(path, dir).string(), change(path));
}
