// Making instructions. Nothing here needs to be right by construction: Zydis says what is an instruction and
// the CPU what it does. What matters is that most of them do something, so base registers usually hold
// addresses of the snippet's memory, and instructions that this CPU does not know are soon left out.
#include "generate.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "snippet.h"

namespace fuzz {
namespace {

// What is not fuzzed, and why.
bool skipped(const ZydisDecodedInstruction& z, const uint8_t* code) {
  switch (z.mnemonic) {
    // Results differ from run to run; the recorder logs them (tests/cases/nondeterministic_instructions.sh).
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_RDRAND:
    case ZYDIS_MNEMONIC_RDSEED:
    case ZYDIS_MNEMONIC_RDPID:
    case ZYDIS_MNEMONIC_RDPMC:
    case ZYDIS_MNEMONIC_LSL:  // of selector 0x7b: the number of the CPU
    case ZYDIS_MNEMONIC_RDPRU:
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_XGETBV:
    // The engine hides AVX-512 and which components are in use: different on purpose
    // (tests/programs/isa_xsave.c).
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVE64:
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XSAVEC64:
    case ZYDIS_MNEMONIC_XSAVEOPT:
    case ZYDIS_MNEMONIC_XSAVEOPT64:
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
    case ZYDIS_MNEMONIC_XSAVES:
    case ZYDIS_MNEMONIC_XSAVES64:
    case ZYDIS_MNEMONIC_XRSTORS:
    case ZYDIS_MNEMONIC_XRSTORS64:
    // The kernel and hypervisor would get to see it, or rewrite it.
    case ZYDIS_MNEMONIC_SYSCALL:  // made separately, with dispatch to a signal
    case ZYDIS_MNEMONIC_SYSENTER:
    case ZYDIS_MNEMONIC_VMCALL:
    case ZYDIS_MNEMONIC_VMMCALL:
    case ZYDIS_MNEMONIC_VMFUNC:
    case ZYDIS_MNEMONIC_ENCLU:
    // They wait.
    case ZYDIS_MNEMONIC_MWAITX:
    case ZYDIS_MNEMONIC_UMWAIT:
    case ZYDIS_MNEMONIC_TPAUSE:
    // Would take away access to memory, our handler's included.
    case ZYDIS_MNEMONIC_WRPKRU:
    // Replaced by ud2 in the engine (TSX is hidden); where the CPU has TSX it would differ.
    case ZYDIS_MNEMONIC_XBEGIN:
    case ZYDIS_MNEMONIC_XABORT:
    case ZYDIS_MNEMONIC_XEND:
    case ZYDIS_MNEMONIC_XTEST:
    // Whether a null selector clears the base depends on the CPU; the engine always does so.
    case ZYDIS_MNEMONIC_LFS:
    case ZYDIS_MNEMONIC_LGS:
    // The trap flag would be set by chance; made separately without it.
    case ZYDIS_MNEMONIC_POPF:
    case ZYDIS_MNEMONIC_POPFD:
    case ZYDIS_MNEMONIC_POPFQ:
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
      return true;
    case ZYDIS_MNEMONIC_INT:
      return z.raw.imm[0].value.u == 0x80;
    case ZYDIS_MNEMONIC_MOV:  // to ss, fs, gs: see above; ss also holds back the trap of a single step
      return z.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY && z.opcode == 0x8e && z.raw.modrm.reg != 0 &&
             z.raw.modrm.reg != 3;
    case ZYDIS_MNEMONIC_POP:  // fs, gs
      return z.opcode_map == ZYDIS_OPCODE_MAP_0F;
    default:
      break;
  }
  if (z.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR) return true;  // to other code segments: not supported
  switch (z.meta.category) {
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_RET:
      // Intel ignores an operand size prefix before near branches, AMD cuts the target to 16 bits; the engine
      // raises #UD.
      for (unsigned i = 0; i < z.length; i++)
        if (code[i] == 0x66) return true;
      return z.raw.imm[0].is_relative;  // direct ones are made with a sensible target
    default:
      return false;
  }
}

constexpr uint8_t kSegmentPrefixes[] = {0x64, 0x64, 0x65, 0x65, 0x2e, 0x3e};

}  // namespace

Generator::Generator(uint64_t seed, bool evex, bool with_syscalls)
    : random_(seed), evex_(evex), with_syscalls_(with_syscalls) {
  ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  if (real_.empty()) collect_real_instructions();
}

// A sample of the instructions of the C library and, where there is one, of OpenSSL's.
std::vector<Generator::Real> Generator::real_;

void Generator::collect_real_instructions() {
  Random random(7);
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
                           "/usr/lib/x86_64-linux-gnu/libm.so.6"}) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat st;
    fstat(fd, &st);
    auto size = static_cast<size_t>(st.st_size);
    void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED) continue;
    auto* file = static_cast<const uint8_t*>(map);
    auto* header = reinterpret_cast<const Elf64_Ehdr*>(file);
    auto* table = reinterpret_cast<const Elf64_Shdr*>(file + header->e_shoff);
    for (unsigned i = 0; i < header->e_shnum; i++) {
      if (!(table[i].sh_flags & SHF_EXECINSTR) || table[i].sh_type != SHT_PROGBITS) continue;
      const uint8_t* text = file + table[i].sh_offset;
      for (size_t at = 0; at + 15 < table[i].sh_size;) {
        ZydisDecodedInstruction z;
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder_, nullptr, text + at, 15, &z))) {
          at++;
          continue;
        }
        if (random.below(40) == 0 || z.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY) {
          Real real{};
          std::memcpy(real.bytes, text + at, z.length);
          real.size = z.length;
          if (random.below(4) == 0) real_.push_back(real);
        }
        at += z.length;
      }
    }
    munmap(map, size);
  }
}

