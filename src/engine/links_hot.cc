// Finding, linking and forgetting translated code, and the hot exits that do it while the guest runs.
#include "base/hot.h"
#include "engine/cache.h"
#include "engine/emit.h"
#include "engine/entry.h"
#include "engine/hooks.h"
#include "isa/decode.h"

namespace backstep::engine {

Hooks bs_hooks;

bool out_of_reach(Address pc) {
  return bs_cache.probe && layout::is_probe(pc) != bs_cache.in_probe;
}

namespace {

constexpr long kMmap = 9, kMprotect = 10, kMadvise = 28, kDontNeed = 4, kNoHugePage = 15;

void discard(const void* start, uint64_t size) {
  size = (size + layout::kPage - 1) & ~(layout::kPage - 1);
  hot::syscall6(kMadvise, reinterpret_cast<long>(start), static_cast<long>(size), kDontNeed, 0, 0, 0);
}

// Fresh memory in the place of what was mapped from a file.
void renew(uint64_t start, uint64_t size, long prot) {
  constexpr long kFlags = 0x4032;  // MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE
  hot::syscall6(kMmap, static_cast<long>(start), static_cast<long>(size), prot, kFlags, -1, 0);
  hot::syscall6(kMadvise, static_cast<long>(start), static_cast<long>(size), kNoHugePage, 0, 0, 0);
}

void unprotect(PageCode& page) {
  const long prot = bs_cache.frozen || data_watched(page.page) ? 1 /*PROT_READ*/ : 3 /*PROT_READ|PROT_WRITE*/;
  hot::syscall6(kMprotect, static_cast<long>(page.page), layout::kPage, prot, 0, 0, 0);
  page.watched = 0;
  bs_cache.watched_pages--;
}

// A dead block may still be entered in three ways: by links (sent back to stubs here), by landings (the
// page's jump table entries are cleared by the caller) and by the code before it falling into it (its first
// bytes become a jump; translate() makes no block shorter than that). A link out of a dead block may lie in
// these bytes: it must be left alone.
bool under_jump(uint32_t patch) {
  uint32_t id = block_at(patch);
  return id && kBlocks[id].dead && patch < kBlocks[id].cache + kJumpSize;
}

void kill(uint32_t id) {
  Block& b = kBlocks[id];
  if (b.dead) return;
  b.dead = 1;
  if (bs_cache.break_count) forget_breaks_of(b);
  bs_cache.stats.invalidated++;
  for (uint32_t l = b.links; l; l = kLinks[l].next) {
    if (under_jump(kLinks[l].patch)) continue;
    uint32_t stub = new_exit_stub({kLinks[l].target, kLinks[l].patch, ExitKind::Branch, 0, 0});
    patch_relative(kLinks[l].patch, stub);
  }
  b.links = 0;
  Emitter e{reinterpret_cast<uint8_t*>(static_cast<uint64_t>(b.cache))};
  e.jump(new_exit_stub({b.guest, 0, ExitKind::Branch, 0, 0}));
}

}  // namespace

Found find(Address pc) {
  PageCode* page = page_of(pc, false);
  if (!page) return {};
  unsigned offset = pc & 4095;
  if (!(page->starts[offset / 64] >> (offset % 64) & 1)) return {};
  for (uint32_t n = page->nodes; n; n = kNodes[n].next) {
    const PageNode& node = kNodes[n];
    for (unsigned i = 0; i < node.count; i++) {
      const PageNode::Entry& entry = node.entries[i];
      if (offset < entry.start || offset >= entry.end) continue;
      const Block& b = kBlocks[entry.block];
      if (b.dead || (bs_cache.report && b.guest != pc)) continue;
      Address guest = b.guest;
      uint32_t cache = b.cache;
      const uint8_t* meta = kMeta + b.meta;
      for (unsigned k = 0; k < b.count && guest < pc; k++) guest += meta[2 * k], cache += meta[2 * k + 1];
      if (guest == pc && guest < b.guest + b.guest_size) return {cache, entry.block};
    }
  }
  return {};
}

void add_link(uint32_t block, uint32_t patch, Address target) {
  if (kBlocks[block].stable) return;
  uint32_t id = bs_cache.links++;
  kLinks[id] = {patch, kBlocks[block].links, target};
  kBlocks[block].links = id;
}

uint32_t block_at(uint32_t address) {
  uint32_t low = 1, high = bs_cache.blocks;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (kBlocks[middle].cache <= address)
      low = middle + 1;
    else
      high = middle;
  }
  uint32_t id = low - 1;
  if (id == 0 || address >= kBlocks[id].cache + kBlocks[id].cache_size) return 0;
  return id;
}

const Check* check_at(uint32_t address) {
  uint32_t low = 1, high = bs_cache.checks;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (kChecks[middle].site < address)
      low = middle + 1;
    else
      high = middle;
  }
  return low < bs_cache.checks && kChecks[low].site == address ? &kChecks[low] : nullptr;
}

