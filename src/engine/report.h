// Loads and stores, reported by translated code as they happen.
//
// A block that reports writes one record each time it is executed, into the buffer at layout::kReports:
//
//   word 0        u32 ReportHead: which ReportBlock, and how many words this is; u32 0 (or `cut`, below)
//   words 1 …     values of registers and memory, which its sites name by their place
//   last word     the tick
//
// What is the same each time stands in the ReportBlock and its ReportSites instead: instruction, size, what
// to add to which word for the address. A block that was left in the middle, by a fault, has `cut` in the
// upper half of its first word: 1 + the number of its instructions that were completed. Between the records
// of blocks stand those of others: ReportContext, ReportedAccess.
//
// Whoever wants the records takes them when Engine calls (the buffer is full) or when the guest has left the
// cache, and begins anew with empty_reports().
#pragma once
#include <cstdint>

#include "engine/cache.h"
#include "engine/context.h"
#include "engine/layout.h"

namespace backstep::engine {

struct Emitter;

struct ReportSite {
  uint64_t add;         // to the word at address_at; if there is none (0), this is the address
  uint64_t value;       // that is stored, if new_at is 0
  uint16_t address_at;  // words of the record
  uint16_t old_at;      // what was there, or what was loaded
  uint16_t new_at;      // what is there then
  uint16_t pc;          // offset of the instruction from the block's start
  uint8_t size;         // bytes; of words only so many count
  uint8_t instruction;  // its number in the block
  uint8_t front, back;  // where the guest's own instruction begins and ends in its translation
  bool store;
  uint8_t pad[3];
};
static_assert(sizeof(ReportSite) == 32);

// Followed by its sites, in the order of execution.
struct ReportBlock {
  Address guest;
  uint16_t sites, words;
  uint16_t prologue;  // bytes of translated code until both registers are borrowed …
  uint16_t restored;  // … and until they are given back
  uint8_t pointer, scratch;
  uint8_t last_front;  // what stands in front of its last instruction, all of it ours
  uint8_t pad[13];
};
static_assert(sizeof(ReportBlock) == 32);

// From here on, blocks are executed by this thread, and this event is the next.
struct ReportContext {
  static constexpr uint32_t kId = 1;
  uint32_t id, thread;
  uint64_t event;
};

// One that somebody else has made, or seen: the kernel, the client.
struct ReportedAccess {
  static constexpr uint32_t kId = 2;
  uint32_t id, size;
  Tick tick;
  uint64_t event;
  Address pc, address;
  uint64_t old_value, new_value;
  uint32_t thread;
  bool store, by_kernel;
};
static_assert(sizeof(ReportedAccess) == 64);

// A block and its sites begin at a multiple of kReportUnit, a cache line: nearly all need one or two.
inline constexpr uint64_t kReportUnit = 64;
inline constexpr uint32_t kFirstReportUnit = 1;  // so that all heads are larger than the ids above
inline constexpr uint32_t kMostReportUnits = layout::kReportSitesSize / kReportUnit - 200;
inline uint32_t report_units(unsigned sites) {
  return static_cast<uint32_t>((sizeof(ReportBlock) + sites * sizeof(ReportSite) + kReportUnit - 1) /
                               kReportUnit);
}
inline ReportBlock* report_block(uint32_t unit) {
  return reinterpret_cast<ReportBlock*>(layout::kReportSites + unit * kReportUnit);
}
inline ReportSite* report_sites(uint32_t unit) {
  return reinterpret_cast<ReportSite*>(report_block(unit) + 1);
}

// The first word of a block's record has the length, too: whoever reads finds the next record without
// waiting for what is known of this one.
struct ReportHead {
  static constexpr unsigned kWordBits = 9;
  static constexpr unsigned kMostWords = (1 << kWordBits) - 1;
  uint32_t unit, words, cut;
};
inline constexpr uint32_t report_head(uint32_t unit, unsigned words) {
  return unit << ReportHead::kWordBits | words;
}
inline constexpr ReportHead report_head(uint64_t word) {
  const auto low = static_cast<uint32_t>(word);
  return {low >> ReportHead::kWordBits, low & ReportHead::kMostWords, static_cast<uint32_t>(word >> 32)};
}
// As a constant of 32 bits that is extended with its sign.
static_assert(kMostReportUnits < 1u << (31 - ReportHead::kWordBits));
static_assert(report_head(kFirstReportUnit, 0) > ReportedAccess::kId);

// Bytes of records that still fit.
inline uint64_t report_room() {
  return layout::kReports + layout::kReportsSize - context().report_at;
}
inline void empty_reports() {
  context().report_at = layout::kReports;
}

// --- report_hot.cc ---

// A block that is being translated.
struct Reporting {
  bool active = false;
  bool any = false;    // it has a record
  bool alone = false;  // its last instruction is the client's to execute (Stop::Watched)
  unsigned count = 0;  // of its instructions
  Address guest = 0;
  int pointer = 0, scratch = 0;
  unsigned words = 1;
  unsigned sites = 0;
  uint32_t unit = 0;
  uint8_t* start = nullptr;    // of its translation
  uint8_t* tick_at = nullptr;  // the displacement of the tick's place
  uint8_t* head_at = nullptr;  // the constant of its first word
  uint16_t known[16] = {};     // the word that has the value of a register; 0: none
  int64_t since[16] = {};      // … and what was added to the register since
  uint16_t known_fs = 0;
  const uint8_t* at = nullptr;  // the translation of the instruction at hand …
  unsigned first_site = 0;      // … and its sites
  uint16_t read_back = 0;       // behind it: the word for what it has stored …
  uint8_t read_back_size = 0;
  uint16_t loaded = 0;  // … and for the register that it has loaded
  int loaded_register = 0;
};
// What it is going to be: up to `most` instructions from `start` on, in front of `end`.
void plan_report(Reporting& r, Address start, Address end, Address range_end, unsigned most, bool transient);
// In front of an instruction, and behind it. `k`: its number.
void emit_report_before(Reporting& r, Emitter& e, unsigned k, const isa::Insn& in, const uint8_t* code,
                        Address pc);
void emit_alone(Emitter& e, const isa::Insn& in, Address pc);
void emit_report_after(Reporting& r, Emitter& e, unsigned k, const isa::Insn& in, const uint8_t* code,
                       Address pc);

// A fault at `offset` in the translation of a block, in instruction `k`, which begins at `begin`: whose is
// it, and how much of the translation of that instruction was ours.
struct ReportFault {
  bool full = false;  // there was no room for the record
  bool ours = false;  // not the guest's instruction, but our look at what it is going to touch
  uint32_t front = 0;
};
// Gives borrowed registers back and cuts the record.
ReportFault after_report_fault(const Block& block, uint32_t offset, unsigned k, uint32_t begin);

// Appends; there must be room.
void report_context(uint64_t event, uint32_t thread);
void report_access(const ReportedAccess& access);

// Who writes for the guest: what is in all reports of what is written from now on (mark_written). `writing`:
// somebody does; else nothing is reported.
struct Writer {
  bool writing = false, by_kernel = false;
  uint32_t thread = 0;
  Tick tick = 0;
  uint64_t event = 0;
  Address pc = 0;
  Address open = 0;   // the record of a write that is under way; 0: none
  bool lost = false;  // there was no room
};
extern Writer bs_writer;
void report_write(Address start, uint64_t size);
void end_write();                                     // what was to be written is there
inline constexpr uint64_t kRoomForWrites = 0x4'0000;  // for the most pieces that one call writes

}  // namespace backstep::engine