bool Generator::acceptable(const uint8_t* code, size_t size, ZydisDecodedInstruction* z) {
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder_, nullptr, code, size, z))) return false;
  if (z->encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX) return false;
  if (!evex_ && z->encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX && random_.below(2000) != 0) return false;
  if (skipped(*z, code)) return false;
  // A repeated store that comes to overwrite itself: natively it goes on or not depending on interrupts.
  if (area_->writable && z->meta.category == ZYDIS_CATEGORY_STRINGOP) return false;
  // The kernel does these for the program (UMIP) and does not get on with pages that the engine watches.
  if (area_->writable && (z->mnemonic == ZYDIS_MNEMONIC_SGDT || z->mnemonic == ZYDIS_MNEMONIC_SIDT ||
                          z->mnemonic == ZYDIS_MNEMONIC_SLDT || z->mnemonic == ZYDIS_MNEMONIC_SMSW ||
                          z->mnemonic == ZYDIS_MNEMONIC_STR))
    return false;
  // esp as an operand of an EVEX instruction with the (meaningless) X bit: Zen 4 reads it without the pushes
  // and calls that its stack engine has not written back yet.
  if (z->encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX && z->raw.modrm.mod == 3 && z->raw.modrm.rm == 4 &&
      z->raw.evex.B && !z->raw.evex.X)  // the bits as they are, inverted
    return false;
  const Fate& fate = fates_[static_cast<uint32_t>(z->mnemonic) * 8 + static_cast<uint32_t>(z->encoding)];
  if (fate.seen >= 12 && fate.died * 100 >= fate.seen * 92 && random_.below(50) != 0) return false;
  return true;
}

unsigned Generator::base_register() {
  if (random_.chance(6)) return static_cast<unsigned>(random_.below(16));
  for (;;) {
    auto r = static_cast<unsigned>(random_.below(16));
    if (roles_.of[r] == Role::Pointer) return r;
  }
}

unsigned Generator::small_register() {
  for (unsigned i = 0; i < 40; i++) {
    auto r = static_cast<unsigned>(random_.below(16));
    if (roles_.of[r] == Role::Small) return r;
  }
  return backstep::RCX;
}

uint64_t Generator::immediate() {
  switch (random_.below(4)) {
    case 0:
      return random_.below(16);
    case 1:
      return -random_.below(16);
    case 2:
      return 1ull << random_.below(64);
    default:
      return random_();
  }
}