void undo_crossings() {
  for (uint32_t l = bs_cache.crossings; l; l = kLinks[l].next)
    if (!under_jump(kLinks[l].patch))
      patch_relative(kLinks[l].patch, static_cast<uint32_t>(kLinks[l].target));
  bs_cache.crossings = 0;
}

void remove_trap() {
  if (!bs_cache.trap_address) return;
  *reinterpret_cast<uint8_t*>(static_cast<uint64_t>(bs_cache.trap_address)) = bs_cache.trap_byte;
  bs_cache.trap_address = 0;
}

bool has_stable_code(Address address) {
  const PageCode* page = page_of(address, false);
  if (!page) return false;
  for (uint32_t n = page->nodes; n; n = kNodes[n].next)
    for (unsigned i = 0; i < kNodes[n].count; i++) {
      const Block& b = kBlocks[kNodes[n].entries[i].block];
      if (b.stable && !b.dead) return true;
    }
  return false;
}

void invalidate_page(Address address) {
  PageCode* page = page_of(address, false);
  if (!page) return;
  if (page->watched) unprotect(*page);
  if (!page->nodes) return;
  if (static_cast<uint64_t>(bs_cache.cold - bs_cache.hot) < (1 << 20)) {
    flush();  // killing needs stubs
    return;
  }
  if (has_stable_code(address)) {
    flush();  // libraries are unloaded rarely; their links are not worth 16 bytes each
    return;
  }
  for (uint32_t n = page->nodes; n; n = kNodes[n].next)
    for (unsigned i = 0; i < kNodes[n].count; i++) kill(kNodes[n].entries[i].block);
  page->nodes = 0;
  for (uint64_t& word : page->starts) word = 0;
  if (page->page < layout::kDirectEnd) {
    for (unsigned chunk = 0; chunk < 4; chunk++)
      if (page->filled & (1 << chunk))
        hot::fill32(kJumps + page->page + chunk * 1024, pad_address(Pad::Miss), 1024);
  } else {
    for (uint32_t i = 0; i < kWideEntries; i++)
      if ((kWide[i].pc & ~(layout::kPage - 1)) == page->page) kWide[i] = {0, 0};
  }
  bs_cache.tail_exit = 0;
  context().target = kNoTarget;
}

int unwatch(Address start, Address end) {
  int found = 0;
  for (Address page = start & ~(layout::kPage - 1); page < end && bs_cache.watched_pages;
       page += layout::kPage) {
    PageCode* p = page_of(page, false);
    if (!p || !p->watched) continue;
    found++;
    invalidate_page(page);
  }
  return found;
}

void flush() {
  Cache& c = bs_cache;
  remove_trap();
  if (c.break_count) forget_all_breaks();
  for (uint32_t i = 1; c.cover && i < c.blocks && c.covered < kMostCovered; i++)
    kCovered[c.covered++] = {kBlocks[i].guest, kBlocks[i].guest + kBlocks[i].guest_size};
  for (uint32_t i = 1; i < c.pages; i++)
    if (kPages[i].watched) unprotect(kPages[i]);
  if (c.hot) c.stats.flushes++;  // not the first time
  if (c.mapped) {
    renew(layout::kArenas, kArenasTotal, 3 /*PROT_READ|PROT_WRITE*/);
    renew(layout::kJumpTable, layout::kJumpTableSize, 3);
    renew(layout::kCacheStart + c.size - c.mapped, c.mapped, 7 /*… |PROT_EXEC*/);
    c.mapped = 0;
  } else if (c.hot) {
    discard(kBlocks, c.blocks * sizeof(Block));
    discard(kExits, c.exits * sizeof(Exit));
    discard(kChecks, c.checks * sizeof(Check));
    discard(kLinks, c.links * sizeof(Link));
    discard(kNodes, c.nodes * sizeof(PageNode));
    discard(kPages, c.pages * sizeof(PageCode));
    discard(kMeta, c.meta);
    discard(kDirectPages, (layout::kDirectEnd >> 12) * sizeof(uint32_t));
    discard(kWide, kWideEntries * sizeof(WideEntry));
    discard(kWidePages, kPageHash * sizeof(uint32_t));
    discard(kJumps, layout::kJumpTableSize);
  }
  if (c.probe) discard(kProbeLandings, 4 * layout::kProbeSize);
  c.hot = reinterpret_cast<uint8_t*>(layout::kCacheStart + kPadsSize);
  c.cold = reinterpret_cast<uint8_t*>(layout::kCacheStart + c.size);
  c.blocks = c.exits = c.checks = c.links = c.nodes = c.pages = 1;
  c.meta = 0;
  c.tail_exit = 0;
  c.crossings = 0;
  c.watched_pages = 0;
  context().target = kNoTarget;
  reset_fetch();
}

