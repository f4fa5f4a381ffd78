// Comparing the two outcomes of a case, and showing a case to people.
#include <Zydis/Zydis.h>
#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "case.h"

namespace fuzz {
namespace {

// CF PF AF ZF SF DF OF NT AC ID. RF is how the kernel resumes, TF is not for snippets.
constexpr uint64_t kFlags = 0x244dd5;

constexpr const char* kRegisters[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};

std::string hex(const unsigned char* p, size_t n) {
  std::string s;
  for (size_t i = 0; i < n; i++) s += fmt::format("{:02x}", p[i]);
  return s;
}

std::string end_of(const Outcome& o) {
  switch (o.end) {
    case End::None:
      return "did not end";
    case End::Exit:
      return "exit";
    case End::Timeout:
      return "timeout";
    case End::Skipped:
      return "skipped";
    case End::Fault:
      break;
  }
  std::string s = fmt::format("signal {} code {} trap {} at {:#x}", o.signo, o.code, o.trapno, o.state.rip);
  if (o.has_address) s += fmt::format(" address {:#x} error {:#x}", o.address, o.error);
  return s;
}

void compare_bytes(std::string& out, const std::string& name, const unsigned char* a, const unsigned char* b,
                   size_t size) {
  if (std::memcmp(a, b, size) != 0)
    out += fmt::format("  {}: native {} translated {}\n", name, hex(a, size), hex(b, size));
}

void compare_vectors(std::string& out, const State& a, const State& b) {
  const XsaveLayout& l = xsave_layout();
  const unsigned char *x = a.xsave, *y = b.xsave;
  if (std::memcmp(x, y, kXsave) == 0) return;
  size_t before = out.size();
  compare_bytes(out, "x87 control word", x, y, 2);
  compare_bytes(out, "x87 status word", x + 2, y + 2, 2);
  compare_bytes(out, "x87 tag word", x + 4, y + 4, 1);
  compare_bytes(out, "mxcsr", x + 24, y + 24, 4);
  for (unsigned i = 0; i < 8; i++)
    compare_bytes(out, fmt::format("st{}", i), x + 32 + 16 * i, y + 32 + 16 * i, 10);
  for (unsigned i = 0; i < 16; i++) {
    compare_bytes(out, fmt::format("xmm{}", i), x + 160 + 16 * i, y + 160 + 16 * i, 16);
    if (l.mask & 4)
      compare_bytes(out, fmt::format("ymm{} high half", i), x + l.avx + 16 * i, y + l.avx + 16 * i, 16);
    if (l.mask & 0x40)
      compare_bytes(out, fmt::format("zmm{} high half", i), x + l.zmm_hi + 32 * i, y + l.zmm_hi + 32 * i, 32);
    if (l.mask & 0x80)
      compare_bytes(out, fmt::format("zmm{}", 16 + i), x + l.hi16 + 64 * i, y + l.hi16 + 64 * i, 64);
    if (i < 8 && (l.mask & 0x20))
      compare_bytes(out, fmt::format("k{}", i), x + l.opmask + 8 * i, y + l.opmask + 8 * i, 8);
  }
  if (out.size() == before) out += "  the rest of the vector state differs\n";
}

bool last_instruction(const Outcome& o, ZydisDecodedInstruction& z) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, o.last_code, 15, &z));
}

void compare_ends(std::string& out, const Outcome& n, const Outcome& t) {
  bool same = n.end == t.end && n.signo == t.signo;
  if (n.end == End::Exit) same = t.end == End::Exit;
  if (same && n.end == End::Fault && n.signo != SIGSYS) {
    same = n.code == t.code && n.trapno == t.trapno && n.has_address == t.has_address &&
           (!n.has_address || n.address == t.address);
    // Write or read, as the page fault says it; whether a page was present already is the kernel's affair.
    if (same && n.has_address && t.error && ((n.error ^ t.error) & 2)) same = false;
  }
  if (!same) out += fmt::format("  end: native {}; translated {}\n", end_of(n), end_of(t));
}

// A call to something that is not an address faults before it pushes; the engine has pushed already, and what
// the return address overwrote below the stack pointer is lost. Where that word is, or 0.
Address lost_word(const Case& c) {
  const Outcome& n = c.native;
  if (n.end != End::Fault || n.trapno != 13) return 0;
  ZydisDecodedInstruction z;
  return last_instruction(n, z) && z.mnemonic == ZYDIS_MNEMONIC_CALL ? n.state.gpr[backstep::RSP] - 8 : 0;
}

// Not compared: instruction and data pointers and the last opcode in a stored x87 environment, MXCSR_MASK,
// and the part of an FXSAVE area that the CPU need not write.
void blank_environment(Memory& m, const EnvironmentStore& store) {
  struct Part {
    unsigned start, end;
  };
  static constexpr Part kShort[] = {{6, 14}, {0, 0}}, kLong[] = {{12, 28}, {0, 0}},
                        kFxsave[] = {{6, 24}, {28, 32}};
  const Part(&parts)[2] = store.kind == EnvironmentStore::Short  ? kShort
                          : store.kind == EnvironmentStore::Long ? kLong
                                                                 : kFxsave;
  for (const Part& part : parts)
    for (unsigned i = part.start; i < part.end; i++)
      for (const Piece& piece : kPieces)
        if (store.at + i - piece.start < piece.size)
          reinterpret_cast<unsigned char*>(&m)[piece.offset + (store.at + i - piece.start)] = 0;
}

