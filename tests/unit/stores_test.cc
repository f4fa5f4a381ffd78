// The table of stores and loads (isa/stores.h) against Zydis: nothing that writes to memory or reads it may
// be missing, what it calls exact must be, and of registers that an instruction has to do with none may be
// missing.
#include "isa/stores.h"

#include <gtest/gtest.h>

#include "code.h"

namespace {

using backstep::isa::Class;
using backstep::isa::Insn;
using backstep::isa::Store;

uint32_t bit_of(ZydisRegister reg) {
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
  return whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15 ? 1u << (whole - ZYDIS_REGISTER_RAX) : 0;
}

// Empty: they agree.
std::string compare(const uint8_t* code, const ZydisDecodedInstruction& z,
                    const ZydisDecodedOperand* operands) {
  const Insn in = backstep::isa::decode(code, 15);
  const bool copied = in.cls == Class::Plain || in.cls == Class::Evex || in.cls == Class::Gs ||
                      in.cls == Class::Call || in.cls == Class::CallInd;
  if (!copied || z.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED)
    return "";  // answered by the host, no store, or a fault
  const Store store = backstep::isa::store_of(in, code);
  const ZydisDecodedOperand* written = nullptr;
  unsigned count = 0;
  uint32_t changes = 0, address = 0;
  for (unsigned i = 0; i < z.operand_count; i++) {
    const ZydisDecodedOperand& op = operands[i];
    if (op.type == ZYDIS_OPERAND_TYPE_REGISTER && op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
      changes |= bit_of(op.reg.value);
    if (op.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    if (op.visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT && op.mem.type != ZYDIS_MEMOP_TYPE_VSIB)
      address = bit_of(op.mem.base) | bit_of(op.mem.index);
    if (op.mem.type != ZYDIS_MEMOP_TYPE_AGEN && op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) {
      written = &op;
      count++;
    }
  }
  // (With 32-bit addresses Zydis has another base where there is none; nobody asks for those.)
  if (in.memory_operand() && !in.addrsize && address != backstep::isa::address_registers(in, code) && address)
    return "address of other registers";
  if (!count) return store.where != Store::None && store.exact ? "a store of which Zydis knows nothing" : "";
  if (store.where == Store::None) return "a store that is missing";
  if (store.where == Store::Unknown) return "";
  if (count > 1) return "several stores";
  const unsigned size = written->size / 8;
  if (size > store.size)
    return "a store of " + std::to_string(size) + ", not at most " + std::to_string(store.size);
  if (!store.exact) return "";
  if (size != store.size) return "a store of " + std::to_string(size) + ", not " + std::to_string(store.size);
  const bool hidden = written->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
  const Store::Where where = !hidden                                   ? Store::Operand
                             : written->mem.base == ZYDIS_REGISTER_RSP ? Store::Stack
                                                                       : Store::Rdi;
  if (where != store.where) return "a store elsewhere";
  if (where == Store::Operand && (changes & address & ~store.changes)) return "an address that it changes";
  return "";
}

// Likewise for what it reads.
std::string compare_loads(const uint8_t* code, const ZydisDecodedInstruction& z,
                          const ZydisDecodedOperand* operands) {
  using backstep::isa::Load;
  const Insn in = backstep::isa::decode(code, 15);
  const bool known = in.cls == Class::Plain || in.cls == Class::Evex || in.cls == Class::Gs ||
                     in.cls == Class::Call || in.cls == Class::CallInd || in.cls == Class::JmpInd ||
                     in.cls == Class::Ret;
  if (!known || z.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) return "";
  const Load load = backstep::isa::load_of(in, code);
  const ZydisDecodedOperand* read = nullptr;
  unsigned count = 0;
  for (unsigned i = 0; i < z.operand_count; i++) {
    const ZydisDecodedOperand& op = operands[i];
    if (op.type != ZYDIS_OPERAND_TYPE_MEMORY || op.mem.type == ZYDIS_MEMOP_TYPE_AGEN ||
        !(op.actions & ZYDIS_OPERAND_ACTION_MASK_READ))
      continue;
    // These have an operand of which nothing is read.
    if (z.meta.category == ZYDIS_CATEGORY_PREFETCH || z.mnemonic == ZYDIS_MNEMONIC_PREFETCHWT1 ||
        z.meta.category == ZYDIS_CATEGORY_NOP || z.meta.category == ZYDIS_CATEGORY_WIDENOP)
      continue;
    read = &op;
    count++;
  }
  if (!count) return load.where != Load::None && load.exact ? "a load of which Zydis knows nothing" : "";
  if (load.where == Load::None) return "a load that is missing";
  if (load.where == Load::Unknown || !load.exact) return "";
  if (count > 1) return "several loads";
  const unsigned size = read->size / 8;
  if (size != load.size) return "a load of " + std::to_string(size) + ", not " + std::to_string(load.size);
  const bool hidden = read->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN;
  const Load::Where where = !hidden                                ? Load::Operand
                            : read->mem.base == ZYDIS_REGISTER_RSP ? Load::Stack
                                                                   : Load::Frame;
  return where == load.where ? "" : "a load elsewhere";
}

// … and for the registers.
std::string compare_registers(const uint8_t* code, const ZydisDecodedInstruction& z,
                              const ZydisDecodedOperand* operands) {
  const Insn in = backstep::isa::decode(code, 15);
  if (z.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) return "";
  const backstep::isa::Registers r = backstep::isa::registers_of(in, code);
  const uint32_t all = r.address | r.others;
  uint32_t used = 0, changed = 0;
  for (unsigned i = 0; i < z.operand_count; i++) {
    const ZydisDecodedOperand& op = operands[i];
    if (op.type == ZYDIS_OPERAND_TYPE_REGISTER) {
      used |= bit_of(op.reg.value);
      if (op.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) changed |= bit_of(op.reg.value);
    } else if (op.type == ZYDIS_OPERAND_TYPE_MEMORY && !in.addrsize) {  // see above
      used |= bit_of(op.mem.base);
      if (op.mem.type != ZYDIS_MEMOP_TYPE_VSIB) used |= bit_of(op.mem.index);
    }
  }
  if (used & ~all) return "registers that are missing";
  return changed & ~r.changed ? "registers that it changes" : "";
}

std::string compare_all(const uint8_t* code, const ZydisDecodedInstruction& z,
                        const ZydisDecodedOperand* operands) {
  std::string wrong = compare(code, z, operands);
  if (wrong.empty()) wrong = compare_loads(code, z, operands);
  return wrong.empty() ? compare_registers(code, z, operands) : wrong;
}

// How much of what real code reads the table leaves to others.
TEST(Stores, know_nearly_all_loads_of_real_code) {
  const ZydisDecoder decoder = make_decoder();
  uint64_t loads = 0, vague = 0;
  for (const Section& s : executable_sections("/proc/self/exe"))
    for (size_t at = 0; at < s.bytes.size();) {
      uint8_t code[16] = {};
      std::memcpy(code, s.bytes.data() + at, std::min<size_t>(15, s.bytes.size() - at));
      ZydisDecodedInstruction z;
      ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
      if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, 15, &z, operands))) {
        at++;
        continue;
      }
      const auto load = backstep::isa::load_of(backstep::isa::decode(code, 15), code);
      loads += load.where != backstep::isa::Load::None;
      vague += load.where != backstep::isa::Load::None && !load.exact;
      at += z.length;
    }
  EXPECT_GT(loads, 10'000u);
  EXPECT_LT(vague * 100, loads);
}

TEST(Stores, are_what_zydis_says_on_real_code) {
  const ZydisDecoder decoder = make_decoder();
  unsigned shown = 0;
  uint64_t count = 0;
  for (const std::string& path : real_files())
    for (const Section& s : executable_sections(path))
      for (size_t at = 0; at < s.bytes.size();) {
        uint8_t code[16] = {};
        std::memcpy(code, s.bytes.data() + at, std::min<size_t>(15, s.bytes.size() - at));
        ZydisDecodedInstruction z;
        ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, 15, &z, operands)) || foreign(z)) {
          at++;
          continue;
        }
        const std::string wrong = compare_all(code, z, operands);
        if (!wrong.empty() && shown++ < 20) ADD_FAILURE() << text(code, z) << ": " << wrong;
        count++;
        at += z.length;
      }
  EXPECT_GT(count, 500'000u);
  EXPECT_EQ(shown, 0u);
}

TEST(Stores, are_what_zydis_says_on_random_bytes) {
  const ZydisDecoder decoder = make_decoder();
  std::mt19937_64 random(20261118);
  uint64_t valid = 0;
  unsigned shown = 0;
  for (unsigned i = 0; i < 5'000'000; i++) {
    uint8_t code[16];
    const size_t size = random_code(random, code);
    ZydisDecodedInstruction z;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, size, &z, operands)) || foreign(z)) continue;
    valid++;
    const std::string wrong = compare_all(code, z, operands);
    if (!wrong.empty() && shown++ < 40) ADD_FAILURE() << text(code, z) << ": " << wrong;
  }
  EXPECT_GT(valid, 2'000'000u);
  EXPECT_EQ(shown, 0u);
}

}  // namespace