Generator::Place Generator::place() {
  Place p{};
  if (random_.chance(38)) {
    auto r = random_.below(16);
    p.mod = 3, p.rm = r & 7, p.b = r >> 3;
    return p;
  }
  if (random_.chance(18)) {  // RIP-relative, address filled in later
    p.mod = 0, p.rm = 5, p.displacement = 4;
    p.b = random_.chance(30);
    return p;
  }
  unsigned base = base_register();
  switch (random_.below(4)) {
    case 0:
      p.mod = 0;
      break;
    case 1:
    case 2:
      p.mod = 1, p.displacement = 1, p.value = static_cast<int32_t>(random_.below(96)) - 48;
      break;
    default:
      p.mod = 2, p.displacement = 4, p.value = static_cast<int32_t>(random_.below(512)) - 256;
      break;
  }
  p.rm = base & 7, p.b = base >> 3;
  if (p.rm == 5 && p.mod == 0) p.mod = 1, p.displacement = 1;
  if (p.rm == 4 || random_.chance(25)) {
    unsigned index = random_.chance(85) ? small_register() : static_cast<unsigned>(random_.below(16));
    if (random_.chance(30)) index = 4;
    p.has_sib = true;
    p.sib = static_cast<uint8_t>(random_.below(4) << 6 | (index & 7) << 3 | (base & 7));
    p.x = index >> 3;
    p.rm = 4;
    if (random_.chance(6)) {  // absolute, 32 bits
      p.mod = 0, p.sib = static_cast<uint8_t>((p.sib & 0xc0) | 0x25), p.x = false, p.displacement = 4;
      p.value = static_cast<int32_t>(kLowData + random_.below(sizeof(Memory::low)));
    }
  }
  return p;
}

// RIP-relative operands: to where data is.
void Generator::reach_data(Item& item, const ZydisDecodedInstruction& z) {
  if (!(z.attributes & ZYDIS_ATTRIB_HAS_MODRM) || z.raw.modrm.mod != 0 || z.raw.modrm.rm != 5 ||
      z.raw.disp.size != 32 || random_.chance(3))
    return;
  Address target = area_->data + random_.below(sizeof(Memory::high));
  if (random_.chance(70)) target &= ~63ull;
  if (area_->data == kHighData && random_.chance(3)) target += 0x4000;  // nothing there
  if (random_.chance(4)) target = here_ + random_.below(64) - 32;
  auto displacement = static_cast<int32_t>(target - (here_ + item.size));
  std::memcpy(item.bytes + z.raw.disp.offset, &displacement, 4);
}

bool Generator::from_fields(Item& item) {
  uint8_t* b = item.bytes;
  unsigned n = 0;
  enum { OneByte, Map1, Map2, Map3, Vex, Evex } map;
  uint64_t dice = random_.below(evex_ ? 160 : 100);
  map = dice < 30    ? OneByte
        : dice < 58  ? Map1
        : dice < 66  ? Map2
        : dice < 73  ? Map3
        : dice < 100 ? Vex
                     : Evex;
  Place p = place();
  auto reg = static_cast<unsigned>(random_.below(16));
  auto opcode = static_cast<uint8_t>(random_());
  if (random_.chance(4)) b[n++] = 0x67;
  if (random_.chance(p.mod == 3 ? 1 : 7)) b[n++] = kSegmentPrefixes[random_.below(6)];
  if (map <= Map3) {
    if (random_.chance(22)) b[n++] = 0x66;
    if (random_.chance(12))
      b[n++] = 0xf3;
    else if (random_.chance(8))
      b[n++] = 0xf2;
    else if (random_.chance(p.mod == 3 ? 0 : 8))
      b[n++] = 0xf0;
    auto rex = static_cast<uint8_t>(0x40 | random_.chance(40) << 3 | (reg >> 3) << 2 | p.x << 1 | p.b);
    if (rex != 0x40 || random_.chance(10)) b[n++] = rex;
    if (map != OneByte) b[n++] = 0x0f;
    if (map == Map2) b[n++] = 0x38;
    if (map == Map3) b[n++] = 0x3a;
  } else {
    auto vvvv = static_cast<unsigned>(random_.chance(35) ? 0 : random_.below(16));
    auto pp = static_cast<unsigned>(random_.below(4));
    auto mmm = static_cast<unsigned>(1 + random_.below(3));
    bool r = reg >> 3, x = p.mod == 3 ? map == Evex && random_.chance(50) : p.x;
    if (map == Vex) {
      bool l = random_.chance(50), w = random_.chance(35);
      if (mmm == 1 && !x && !p.b && !w && random_.chance(70)) {
        b[n++] = 0xc5;
        b[n++] = static_cast<uint8_t>(!r << 7 | (~vvvv & 15) << 3 | l << 2 | pp);
      } else {
        b[n++] = 0xc4;
        b[n++] = static_cast<uint8_t>(!r << 7 | !x << 6 | !p.b << 5 | mmm);
        b[n++] = static_cast<uint8_t>(w << 7 | (~vvvv & 15) << 3 | l << 2 | pp);
      }
    } else {
      auto mask = static_cast<unsigned>(random_.chance(50) ? 0 : random_.below(8));
      b[n++] = 0x62;
      b[n++] = static_cast<uint8_t>(!r << 7 | !x << 6 | !p.b << 5 | random_.chance(50) << 4 | mmm);
      b[n++] = static_cast<uint8_t>(random_.chance(50) << 7 | (~vvvv & 15) << 3 | 4 | pp);
      b[n++] = static_cast<uint8_t>((mask && random_.chance(40)) << 7 | random_.below(3) << 5 |
                                    random_.chance(15) << 4 | (vvvv == 0 || random_.chance(50)) << 3 | mask);
      if (p.mod == 1) p.value = static_cast<int32_t>(random_.below(16)) - 8;  // scaled by the operand's size
    }
  }
  b[n++] = opcode;
  b[n++] = static_cast<uint8_t>(p.mod << 6 | (reg & 7) << 3 | p.rm);
  if (p.has_sib) b[n++] = p.sib;
  std::memcpy(b + n, &p.value, 4);
  n += p.displacement;
  uint64_t imm = immediate();
  std::memcpy(b + n, &imm, 8);
  n += 8;
  ZydisDecodedInstruction z;
  if (!acceptable(b, n, &z)) return false;
  item.size = z.length;
  item.kind = static_cast<uint32_t>(z.mnemonic) * 8 + static_cast<uint32_t>(z.encoding);
  reach_data(item, z);
  return true;
}

