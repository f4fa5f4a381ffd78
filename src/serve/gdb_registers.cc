// One table makes both the description and the bytes, so that they cannot disagree. gdb wants the x87 state
// with full tags, as FSAVE has them; XSAVE keeps one bit per register, the rest follows from the contents.
#include "serve/gdb_registers.h"

#include <cstring>

#include <fmt/format.h>

namespace backstep::serve {

using timeline::Registers;

namespace {

constexpr size_t kX87At = 32, kXmmAt = 160, kMxcsrAt = 24, kBitsAt = 512, kYmmAt = 576;

struct Named {
  const char* name;
  int reg;
  const char* type;
};
constexpr Named kGprs[] = {
    {"rax", RAX, "int64"}, {"rbx", RBX, "int64"}, {"rcx", RCX, "int64"},    {"rdx", RDX, "int64"},
    {"rsi", RSI, "int64"}, {"rdi", RDI, "int64"}, {"rbp", RBP, "data_ptr"}, {"rsp", RSP, "data_ptr"},
    {"r8", R8, "int64"},   {"r9", R9, "int64"},   {"r10", R10, "int64"},    {"r11", R11, "int64"},
    {"r12", R12, "int64"}, {"r13", R13, "int64"}, {"r14", R14, "int64"},    {"r15", R15, "int64"},
};
constexpr const char* kSegments[] = {"cs", "ss", "ds", "es", "fs", "gs"};
constexpr uint32_t kSegmentValues[] = {0x33, 0x2b, 0, 0, 0, 0};
constexpr const char* kControls[] = {"fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop"};

uint64_t bits_of(const Registers& r) {
  uint64_t bits;
  std::memcpy(&bits, r.xsave + kBitsAt, 8);
  return bits;
}

template <class T>
T field(const Registers& r, size_t at) {
  T value;
  std::memcpy(&value, r.xsave + at, sizeof value);
  return value;
}

// A component that is in its initial state has stale bytes in the area: they are made what they stand for.
void use_component(Registers& r, unsigned component) {
  uint64_t bits = bits_of(r);
  if (bits >> component & 1) return;
  if (component == 0) {
    std::memset(r.xsave, 0, 24);
    std::memset(r.xsave + kX87At, 0, 128);
    uint16_t control = 0x37f;
    std::memcpy(r.xsave, &control, 2);
  } else if (component == 1) {
    std::memset(r.xsave + kXmmAt, 0, 256);
  } else if (component == 2) {
    std::memset(r.xsave + kYmmAt, 0, 256);
  }
  bits |= 1ull << component;
  std::memcpy(r.xsave + kBitsAt, &bits, 8);
}

uint32_t full_tags(const Registers& r) {
  const auto status = field<uint16_t>(r, 2);
  const auto used = field<uint8_t>(r, 4);
  const unsigned top = status >> 11 & 7;
  uint32_t tags = 0;
  for (unsigned physical = 0; physical < 8; physical++) {
    unsigned tag = 3;
    if (used >> physical & 1) {
      const size_t at = kX87At + 16 * ((physical + 8 - top) % 8);
      const auto mantissa = field<uint64_t>(r, at);
      const unsigned exponent = field<uint16_t>(r, at + 8) & 0x7fff;
      if (exponent == 0x7fff) {
        tag = 2;
      } else if (exponent == 0) {
        tag = mantissa == 0 ? 1 : 2;
      } else {
        tag = mantissa >> 63 ? 0 : 2;
      }
    }
    tags |= tag << (2 * physical);
  }
  return tags;
}

uint32_t control_value(const Registers& r, unsigned index) {
  switch (index) {
    case 0:
      return field<uint16_t>(r, 0);
    case 1:
      return field<uint16_t>(r, 2);
    case 2:
      return full_tags(r);
    case 3:
      return field<uint16_t>(r, 12);
    case 4:
      return field<uint32_t>(r, 8);
    case 5:
      return field<uint16_t>(r, 20);
    case 6:
      return field<uint32_t>(r, 16);
    default:
      return field<uint16_t>(r, 6) & 0x7ff;
  }
}

template <class T>
std::vector<uint8_t> bytes_of(const T& value) {
  auto* p = reinterpret_cast<const uint8_t*>(&value);
  return {p, p + sizeof value};
}

}  // namespace

RegisterLayout::RegisterLayout(uint64_t xcr0) {
  auto reg = [&](const std::string& name, size_t bits, const char* type, Kind kind, unsigned index,
                 const char* extra = "") {
    slots_.push_back({kind, index, bits / 8});
    xml_ += fmt::format("<reg name=\"{}\" bitsize=\"{}\" type=\"{}\"{}/>\n", name, bits, type, extra);
  };
  xml_ =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target>\n"
      "<architecture>i386:x86-64</architecture>\n<osabi>GNU/Linux</osabi>\n"
      "<feature name=\"org.gnu.gdb.i386.core\">\n"
      "<flags id=\"i386_eflags\" size=\"4\">\n";
  static constexpr struct {
    const char* name;
    int bit;
  } kFlags[] = {{"CF", 0},  {"", 1},    {"PF", 2},   {"AF", 4},   {"ZF", 6},  {"SF", 7},
                {"TF", 8},  {"IF", 9},  {"DF", 10},  {"OF", 11},  {"NT", 14}, {"RF", 16},
                {"VM", 17}, {"AC", 18}, {"VIF", 19}, {"VIP", 20}, {"ID", 21}};
  for (auto& f : kFlags)
    xml_ += fmt::format("<field name=\"{}\" start=\"{}\" end=\"{}\"/>\n", f.name, f.bit, f.bit);
  xml_ += "</flags>\n";
  for (const Named& g : kGprs) reg(g.name, 64, g.type, Kind::Gpr, static_cast<unsigned>(g.reg));
  reg("rip", 64, "code_ptr", Kind::Rip, 0);
  reg("eflags", 32, "i386_eflags", Kind::Flags, 0);
  for (unsigned i = 0; i < 6; i++) reg(kSegments[i], 32, "int32", Kind::Segment, i);
  for (unsigned i = 0; i < 8; i++) reg(fmt::format("st{}", i), 80, "i387_ext", Kind::X87, i);
  for (unsigned i = 0; i < 8; i++) reg(kControls[i], 32, "int", Kind::X87Control, i, " group=\"float\"");
  xml_ +=
      "</feature>\n<feature name=\"org.gnu.gdb.i386.sse\">\n"
      "<vector id=\"v8bf16\" type=\"bfloat16\" count=\"8\"/>\n"
      "<vector id=\"v4f\" type=\"ieee_single\" count=\"4\"/>\n"
      "<vector id=\"v2d\" type=\"ieee_double\" count=\"2\"/>\n"
      "<vector id=\"v16i8\" type=\"int8\" count=\"16\"/>\n"
      "<vector id=\"v8i16\" type=\"int16\" count=\"8\"/>\n"
      "<vector id=\"v4i32\" type=\"int32\" count=\"4\"/>\n"
      "<vector id=\"v2i64\" type=\"int64\" count=\"2\"/>\n"
      "<union id=\"vec128\">\n<field name=\"v8_bfloat16\" type=\"v8bf16\"/>\n"
      "<field name=\"v4_float\" type=\"v4f\"/>\n<field name=\"v2_double\" type=\"v2d\"/>\n"
      "<field name=\"v16_int8\" type=\"v16i8\"/>\n<field name=\"v8_int16\" type=\"v8i16\"/>\n"
      "<field name=\"v4_int32\" type=\"v4i32\"/>\n<field name=\"v2_int64\" type=\"v2i64\"/>\n"
      "<field name=\"uint128\" type=\"uint128\"/>\n</union>\n"
      "<flags id=\"i386_mxcsr\" size=\"4\">\n";
  static constexpr const char* kMxcsr[] = {"IE", "DE", "ZE", "OE", "UE", "PE", "DAZ", "IM",
                                           "DM", "ZM", "OM", "UM", "PM", "",   "",    "FZ"};
  for (int i = 0; i < 16; i++)
    if (*kMxcsr[i]) xml_ += fmt::format("<field name=\"{}\" start=\"{}\" end=\"{}\"/>\n", kMxcsr[i], i, i);
  xml_ += "</flags>\n";
  for (unsigned i = 0; i < 16; i++) reg(fmt::format("xmm{}", i), 128, "vec128", Kind::Xmm, i);
  reg("mxcsr", 32, "i386_mxcsr", Kind::Mxcsr, 0, " group=\"vector\"");
  xml_ += "</feature>\n<feature name=\"org.gnu.gdb.i386.linux\">\n";
  reg("orig_rax", 64, "int", Kind::OrigRax, 0);
  xml_ += "</feature>\n<feature name=\"org.gnu.gdb.i386.segments\">\n";
  reg("fs_base", 64, "int", Kind::FsBase, 0);
  reg("gs_base", 64, "int", Kind::GsBase, 0);
  xml_ += "</feature>\n";
  if (xcr0 & 4) {
    xml_ += "<feature name=\"org.gnu.gdb.i386.avx\">\n";
    for (unsigned i = 0; i < 16; i++) reg(fmt::format("ymm{}h", i), 128, "uint128", Kind::YmmHigh, i);
    xml_ += "</feature>\n";
  }
  xml_ += "</target>\n";
}

std::vector<uint8_t> RegisterLayout::get(const Registers& original, size_t number) const {
  const Slot& s = slots_.at(number);
  Registers r = original;
  switch (s.kind) {
    case Kind::Gpr:
      return bytes_of(r.gpr[s.index]);
    case Kind::Rip:
      return bytes_of(r.rip);
    case Kind::Flags:
      return bytes_of(static_cast<uint32_t>(r.rflags));
    case Kind::Segment:
      return bytes_of(kSegmentValues[s.index]);
    case Kind::X87:
      use_component(r, 0);
      return {r.xsave + kX87At + 16 * s.index, r.xsave + kX87At + 16 * s.index + 10};
    case Kind::X87Control:
      use_component(r, 0);
      return bytes_of(control_value(r, s.index));
    case Kind::Xmm:
      use_component(r, 1);
      return {r.xsave + kXmmAt + 16 * s.index, r.xsave + kXmmAt + 16 * s.index + 16};
    case Kind::Mxcsr:
      return bytes_of(field<uint32_t>(r, kMxcsrAt));
    case Kind::OrigRax:
      return bytes_of(~0ull);
    case Kind::FsBase:
      return bytes_of(r.fs_base);
    case Kind::GsBase:
      return bytes_of(r.gs_base);
    case Kind::YmmHigh:
      use_component(r, 2);
      return {r.xsave + kYmmAt + 16 * s.index, r.xsave + kYmmAt + 16 * s.index + 16};
  }
  return {};
}

bool RegisterLayout::set(Registers& r, size_t number, const std::vector<uint8_t>& bytes) const {
  if (number >= slots_.size() || bytes.size() != slots_[number].size) return false;
  const Slot& s = slots_[number];
  auto word = [&] {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data(), std::min<size_t>(8, bytes.size()));
    return value;
  };
  switch (s.kind) {
    case Kind::Gpr:
      r.gpr[s.index] = word();
      break;
    case Kind::Rip:
      r.rip = word();
      break;
    case Kind::Flags:
      r.rflags = word();
      break;
    case Kind::FsBase:
      r.fs_base = word();
      break;
    case Kind::GsBase:
      r.gs_base = word();
      break;
    case Kind::X87:
      use_component(r, 0);
      std::memcpy(r.xsave + kX87At + 16 * s.index, bytes.data(), 10);
      break;
    case Kind::X87Control: {
      use_component(r, 0);
      const auto value = static_cast<uint16_t>(word());
      if (s.index == 0) std::memcpy(r.xsave, &value, 2);
      if (s.index == 1) std::memcpy(r.xsave + 2, &value, 2);
      if (s.index == 2) {
        uint8_t used = 0;
        for (unsigned i = 0; i < 8; i++)
          if ((value >> (2 * i) & 3) != 3) used |= static_cast<uint8_t>(1 << i);
        r.xsave[4] = used;
      }
      break;
    }
    case Kind::Xmm:
      use_component(r, 1);
      std::memcpy(r.xsave + kXmmAt + 16 * s.index, bytes.data(), 16);
      break;
    case Kind::Mxcsr:
      std::memcpy(r.xsave + kMxcsrAt, bytes.data(), 4);
      break;
    case Kind::YmmHigh:
      use_component(r, 2);
      std::memcpy(r.xsave + kYmmAt + 16 * s.index, bytes.data(), 16);
      break;
    case Kind::Segment:
    case Kind::OrigRax:
      break;  // there is nothing to set
  }
  return true;
}

}  // namespace backstep::serve
