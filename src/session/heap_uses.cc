// All loads and stores of the memory that has ever been part of a block are gone through in the order of
// time, together with the blocks' beginnings and ends, over a shadow: for each eight bytes which block they
// are or were last, and for each byte whether somebody has written to it.
//
// What the allocator does while one of its functions runs is its own business: between a call and its return,
// accesses of that thread do not count (realloc's copying is made up for, and calloc's clearing). Nor does
// what it does when a thread ends; where libc has no names for its functions, none of its unnamed code does.
//
// A load may take more than it needs. Compilers and libraries read whole aligned words of which only a part
// is in the block, and functions such as strlen read aligned vectors, several at once, of which the last ones
// are behind it: none of them crosses the end of a page. So a load of up to 64 bytes at a multiple of its
// size is fine if one of its bytes is; functions that look for something in strings and memory (str…, wcs…,
// memchr, memcmp, …) may load anything next to a block.
//
// What nobody has written is told of when it is loaded, whatever is done with it then, unless a part of what
// is loaded was written to (structures have gaps), or it is only copied or looked through: by mem… and str….
// Code that loads and then does not look is common (parsers made by bison do), so this is looked for only if
// somebody asks.
#include "session/heap_uses.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <memory>
#include <unordered_map>

#include "session/accesses.h"

namespace backstep::session {
namespace {

constexpr uint64_t kGrain = 8, kShadowPage = 4096, kGrains = kShadowPage / kGrain;
constexpr uint64_t kNear = 32;  // bytes around a block that count as its surroundings

struct ShadowPage {
  uint32_t block[kGrains] = {};  // number; 0: none
  uint64_t written[kShadowPage / 64] = {};
};

class Shadow {
 public:
  ShadowPage* find(Address a) {
    const Address page = a / kShadowPage;
    if (page == last_) return last_page_;
    auto found = pages_.find(page);
    last_ = page, last_page_ = found == pages_.end() ? nullptr : found->second.get();
    return last_page_;
  }
  ShadowPage& make(Address a) {
    if (ShadowPage* p = find(a)) return *p;
    auto& place = pages_[a / kShadowPage];
    place = std::make_unique<ShadowPage>();
    last_page_ = place.get();
    return *place;
  }
  uint32_t block(Address a) {
    const ShadowPage* p = find(a);
    return p ? p->block[a % kShadowPage / kGrain] : 0;
  }
  void set_block(Address start, Address end, uint32_t number) {
    for (Address a = start & ~(kGrain - 1); a < end; a += kGrain)
      make(a).block[a % kShadowPage / kGrain] = number;
  }
  bool written(Address a) {
    const ShadowPage* p = find(a);
    return p && (p->written[a % kShadowPage / 64] >> (a % 64) & 1);
  }
  bool any_written(Address start, Address end) {
    for (Address a = start; a < end; a++)
      if (written(a)) return true;
    return false;
  }
  void set_written(Address start, Address end, bool yes) {
    for (Address a = start; a < end;) {
      ShadowPage& p = make(a);
      uint64_t& word = p.written[a % kShadowPage / 64];
      const Address next = std::min<Address>(end, (a / 64 + 1) * 64);
      const uint64_t count = next - a;
      const uint64_t mask = (count == 64 ? ~0ull : (1ull << count) - 1) << (a % 64);
      word = yes ? word | mask : word & ~mask;
      a = next;
    }
  }

 private:
  std::unordered_map<Address, std::unique_ptr<ShadowPage>> pages_;
  Address last_ = ~0ull;
  ShadowPage* last_page_ = nullptr;
};

enum class Reader : uint8_t { Plain, Searches, Copies, Allocator };

class Checker {
 public:
  Checker(Session& session, const std::vector<HeapBlock>& blocks, bool unwritten,
          const std::function<void(HeapFinding)>& found)
      : session_(session),
        blocks_(blocks),
        unwritten_(unwritten),
        live_(blocks.size() + 1, false),
        found_(found) {
    for (const HeapBlock& b : blocks_) {
      if (!b.number || b.failed()) continue;
      const auto n = static_cast<uint32_t>(b.number);
      changes_.push_back({b.allocated.done + 1, true, n});
      if (b.freed) changes_.push_back({b.freed->at.tick, false, n});
    }
    std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
      return a.tick != b.tick ? a.tick < b.tick : a.begins > b.begins;
    });
  }

