// Traces of stores: what was put in comes out, all of it or of some memory; which store was the last one is
// told for each word; files that a stranger has changed are refused or give something, and harm nobody.
#include "recording/trace_chunk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/error.h"
#include "recording/trace_columns.h"

namespace backstep::recording {
namespace {

bool same(const TracedStore& a, const TracedStore& b) {
  return a.at == b.at && a.address == b.address && a.old_value == b.old_value && a.new_value == b.new_value &&
         a.size == b.size && a.by_kernel == b.by_kernel;
}

// A program of some blocks, which stores to little memory, so that stores overlap.
class SmallProgram {
 public:
  explicit SmallProgram(uint64_t seed) : rng_(seed) {}

  std::vector<TracedStore> stores;  // as they happen

  void go(TraceEncoder& encoder, size_t records, const std::function<void()>& after_each) {
    constexpr uint8_t kSizes[] = {1, 2, 4, 8, 16, 32, 10};
    if (blocks_.empty())
      for (unsigned b = 0; b < 12; b++) {
        TracedBlock block;
        block.guest = 0x401000 + 0x100 * b;
        const unsigned sites = b == 0 ? 0 : 1 + pick(4);
        for (unsigned i = 0; i < sites; i++) {
          TracedBlock::Site s;
          s.add = pick(64);
          if (pick(5) == 0) {
            s.add += kBase;
          } else {
            s.address_at = ++block.words;
          }
          s.guessed = pick(4) != 0;
          s.old_at = ++block.words;
          if (pick(4) != 0) {
            s.new_at = ++block.words;
          } else {
            s.value = rng_();
          }
          s.pc = static_cast<uint16_t>(3 * i);
          s.instruction = static_cast<uint8_t>(i);
          s.size = kSizes[pick(std::size(kSizes))];
          block.sites.push_back(s);
        }
        blocks_.push_back(block);
      }
    std::vector<uint32_t> ids;
    for (const TracedBlock& b : blocks_) ids.push_back(encoder.add_block(b));
    for (size_t r = 0; r < records; r++) {
      tick_ += pick(3);
      if (pick(40) == 0) encoder.context(++event_, thread_ = 1 + pick(3));
      pick(20) == 0 ? foreign(encoder) : block(encoder, ids);
      after_each();
    }
  }

 private:
  static constexpr uint64_t kBase = 0x7f00'0000'0fc0;  // a page ends among what is stored to

  unsigned pick(size_t n) { return static_cast<unsigned>(rng_() % n); }
  uint64_t masked(uint64_t v, unsigned size) { return v & KnownMemory::mask_of(size); }
  uint64_t value() { return pick(3) ? pick(4) : rng_(); }

  void block(TraceEncoder& encoder, const std::vector<uint32_t>& ids) {
    const unsigned which = pick(4) ? (last_ + 1) % 12 : pick(12);
    last_ = which;
    const TracedBlock& block = blocks_[which];
    std::vector<uint64_t> words(block.words);
    const uint32_t cut = pick(10) || block.sites.empty() ? 0 : 1 + pick(block.sites.size());
    for (const TracedBlock::Site& s : block.sites) {
      if (s.address_at) words[s.address_at - 1] = kBase + pick(100);
      words[s.old_at - 1] = rng_();  // more than its size says is garbage
      if (pick(2)) words[s.old_at - 1] = memory_[s.add + (s.address_at ? words[s.address_at - 1] : 0)];
      if (s.new_at) words[s.new_at - 1] = value();
    }
    for (const TracedBlock::Site& s : block.sites) {
      if (cut && s.instruction + 1u >= cut) break;
      const uint64_t address = s.add + (s.address_at ? words[s.address_at - 1] : 0);
      const uint64_t fresh = masked(s.new_at ? words[s.new_at - 1] : s.value, s.size);
      stores.push_back({{tick_, event_, block.guest + s.pc, thread_},
                        address,
                        masked(words[s.old_at - 1], s.size),
                        fresh,
                        s.size,
                        false});
      memory_[address] = fresh;
    }
    encoder.executed(ids[which], words.data(), tick_, cut);
  }
  void foreign(TraceEncoder& encoder) {
    const uint32_t sizes[] = {1, 8, 100, 5000, 70000};
    const TracedStore s{{tick_, event_ + pick(2), 0x500000 + pick(9), 1 + pick(2)},
                        kBase + pick(60),
                        value(),
                        value(),
                        sizes[pick(std::size(sizes))],
                        pick(2) == 0};
    stores.push_back(s);
    encoder.store(s);
  }

