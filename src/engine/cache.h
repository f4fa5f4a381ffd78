// The code cache and its books: which guest code is translated, where, and how the pieces are linked.
//
//   Block   a run of guest instructions translated together; contiguous in guest memory, inside one page
//           except for a last instruction that crosses the page's end. Every instruction in it can be
//           entered; `meta` holds two bytes per instruction (guest length, cache length).
//   Exit    a place where translated code leaves for the host: a direct branch whose target is not
//           translated yet (patched when it is), a host-answered instruction, a tick stop.
//   Check   a place where translated code stops by a fault when the tick limit is reached.
//   Link    a patched branch into a block; kept so that invalidating the block can undo it.
//   PageCode  all blocks that came from one guest page.
//   Landing the entry for indirect branches: restores r11, counts the tick, falls into the block.
//
// All of it is plain memory at fixed addresses (layout::kArenas), without constructors or malloc, since it
// is used from the hot world. A full cache is emptied as a whole; nothing else ever frees memory.
#pragma once
#include <cstdint>

#include "engine/content.h"
#include "engine/context.h"
#include "engine/layout.h"
#include "isa/decode.h"

namespace backstep::engine {

struct Block {
  Address guest;
  uint32_t cache;  // address of the body
  uint32_t meta;   // index into the meta arena
  uint32_t links;  // head of the list of incoming links, 0: none
  uint16_t guest_size;
  uint16_t cache_size;
  uint16_t count;   // instructions
  uint8_t dead;     // invalidated
  uint8_t stable;   // from a file mapped read-only: no links are kept, forgetting it empties the cache
  uint32_t report;  // what it reports: index of its ReportBlock (report.h), 0: nothing
};
static_assert(sizeof(Block) == 32);

enum class ExitKind : uint8_t { Branch, HostOp, TickStop, Watch, Break };

struct Exit {
  Address target;  // Branch, TickStop: where to go on; HostOp, Break: address of the instruction
  uint32_t patch;  // Branch: address of the rel32 to patch, 0: not linkable; HostOp, Break: where to continue
  ExitKind kind;
  uint8_t length;  // HostOp, Watch: length of the instruction; Branch: it leads to another range (1) or not
  uint16_t size;   // Watch: bytes that it writes at most
};
static_assert(sizeof(Exit) == 16);

// A load that runs into the fence (layout.h): a tick check at the limit, a store check (watch_hot.cc) at a
// page with watched bytes.
struct Check {
  Address target;  // where to go on; of a store check the cache addresses of its stub and its start
  uint32_t site;   // cache address of the load that faults; ascending, as code is laid down
  uint32_t reg;    // the guest's register that it loads; with kStoreCheck
};
inline constexpr uint32_t kStoreCheck = 0x100;
static_assert(sizeof(Check) == 16);

struct Link {
  uint32_t patch;  // address of the rel32
  uint32_t next;
  Address target;  // guest address it leads to
};
static_assert(sizeof(Link) == 16);

struct PageNode {
  struct Entry {
    uint16_t start, end;  // offsets in the page, [start, end)
    uint32_t block;
  } entries[15];
  uint32_t next;
  uint32_t count;
};
static_assert(sizeof(PageNode) == 128);

struct PageCode {
  Address page;
  uint32_t nodes;   // head of the list, 0: none
  uint8_t filled;   // bit c: the jump table of 1 KB chunk c is filled with the miss stub
  uint8_t watched;  // the real page is write-protected by us because the guest may write it
  uint16_t pad;
  uint64_t starts[64];  // bit per byte: a translated instruction starts here
};

// A stretch of guest memory that may be executed, as the owner of the memory map told us.
struct FetchRange {
  Address start = 0, end = 0;
  bool writable = false;
  bool stable = false;  // not expected to change: a file, mapped read-only
  Content content;      // of the file, if all of the range shows the file from `offset` on
  uint64_t offset = 0;
  uint64_t overhang = 0;  // bytes at the end that are only for instructions which begin before them
};

struct WideEntry {
  Address pc;
  uint64_t landing;
};

inline constexpr uint32_t kWideEntries = 1 << 16;
inline constexpr uint32_t kPageHash = 1 << 16;  // pages of guest code above layout::kDirectEnd
inline constexpr uint32_t kFetchRanges = 16;

// Arenas, one after the other; sizes are addresses, memory is used as it is touched.
inline constexpr uint64_t kArenaSize = 0x4000'0000;  // 1 GB each
inline Block* const kBlocks = reinterpret_cast<Block*>(layout::kArenas);
inline Exit* const kExits = reinterpret_cast<Exit*>(layout::kArenas + kArenaSize);
inline Link* const kLinks = reinterpret_cast<Link*>(layout::kArenas + 2 * kArenaSize);
inline PageNode* const kNodes = reinterpret_cast<PageNode*>(layout::kArenas + 3 * kArenaSize);
inline PageCode* const kPages = reinterpret_cast<PageCode*>(layout::kArenas + 4 * kArenaSize);
inline uint8_t* const kMeta = reinterpret_cast<uint8_t*>(layout::kArenas + 5 * kArenaSize);
inline uint32_t* const kDirectPages = reinterpret_cast<uint32_t*>(layout::kArenas + 6 * kArenaSize);
inline WideEntry* const kWide = reinterpret_cast<WideEntry*>(layout::kArenas + 6 * kArenaSize + 0x1000'0000);
inline uint32_t* const kWidePages =
    reinterpret_cast<uint32_t*>(layout::kArenas + 6 * kArenaSize + 0x2000'0000);
inline Check* const kChecks = reinterpret_cast<Check*>(layout::kArenas + 7 * kArenaSize);
inline constexpr uint64_t kArenasTotal = 8 * kArenaSize;
static_assert(layout::kArenas + 6 * kArenaSize + 0x1000'0000 == 0x2e01'9000'0000);  // kWide, known to entry.S
inline uint32_t* const kJumps = reinterpret_cast<uint32_t*>(layout::kJumpTable);

// Code of the client's that says whether a question has to be asked: it leaves 0 in rcx if not. It may change
// rax, rcx, rdx and flags, and finds the guest's values of these registers in Context::spill_rax and so on; a
// fault in it means that the question is asked.
struct Filter {
  const uint8_t* code = nullptr;
  uint32_t size = 0;  // 0: there is none
};
inline constexpr uint32_t kMostFilter = 96;

// A place where something happens before the instruction there is executed (breaks_hot.cc).
struct Break {
  Address pc;          // 0: a free entry
  const void* asked;   // the client's, for hooks.reached_hot; null: nothing is asked
  Filter filter;       // where nothing needs to be asked
  uint64_t count;      // passes that translated code has counted
  uint32_t cache;      // where its int3 is; 0: there is none
  uint32_t prefix;     // where the code in front of the instruction begins; 0: there is none
  uint32_t next_free;  // of a free entry
  uint16_t users;      // who want the guest to stop there, whatever is asked
  uint8_t byte;        // what was where the int3 is
  uint8_t prefix_size;
  uint8_t filter_size;  // … of which so many bytes are a filter
  uint8_t begin[5];     // its first bytes, while there is a jump over it
  bool question;        // it asks; else it counts
  bool counting;
  uint8_t lane;  // the vector register that counts, see kLanes; 0: none
};
inline constexpr uint8_t kTrapByte = 0xcc;  // int3
inline constexpr uint32_t kMaxBreaks = 1 << 20;
// Registers beside those of the tick counter that count passes, where the counter is one: lane n is
// xmm(15+n), its count is taken out whenever the guest leaves the cache.
inline constexpr uint32_t kLanes = 13;
inline Break* const kBreaks = reinterpret_cast<Break*>(layout::kBreaks);  // index 0 is never used

struct DataRange {
  Address start, end;
};
// What was executed and has left the cache. An empty range is a place that control came to otherwise than
// from the instruction in front of it.
inline DataRange* const kCovered = reinterpret_cast<DataRange*>(layout::kCovered);
inline constexpr uint64_t kMostCovered = layout::kCoveredSize / sizeof(DataRange);
// The longest operand: one that starts less than this before watched bytes may reach them.
inline constexpr uint64_t kWatchReach = 64;

// Where control may not go from here: from the guest into debug code, or out of it.
bool out_of_reach(Address pc);
inline uint32_t* const kProbeLandings = reinterpret_cast<uint32_t*>(layout::kProbeJumps);

struct Statistics {
  uint64_t blocks, instructions, exits, misses, flushes, invalidated, wide_sites;
};

// The one cache of this process.
struct Cache {
  // options, set once
  uint64_t size;         // bytes used of layout::kCacheMax
  uint32_t max_block;    // instructions per block
  bool link;             // patch direct branches
  bool check;            // compare with Context::limit at every tick
  bool vector;           // count in xmm31 (else in Context::tick)
  uint32_t hi16_offset;  // of ZMM16-31 in the XSAVE area
  // state
  uint8_t* hot;                                               // next byte of translated code; grows up
  uint8_t* cold;                                              // stubs; grow down from the end
  uint32_t blocks, exits, checks, links, nodes, pages, meta;  // used entries; index 0 is never used
  uint32_t tail_exit;  // exit whose jump ends at `hot`: its target may be laid down in place of the jump
  uint32_t tail_block;
  uint32_t crossings;  // head of the list of links between ranges; their `target` is the stub in the cache
  uint32_t watched_pages;  // pages that we made read-only because code was translated from them
  uint32_t alias_pages;    // pages that the owner of the memory map made read-only: other views of such pages
  uint32_t fetch_next;
  FetchRange fetch[kFetchRanges];
  uint64_t mapped;  // bytes of stubs that come from a file (translations.cc), books and jump table as well;
                    // 0: nothing does
  bool evex_seen;   // control has reached an AVX-512 instruction; from then on ticks are counted in memory
  uint32_t trap_address;  // an int3 that we wrote behind a string instruction to get hold of the guest there;
                          // 0: none
  uint8_t trap_byte;      // what was there
  Statistics stats;
  bool keep_jumps;       // every instruction keeps code of its own: no jump is overwritten by its target
  uint32_t break_count;  // entries in use …
  uint32_t break_top;    // … all below this one
  uint32_t free_break;   // head of the list of free ones below that; 0: none
  // The last question that was answered without the host. A signal may have come meanwhile, and stops the
  // guest in front of that instruction: it is not to be asked again.
  ControlPoint answered;
  bool filters;            // there may be filters in the code
  bool inline_breaks;      // code that is translated from now on asks and counts by itself
  uint32_t lanes_used;     // how many counting registers are somebody's …
  uint32_t lanes[kLanes];  // … and whose: index of the Break, 0: nobody's
  bool cover;              // blocks end with the first branch: what is translated is executed …
  uint64_t covered;        // … and so many have left the cache (kCovered)
  bool shadow;             // what is written to is marked in the shadow (shadow_hot.cc)
  bool report;             // loads and stores are reported (report.h); blocks are entered at their start only
  bool report_stores, report_loads;
  uint32_t report_units;       // of the arena of sites that are in use …
  uint32_t report_generation;  // … and how often it was begun anew
  uint32_t report_range_count;
  const DataRange* report_ranges;  // code that reports; none: all
  // Pages that the client keeps write-protected to see stores to them; we must not make them writable.
  uint32_t data_page_count;
  const Address* data_pages;
  // Debug code is there (Engine::admit_probe), and has control: then nothing else can be entered, and it
  // cannot be otherwise.
  bool probe, in_probe;
  bool frozen;      // pages that we have made read-only stay so, whatever is written to them
  uint32_t detour;  // hooks.reached_hot: go on there instead (a cache address)
  // Store checks in translated code: are these bytes about to be written to?
  bool watch;     // new code gets them …
  bool stepping;  // … but not the instruction that is being stepped
  uint32_t data_range_count;
  const DataRange* data_ranges;
};
extern Cache bs_cache;

// Control comes to `pc` from elsewhere: whoever knows how often it passes such places and the starts of
// blocks knows how often each instruction was executed.
inline void note_entered(Address pc) {
  if (bs_cache.cover && bs_cache.covered < kMostCovered) kCovered[bs_cache.covered++] = {pc, pc};
}

enum class Result : uint32_t {
  Ok,
  NeedFetch,    // the address is not in a known executable range: ask the owner of the memory map
  NeedCounter,  // the first AVX-512 instruction is next: the counter must leave its vector register
  NeedFlush,    // cache full
};

// --- hot world (translate_hot.cc, links_hot.cc) ---
struct Found {
  uint32_t cache = 0;  // 0: not translated
  uint32_t block = 0;
};
Found find(Address pc);
// Translates from `pc` on. `landing`: emit an entry for indirect branches in front. `transient`: one
// instruction, not entered into the books (for code that writes to its own page).
Result translate(Address pc, bool landing, bool transient, uint32_t* address);
PageCode* page_of(Address pc, bool create);
void flush();
void reset_fetch();
void invalidate_page(Address page);
bool has_stable_code(Address page);  // invalidating it will empty the cache
void remove_trap();
// Stops watching (unprotects) the pages of [start, end) and drops their code. Returns how many were watched.
int unwatch(Address start, Address end);
uint32_t set_landing(Address pc, uint32_t address);
void add_link(uint32_t block, uint32_t patch, Address target);
void undo_crossings();  // links between ranges lead to their stubs again
uint32_t new_exit_stub(const Exit& exit);
// --- breaks_hot.cc ---
struct Emitter;
bool add_break(Address pc);  // the guest stops there; counted. False: there are too many
void remove_break(Address pc);
// The client is asked there: by a stop (Stop::Break) or, if inlined, first by hooks.reached_hot.
bool ask_at(Address pc, const void* what, const Filter& filter = {});
// Passes are counted: by the client, who gets a stop, or, if inlined, in Break::count.
bool count_at(Address pc);
void forget_asked(Address pc);    // neither of the two
void inline_breaks(bool wanted);  // outside of the cache, which it may empty
Break* find_break(Address pc);
// If one is wanted there. `roomy`: what comes behind it is short, there is room for a filter.
void emit_prefix(Emitter& e, Address pc, bool roomy);
// A fault at this place in the cache is that of a filter: where to go on, with something else than 0 in rcx.
// 0: it is not.
uint32_t behind_filter(uint32_t cache);
uint32_t prefix_at(Address pc, uint32_t cache);  // size of what is in front of a translated instruction
bool prefixes_wanted();                          // in what is translated from now on
bool needs_host(Address pc);                     // a question was met there
const Break* break_at(uint32_t cache);           // null: none
void patch_breaks(Address start, Address end);   // code of that range can be executed from now on
void patch_breaks_of(const Block& block);        // it was translated
void forget_breaks_of(const Block& block);       // it is about to go
void forget_all_breaks();                        // all code is
void take_lanes();                               // what registers have counted is in the breaks from now on
bool data_watched(Address page);
// --- watch_hot.cc ---
// `used`: registers that the code around it needs.
void emit_store_check(Emitter& e, const isa::Insn& in, const uint8_t* code, Address pc, uint32_t used);
// The check has met a page with watched bytes: from now on it goes to its stub, whose address is returned.
uint32_t widen_store_check(const Check& check);
void mark_watched(const DataRange* ranges, uint32_t count);  // all others are forgotten
bool watch_matches();  // does the address that a store check found lie near a watched range?
// --- shadow_hot.cc ---
// In front of an instruction: what it writes cannot be marked behind it, so the client executes it alone
// (Stop::Watched).
void emit_shadow_question(Emitter& e, const isa::Insn& in, const uint8_t* code, Address pc);
// Behind it: what it has written is marked.
void emit_shadow_mark(Emitter& e, const isa::Insn& in, const uint8_t* code, Address pc);
void emit_shadow_push(Emitter& e);  // … behind a push of eight bytes
// Somebody else is about to write there. Nothing happens if nobody wants to know.
void mark_written(Address start, uint64_t size);
// The block that holds a cache address; 0: none.
uint32_t block_at(uint32_t cache_address);
// The check whose load is at a cache address; null: none.
const Check* check_at(uint32_t cache_address);

}  // namespace backstep::engine