  void come_to(Tick tick) {
    for (; next_ < changes_.size() && changes_[next_].tick <= tick; next_++)
      changes_[next_].begins ? begin(changes_[next_].block) : end(changes_[next_].block);
  }

  void look_at(const Access& a) {
    if (a.size == 0) return;
    const Address end = a.address + a.size;
    const uint32_t n = shadow_.block(a.address);
    if (!(n && live_[n] && holds(n, a.address) && holds(n, end - 1)) && !check_each(a)) return;
    if (a.store) {
      shadow_.set_written(a.address, end, true);
    } else if (unwritten_ && !shadow_.any_written(a.address, end) && is_in_block(a.address) &&
               reader_at(a.pc) == Reader::Plain) {
      tell(a, "uninitialised read", a.address, shadow_.block(a.address));
      shadow_.set_written(a.address, end, true);  // once is enough
    }
  }

 private:
  struct Change {
    Tick tick;
    bool begins;
    uint32_t block;
  };
  const HeapBlock& block(uint32_t n) const { return blocks_[n - 1]; }
  bool holds(uint32_t n, Address a) const { return block(n).holds(a); }
  bool is_in_block(Address a) {
    const uint32_t n = shadow_.block(a);
    return n && live_[n] && holds(n, a);
  }

  void begin(uint32_t n) {
    const HeapBlock& b = block(n);
    const Address end = b.address + std::max<uint64_t>(b.size, 1);
    live_[n] = true;
    shadow_.set_block(b.address, end, n);
    // What is right behind it is its surroundings now, whatever was there.
    for (Address a = (end + kGrain - 1) & ~(kGrain - 1); a < end + 2 * kGrain; a += kGrain)
      if (const uint32_t other = shadow_.block(a); other && !live_[other]) shadow_.set_block(a, a + 1, 0);
    const bool known = b.allocated.function->cleared || b.allocated.function->local;
    shadow_.set_written(b.address, end, known);
    auto old = moving_.find(n);
    if (old == moving_.end()) return;
    for (uint64_t i = 0; i < std::min<uint64_t>(old->second.size(), b.size); i++)
      if (old->second[i]) shadow_.set_written(b.address + i, b.address + i + 1, true);
    moving_.erase(old);
  }
  void end(uint32_t n) {
    const HeapBlock& b = block(n);
    live_[n] = false;
    if (!b.resized_to) return;
    std::vector<bool>& written = moving_[static_cast<uint32_t>(b.resized_to)];
    for (uint64_t i = 0; i < b.size; i++) written.push_back(shadow_.written(b.address + i));
  }

  // An access that is not all in one block. Is it fine nevertheless?
  bool check_each(const Access& a) {
    constexpr uint32_t kVector = 64;
    bool any = false;
    Address bad = 0;
    for (Address at = a.address; at < a.address + a.size; at++) {
      if (is_in_block(at))
        any = true;
      else if (!bad)
        bad = at;
    }
    if (reader_at(a.pc) == Reader::Allocator) return false;
    if (!bad) return true;  // of two blocks, one behind the other: cannot be, but is no business of ours
    if (!a.store) {
      const bool aligned = a.size <= kVector && std::has_single_bit(a.size) && a.address % a.size == 0;
      if (aligned && any) return true;
      if (reader_at(a.pc) == Reader::Searches) return false;
    }
    tell_bad(a, bad);
    return false;
  }

  void tell_bad(const Access& a, Address bad) {
    const uint32_t n = shadow_.block(bad);
    if (n && !live_[n] && holds(n, bad)) return tell(a, "use after free", bad, n);
    if (n && live_[n]) return tell(a, "overrun", bad, n);
    for (uint64_t i = kGrain; i <= kNear; i += kGrain)
      if (const uint32_t before = shadow_.block(bad - i); before && live_[before])
        return tell(a, "overrun", bad, before);
    for (uint64_t i = kGrain; i <= 2 * kGrain; i += kGrain)
      if (const uint32_t after = shadow_.block(bad + i); after && live_[after])
        return tell(a, "underrun", bad, after);
  }

