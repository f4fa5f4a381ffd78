// The full trace of a stretch of the run: each store, with what was there and is there then, in the order of
// time; packed. docs/trace-format.md has every byte.
//
// Translated code reports its stores block by block (engine/report.h), and so they are kept: which blocks
// were executed one after the other, and for each block a column for each word that its records have. What is
// the same each time (instruction, size, what to add to which word for the address) is kept once.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "recording/backlinks.h"
#include "recording/checkpoint_file.h"
#include "recording/known_memory.h"
#include "recording/trace_columns.h"

namespace backstep::recording {

struct TracedStore {
  StoreMoment at;  // in front of the instruction
  uint64_t address = 0;
  uint64_t old_value = 0, new_value = 0;  // the first bytes, up to eight
  uint32_t size = 0;
  bool by_kernel = false;
};

// A block of code that stores. Words of its records are numbered from 1; 0: none.
struct TracedBlock {
  struct Site {
    uint64_t add = 0;    // to the word at address_at; if there is none, this is the address
    uint64_t value = 0;  // that is stored, if new_at is 0
    uint16_t address_at = 0, old_at = 0, new_at = 0;
    uint16_t pc = 0;  // offset of the instruction from the block's start
    uint8_t size = 0;
    uint8_t instruction = 0;  // its number in the block
    bool guessed = false;     // nobody else needs the word at old_at: what stores say was there is taken off
  };
  uint64_t guest = 0;
  uint16_t words = 0;
  std::vector<Site> sites;  // in the order of execution
};

// A stretch as it leaves the process that replays it.
struct TraceChunk {
  Backlinks last;               // the level 2 of it
  std::vector<uint8_t> stores;  // level 3: all of them, packed; empty: they are not kept
  uint64_t count = 0;           // stores that it has
};

class TraceEncoder {
 public:
  // Level 3 keeps all stores; level 2 only which were the last ones.
  explicit TraceEncoder(int level);
  TraceEncoder(const TraceEncoder&) = delete;
  TraceEncoder& operator=(const TraceEncoder&) = delete;

  // What is reported from now on is this thread's, and this event is the next.
  void context(uint64_t event, uint32_t thread);
  // A block that is going to be executed; its number. Good for as long as the encoder lives.
  uint32_t add_block(TracedBlock block);
  // An execution of it: `words` are those of its record, from number 1 on. `cut`: 1 + how many of its
  // instructions were completed; 0: all.
  void executed(uint32_t block, const uint64_t* words, uint64_t tick, uint32_t cut) {
    level_ == 3 ? execute<true>(block, words, tick, cut) : execute<false>(block, words, tick, cut);
  }
  // A store that somebody else has made.
  void store(const TracedStore& store);

  // It is time to take a chunk.
  bool full() const { return full_; }
  bool empty() const { return stores_ == 0; }
  TraceChunk take();

 private:
  struct Known {
    explicit Known(TracedBlock b) : block(std::move(b)), rows(block.words + 1u) {}
    Known(TracedBlock b, size_t columns) : block(std::move(b)), rows(columns) {}
    TracedBlock block;
    uint32_t number = 0;  // in this chunk; 0: not used in it yet
    RowPacker rows;       // of the chunk: the step of the tick, then the words
  };

  template <bool kRecords>
  void execute(uint32_t block, const uint64_t* words, uint64_t tick, uint32_t cut);
  void mark(const TracedStore& store, uint64_t where);
  void look_whether_full();
  uint64_t record(Known& known, uint64_t tick);
  void record_context();
  void begin_chunk();
  StoreMoment moment_of(uint64_t where) const;
  Backlinks last_stores() const;
  std::vector<uint8_t> pack();

  int level_;
  std::vector<Known> blocks_;   // the first ones are of our own: see trace_chunk.cc
  std::vector<uint32_t> used_;  // blocks of this chunk, by number
  KnownMemory memory_;
  std::vector<Backlinks::Large> large_;
  // The records of this chunk: which block (its number), when.
  std::vector<uint64_t> ticks_;
  std::vector<uint32_t> sequence_;
  std::vector<size_t> foreign_;          // which of them are stores that others have made
  std::vector<StoreMoment> foreign_at_;  // … when
  uint64_t words_ = 0, stores_ = 0;
  uint64_t last_tick_ = 0;
  bool full_ = false;
  struct Context {
    size_t from;  // this record on
    uint64_t event;
    uint32_t thread;
  };
  std::vector<Context> contexts_;
  uint64_t event_ = 0;
  uint32_t thread_ = 0;
};

// Calls `take` with the stores of a chunk in their order; false from it: enough. `data`: only those that
// touch this memory; nothing: all. Throws Error: it is damaged. False: `take` had enough.
bool each_store(std::span<const uint8_t> packed, std::span<const AddressRange> data,
                const std::function<bool(const TracedStore&)>& take);

}  // namespace backstep::recording