bool Generator::from_program(Item& item) {
  if (real_.empty()) return false;
  const Real& real = real_[random_.below(real_.size())];
  std::memcpy(item.bytes, real.bytes, 15);
  for (unsigned i = real.size; i < 20; i++) item.bytes[i] = static_cast<uint8_t>(random_());
  if (random_.chance(60)) {
    unsigned at = static_cast<unsigned>(random_.below(real.size));
    item.bytes[at] =
        static_cast<uint8_t>(random_.chance(50) ? random_() : item.bytes[at] ^ 1u << random_.below(8));
  }
  ZydisDecodedInstruction z;
  if (!acceptable(item.bytes, 15, &z)) return false;
  item.size = z.length;
  item.kind = static_cast<uint32_t>(z.mnemonic) * 8 + static_cast<uint32_t>(z.encoding);
  reach_data(item, z);
  return true;
}

// Another instruction's operands changed, encoded by Zydis: other forms of the same instruction than the
// fields above would choose.
bool Generator::from_encoder(Item& item) {
  if (!(random_.chance(50) ? from_fields(item) : from_program(item))) return false;
  ZydisDecodedInstruction z;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder_, item.bytes, item.size, &z, operands))) return false;
  ZydisEncoderRequest request;
  if (!ZYAN_SUCCESS(
          ZydisEncoderDecodedInstructionToEncoderRequest(&z, operands, z.operand_count_visible, &request)))
    return false;
  for (unsigned i = 0; i < request.operand_count; i++) {
    ZydisEncoderOperand& op = request.operands[i];
    if (op.type == ZYDIS_OPERAND_TYPE_REGISTER && random_.chance(60)) {
      ZydisRegisterClass cls = ZydisRegisterGetClass(op.reg.value);
      ZyanU8 limit =
          cls == ZYDIS_REGCLASS_X87 || cls == ZYDIS_REGCLASS_MMX || cls == ZYDIS_REGCLASS_MASK ? 8 : 16;
      if (evex_ && cls >= ZYDIS_REGCLASS_XMM && cls <= ZYDIS_REGCLASS_ZMM) limit = 32;
      ZydisRegister other = ZydisRegisterEncode(cls, static_cast<ZyanU8>(random_.below(limit)));
      if (other != ZYDIS_REGISTER_NONE) op.reg.value = other;
    } else if (op.type == ZYDIS_OPERAND_TYPE_MEMORY && op.mem.base != ZYDIS_REGISTER_RIP) {
      ZydisRegisterClass cls = ZydisRegisterGetClass(op.mem.base);
      if (cls == ZYDIS_REGCLASS_GPR64 || cls == ZYDIS_REGCLASS_GPR32)
        op.mem.base = ZydisRegisterEncode(cls, static_cast<ZyanU8>(base_register()));
      cls = ZydisRegisterGetClass(op.mem.index);
      if (cls == ZYDIS_REGCLASS_GPR64 || cls == ZYDIS_REGCLASS_GPR32) {
        unsigned index = small_register();
        if (index != backstep::RSP) op.mem.index = ZydisRegisterEncode(cls, static_cast<ZyanU8>(index));
      }
      if (random_.chance(50)) op.mem.displacement = static_cast<ZyanI64>(random_.below(256)) - 128;
    } else if (op.type == ZYDIS_OPERAND_TYPE_IMMEDIATE && random_.chance(50)) {
      op.imm.u = immediate();
    }
  }
  ZyanUSize length = 15;
  uint8_t bytes[16];
  if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&request, bytes, &length))) return false;
  if (!acceptable(bytes, length, &z)) return false;
  std::memcpy(item.bytes, bytes, length);
  item.size = static_cast<unsigned>(length);
  item.kind = static_cast<uint32_t>(z.mnemonic) * 8 + static_cast<uint32_t>(z.encoding);
  reach_data(item, z);
  return true;
}