  std::mt19937_64 rng_;
  std::vector<TracedBlock> blocks_;
  std::map<uint64_t, uint64_t> memory_;
  uint64_t tick_ = 5, event_ = 0;
  uint32_t thread_ = 0;
  unsigned last_ = 0;
};

struct Expected {
  StoreMoment last;
  uint64_t count = 0;
};

void expect_backlinks(const Backlinks& links, const std::vector<TracedStore>& stores) {
  std::map<uint64_t, Expected> words;
  std::map<std::pair<uint64_t, uint64_t>, Expected> large;
  for (const TracedStore& s : stores) {
    if (s.size > 4096) {
      Expected& e = large[{s.address, s.address + s.size}];
      e = {s.at, e.count + 1};
      continue;
    }
    for (uint64_t w = s.address & ~7ull; w < s.address + s.size; w += 8)
      words[w] = {s.at, words[w].count + 1};
  }
  ASSERT_EQ(links.words.size(), words.size());
  size_t i = 0;
  for (const auto& [address, e] : words) {
    EXPECT_EQ(links.words[i].address, address);
    EXPECT_EQ(links.words[i].count, e.count);
    EXPECT_TRUE(links.words[i].last == e.last) << std::hex << address;
    i++;
  }
  ASSERT_EQ(links.large.size(), large.size());
  i = 0;
  for (const auto& [range, e] : large) {
    EXPECT_EQ(links.large[i].start, range.first);
    EXPECT_EQ(links.large[i].end, range.second);
    EXPECT_EQ(links.large[i].count, e.count);
    EXPECT_TRUE(links.large[i++].last == e.last);
  }
}

TEST(TraceChunk, GivesBackAllStoresAndWhichWereTheLast) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    TraceEncoder full(3), links_only(2);
    SmallProgram run(seed), again(seed);
    std::vector<TraceChunk> chunks, others;
    size_t n = 0;
    run.go(full, 3000, [&] {
      if (++n % 1100 == 0) chunks.push_back(full.take());
    });
    chunks.push_back(full.take());
    again.go(links_only, 3000, [] {});
    others.push_back(links_only.take());

    std::vector<TracedStore> found;
    Backlinks links;
    for (const TraceChunk& c : chunks) {
      const size_t before = found.size();
      EXPECT_TRUE(each_store(c.stores, {}, [&](const TracedStore& s) {
        found.push_back(s);
        return true;
      }));
      EXPECT_EQ(found.size() - before, c.count);
      links.append(c.last);
    }
    ASSERT_EQ(found.size(), run.stores.size());
    for (size_t i = 0; i < found.size(); i++) ASSERT_TRUE(same(found[i], run.stores[i])) << seed << " " << i;
    expect_backlinks(Backlinks::unpack(links.pack()), run.stores);
    expect_backlinks(others[0].last, again.stores);
    EXPECT_TRUE(others[0].stores.empty());

    // Of some memory only.
    std::mt19937_64 rng(seed);
    for (int i = 0; i < 10; i++) {
      const uint64_t start = 0x7f00'0000'0fc0 + rng() % 160, end = start + 1 + rng() % 12;
      const AddressRange ranges[] = {{start, end}, {0x7f00'0000'0fc0, 0x7f00'0000'0fc1}};
      const auto asked = std::span(ranges).first(1 + rng() % 2);
      auto wanted = [&](const TracedStore& s) {
        return std::any_of(asked.begin(), asked.end(), [&](const AddressRange& r) {
          return s.address < r.end && r.start < s.address + s.size;
        });
      };
      std::vector<TracedStore> some;
      for (const TraceChunk& c : chunks)
        each_store(c.stores, asked, [&](const TracedStore& s) {
          some.push_back(s);
          return true;
        });
      size_t at = 0;
      for (const TracedStore& s : run.stores) {
        if (!wanted(s)) continue;
        ASSERT_LT(at, some.size());
        ASSERT_TRUE(same(some[at++], s));
      }
      EXPECT_EQ(at, some.size());
    }
  }
}

