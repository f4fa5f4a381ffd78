// Encoding a chunk.
//
// Its body, before zstd, is:
//
//   blocks      what is known of each that was executed, by number
//   sequence    numbers of blocks in the order of execution; only where the next one is not the one that
//               followed the last two the last time
//   rows        for each block, its records: the step of the tick, and the words, in pieces of columns
//
// Two of the blocks are no code: one has stores that others have made as its records, one says that the
// thread or the next event is another one from here on, and one that the next record was cut.
//
// Of what was there before a store mostly nothing has to be kept: an earlier store has put it there. Both
// sides know what stores have left in memory (known_memory.h), and only what differs from that is in the
// column. That this is known for some of the memory only, or wrong where a store was longer than the eight
// bytes that are told of it, costs bytes and nothing else: both sides are wrong in the same way.
//
// The same memory has, for each word, which record of the chunk has stored there last, and how often: the
// backlinks, when the chunk is over.
#include "recording/trace_chunk.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "recording/trace_columns.h"
#include "recording/trace_sequence.h"

namespace backstep::recording {
namespace {

constexpr uint64_t kMostChunkWords = 4 << 20;    // of records: 32 MB
constexpr uint64_t kMostChunkRecords = 4 << 20;  // fits in a mark
constexpr uint64_t kMostChunkStores = 8 << 20;   // likewise
constexpr size_t kMostChunkPages = 16 << 10;     // of known memory: 128 MB
constexpr int kTraceTightness = 1;               // of compression
constexpr uint64_t kLargeStore = 4096;           // told as one
constexpr uint64_t kMostChunkBytes = 1 << 30;    // uncompressed

// A mark: how many stores, which record was the last one, which of its sites.
constexpr unsigned kSiteBits = 8, kRecordBits = 24;
constexpr unsigned kCountAt = kSiteBits + kRecordBits;
static_assert(kMostChunkRecords < 1 << kRecordBits);

// Blocks that are no code, by their place in `blocks_`, and how many words their records have.
enum Own : uint32_t { kStoreBlock, kContextBlock, kCutBlock, kOwnBlocks };
constexpr uint16_t kOwnWords[kOwnBlocks] = {9, 2, 1};
constexpr uint64_t kByKernel = 1;
constexpr size_t kMostSites = 1 << kSiteBits;

Error damaged_chunk() {
  return Error("a trace is damaged: it makes no sense");
}

}  // namespace

TraceEncoder::TraceEncoder(int level) : level_(level) {
  for (const uint16_t words : kOwnWords) {
    TracedBlock own;
    own.words = words;
    blocks_.emplace_back(std::move(own), words);
  }
  begin_chunk();
}

void TraceEncoder::begin_chunk() {
  for (const uint32_t id : used_) blocks_[id].number = 0;
  used_.clear();
  memory_.clear();
  large_.clear();
  ticks_.clear();
  sequence_.clear();
  foreign_.clear();
  foreign_at_.clear();
  contexts_.assign(1, {0, event_, thread_});
  words_ = stores_ = last_tick_ = 0;
  full_ = false;
  if (event_ || thread_) record_context();
}

uint32_t TraceEncoder::add_block(TracedBlock block) {
  if (block.sites.size() > kMostSites) throw Error("internal error: a block has too many stores");
  blocks_.emplace_back(std::move(block));
  return static_cast<uint32_t>(blocks_.size() - 1);
}

// Its place among the chunk's records, as a part of marks.
uint64_t TraceEncoder::record(Known& known, uint64_t tick) {
  if (!known.number) [[unlikely]] {
    used_.push_back(static_cast<uint32_t>(&known - blocks_.data()));
    known.number = static_cast<uint32_t>(used_.size());
  }
  ticks_.push_back(tick);
  sequence_.push_back(known.number);
  return (ticks_.size() - 1) << kSiteBits;
}

void TraceEncoder::look_whether_full() {
  full_ = words_ >= kMostChunkWords || ticks_.size() >= kMostChunkRecords || stores_ >= kMostChunkStores ||
          memory_.pages() >= kMostChunkPages;
}

void TraceEncoder::context(uint64_t event, uint32_t thread) {
  if (event == event_ && thread == thread_) return;
  event_ = event, thread_ = thread;
  record_context();
}

void TraceEncoder::record_context() {
  Known& known = blocks_[kContextBlock];
  record(known, 0);
  if (level_ == 3) {
    uint64_t* const row = known.rows.row();
    row[0] = event_, row[1] = thread_;
  }
  contexts_.push_back({ticks_.size(), event_, thread_});
}

namespace {

// One more store, and the last one so far.
struct Marking {
  uint64_t where;
  uint64_t operator()(uint64_t mark) const {
    constexpr uint64_t kOne = 1ull << kCountAt;
    return (mark & ~(kOne - 1)) + kOne + where;
  }
};

}  // namespace

template <bool kRecords>
void TraceEncoder::execute(uint32_t id, const uint64_t* words, uint64_t tick, uint32_t cut) {
  if (cut && kRecords) [[unlikely]] {
    record(blocks_[kCutBlock], tick);
    blocks_[kCutBlock].rows.row()[0] = cut;
  }
  Known& known = blocks_[id];
  uint64_t where = record(known, tick);
  const size_t count = known.block.words;
  uint64_t* row = nullptr;
  if constexpr (kRecords) {
    row = known.rows.row();
    row[0] = tick - last_tick_;
    last_tick_ = tick;
    for (size_t i = 0; i < count; i++) row[i + 1] = words[i];
    words_ += count + 1;
  }
  for (const TracedBlock::Site& site : known.block.sites) {
    if (cut && site.instruction + 1u >= cut) [[unlikely]]
      break;
    const uint64_t address = site.add + (site.address_at ? words[site.address_at - 1] : 0);
    if constexpr (kRecords) {
      const uint64_t fresh = site.new_at ? words[site.new_at - 1] : site.value;
      const uint64_t there = memory_.store(address, site.size, fresh, Marking{where});
      if (site.guessed) row[site.old_at] = (words[site.old_at - 1] & KnownMemory::mask_of(site.size)) ^ there;
    } else {
      memory_.mark(address, site.size, Marking{where});
    }
    where++;
    stores_++;
  }
  look_whether_full();
}

template void TraceEncoder::execute<true>(uint32_t, const uint64_t*, uint64_t, uint32_t);
template void TraceEncoder::execute<false>(uint32_t, const uint64_t*, uint64_t, uint32_t);

void TraceEncoder::store(const TracedStore& s) {
  Known& known = blocks_[kStoreBlock];
  const uint64_t where = record(known, s.at.tick);
  foreign_.push_back(ticks_.size() - 1);
  foreign_at_.push_back(s.at);
  if (level_ == 3) {
    const uint64_t row[] = {s.at.tick,   s.at.event,  s.at.pc,
                            s.at.thread, s.address,   s.size,
                            s.old_value, s.new_value, s.by_kernel ? kByKernel : 0};
    std::copy(std::begin(row), std::end(row), known.rows.row());
  }
  words_ += kOwnWords[kStoreBlock];
  mark(s, where);
  look_whether_full();
}

void TraceEncoder::mark(const TracedStore& s, uint64_t where) {
  const uint64_t size = std::min<uint64_t>(s.size, ~0ull - s.address);
  if (!size) return;
  stores_++;
  if (size > kLargeStore) {
    large_.push_back({s.address, s.address + size, s.at, 1});
  } else {
    memory_.mark(s.address, size, Marking{where});
  }
}

StoreMoment TraceEncoder::moment_of(uint64_t mark) const {
  const size_t at = mark >> kSiteBits & ((1u << kRecordBits) - 1);
  const size_t site = mark & ((1u << kSiteBits) - 1);
  const uint32_t id = used_[sequence_[at] - 1];
  if (id == kStoreBlock)
    return foreign_at_[static_cast<size_t>(std::lower_bound(foreign_.begin(), foreign_.end(), at) -
                                           foreign_.begin())];
  auto context = std::partition_point(contexts_.begin(), contexts_.end(),
                                      [&](const Context& c) { return c.from <= at; });
  --context;
  const TracedBlock& block = blocks_[id].block;
  return {ticks_[at], context->event, block.guest + block.sites[site].pc, context->thread};
}

Backlinks TraceEncoder::last_stores() const {
  Backlinks links;
  memory_.for_each_page([&](uint64_t start, const KnownMemory::Page& page) {
    for (size_t i = 0; i < page.marks.size(); i++)
      if (const uint64_t mark = page.marks[i])
        links.words.push_back({start + i * KnownMemory::kWord, moment_of(mark), mark >> kCountAt});
  });
  Backlinks large;
  large.append({{}, large_});
  links.large = std::move(large.large);
  return links;
}

std::vector<uint8_t> TraceEncoder::pack() {
  ColumnPacker out;
  out.number(used_.size());
  for (const uint32_t id : used_) {
    out.number(id < kOwnBlocks ? id + 1 : 0);
    if (id < kOwnBlocks) continue;
    const TracedBlock& block = blocks_[id].block;
    out.number(block.guest);
    out.number(block.words);
    out.number(block.sites.size());
    for (const TracedBlock::Site& s : block.sites)
      for (const uint64_t v :
           {s.add, s.value, uint64_t{s.address_at}, uint64_t{s.old_at}, uint64_t{s.new_at}, uint64_t{s.pc},
            uint64_t{s.size}, uint64_t{s.instruction}, uint64_t{s.guessed}})
        out.number(v);
  }
  out.number(sequence_.size());
  SequenceGuess guess;
  uint64_t right = 0;
  for (const uint32_t number : sequence_) {
    uint32_t& expected = guess.next();
    if (expected == number) {
      right++;
    } else {
      out.number(right);
      out.number(number);
      expected = number;
      right = 0;
    }
    guess.follow(number);
  }
  out.number(right);
  for (const uint32_t id : used_) blocks_[id].rows.finish(out);
  return squeeze(out.out, kTraceTightness);
}

TraceChunk TraceEncoder::take() {
  TraceChunk chunk;
  chunk.count = stores_;
  chunk.last = last_stores();
  if (level_ == 3) chunk.stores = pack();
  begin_chunk();
  return chunk;
}

namespace {

// A chunk that is read.
class ReadChunk {
 public:
  explicit ReadChunk(std::span<const uint8_t> packed) {
    raw_ = unsqueeze(packed, kMostChunkBytes);
    Cursor in{raw_.data(), raw_.data() + raw_.size()};
    read_blocks(in);
    read_sequence(in);
    for (Block& b : blocks_) b.rows.emplace(in, b.columns, b.count);
    if (!in.ok || in.p != in.end) throw damaged_chunk();
  }

