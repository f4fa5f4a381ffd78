// The table of stores (isa/stores.h) against Zydis: nothing that writes to memory may be missing, what it
// calls exact must be, and of registers that change none may be missing.
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
        const std::string wrong = compare(code, z, operands);
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
    const std::string wrong = compare(code, z, operands);
    if (!wrong.empty() && shown++ < 40) ADD_FAILURE() << text(code, z) << ": " << wrong;
  }
  EXPECT_GT(valid, 2'000'000u);
  EXPECT_EQ(shown, 0u);
}

}  // namespace