TEST(TraceChunk, EndsWhenSomebodyHasEnough) {
  TraceEncoder encoder(3);
  SmallProgram run(7);
  run.go(encoder, 500, [] {});
  size_t n = 0;
  EXPECT_FALSE(each_store(encoder.take().stores, {}, [&](const TracedStore&) { return ++n < 10; }));
  EXPECT_EQ(n, 10u);
}

TEST(TraceChunk, SurvivesWhatStrangersWrite) {
  TraceEncoder encoder(3);
  SmallProgram run(3);
  run.go(encoder, 800, [] {});
  const TraceChunk chunk = encoder.take();
  const std::vector<uint8_t> raw = unsqueeze(chunk.stores, 1 << 30);
  const std::vector<uint8_t> links = unsqueeze(chunk.last.pack(), 1 << 30);
  std::mt19937_64 rng(11);
  size_t refused = 0;
  for (int round = 0; round < 600; round++) {
    for (const auto* original : {&raw, &links}) {
      std::vector<uint8_t> bytes = *original;
      const size_t near = round % 2 ? bytes.size() : 400;  // heads are more interesting
      for (unsigned i = 0; i <= rng() % 3; i++)
        bytes[rng() % std::min(near, bytes.size())] = static_cast<uint8_t>(rng());
      if (rng() % 4 == 0) bytes.resize(rng() % bytes.size());
      const std::vector<uint8_t> packed = squeeze(bytes, 1);
      try {
        if (original == &raw) {
          each_store(packed, {}, [](const TracedStore&) { return true; });
        } else {
          Backlinks::unpack(packed);
        }
      } catch (const Error&) {
        refused++;
      }
    }
  }
  EXPECT_GT(refused, 200u);
}

TEST(TraceColumns, KeepNumbersOfAllKinds) {
  std::mt19937_64 rng(5);
  for (size_t count : {0u, 1u, 2u, 511u, 512u, 513u, 3000u})
    for (int kind = 0; kind < 6; kind++) {
      std::vector<uint64_t> numbers(2 * count);
      for (size_t i = 0; i < count; i++) {
        const uint64_t n[] = {7, 0x7fff'0000'0000 + 24 * i, rng(), i % 3, 0 - i * i, rng() % 50 ? 0 : rng()};
        numbers[2 * i] = n[kind];
      }
      ColumnPacker out;
      out.add(numbers.data(), 2, count);
      std::vector<uint64_t> back(2 * count);
      Cursor in{out.out.data(), out.out.data() + out.out.size()};
      ASSERT_TRUE(read_column(in, back.data(), 2, count));
      EXPECT_EQ(in.p, in.end);
      EXPECT_EQ(back, numbers);
      if (kind < 2) {
        EXPECT_LE(out.out.size(), 20 + count / 512);
      }
    }
}

TEST(TraceColumns, KeepRowsHoweverMany) {
  std::mt19937_64 rng(6);
  for (size_t count : {0u, 1u, 2u, 8u, 9u, 511u, 512u, 513u, 1024u, 3000u}) {
    constexpr size_t kColumns = 3;
    RowPacker packer(kColumns);
    for (int again = 0; again < 2; again++) {
      std::vector<uint64_t> numbers;
      for (size_t i = 0; i < count; i++) {
        for (const uint64_t n : {0x7fff'0000'0000 - 16 * i, i % 100 ? 5 : rng(), rng() % 7})
          numbers.push_back(n);
        std::copy(numbers.end() - kColumns, numbers.end(), packer.row());
      }
      ColumnPacker out;
      packer.finish(out);
      out.number(77);  // it does not read on
      Cursor in{out.out.data(), out.out.data() + out.out.size()};
      RowReader reader(in, kColumns, count);
      std::vector<uint64_t> back;
      for (size_t i = 0; i < count; i++) {
        const uint64_t* const row = reader.next();
        ASSERT_NE(row, nullptr);
        back.insert(back.end(), row, row + kColumns);
      }
      EXPECT_EQ(back, numbers);
      EXPECT_TRUE(reader.at_end());
      EXPECT_EQ(reader.next(), nullptr);
      EXPECT_EQ(in.varint(), 77u);
    }
  }
}

}  // namespace
}  // namespace backstep::recording