  void tell(const Access& a, const char* kind, Address address, uint32_t n) {
    HeapFinding f;
    f.kind = kind;
    f.at = {a.tick, a.event, a.pc};
    f.thread = a.thread;
    f.address = address;
    f.size = a.size;
    f.is_access = true;
    f.store = a.store;
    if (n) f.block = block(n);
    // A block that is freed only later was not when this happened.
    if (f.block && live_[n]) f.block->freed.reset();
    found_(std::move(f));
  }

  Reader reader_at(Address pc) {
    auto [place, fresh] = readers_.try_emplace(pc, Reader::Plain);
    if (fresh) place->second = find_reader(pc);
    return place->second;
  }
  Reader find_reader(Address pc) const {
    const symbols::Module* module = session_.program().module_at(pc);
    if (!module) return Reader::Plain;
    const std::string file = module->name.substr(module->name.rfind('/') + 1);
    const bool system = file.starts_with("libc.") || file.starts_with("libc-") || file.starts_with("ld-");
    const auto function = session_.program().function_at(pc);
    if (!function) return system ? Reader::Allocator : Reader::Plain;
    std::string_view name = function->name;
    while (name.starts_with("_")) name.remove_prefix(1);
    if (name == "malloc_arena_thread_freeres") return Reader::Allocator;
    for (const char* copies : {"memcpy", "memmove", "mempcpy", "memccpy", "wmemcpy", "wmemmove"})
      if (name.starts_with(copies)) return Reader::Copies;
    for (const char* searches : {"str", "stpcpy", "stpncpy", "wcs", "memchr", "memrchr", "memcmp", "memmem",
                                 "rawmemchr", "wmemchr", "wmemcmp", "bcmp"})
      if (name.starts_with(searches) && (system || std::islower(static_cast<unsigned char>(name[0]))))
        return is_of_libc(name, module) ? Reader::Searches : Reader::Plain;
    return Reader::Plain;
  }
  // A function of the program that is called like one of libc's is none, unless the program has its libc in
  // itself.
  bool is_of_libc(std::string_view name, const symbols::Module* module) const {
    const auto& files = session_.timeline().log().files();
    const bool own = !files.empty() && module->name == files.front().path;
    for (const char* variant : {"_sse", "_avx", "_evex", "_erms"})
      if (name.find(variant) != std::string_view::npos) return true;
    return !own;
  }

  Session& session_;
  const std::vector<HeapBlock>& blocks_;
  bool unwritten_;          // loads of what nobody has written are looked for
  std::vector<bool> live_;  // by number
  std::vector<Change> changes_;
  size_t next_ = 0;
  Shadow shadow_;
  std::unordered_map<uint32_t, std::vector<bool>>
      moving_;  // what was written of the old block, by the new one
  std::unordered_map<Address, Reader> readers_;
  const std::function<void(HeapFinding)>& found_;
};

}  // namespace

void HeapUses::add(const HeapBlock& block) {
  if (block.failed()) return;
  if (blocks_.size() < block.number) blocks_.resize(block.number);
  blocks_[block.number - 1] = block;
  add_territory(ever_, block);
}

void HeapUses::add_inside(int thread, Tick enter, Tick leave) {
  inside_[thread].push_back({enter, leave});
}

bool HeapUses::run(const std::optional<Position>& to, bool unwritten,
                   const std::function<void(HeapFinding)>& found, const Watcher& watcher) {
  if (ever_.empty()) return true;
  for (auto& [thread, list] : inside_)
    std::sort(list.begin(), list.end(), [](const Inside& a, const Inside& b) { return a.enter < b.enter; });
  AccessRequest request;
  request.stretch = {Position{}, to};
  request.loads = true;
  for (auto [start, end] : ever_) {
    if (!request.data.empty() && request.data.back().end + kShadowPage >= start - kNear)
      request.data.back().end = end + kNear;
    else
      request.data.push_back({start - kNear, end + kNear});
  }
  Checker checker(session_, blocks_, unwritten, found);
  std::map<int, size_t> next;  // by thread, of its calls
  accesses(
      session_, request,
      [&](const Access& a) {
        checker.come_to(a.tick);
        const auto& calls = inside_[a.thread];
        size_t& n = next[a.thread];
        while (n < calls.size() && calls[n].leave < a.tick) n++;
        if (n >= calls.size() || calls[n].enter > a.tick) checker.look_at(a);
        return true;
      },
      watcher);
  return !session_.timeline().attention.stop_asked;
}

}  // namespace backstep::session