// Anything: most of it is no instruction, or not in this place.
void Generator::from_nothing(Item& item) {
  uint64_t words[2] = {random_(), random_()};
  std::memcpy(item.bytes, words, 16);
  if (random_.chance(50) && !real_.empty()) {
    const Real& real = real_[random_.below(real_.size())];
    std::memcpy(item.bytes + 1, real.bytes, 15);
    static constexpr uint8_t kPrefixes[] = {0xf0, 0x66, 0xf2, 0xf3, 0x48, 0x0f, 0xc4, 0xc5};
    item.bytes[0] = kPrefixes[random_.below(8)];
  }
  if (!evex_)
    for (unsigned i = 0; i < 16; i++)
      if (item.bytes[i] == 0x62) item.bytes[i] = 0x61;
  item.size = static_cast<unsigned>(1 + random_.below(16));
}

void Generator::instruction(Item& item) {
  if (random_.chance(2)) {
    item = {};
    return from_nothing(item);
  }
  for (;;) {
    uint64_t dice = random_.below(100);
    item = {};
    if (dice < 70 ? from_fields(item) : dice < 85 ? from_encoder(item) : from_program(item)) return;
  }
}

void Generator::make(Case& c, unsigned slot) {
  c.evex = evex_;
  for (;;) {
    static constexpr unsigned kWeights[kAreaCount] = {40, 10, 18, 7, 8, 7, 10};
    auto dice = random_.below(100);
    unsigned area = 0;
    while (dice >= kWeights[area]) dice -= kWeights[area++];
    area_ = &kAreas[area];
    c.seed = random_();
    roles_ = roles(c.seed);
    // Anywhere in the slot's first page, often over its end.
    uint64_t offset = random_.chance(80) ? random_.below(3400) : 4096 - 1 - random_.below(60);
    c.at = area_->start + slot * kSlotSize + offset;
    Snippet snippet(*this, c.at);
    snippet.build();
    if (!snippet.finish(c)) continue;  // too long or a short branch too far
    items_[slot] = std::move(snippet.items);
    break;
  }
  fill_start(c);
}

void Generator::collect_kinds(std::set<uint32_t>& kinds) const {
  for (const auto& [kind, fate] : fates_)
    if (fate.died < fate.seen) kinds.insert(kind);
}

void Generator::learn(const Case& c, unsigned slot) {
  const Outcome& o = c.native;
  const std::vector<Item>& items = items_[slot];
  if (items.empty()) return;
  if (items[0].kind) {
    Fate& fate = fates_[items[0].kind];
    fate.seen++;
    fate.died += o.end == End::Fault && o.state.rip == c.at;
  }
}

}  // namespace fuzz