namespace {

// The body of `pc`: found, or translated now. 0: only the host can help.
Found body_of(Address pc, Exit* from) {
  Found f = find(pc);
  if (f.cache) return f;
  Cache& c = bs_cache;
  // Lay the target down in place of the jump that leads to it, when that jump is the last thing emitted.
  uint8_t* rollback = nullptr;
  const uint32_t tail = c.tail_block;
  if (from && c.tail_exit && !c.keep_jumps && from == &kExits[c.tail_exit] &&
      from->patch + 4 == reinterpret_cast<uint64_t>(c.hot) && kBlocks[tail].cache_size >= 10) {
    rollback = c.hot;
    c.hot -= 5;
  }
  uint32_t address;
  Result r = translate(pc, false, false, &address);
  if (r != Result::Ok) {
    if (rollback) c.hot = rollback;
    return {};
  }
  if (rollback) {
    kBlocks[tail].cache_size = static_cast<uint16_t>(kBlocks[tail].cache_size - 5);
    from->patch = 0;
  }
  return {address, c.blocks - 1};
}

void count_tick(Context& ctx) {
  if (bs_cache.vector) {
    asm volatile("vpaddq %xmm30, %xmm31, %xmm31");
    if (bs_cache.check) asm volatile("vmovq %%xmm31, %0" : "=m"(ctx.tick));
  } else {
    ctx.tick++;
  }
}

}  // namespace
}  // namespace backstep::engine

using namespace backstep;
using namespace backstep::engine;

extern "C" uint64_t bs_hot_branch() {
  Context& ctx = context();
  Exit& exit = kExits[ctx.exit];
  bs_cache.stats.exits++;
  ctx.rip = exit.target;
  note_entered(exit.target);
  if (out_of_reach(exit.target)) return 0;
  Found f = body_of(exit.target, &exit);
  if (!f.cache) return 0;
  if (exit.patch && bs_cache.link) {
    if (exit.length) {
      const uint32_t id = bs_cache.links++;
      kLinks[id] = {exit.patch, bs_cache.crossings, relative_target(exit.patch)};
      bs_cache.crossings = id;
    }
    patch_relative(exit.patch, f.cache);
    add_link(f.block, exit.patch, exit.target);
  }
  return f.cache;
}

// Which target? Indirect jumps and calls have stored it to Context::target; plain returns have not (their
// target is still below the stack pointer). A target left over from an earlier jump has a landing, or it
// would have come here itself, and is cleared with every flush or invalidation: so an old one is known by its
// valid table entry.
extern "C" uint64_t bs_hot_miss() {
  Context& ctx = context();
  Cache& c = bs_cache;
  c.stats.misses++;
  Address target = ctx.target;
  ctx.target = kNoTarget;
  bool fresh = target != kNoTarget && (target >= layout::kDirectEnd || kJumps[target] == 0 ||
                                       kJumps[target] == pad_address(Pad::Miss));
  constexpr uint64_t kProbeSite = 1;  // bs_probe_lookup
  fresh |= ctx.branch_site == kProbeSite;
  if (!fresh) target = *reinterpret_cast<Address*>(ctx.gpr[RSP] - 8);
  const auto site = static_cast<uint32_t>(ctx.branch_site);
  ctx.branch_site = 0;
  if (!canonical(target) && site > kProbeSite) {
    bs_fault_info = no_address(site);
    ctx.reason = static_cast<uint32_t>(Reason::Fault);
    return 0;
  }

  // The branch is done here, landing included, so that the state is exact whatever comes next.
  if (r11_in_vector()) asm volatile("vmovq %%xmm29, %0" : "=m"(ctx.spill_r11));
  ctx.gpr[R11] = ctx.spill_r11;
  ctx.rip = target;
  count_tick(ctx);
  if (out_of_reach(target)) return 0;
  Found f = find(target);
  uint32_t address = f.cache;
  if (f.cache) {
    if (static_cast<uint64_t>(c.cold - c.hot) < 4096) return 0;
    // The code exists, entered otherwise so far: a landing of its own that jumps there.
    Emitter e{c.hot};
    uint32_t landing = e.address();
    emit_landing_stub(e, target, f.block, f.cache);
    c.hot = e.p;
    set_landing(target, landing);
  } else {
    if (translate(target, true, false, &address) != Result::Ok) return 0;
    address = kBlocks[c.blocks - 1].cache;
  }
  return c.check && ctx.tick >= ctx.limit ? 0 : address;
}

extern "C" uint64_t bs_hot_syscall() {
  return bs_hooks.syscall_hot(context()) ? context().cont : 0;
}

extern "C" uint64_t bs_hot_hostop() {
  Context& ctx = context();
  const Exit& exit = kExits[ctx.exit];
  ctx.rip = exit.target;
  if (exit.kind == ExitKind::Break) {
    if (needs_host(exit.target)) return 0;
    if (bs_cache.detour) {
      const uint32_t detour = bs_cache.detour;
      bs_cache.detour = 0;
      return detour;
    }
    bs_cache.answered = {ctx.tick, exit.target};
    return exit.patch;
  }
  if (exit.kind == ExitKind::Watch && bs_cache.in_probe) return 0;
  if (exit.kind == ExitKind::Watch) return exit.patch && !watch_matches() ? exit.patch : 0;
  if (exit.length == 0) return 0;
  isa::Insn in = isa::decode(reinterpret_cast<const uint8_t*>(exit.target), exit.length);
  return bs_hooks.host_op_hot(ctx, in) ? exit.patch : 0;
}