  bool each(std::span<const AddressRange> data, const std::function<bool(const TracedStore&)>& take);

 private:
  struct Block {
    Own own = kOwnBlocks;  // kOwnBlocks: code
    TracedBlock code;
    size_t columns = 0, count = 0;
    std::optional<RowReader> rows;
  };

  void read_blocks(Cursor& in);
  static TracedBlock::Site read_site(Cursor& in, uint64_t words);
  void read_sequence(Cursor& in);
  bool is_wanted(uint64_t address, uint64_t size) const;
  bool tell_block(const Block& b, const uint64_t* row);
  bool tell_foreign(const uint64_t* row);

  std::vector<uint8_t> raw_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> sequence_;  // indices of blocks_
  // While it is gone through.
  std::span<const AddressRange> data_;
  uint64_t low_ = 0, reach_ = ~0ull;  // what is further from low_ does not matter
  const std::function<bool(const TracedStore&)>* take_ = nullptr;
  KnownMemory memory_;
  uint64_t tick_ = 0, event_ = 0, cut_ = 0;
  uint32_t thread_ = 0;
};

TracedBlock::Site ReadChunk::read_site(Cursor& in, uint64_t words) {
  uint64_t v[9];
  for (uint64_t& n : v) n = in.varint();
  const bool good = v[2] <= words && v[3] <= words && v[4] <= words && v[5] <= UINT16_MAX && v[6] > 0 &&
                    v[6] <= UINT8_MAX && v[7] <= UINT8_MAX && v[8] <= 1 && !(v[8] && v[3] == 0);
  if (!in.ok || !good) throw damaged_chunk();
  return {v[0],
          v[1],
          static_cast<uint16_t>(v[2]),
          static_cast<uint16_t>(v[3]),
          static_cast<uint16_t>(v[4]),
          static_cast<uint16_t>(v[5]),
          static_cast<uint8_t>(v[6]),
          static_cast<uint8_t>(v[7]),
          v[8] == 1};
}

void ReadChunk::read_blocks(Cursor& in) {
  blocks_.resize(in.count(1));
  for (Block& b : blocks_) {
    const uint64_t own = in.varint();
    if (own > kOwnBlocks) throw damaged_chunk();
    if (own) {
      b.own = static_cast<Own>(own - 1);
      b.columns = kOwnWords[b.own];
      continue;
    }
    b.code.guest = in.varint();
    const uint64_t words = in.varint();
    const uint64_t sites = in.count(9);
    if (!in.ok || words > UINT16_MAX || sites > kMostSites) throw damaged_chunk();
    b.code.words = static_cast<uint16_t>(words);
    for (uint64_t i = 0; i < sites; i++) b.code.sites.push_back(read_site(in, words));
    b.columns = words + 1;
  }
}

void ReadChunk::read_sequence(Cursor& in) {
  const uint64_t records = in.varint();
  if (!in.ok || records > 2 * kMostChunkRecords) throw damaged_chunk();
  sequence_.resize(records);
  SequenceGuess guess;
  uint64_t right = in.varint();
  for (uint32_t& index : sequence_) {
    uint32_t& number = guess.next();
    if (right > 0) {
      right--;
    } else {
      number = static_cast<uint32_t>(std::min<uint64_t>(in.varint(), UINT32_MAX));
      right = in.varint();
    }
    if (!in.ok || number == 0 || number > blocks_.size()) throw damaged_chunk();
    index = number - 1;
    blocks_[index].count++;
    guess.follow(number);
  }
  if (right != 0) throw damaged_chunk();
  uint64_t words = 0;
  for (const Block& b : blocks_) words += b.count * b.columns;
  if (words > kMostChunkWords + 2 * UINT16_MAX + 2 * kMostChunkRecords) throw damaged_chunk();
}

bool ReadChunk::is_wanted(uint64_t address, uint64_t size) const {
  if (data_.empty()) return true;
  return std::any_of(data_.begin(), data_.end(), [&](const AddressRange& r) {
    return r.end > address && (r.start <= address || r.start - address < size);
  });
}

bool ReadChunk::tell_block(const Block& b, const uint64_t* row) {
  tick_ += row[0];
  const uint64_t cut = std::exchange(cut_, 0);
  for (const TracedBlock::Site& site : b.code.sites) {
    if (cut && site.instruction + 1u >= cut) break;
    const uint64_t address = site.add + (site.address_at ? row[site.address_at] : 0);
    if (address - low_ >= reach_) continue;
    const uint64_t mask = KnownMemory::mask_of(site.size);
    const uint64_t fresh = (site.new_at ? row[site.new_at] : site.value) & mask;
    const uint64_t there = memory_.exchange(address, site.size, fresh);
    if (memory_.pages() > kMostChunkPages + 2 * kMostSites) throw damaged_chunk();
    if (!is_wanted(address, site.size)) continue;
    const uint64_t old = site.guessed ? row[site.old_at] ^ there : site.old_at ? row[site.old_at] & mask : 0;
    if (!(*take_)({{tick_, event_, b.code.guest + site.pc, thread_}, address, old, fresh, site.size, false}))
      return false;
  }
  return true;
}

bool ReadChunk::tell_foreign(const uint64_t* row) {
  const auto size = static_cast<uint32_t>(row[5]);
  if (!is_wanted(row[4], size)) return true;
  return (*take_)({{row[0], row[1], row[2], static_cast<uint32_t>(row[3])},
                   row[4],
                   row[6],
                   row[7],
                   size,
                   (row[8] & kByKernel) != 0});
}

bool ReadChunk::each(std::span<const AddressRange> data,
                     const std::function<bool(const TracedStore&)>& take) {
  data_ = data;
  take_ = &take;
  if (!data.empty()) {
    // Further than any block stores at once, so that what is known of the memory that is asked for is all.
    constexpr uint64_t kNear = 512;
    uint64_t first = ~0ull, end = 0;
    for (const AddressRange& r : data) first = std::min(first, r.start), end = std::max(end, r.end);
    low_ = first - std::min(first, kNear);
    reach_ = end - low_ > ~0ull - kNear ? ~0ull : end - low_ + kNear;
  }
  for (const uint32_t index : sequence_) {
    Block& b = blocks_[index];
    const uint64_t* const row = b.rows->next();
    if (!row) throw damaged_chunk();
    bool more = true;
    switch (b.own) {
      case kOwnBlocks:
        more = tell_block(b, row);
        break;
      case kStoreBlock:
        more = tell_foreign(row);
        break;
      case kContextBlock:
        event_ = row[0], thread_ = static_cast<uint32_t>(row[1]);
        break;
      case kCutBlock:
        cut_ = row[0];
        break;
    }
    if (!more) return false;
  }
  for (const Block& b : blocks_)
    if (!b.rows->at_end()) throw damaged_chunk();
  return true;
}

}  // namespace

bool each_store(std::span<const uint8_t> packed, std::span<const AddressRange> data,
                const std::function<bool(const TracedStore&)>& take) {
  return ReadChunk(packed).each(data, take);
}

}  // namespace backstep::recording
