// The reference for events: replays a stretch of a recording one instruction at a time, and writes down each
// of them. It shares the replay with the event engine, but nothing of what it proves: no taps, no
// breakpoints, no watched memory, no checkpoints, no windows. tests/cases/events_agree.py works out from it
// what any event must match. Test code only.
//
//   reference [-p PROCESS] [--from TICK] [--most N] [--watch ADDRESS:SIZE]... [--values] DIR
//
// One line for each position, from the first one of tick FROM to the end, or N of them:
//
//   TICK EVENT PC THREAD KIND RAX RCX RDX RBX RSP RBP RSI RDI R8 … R15 ACCESSES CHANGES
//
// KIND: `i` an instruction is executed; `s` it is a system call; `x` something else happens here first (a
// signal is delivered, another thread has its turn), so that the instruction is not executed now; `c` the
// thread is in that system call since it had the turn last.
// ACCESSES, joined by commas, `-` if none: r|w|b ADDRESS:SIZE, as the instruction's operands say (by Zydis);
// `?` if that is not all. With --values: r ADDRESS:SIZE=VALUE, w ADDRESS:SIZE=OLD>NEW, up to eight bytes of
// them as numbers; what reads and writes is two. CHANGES likewise: by number, watched ranges whose contents
// are others then. The last line: `end` if the recording ends there, `more` if not.
#include <Zydis/Zydis.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "timeline/timeline.h"

using namespace backstep;
using timeline::Arrival;
using timeline::Position;
using timeline::Worker;

namespace {

struct Range {
  Address start = 0;
  uint64_t size = 0;
};

struct Options {
  std::string dir;
  uint64_t process = 1, most = 300'000;
  Tick from = 0;
  std::vector<Range> watched;
  bool values = false;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; i++) {
    const std::string arg = argv[i];
    auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    auto number = [&] { return std::strtoull(value().c_str(), nullptr, 0); };
    if (arg == "-p") {
      o.process = number();
    } else if (arg == "--from") {
      o.from = number();
    } else if (arg == "--most") {
      o.most = number();
    } else if (arg == "--values") {
      o.values = true;
    } else if (arg == "--watch") {
      const std::string text = value();
      const size_t colon = text.find(':');
      o.watched.push_back(
          {std::strtoull(text.c_str(), nullptr, 0), std::strtoull(text.c_str() + colon + 1, nullptr, 0)});
    } else {
      o.dir = arg;
    }
  }
  return o;
}

class Tracer {
 public:
  Tracer(const Options& options, timeline::Timeline& timeline)
      : options_(options), worker_(timeline.present()), old_(options.watched.size()) {
    ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    timeline.log().each(0, [this](const timeline::Moment& m, std::span<const uint8_t>) {
      using recording::EventKind;
      const bool sent = m.kind == EventKind::Signal || m.kind == EventKind::Turn || m.kind == EventKind::End;
      if (sent && (m.flags & recording::kAsynchronous)) moments_.push_back(m);
      return true;
    });
    compare();
  }

  void run(Position at) {
    bool ended = false;
    for (const auto& t : worker_.state().threads)
      if (t.in_call) waiting_.insert(t.tid);
    look_who_has_the_turn();
    for (uint64_t n = 0; n < options_.most && !ended; n++) {
      const timeline::Registers registers = worker_.registers(tid_);
      const std::vector<uint8_t> code = worker_.read(at.pc, ZYDIS_MAX_INSTRUCTION_LENGTH);
      const char what = kind(at, code);
      std::string line = fmt::format("{} {} {} {} {}", at.tick, at.event, at.pc, thread_, what);
      for (uint64_t r : registers.gpr) line += fmt::format(" {}", r);
      std::string touched = accesses(code, registers, at.pc);
      timeline::Until until;
      until.tick = 0;  // no instruction of another thread is passed over
      const Arrival halt = worker_.step(tid_, 0, 0, until, false, nullptr);
      ended = halt.why == Arrival::End;
      if (options_.values) touched = with_values(!ended);
      fmt::print("{} {} {}\n", line, touched, ended ? "-" : compare());
      at = halt.at;
      in_call_ = false;
      if (halt.tid == tid_) continue;
      if (what == 's' || what == 'c') waiting_.insert(tid_);
      look_who_has_the_turn();
    }
    fmt::print("{}\n", ended ? "end" : "more");
  }

 private:
  void look_who_has_the_turn() {
    const timeline::WorkerState state = worker_.state();
    tid_ = state.tid;
    for (const auto& t : state.threads)
      if (t.tid == tid_) thread_ = t.name;
    in_call_ = waiting_.erase(tid_);
  }

  char kind(const Position& at, const std::vector<uint8_t>& code) {
    while (next_ < moments_.size() && moments_[next_].event < at.event) next_++;
    if (in_call_) return 'c';
    if (next_ < moments_.size()) {
      const timeline::Moment& m = moments_[next_];
      const bool here = m.tick == at.tick && (m.pc == at.pc || m.pc == 0);
      if (here) return 'x';
    }
    return code.size() >= 2 && code[0] == 0x0f && code[1] == 0x05 ? 's' : 'i';
  }

