// A table of what was stored last where. In files its columns are packed as those of traces are: neighbouring
// words were mostly written by the same code, one after the other.
#include "recording/backlinks.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/error.h"
#include "recording/trace_columns.h"

namespace backstep::recording {
namespace {

constexpr uint64_t kWordBytes = 8;
constexpr uint64_t kMostRows = 1ull << 26;
constexpr uint64_t kMostPacked = 4ull << 30;  // bytes, uncompressed
constexpr int kTightness = 3;                 // of compression
constexpr uint64_t kNoWord = ~uint64_t{7};    // the last word is never the guest's

template <class Row, class F>
void pack_rows(ColumnPacker& out, const std::vector<Row>& rows, F words_of) {
  out.number(rows.size());
  if (rows.empty()) return;
  std::vector<uint64_t> flat;
  for (const Row& r : rows)
    for (uint64_t v : words_of(r)) flat.push_back(v);
  const size_t columns = flat.size() / rows.size();
  for (size_t c = 0; c < columns; c++) out.add(flat.data() + c, columns, rows.size());
}

// Nullopt: there are not so many.
std::optional<std::vector<uint64_t>> read_rows(Cursor& in, size_t columns, size_t& rows) {
  constexpr uint64_t kPiece = 512;  // numbers that may take no more than one byte
  rows = in.varint();
  const uint64_t most = std::min(kMostRows, static_cast<uint64_t>(in.end - in.p) * kPiece);
  if (!in.ok || rows > most) return std::nullopt;
  std::vector<uint64_t> flat(rows * columns);
  for (size_t c = 0; c < columns; c++)
    if (!read_column(in, flat.data() + c, columns, rows)) return std::nullopt;
  return flat;
}

auto words_from(const Backlinks& b, uint64_t start) {
  return std::partition_point(b.words.begin(), b.words.end(),
                              [&](const auto& w) { return w.address + kWordBytes <= start; });
}

}  // namespace

bool Backlinks::wrote(uint64_t start, uint64_t end) const {
  if (start >= end) return false;
  auto word = words_from(*this, start);
  if (word != words.end() && word->address < end) return true;
  return std::any_of(large.begin(), large.end(),
                     [&](const Large& l) { return l.start < end && start < l.end; });
}

std::vector<StoreMoment> Backlinks::last(uint64_t start, uint64_t end) const {
  std::vector<StoreMoment> found;
  for (auto w = words_from(*this, start); w != words.end() && w->address < end; ++w) found.push_back(w->last);
  for (const Large& l : large)
    if (l.start < end && start < l.end) found.push_back(l.last);
  return found;
}

uint64_t Backlinks::count(uint64_t start, uint64_t end) const {
  uint64_t n = 0;
  for (auto w = words_from(*this, start); w != words.end() && w->address < end; ++w) n += w->count;
  for (const Large& l : large)
    if (l.start < end && start < l.end) n += l.count;
  return n;
}

void Backlinks::append(const Backlinks& later) {
  std::vector<Word> both;
  both.reserve(words.size() + later.words.size());
  auto a = words.begin();
  for (const Word& b : later.words) {
    while (a != words.end() && a->address < b.address) both.push_back(*a++);
    both.push_back(b);
    if (a != words.end() && a->address == b.address) both.back().count += a++->count;
  }
  both.insert(both.end(), a, words.end());
  words = std::move(both);

  std::map<std::pair<uint64_t, uint64_t>, Large> all;
  large.insert(large.end(), later.large.begin(), later.large.end());
  for (const Large& l : large) {
    Large& known = all[{l.start, l.end}];
    const uint64_t before = known.count;
    known = l;
    known.count += before;
  }
  large.clear();
  for (const auto& [range, l] : all) large.push_back(l);
}

std::vector<uint8_t> Backlinks::pack() const {
  if (words.size() > kMostRows || large.size() > kMostRows)
    throw Error(
        "more than 512 MB of memory were written to in one window: its last stores take too much room");
  ColumnPacker out;
  pack_rows(out, words, [](const Word& w) {
    return std::array<uint64_t, 6>{w.address / kWordBytes, w.last.tick, w.last.event, w.last.pc,
                                   w.last.thread,          w.count};
  });
  pack_rows(out, large, [](const Large& l) {
    return std::array<uint64_t, 7>{l.start,   l.end,         l.last.tick, l.last.event,
                                   l.last.pc, l.last.thread, l.count};
  });
  return squeeze(out.out, kTightness);
}

Backlinks Backlinks::unpack(std::span<const uint8_t> packed) {
  const std::vector<uint8_t> raw = unsqueeze(packed, kMostPacked);
  Cursor in{raw.data(), raw.data() + raw.size()};
  auto damaged = [] { return Error("a table of last stores is damaged: it makes no sense"); };
  Backlinks b;
  size_t rows = 0;
  const auto list = read_rows(in, 6, rows);
  if (!list) throw damaged();
  uint64_t next = 0;
  for (size_t i = 0; i < rows; i++) {
    const uint64_t* v = list->data() + 6 * i;
    if (v[0] > kNoWord / kWordBytes || v[0] * kWordBytes < next || v[4] > UINT32_MAX || v[5] == 0)
      throw damaged();
    b.words.push_back({v[0] * kWordBytes, {v[1], v[2], v[3], static_cast<uint32_t>(v[4])}, v[5]});
    next = (v[0] + 1) * kWordBytes;
  }
  const auto larges = read_rows(in, 7, rows);
  if (!larges || in.p != in.end) throw damaged();
  for (size_t i = 0; i < rows; i++) {
    const uint64_t* v = larges->data() + 7 * i;
    if (v[0] >= v[1] || v[5] > UINT32_MAX || v[6] == 0) throw damaged();
    if (i > 0 && std::pair(b.large.back().start, b.large.back().end) >= std::pair(v[0], v[1]))
      throw damaged();
    b.large.push_back({v[0], v[1], {v[2], v[3], v[4], static_cast<uint32_t>(v[5])}, v[6]});
  }
  return b;
}

}  // namespace backstep::recording
