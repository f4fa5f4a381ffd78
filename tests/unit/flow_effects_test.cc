// Where the bytes that an instruction writes come from.
#include "session/flow_effects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "engine/context.h"

namespace backstep::session {
namespace {

replayer::StepRecord step_of(std::initializer_list<uint8_t> code) {
  replayer::StepRecord s{};
  s.at.pc = 0x1000;
  s.length = static_cast<uint8_t>(code.size());
  std::copy(code.begin(), code.end(), s.code);
  s.gpr[RSP] = 0x7000, s.gpr[RSI] = 0x2000, s.gpr[RDI] = 0x3000, s.gpr[RCX] = 16, s.gpr[RBX] = 0x4000;
  return s;
}

Effect effect_of(std::initializer_list<uint8_t> code) {
  return Decoder().effect(step_of(code));
}

const Written& to(const Effect& effect, Loc loc) {
  for (const Written& w : effect.written)
    if (w.first == loc) return w;
  ADD_FAILURE() << "nothing is written there";
  static const Written none;
  return none;
}

Loc general(unsigned number, unsigned byte = 0) {
  return {Loc::General, number * 64ull + byte};
}
Loc vector(unsigned number, unsigned byte = 0) {
  return {Loc::Vector, number * 64ull + byte};
}

void expect_copy(const Written& w, uint64_t byte, Loc from) {
  EXPECT_EQ(w.source_of(byte).kind, ByteSource::Copy) << byte;
  EXPECT_EQ(w.source_of(byte).from, from) << byte;
}
void expect_constant(const Written& w, uint64_t byte, uint8_t value) {
  EXPECT_EQ(w.source_of(byte).kind, ByteSource::Constant) << byte;
  EXPECT_EQ(w.source_of(byte).value, value) << byte;
}

TEST(FlowEffects, AMoveOfHalfARegisterExtendsIt) {
  const Effect e = effect_of({0x89, 0xd8});  // mov eax, ebx
  const Written& w = to(e, general(RAX));
  ASSERT_EQ(w.count, 8u);
  expect_copy(w, 3, general(RBX, 3));
  EXPECT_EQ(w.source_of(4).kind, ByteSource::Extension);
}

TEST(FlowEffects, BytesOfTheHighHalfKeepTheirPlace) {
  const Effect e = effect_of({0x88, 0xe0});  // mov al, ah
  const Written& w = to(e, general(RAX));
  ASSERT_EQ(w.count, 1u);
  expect_copy(w, 0, general(RAX, 1));
  const Effect sil = effect_of({0x40, 0x88, 0xf0});  // mov al, sil
  expect_copy(to(sil, general(RAX)), 0, general(RSI));
}

TEST(FlowEffects, PushAndPopCopyThroughTheStack) {
  const Effect push = effect_of({0x53});  // push rbx
  expect_copy(to(push, {Loc::Memory, 0x7000 - 8}), 7, general(RBX, 7));
  const Effect pop = effect_of({0x5b});  // pop rbx
  expect_copy(to(pop, general(RBX)), 0, {Loc::Memory, 0x7000});
}

TEST(FlowEffects, ACallWritesItsReturnAddress) {
  const Effect e = effect_of({0xe8, 0, 0, 0, 0});  // call
  expect_constant(to(e, {Loc::Memory, 0x7000 - 8}), 0, 0x05);
  expect_constant(to(e, {Loc::Memory, 0x7000 - 8}), 1, 0x10);
}

TEST(FlowEffects, ShiftsByWholeBytesAndMasksMoveBytes) {
  const Effect shift = effect_of({0xc1, 0xe8, 0x10});  // shr eax, 16
  expect_copy(to(shift, general(RAX)), 1, general(RAX, 3));
  expect_constant(to(shift, general(RAX)), 2, 0);
  const Effect mask = effect_of({0x25, 0x00, 0xff, 0x0f, 0x00});  // and eax, 0xfff00
  expect_constant(to(mask, general(RAX)), 0, 0);
  expect_copy(to(mask, general(RAX)), 1, general(RAX, 1));
  EXPECT_EQ(to(mask, general(RAX)).source_of(2).kind, ByteSource::Computed);
  const Effect odd = effect_of({0xc1, 0xe8, 0x03});  // shr eax, 3
  EXPECT_EQ(to(odd, general(RAX)).source_of(0).kind, ByteSource::Computed);
}

TEST(FlowEffects, ByteSwapsAndZeroes) {
  const Effect swap = effect_of({0x0f, 0xc8});  // bswap eax
  expect_copy(to(swap, general(RAX)), 0, general(RAX, 3));
  const Effect zero = effect_of({0x31, 0xc0});  // xor eax, eax
  expect_constant(to(zero, general(RAX)), 0, 0);
  const Effect vectors = effect_of({0x66, 0x0f, 0xef, 0xc0});  // pxor xmm0, xmm0
  expect_constant(to(vectors, vector(0)), 15, 0);
}

TEST(FlowEffects, RepeatedStringInstructionsCopyAll) {
  const Effect e = effect_of({0xf3, 0xa4});  // rep movsb
  const Written& w = to(e, {Loc::Memory, 0x3000});
  ASSERT_EQ(w.count, 16u);
  expect_copy(w, 15, {Loc::Memory, 0x200f});
  replayer::StepRecord near = step_of({0xf3, 0xa4});
  near.gpr[RDI] = near.gpr[RSI] + 2;
  const Effect overlapping = Decoder().effect(near);
  expect_copy(to(overlapping, {Loc::Memory, 0x2002}), 5, {Loc::Memory, 0x2001});
  replayer::StepRecord none = step_of({0xf3, 0xa4});
  none.gpr[RCX] = 0;
  EXPECT_TRUE(Decoder().effect(none).written.empty());
}

TEST(FlowEffects, VectorsArePutTogetherBytewise) {
  const Effect high = effect_of({0x0f, 0x16, 0x03});  // movhps xmm0, [rbx]
  expect_copy(to(high, vector(0, 8)), 0, {Loc::Memory, 0x4000});
  const Effect quad = effect_of({0x66, 0x48, 0x0f, 0x6e, 0xc3});  // movq xmm0, rbx
  expect_copy(to(quad, vector(0)), 7, general(RBX, 7));
  EXPECT_EQ(to(quad, vector(0)).source_of(8).kind, ByteSource::Extension);
  const Effect both = effect_of({0x66, 0x0f, 0x6c, 0xc1});  // punpcklqdq xmm0, xmm1
  expect_copy(to(both, vector(0)), 8, vector(1));
  const Effect one = effect_of({0x66, 0x0f, 0x3a, 0x22, 0xc3, 0x01});  // pinsrd xmm0, ebx, 1
  expect_copy(to(one, vector(0)), 4, general(RBX));
  expect_copy(to(one, vector(0)), 8, vector(0, 8));
}

TEST(FlowEffects, AConditionalMoveIsWhatItsConditionMakesIt) {
  replayer::StepRecord s = step_of({0x48, 0x0f, 0x44, 0xc3});  // cmovz rax, rbx
  const Effect no = Decoder().effect(s);
  expect_copy(to(no, general(RAX)), 0, general(RAX));
  s.rflags = 0x40;
  const Effect yes = Decoder().effect(s);
  expect_copy(to(yes, general(RAX)), 0, general(RBX));
}

TEST(FlowEffects, AddressesAreNoData) {
  const Effect e = effect_of({0x03, 0x04, 0x8b});  // add eax, [rbx + rcx * 4]
  for (const FlowInput& i : e.inputs)
    EXPECT_EQ(i.address, i.first == general(RBX) || i.first == general(RCX))
        << register_name(i.first, i.count);
  EXPECT_TRUE(std::any_of(e.inputs.begin(), e.inputs.end(), [](const FlowInput& i) {
    return i.first == Loc{Loc::Memory, 0x4040} && i.count == 4;
  }));
}

TEST(FlowEffects, FlagsAreWrittenInTwoHalves) {
  auto carry = [](const Effect& e) {
    return std::any_of(e.written.begin(), e.written.end(), [](const Written& w) {
      return w.first == Loc{Loc::Flags, 0};
    });
  };
  EXPECT_TRUE(carry(effect_of({0x39, 0xd8})));         // cmp eax, ebx
  EXPECT_FALSE(carry(effect_of({0xff, 0xc0})));        // inc eax leaves the carry flag
  EXPECT_FALSE(carry(effect_of({0xc1, 0xe0, 0x00})));  // shl eax, 0 leaves them all
}

}  // namespace
}  // namespace backstep::session