  uint64_t word(Address address, uint64_t size) {
    uint64_t value = 0;
    const std::vector<uint8_t> bytes = worker_.read(address, std::min<uint64_t>(size, sizeof value));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  // What the last accesses() has found; those that read come first.
  std::string with_values(bool there) {
    std::string text = vague_ ? "?," : "";
    for (const Touched& t : touched_)
      if (t.reads) text += fmt::format("r{}:{}={},", t.address, t.size, t.before);
    for (const Touched& t : touched_)
      if (t.writes)
        text +=
            fmt::format("w{}:{}={}>{},", t.address, t.size, t.before, there ? word(t.address, t.size) : 0);
    if (text.empty()) return "-";
    text.pop_back();
    return text;
  }

  std::string accesses(const std::vector<uint8_t>& code, const timeline::Registers& r, Address pc) {
    touched_.clear();
    vague_ = true;
    ZydisDecodedInstruction in;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder_, code.data(), code.size(), &in, operands))) return "?";
    // These have an operand and touch nothing.
    if (in.meta.category == ZYDIS_CATEGORY_NOP || in.meta.category == ZYDIS_CATEGORY_WIDENOP ||
        in.meta.category == ZYDIS_CATEGORY_PREFETCH) {
      vague_ = false;
      return "-";
    }
    std::string text;
    // How much of their operand they touch depends.
    const bool partly =
        in.meta.category == ZYDIS_CATEGORY_XSAVE || in.meta.category == ZYDIS_CATEGORY_XSAVEOPT;
    const bool repeated =
        in.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
    if (partly || repeated) text += "?,";
    ZydisRegisterContext context{};
    for (int i = 0; i < 16; i++) context.values[ZYDIS_REGISTER_RAX + i] = r.gpr[i];
    for (int i = 0; i < 16; i++) context.values[ZYDIS_REGISTER_EAX + i] = r.gpr[i] & 0xffff'ffff;
    context.values[ZYDIS_REGISTER_AL] = r.gpr[0] & 0xff;
    for (int i = 0; i < in.operand_count; i++) {
      const ZydisDecodedOperand& o = operands[i];
      if (o.type != ZYDIS_OPERAND_TYPE_MEMORY || o.mem.type == ZYDIS_MEMOP_TYPE_AGEN) continue;
      const bool vector_index = o.mem.type == ZYDIS_MEMOP_TYPE_VSIB;
      if (vector_index) return "?";
      ZyanU64 address = 0;
      if (!ZYAN_SUCCESS(ZydisCalcAbsoluteAddressEx(&in, &o, pc, &context, &address))) return "?";
      if (o.mem.segment == ZYDIS_REGISTER_FS) address += r.fs_base;
      if (o.mem.segment == ZYDIS_REGISTER_GS) address += r.gs_base;
      uint64_t size = o.size / 8;
      if (!size) return "?";
      // push and call have their operand below the stack pointer.
      const bool stack = o.visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && o.mem.base == ZYDIS_REGISTER_RSP;
      if (stack && (o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) address -= size;
      const bool reads = o.actions & ZYDIS_OPERAND_ACTION_MASK_READ;
      const bool writes = o.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
      if (options_.values) touched_.push_back({address, size, word(address, size), reads, writes});
      text += fmt::format("{}{}:{},", reads && writes ? 'b' : writes ? 'w' : 'r', address, size);
    }
    // The bit may be far from the operand; a mask may leave a part of it alone.
    const bool bit = (in.mnemonic == ZYDIS_MNEMONIC_BT || in.mnemonic == ZYDIS_MNEMONIC_BTS ||
                      in.mnemonic == ZYDIS_MNEMONIC_BTR || in.mnemonic == ZYDIS_MNEMONIC_BTC) &&
                     operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
    const bool masked = in.meta.category == ZYDIS_CATEGORY_AVX2GATHER ||
                        in.mnemonic == ZYDIS_MNEMONIC_VPMASKMOVD || in.mnemonic == ZYDIS_MNEMONIC_VMASKMOVDQU;
    vague_ = partly || repeated || bit || masked;
    if (text.empty()) return "-";
    text.pop_back();
    return text;
  }

  std::string compare() {
    std::string text;
    for (size_t i = 0; i < options_.watched.size(); i++) {
      std::vector<uint8_t> now = worker_.read(options_.watched[i].start, options_.watched[i].size);
      if (now != old_[i]) text += fmt::format("{},", i);
      old_[i] = std::move(now);
    }
    if (text.empty()) return "-";
    text.pop_back();
    return text;
  }

  struct Touched {
    Address address;
    uint64_t size, before;
    bool reads, writes;
  };

  const Options& options_;
  Worker& worker_;
  std::vector<Touched> touched_;
  bool vague_ = false;  // … and those are not all
  std::vector<std::vector<uint8_t>> old_;
  ZydisDecoder decoder_;
  std::vector<timeline::Moment> moments_;  // at which an instruction has to wait
  size_t next_ = 0;
  std::set<int> waiting_;  // threads that gave up the turn in a call
  int tid_ = 0, thread_ = 0;
  bool in_call_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    const auto library = recording::Library::standard();
    const auto recording = library.resolve(options.dir);
    ReplayOptions replay;
    replay.recording = recording.dir();
    replay.process = options.process;
    replay.checkpoints = 0;
    timeline::Timeline timeline(replay, library, recording);
    if (options.from)
      timeline.go_to({options.from, 0, 0});
    else
      timeline.go_to_birth();
    Tracer(options, timeline).run(timeline.now());
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "reference: {}\n", e.what());
    return 2;
  }
}