void compare_memory(std::string& out, const Memory& a, Memory b, Address lost) {
  for (const Piece& piece : kPieces)
    for (Address w = lost; lost && w < lost + 8; w++)
      if (w - piece.start < piece.size) {
        uint64_t at = piece.offset + (w - piece.start);
        reinterpret_cast<unsigned char*>(&b)[at] = reinterpret_cast<const unsigned char*>(&a)[at];
      }
  if (std::memcmp(&a, &b, sizeof a) == 0) return;
  for (const Piece& piece : kPieces) {
    auto* x = reinterpret_cast<const unsigned char*>(&a) + piece.offset;
    auto* y = reinterpret_cast<const unsigned char*>(&b) + piece.offset;
    unsigned shown = 0;
    for (size_t i = 0; i < piece.size && shown < 8; i += 8)
      if (std::memcmp(x + i, y + i, 8) != 0)
        compare_bytes(out, fmt::format("memory {:#x}", piece.start + i), x + i, y + i, 8), shown++;
  }
}

void compare_ticks(std::string& out, const Outcome& n, const Outcome& t) {
  if (!n.ticks_known) return;
  if (n.ticks != t.ticks) out += fmt::format("  ticks: native {} translated {}\n", n.ticks, t.ticks);
  for (unsigned i = 0; i < t.trail_size && i < n.trail_size; i++)
    if (t.trail[i] && t.trail[i] != n.trail[i]) {
      out += fmt::format("  tick {} begins at {:#x} natively, {:#x} translated\n", i + 1, n.trail[i],
                         t.trail[i]);
      return;
    }
}

}  // namespace

bool comparable(const Case& c) {
  const Outcome& n = c.native;
  if (n.end != End::Exit && n.end != End::Fault) return false;
  // What only the engine has: there a translated snippet would not fault (and do damage).
  if (n.end == End::Fault && n.has_address && n.address >= 4096 &&
      backstep::layout::overlaps_engine(n.address - 4096, n.address + 4096))
    return false;
  // ... and that word is code: lost for good.
  Address lost = lost_word(c);
  for (const CodeArea& area : kAreas)
    if (lost && lost + 8 > area.start && lost < area.start + kAreaSize) return false;
  // The snippet set the trap flag (by a popf in a loop).
  if (n.state.rflags & 0x100) return false;
  // Somewhere in the page of the exit, where only the native process has code.
  if (n.end == End::Fault && n.state.rip >= kExit && n.state.rip < kExit + 8192) return false;
  return true;
}

std::string compare(const Case& c) {
  std::string out;
  const Outcome &n = c.native, &t = c.translated;
  if (n.end == End::Timeout || n.end == End::Skipped || t.end == End::Skipped) return out;
  compare_ends(out, n, t);
  State a = n.state, b = t.state;
  for (unsigned i = 0; i < 16; i++)
    if (a.gpr[i] != b.gpr[i])
      out += fmt::format("  {}: native {:#x} translated {:#x}\n", kRegisters[i], a.gpr[i], b.gpr[i]);
  if (a.rip != b.rip) out += fmt::format("  rip: native {:#x} translated {:#x}\n", a.rip, b.rip);
  if ((a.rflags ^ b.rflags) & kFlags)
    out += fmt::format("  flags: native {:#x} translated {:#x}\n", a.rflags & kFlags, b.rflags & kFlags);
  if (a.fs_base != b.fs_base)
    out += fmt::format("  fs base: native {:#x} translated {:#x}\n", a.fs_base, b.fs_base);
  if (a.gs_base != b.gs_base)
    out += fmt::format("  gs base: native {:#x} translated {:#x}\n", a.gs_base, b.gs_base);
  normalise(a, t.all_vectors);
  normalise(b, t.all_vectors);
  compare_vectors(out, a, b);
  Memory before = n.memory, after = t.memory;
  for (unsigned i = 0; i < t.environments_size; i++) {
    blank_environment(before, t.environments[i]);
    blank_environment(after, t.environments[i]);
  }
  compare_memory(out, before, after, lost_word(c));
  compare_ticks(out, n, t);
  return out;
}

std::string disassemble(const Case& c) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  ZydisFormatter formatter;
  ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
  std::string out;
  for (unsigned at = 0; at < c.size;) {
    ZydisDecodedInstruction z;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    char text[128] = "(not an instruction)";
    unsigned length = 1;
    if (ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, c.code + at, c.size - at, &z, operands))) {
      length = z.length;
      ZydisFormatterFormatInstruction(&formatter, &z, operands, z.operand_count_visible, text, sizeof text,
                                      c.at + at, nullptr);
    }
    unsigned nops = 0;  // a reduced case is mostly those
    while (at + nops < c.size && c.code[at + nops] == 0x90) nops++;
    if (nops > 1) {
      out += fmt::format("  {:#x}  {} nops\n", c.at + at, nops);
      at += nops;
      continue;
    }
    out += fmt::format("  {:#x}  {:<32} {}\n", c.at + at, hex(c.code + at, length), text);
    at += length;
  }
  return out;
}

}  // namespace fuzz
