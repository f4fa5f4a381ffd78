// Random snippets: 1 to 8 instructions with branches between them, made by three sources (fields chosen at
// random, Zydis' encoder on changed operands, mutated instructions of real programs).
#pragma once
#include <Zydis/Zydis.h>

#include <set>
#include <unordered_map>
#include <vector>

#include "case.h"

namespace fuzz {

// One instruction, constant or stub of a snippet.
struct Item {
  uint8_t bytes[40];
  unsigned size = 0;
  unsigned offset = 0;  // in the snippet
  uint32_t kind = 0;    // mnemonic and encoding; 0: not counted
  // A field that holds another item's address.
  enum class Fix : uint8_t { None, Relative8, Relative32, Absolute64 } fix = Fix::None;
  unsigned fix_at = 0, target = 0;
  unsigned nudge = 0;  // added to the target
};

class Generator {
 public:
  Generator(uint64_t seed, bool evex, bool with_syscalls);

  // The next case, for slot `slot` of a batch.
  void make(Case& c, unsigned slot);
  // What native runs teach: instructions that this CPU does not have become rare.
  void learn(const Case& c, unsigned slot);
  const std::vector<Item>& items(unsigned slot) const { return items_[slot]; }
  // Kinds of instruction (mnemonic and encoding) that were executed without a fault.
  void collect_kinds(std::set<uint32_t>& kinds) const;

 private:
  friend struct Snippet;
  bool acceptable(const uint8_t* code, size_t size, ZydisDecodedInstruction* z);
  bool from_fields(Item& item);
  bool from_encoder(Item& item);
  bool from_program(Item& item);
  void from_nothing(Item& item);
  void instruction(Item& item);
  void collect_real_instructions();

  struct Place {  // memory operand or register in ModRM's rm
    uint8_t mod, rm, sib;
    bool has_sib, b, x;
    uint8_t displacement;  // bytes
    int32_t value;
  };
  Place place();
  unsigned base_register();
  unsigned small_register();
  uint64_t immediate();
  void reach_data(Item& item, const ZydisDecodedInstruction& z);

  Random random_;
  bool evex_, with_syscalls_;
  ZydisDecoder decoder_;
  Roles roles_{};
  const CodeArea* area_ = nullptr;
  Address here_ = 0;  // where the instruction under construction will lie
  std::vector<Item> items_[kBatch];
  struct Fate {
    unsigned seen = 0, died = 0;
  };
  std::unordered_map<uint32_t, Fate> fates_;
  struct Real {
    uint8_t bytes[15], size;
  };
  static std::vector<Real> real_;
};

}  // namespace fuzz
