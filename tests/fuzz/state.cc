// Random starting states, the XSAVE area in comparable form, and the memory of a snippet.
#include <cpuid.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "case.h"
#include "engine/engine.h"

extern "C" void fuzz_exit();

namespace fuzz {
namespace {

uint64_t interesting(Random& random) {
  static constexpr uint64_t kValues[] = {0,
                                         1,
                                         2,
                                         0x7f,
                                         0x80,
                                         0xff,
                                         0x7fff,
                                         0x8000,
                                         0xffff,
                                         0x7fff'ffff,
                                         0x8000'0000,
                                         0xffff'ffff,
                                         0x7fff'ffff'ffff'ffff,
                                         0x8000'0000'0000'0000,
                                         0xffff'ffff'ffff'ffff,
                                         0x0000'8000'0000'0000};
  uint64_t v = kValues[random.below(16)];
  return random.chance(20) ? v + random.below(5) - 2 : v;
}

Address pointer(Random& random, const Case& c) {
  Address a;
  uint64_t size;
  switch (random.below(8)) {
    case 0:
      a = kStack, size = sizeof(Memory::stack);
      break;
    case 1:
    case 2:
      a = kHighData, size = sizeof(Memory::high);
      break;
    case 3:
      if (kAreas[c.area].writable && random.chance(50)) return c.at + random.below(c.size + 1);
      [[fallthrough]];
    default:
      a = kLowData, size = sizeof(Memory::low);
      break;
  }
  Address p = a + random.below(size);
  if (random.chance(75)) p &= ~63ull;
  return p;
}

// Floating point numbers of all kinds, so that exceptions and assists happen.
void random_numbers(Random& random, unsigned char* to, size_t size) {
  for (size_t i = 0; i + 8 <= size; i += 8) {
    uint64_t v = random();
    switch (v % 11) {
      case 0:
        v = 0;
        break;
      case 1:
        v = 0x3ff0'0000'0000'0000;
        break;
      case 2:
        v = 0x7ff0'0000'0000'0000;
        break;  // infinity
      case 3:
        v = 0x7ff0'0000'0000'0000 | (v >> 12);
        break;  // NaN
      case 4:
        v = v >> 13;
        break;  // denormal
      case 5:
        v = 0x3f80'0000'bf80'0000;
        break;  // floats
      case 6:
        v = 0x3fe0'0000'0000'0000 + (v >> 11);
        break;  // near 1
      case 7:
        v = 0x4060'0000'4120'0000 ^ (v & 0x8003'ffff'8003'ffff);
        break;
      case 8:
        v = (v >> 8 & 0xff) | (v >> 16 & 0xff) << 32;
        break;  // small integers
      default:
        break;
    }
    std::memcpy(to + i, &v, 8);
  }
}

void fill_xsave(Random& random, State& s, bool evex) {
  const XsaveLayout& layout = xsave_layout();
  unsigned char* x = s.xsave;
  std::memset(x, 0, kXsave);
  uint16_t fcw = static_cast<uint16_t>(0x37f & ~(random.chance(10) ? random.below(64) : 0));
  fcw = static_cast<uint16_t>((fcw & ~0xf00) | (random.below(16) << 8));
  uint16_t fsw = static_cast<uint16_t>(random() & 0x7f00);  // top, condition codes; no pending exception
  auto ftw = static_cast<unsigned char>(random.chance(50) ? random() : 0);
  std::memcpy(x, &fcw, 2);
  std::memcpy(x + 2, &fsw, 2);
  x[4] = ftw;
  for (unsigned i = 0; i < 8; i++) {  // extended precision: mantissa, then sign and exponent
    random_numbers(random, x + 32 + 16 * i, 8);
    uint16_t top = static_cast<uint16_t>(random.chance(60) ? 0x3fff + random.below(9) - 4 : random());
    std::memcpy(x + 32 + 16 * i + 8, &top, 2);
    if (random.chance(70)) x[32 + 16 * i + 7] |= 0x80;  // normal
  }
  uint32_t mxcsr = 0x1f80 | (random.chance(50) ? static_cast<uint32_t>(random() & 0xe07f) : 0);
  mxcsr &= ~0x3fu | static_cast<uint32_t>(random());
  if (random.chance(5)) mxcsr &= ~static_cast<uint32_t>(random() & 0x1f80), mxcsr &= ~0x3fu;
  std::memcpy(x + 24, &mxcsr, 4);
  random_numbers(random, x + 160, 256);
  if (layout.mask & 4) random_numbers(random, x + layout.avx, 256);
  uint64_t bits = layout.mask & 7;
  if (evex) {
    random_numbers(random, x + layout.opmask, 64);
    random_numbers(random, x + layout.zmm_hi, 512);
    random_numbers(random, x + layout.hi16, 1024);
    bits = layout.mask;
  }
  if (random.chance(15)) bits &= random();  // components in their initial state
  std::memcpy(x + 512, &bits, 8);
}

unsigned char random_pool[1 << 17];

}  // namespace

const XsaveLayout& xsave_layout() {
  static const XsaveLayout layout = [] {
    XsaveLayout l;
    l.mask = backstep::engine::this_machine().xcr0 & backstep::kSavedComponents;
    unsigned a, b, c, d;
    auto offset = [&](unsigned component) {
      return __get_cpuid_count(0xd, component, &a, &b, &c, &d) ? b : 0;
    };
    if (l.mask & 0x20) l.opmask = offset(5);
    if (l.mask & 0x40) l.zmm_hi = offset(6);
    if (l.mask & 0x80) l.hi16 = offset(7);
    return l;
  }();
  return layout;
}

Roles roles(uint64_t seed) {
  Random random(seed ^ 0x1234'5678);
  Roles r;
  for (Role& role : r.of) {
    uint64_t dice = random.below(100);
    role = dice < 50 ? Role::Pointer : dice < 72 ? Role::Small : Role::Value;
  }
  if (random.chance(60)) r.of[backstep::RCX] = Role::Small;
  r.of[backstep::RSP] = Role::Pointer;
  return r;
}

void fill_start(Case& c) {
  c.area = kAreaCount;
  for (unsigned i = 0; i < kAreaCount; i++)
    if (c.at >= kAreas[i].start && c.at < kAreas[i].start + kAreaSize) c.area = i;
  if (c.area == kAreaCount) {
    std::fprintf(stderr, "fuzz: %#lx is in no code area\n", c.at);
    std::exit(2);
  }
  c.slot = static_cast<unsigned>((c.at - kAreas[c.area].start) / kSlotSize);
  Roles r = roles(c.seed);
  Random random(c.seed);
  State& s = c.start;
  for (unsigned i = 0; i < 16; i++) {
    switch (r.of[i]) {
      case Role::Pointer:
        s.gpr[i] = pointer(random, c);
        break;
      case Role::Small:
        s.gpr[i] = random.chance(85) ? random.below(24) : -random.below(64);
        break;
      case Role::Value:
        s.gpr[i] = random.chance(50) ? interesting(random) : random();
        break;
    }
  }
  s.gpr[backstep::RSP] = kStack + 0x800 + 8 * random.below(32) + (random.chance(3) ? random.below(8) : 0);
  s.rip = c.at;
  s.rflags = 0x202 | (random() & 0x8d5);       // OF SF ZF AF PF CF
  if (random.chance(10)) s.rflags |= 0x400;    // DF
  if (random.chance(10)) s.rflags |= 1 << 21;  // ID
  s.fs_base = (random.chance(50) ? kLowData : kHighData) + 0x400 + 8 * random.below(64);
  s.gs_base = (random.chance(50) ? kLowData : kHighData) + 0x600 + 8 * random.below(64);
  if (random.chance(50)) {  // so that fs:[small] works as well as fs:[pointer] faults
    s.fs_base = random.below(64);
    s.gs_base = random.below(64);
  }
  fill_xsave(random, s, c.evex);
  if (!random_pool[0]) {
    Random fill(42);
    random_numbers(fill, random_pool, sizeof random_pool / 2);
    for (size_t i = sizeof random_pool / 2; i < sizeof random_pool; i++)
      random_pool[i] = static_cast<unsigned char>(fill());
    random_pool[0] = 1;
  }
  std::memcpy(&c.memory, random_pool + 8 * random.below((sizeof random_pool - sizeof c.memory) / 8),
              sizeof c.memory);
  // Some words of memory are pointers too.
  for (unsigned i = 0; i < 8; i++) {
    uint64_t p = pointer(random, c);
    std::memcpy(reinterpret_cast<unsigned char*>(&c.memory) + 8 * random.below(sizeof c.memory / 8), &p, 8);
  }
  c.stepped = random.chance(8);
  c.start_tick = random.chance(50) ? random() >> 20 : 0xffff'ffff - random.below(4);
  c.limit_step = static_cast<unsigned>(1 + random.below(3));
  c.syscalls = static_cast<Syscalls>(random.below(3));
}

std::string print_case(const Case& c) {
  char head[128];
  std::snprintf(head, sizeof head, "evex=%d at=%#lx state=%#lx bytes=", c.evex, c.at, c.seed);
  std::string s = head;
  for (unsigned i = 0; i < c.size; i++) {
    std::snprintf(head, sizeof head, "%02x", c.code[i]);
    s += head;
  }
  return s;
}

bool parse_case(const std::string& line, Case& c, std::string* error) {
  int evex = 0, used = 0;
  unsigned long at, seed;
  if (std::sscanf(line.c_str(), "evex=%d at=%lx state=%lx bytes=%n", &evex, &at, &seed, &used) != 3 ||
      !used) {
    *error = "expected evex=0|1 at=ADDRESS state=SEED bytes=HEX";
    return false;
  }
  c.evex = evex;
  c.at = at;
  c.seed = seed;
  c.size = 0;
  for (const char* p = line.c_str() + used; p[0] && p[1] && c.size < sizeof c.code; p += 2) {
    unsigned byte;
    if (std::sscanf(p, "%2x", &byte) != 1) break;
    c.code[c.size++] = static_cast<uint8_t>(byte);
  }
  return c.size > 0;
}

void normalise(State& s, bool all_vectors) {
  const XsaveLayout& layout = xsave_layout();
  unsigned char* x = s.xsave;
  uint64_t bits;
  std::memcpy(&bits, x + 512, 8);
  if (!(bits & 1)) {
    std::memset(x, 0, 24);
    uint16_t fcw = 0x37f;
    std::memcpy(x, &fcw, 2);
    std::memset(x + 32, 0, 128);
  }
  std::memset(x + 5, 0, 19);  // reserved, last opcode, instruction and data pointers
  std::memset(x + 28, 0, 4);  // MXCSR mask
  for (unsigned i = 0; i < 8; i++) std::memset(x + 32 + 16 * i + 10, 0, 6);
  if (!(bits & 2)) std::memset(x + 160, 0, 256);
  std::memset(x + 416, 0, 512 - 416);
  if (layout.mask & 4 && !(bits & 4)) std::memset(x + layout.avx, 0, 256);
  if (layout.mask & 0x20 && !(bits & 0x20)) std::memset(x + layout.opmask, 0, 64);
  if (layout.mask & 0x40 && !(bits & 0x40)) std::memset(x + layout.zmm_hi, 0, 512);
  if (layout.mask & 0x80 && (!(bits & 0x80) || !all_vectors)) std::memset(x + layout.hi16, 0, 1024);
  bits = layout.mask;
  std::memcpy(x + 512, &bits, 8);
  std::memset(x + 520, 0, 56);
}

void map_memory() {
  auto map = [](Address at, uint64_t size) {
    void* p = mmap(reinterpret_cast<void*>(at), size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != reinterpret_cast<void*>(at)) {
      std::fprintf(stderr, "fuzz: cannot map memory at %#lx\n", at);
      std::_Exit(2);
    }
  };
  for (const CodeArea& area : kAreas) {
    map(area.start, kAreaSize);
    std::memset(reinterpret_cast<void*>(area.start), 0xcc, kAreaSize);
  }
  // What lies at kExit leaves a native snippet without touching anything; the pointer is on the next page,
  // which is not executable. The engine process only reads them.
  map(kExit, 8192);
  auto* exit = reinterpret_cast<unsigned char*>(kExit);
  std::memset(exit, 0xcc, 4096);
  const unsigned char jump[] = {0xff, 0x25, 0xfa, 0x0f, 0, 0};  // jmp [rip+0xffa]
  std::memcpy(exit, jump, sizeof jump);
  void (*const target)() = fuzz_exit;
  std::memcpy(exit + 4096, &target, 8);
  mprotect(exit, 8192, PROT_READ);
  for (const Piece& piece : kPieces) map(piece.start, piece.size);
}

Piece cleared_by(const Case& c) {
  if (kAreas[c.area].writable) return {kAreas[c.area].start, 0, kAreaSize};
  return {c.at & ~(kSlotSize - 1), 0, kSlotSize};
}

void put_code(const Case& c) {
  const Piece piece = cleared_by(c);
  std::memset(reinterpret_cast<void*>(piece.start), 0xcc, piece.size);
  std::memcpy(reinterpret_cast<void*>(c.at), c.code, c.size);
}

void put_code(const Shared& shared) {
  static bool dirty[kAreaCount][kBatch];
  for (unsigned a = 0; a < kAreaCount; a++)
    for (unsigned i = 0; i < kBatch; i++) {
      if (dirty[a][i] || kAreas[a].writable)
        std::memset(reinterpret_cast<void*>(kAreas[a].start + i * kSlotSize), 0xcc, kSlotSize);
      dirty[a][i] = false;
    }
  for (unsigned i = 0; i < shared.count; i++) {
    put_code(shared.cases[i]);
    dirty[shared.cases[i].area][shared.cases[i].slot] = true;
  }
}

void set_memory(const Memory& m) {
  for (const Piece& piece : kPieces)
    std::memcpy(reinterpret_cast<void*>(piece.start), reinterpret_cast<const char*>(&m) + piece.offset,
                piece.size);
}

void get_memory(Memory& m) {
  for (const Piece& piece : kPieces)
    std::memcpy(reinterpret_cast<char*>(&m) + piece.offset, reinterpret_cast<const void*>(piece.start),
                piece.size);
}

}  // namespace fuzz
