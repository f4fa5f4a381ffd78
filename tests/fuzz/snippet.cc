// Snippets with control flow: forward and backward branches, loops, calls, returns, indirect jumps through
// registers and memory, code that changes itself.
#include "snippet.h"

#include <cstring>

namespace fuzz {
namespace {

using Fix = Item::Fix;

}  // namespace

Item& Snippet::add(std::initializer_list<unsigned> bytes) {
  Item item;
  for (unsigned b : bytes) item.bytes[item.size++] = static_cast<uint8_t>(b);
  size += item.size;
  items.push_back(item);
  return items.back();
}

// An instruction whose last bytes are a reference to a label.
Item& Snippet::refer(std::initializer_list<unsigned> bytes, Fix fix, unsigned target) {
  Item& item = add(bytes);
  unsigned width = fix == Fix::Relative8 ? 1 : fix == Fix::Absolute64 ? 8 : 4;
  item.fix = fix;
  item.fix_at = item.size;
  item.target = target;
  item.size += width;
  size += width;
  return item;
}

void Snippet::add_instruction() {
  Item item;
  g.here_ = at + size;
  g.instruction(item);
  size += item.size;
  items.push_back(item);
}

// Backward branches usually go through a counter that ends the snippet, or it would rarely end.
void Snippet::fuse() {
  Random& r = g.random_;
  if (r.chance(1)) return;
  Address counter = g.area_->data + 0x80;
  // sub byte [rip+d], 24; js exit
  auto d = static_cast<uint32_t>(counter - (at + size + 7));
  add({0x80, 0x2d, d & 255, d >> 8 & 255, d >> 16 & 255, d >> 24 & 255, 24});
  refer({0x0f, r.chance(50) ? 0x88u : 0x82u}, Fix::Relative32, kPointer - 1);
}

// Somewhere to jump to. `span`: items that the jump itself is made of; forward labels lie behind them.
unsigned Snippet::label(unsigned span) {
  Random& r = g.random_;
  auto here = static_cast<unsigned>(items.size());
  if (here > 0 && r.chance(35)) {
    fuse();
    return static_cast<unsigned>(r.below(here + 1));
  }
  return here + span + static_cast<unsigned>(r.below(4));
}

unsigned Snippet::pointer_to(unsigned target) {
  pointers.push_back(target);
  return kPointer + static_cast<unsigned>(pointers.size()) - 1;
}

// Some register gets the label's address. Never rsp.
unsigned Snippet::load_label(unsigned target) {
  Random& r = g.random_;
  auto reg = static_cast<unsigned>(r.below(15));
  if (reg >= 4) reg++;
  if (r.chance(15)) reg = backstep::R11;
  switch (r.below(3)) {
    case 0:
      refer({0x48 | reg >> 3, 0xb8 | (reg & 7)}, Fix::Absolute64, target);
      break;  // mov r, imm64
    case 1:
      refer({0x48 | (reg >> 3) << 2, 0x8d, 0x05 | (reg & 7) << 3}, Fix::Relative32, target);
      break;  // lea
    default:
      refer({0x48 | (reg >> 3) << 2, 0x8b, 0x05 | (reg & 7) << 3}, Fix::Relative32, pointer_to(target));
      break;
  }
  return reg;
}

void Snippet::add_indirect() {
  Random& r = g.random_;
  bool call = r.chance(50);
  const auto shape = r.below(call ? 6 : 8);
  static constexpr unsigned kSpans[] = {2, 2, 1, 1, 3, 2, 7, 7};
  unsigned target = call && r.chance(70) ? kFunction : label(kSpans[shape]);
  if (target == kFunction) calls = true;
  unsigned slash = call ? 2 : 4;
  switch (shape) {
    case 0:
    case 1: {  // through a register
      unsigned reg = load_label(target);
      if (reg >= 8)
        add({0x41, 0xff, 0xc0 | slash << 3 | (reg & 7)});
      else
        add({0xff, 0xc0 | slash << 3 | reg});
      break;
    }
    case 2:
    case 3:  // through memory
      refer({0xff, 0x05 | slash << 3}, Fix::Relative32, pointer_to(target));
      break;
    case 4: {  // through memory, by a register; rbp and r13 need a displacement, rsp and r12 a SIB
      unsigned pointer = pointer_to(target);
      unsigned reg = static_cast<unsigned>(r.below(2)) ? 11 : 3;
      refer({0x48 | (reg >> 3) << 2, 0x8d, 0x05 | (reg & 7) << 3}, Fix::Relative32, pointer);
      if (r.chance(20)) add({0x65});  // gs:
      add({0x40 | reg >> 3, 0xff, slash << 3 | (reg & 7)});
      break;
    }
    case 5: {  // a wild one: not canonical, unmapped, data, the middle of an instruction
      static constexpr uint64_t kWild[] = {
          kLowData,        kStack + 64,      0x8000'0000'0000, 0x4141'4141'4141'4141, 0xffff'ffff'8000'0000,
          0x1234,          0x2200'0300'0000, 0x9100'0000,      0x4fff'ffff,           0xffff'ffff,
          0x7fff'ffff'ffff};
      uint64_t wild = kWild[r.below(sizeof kWild / 8)];
      if (r.chance(30)) wild = at + r.below(size + 20);
      unsigned reg = static_cast<unsigned>(r.below(16));
      if (reg == 4) reg = 0;
      add({0x48 | reg >> 3, 0xb8 | (reg & 7), static_cast<unsigned>(wild), static_cast<unsigned>(wild >> 8),
           static_cast<unsigned>(wild >> 16), static_cast<unsigned>(wild >> 24),
           static_cast<unsigned>(wild >> 32), static_cast<unsigned>(wild >> 40),
           static_cast<unsigned>(wild >> 48), static_cast<unsigned>(wild >> 56)});
      add({0x40 | reg >> 3, 0xff, 0xc0 | slash << 3 | (reg & 7)});
      break;
    }
    default: {  // push; ret
      unsigned reg = load_label(target);
      if (r.chance(50)) {
        add({0x40 | reg >> 3, 0x50 | (reg & 7)});
        if (r.chance(60))
          add({0xc3});
        else
          add({0xc2, static_cast<unsigned>(8 * r.below(4)), 0});
      } else if (r.chance(50)) {
        add({0x6a, 0x33});  // push cs
        add({0x40 | reg >> 3, 0x50 | (reg & 7)});
        add({0x48, 0xcb});  // retfq
      } else {
        add({0x6a, 0x2b});  // ss, rsp, flags, cs, rip
        add({0x54});
        add({0x9c});
        add({0x6a, 0x33});
        add({0x40 | reg >> 3, 0x50 | (reg & 7)});
        add({0x48, 0xcf});  // iretq
      }
      break;
    }
  }
}

void Snippet::add_control() {
  Random& r = g.random_;
  switch (r.below(9)) {
    case 0:
    case 1:
    case 2: {
      unsigned target = label();
      auto condition = static_cast<unsigned>(r.below(16));
      if (r.chance(50))
        refer({0x70 | condition}, Fix::Relative8, target);
      else
        refer({0x0f, 0x80 | condition}, Fix::Relative32, target);
      if (r.chance(4)) items.back().nudge = 1;
      break;
    }
    case 3: {
      unsigned target = label();
      if (r.chance(50))
        refer({0xeb}, Fix::Relative8, target);
      else
        refer({0xe9}, Fix::Relative32, target);
      if (r.chance(4)) items.back().nudge = 1;
      break;
    }
    case 4: {  // loopne, loope, loop, jrcxz, with 67: ecx
      unsigned target = label();
      auto opcode = static_cast<unsigned>(0xe0 + r.below(4));
      if (r.chance(20))
        refer({0x67, opcode}, Fix::Relative8, target);
      else
        refer({opcode}, Fix::Relative8, target);
      break;
    }
    case 5: {
      bool function = r.chance(80);
      unsigned target = function ? kFunction : label();
      calls |= function;
      refer({0xe8}, Fix::Relative32, target);
      break;
    }
    default:
      add_indirect();
      break;
  }
}

void Snippet::add_stack_play() {
  Random& r = g.random_;
  auto reg = static_cast<unsigned>(r.below(16));
  switch (r.below(9)) {
    case 0:
      add({0x9c});
      break;   // pushf
    case 1: {  // popf: never with the trap flag; sometimes with the alignment check flag
      unsigned flags = static_cast<unsigned>(r()) & (r.chance(10) ? 0x244cd5u : 0x204cd5u);
      add({0x68, flags, flags >> 8, flags >> 16, 0});
      add({0x9d});
      break;
    }
    case 2:
      add({0x40 | reg >> 3, 0x50 | (reg & 7)});
      break;
    case 3:
      if (reg != 4) add({0x40 | reg >> 3, 0x58 | (reg & 7)});
      break;
    case 4:
      add({0xc8, static_cast<unsigned>(8 * r.below(8)), 0, static_cast<unsigned>(r.below(4))});
      break;  // enter
    case 5:
      add({0xc9});
      break;  // leave
    case 6:
      add({0x66, 0x50 | (reg & 7)});
      break;
    case 7:
      add({0xc2, static_cast<unsigned>(8 * r.below(4)), 0});
      break;  // ret with whatever is there
    default:
      if (g.with_syscalls_ && r.chance(30))
        add({0x0f, 0x05});
      else
        add({0xc3});
      break;
  }
}

void Snippet::add_string_play() {
  Random& r = g.random_;
  static constexpr unsigned kStrings[] = {0xa4, 0xa5, 0xa6, 0xa7, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf};
  if (r.chance(25)) add({r.chance(70) ? 0xfdu : 0xfcu});  // std, cld
  std::vector<unsigned> b;
  if (r.chance(20)) b.push_back(0x66);
  if (r.chance(8)) b.push_back(0x64 + static_cast<unsigned>(r.below(2)));
  if (r.chance(6)) b.push_back(0x67);
  if (r.chance(80)) b.push_back(r.chance(70) ? 0xf3 : 0xf2);
  if (r.chance(25)) b.push_back(0x48);
  b.push_back(r.chance(5) ? 0xd7 : kStrings[r.below(10)]);  // xlat
  Item& item = add({});
  for (unsigned x : b) item.bytes[item.size++] = static_cast<uint8_t>(x);
  size += item.size;
}

// mov byte [rip + somewhere in this snippet], imm8
void Snippet::add_store_to_code() {
  Random& r = g.random_;
  auto here = static_cast<unsigned>(items.size());
  unsigned target = r.chance(30) && here ? static_cast<unsigned>(r.below(here))
                                         : here + 1 + static_cast<unsigned>(r.below(3));
  Item& item = refer({0xc6, 0x05}, Fix::Relative32, target);
  item.nudge = static_cast<unsigned>(r.below(6));
  item.bytes[item.size++] = static_cast<uint8_t>(r.chance(50) ? 0x90 : r());
  size++;
}

void Snippet::add_exit() {
  Random& r = g.random_;
  auto far = static_cast<int64_t>(kExit - (at + size + 5));
  auto d = static_cast<uint32_t>(far);
  uint64_t dice = r.below(100);
  if (dice < 60) {
    add({0xff, 0x25, 0, 0, 0, 0, static_cast<unsigned>(kExit), static_cast<unsigned>(kExit >> 8),
         static_cast<unsigned>(kExit >> 16), static_cast<unsigned>(kExit >> 24), 0, 0, 0, 0});
  } else if (dice < 78 && far == static_cast<int32_t>(d)) {
    add({0xe9, d, d >> 8, d >> 16, d >> 24});
  } else if (dice < 88) {
    add({0x0f, 0x0b});
  } else if (dice < 95 || !g.with_syscalls_) {
    add({0xcc});
  } else {
    add({0x0f, 0x05});
  }
}

void Snippet::build() {
  Random& r = g.random_;
  unsigned count = static_cast<unsigned>(r.chance(30) ? 1 : 1 + r.below(8));
  for (unsigned i = 0; i < count; i++) {
    uint64_t dice = r.below(100);
    if (dice < 3 && g.with_syscalls_)
      add({0x0f, 0x05});
    else if (dice < 66)
      add_instruction();
    else if (dice < 84)
      add_control();
    else if (dice < 91)
      add_stack_play();
    else if (g.area_->writable)
      add_store_to_code();
    else if (dice < 96)
      add_string_play();
    else
      add_instruction();
  }
  if (g.area_->writable && r.chance(50)) add_store_to_code();
}

bool Snippet::finish(Case& c) {
  Random& r = g.random_;
  const auto exit = static_cast<unsigned>(items.size());
  add_exit();
  const auto function = static_cast<unsigned>(items.size());
  if (calls) {
    for (uint64_t n = r.below(3); n > 0; n--) add_instruction();
    if (r.chance(85))
      add({0xc3});
    else
      add({0xf3, 0xc3});
  }
  const auto first_pointer = static_cast<unsigned>(items.size());
  for (unsigned target : pointers) refer({}, Fix::Absolute64, target);

  if (size > sizeof c.code || (c.at & (kSlotSize - 1)) + size > kSlotSize) return false;
  unsigned offset = 0;
  for (Item& item : items) {
    item.offset = offset;
    offset += item.size;
  }
  for (Item& item : items) {
    if (item.fix != Fix::None) {
      unsigned t = item.target;
      if (t == kFunction)
        t = function;
      else if (t >= kPointer)
        t = first_pointer + (t - kPointer);
      else if (t > exit)
        t = exit;
      Address target = at + items[t].offset + item.nudge;
      unsigned width = item.fix == Fix::Relative8 ? 1 : item.fix == Fix::Absolute64 ? 8 : 4;
      uint64_t value = target;
      if (item.fix == Fix::Relative8 || item.fix == Fix::Relative32)
        value = target - (at + item.offset + item.size);
      if (item.fix == Fix::Relative8 && static_cast<int64_t>(value) != static_cast<int8_t>(value))
        return false;
      std::memcpy(item.bytes + item.fix_at, &value, width);
    }
    std::memcpy(c.code + item.offset, item.bytes, item.size);
  }
  c.size = offset;
  return true;
}

}  // namespace fuzz
