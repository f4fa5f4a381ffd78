// Taps at the first instruction of each function and at each instruction that leaves it.
//
// Where a function is left is found by following its code from the entry, through its jumps: parts that the
// compiler has put elsewhere are found like that, and so are functions that it jumps to instead of calling
// them, named or not (a stripped libc names few). A jump that leads nowhere that we can follow, through a
// pointer or to another known function, is told of as well: what enters a known function next with the same
// stack pointer does the work of both. Some end with a jump to another library's function, or to one that is
// chosen at run time: glibc's calloc jumps to memset. Those are left where they return to. So such functions
// are first asked from where they are called, which takes a replay. What leaves without returning (an
// exception, longjmp) is not seen; the next call at the same place of the stack says so.
#include "session/known_calls.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>
#include <unordered_map>

#include "isa/decode.h"
#include "session/hits.h"

namespace backstep::session {
namespace {

using replayer::TapRecord;
using timeline::Tap;

constexpr size_t kMostInstructions = 50'000;  // of one function
constexpr int kWeakest = 1;                   // rank of a symbol that other files see

// Symbol tables with local symbols have the version in the name: pthread_cond_wait@@GLIBC_2.3.2.
std::string_view without_version(std::string_view name) {
  return name.substr(0, name.find('@'));
}

}  // namespace

KnownCalls::KnownCalls(Session& session, std::vector<KnownFunction> functions)
    : session_(session), functions_(std::move(functions)) {
  find_entries();
  for (auto [pc, function] : entries_) points_.push_back({KnownCall::Enter, function, pc});
  for (auto [pc, function] : entries_) find_exits(pc);
  for (auto [pc, kind] : exits_) points_.push_back({kind, 0, pc});
}

void KnownCalls::find_entries() {
  std::unordered_map<std::string_view, size_t> wanted;
  for (size_t i = 0; i < functions_.size(); i++) wanted.emplace(functions_[i].name, i);
  for (const symbols::Module& m : session_.program().modules()) {
    try {
      for (const symbols::Symbol& s : m.elf().symbols()) {
        if (!s.code || s.label || s.ifunc) continue;
        const auto found = wanted.find(without_version(s.name));
        if (found == wanted.end() || (s.rank > kWeakest && !functions_[found->second].local)) continue;
        // Of several names for one function the one that stands first in the list.
        auto [place, fresh] = entries_.try_emplace(s.start + m.bias, found->second);
        if (!fresh) place->second = std::min(place->second, found->second);
      }
    } catch (const Error&) {  // a file that cannot be read names nothing
    }
  }
}

void KnownCalls::find_exits(Address entry) {
  const symbols::Module* module = session_.program().module_at(entry);
  if (!module) return;
  const symbols::ElfFile& elf = module->elf();
  std::set<Address> seen;
  std::vector<Address> open{entry};
  while (!open.empty()) {
    Address pc = open.back();
    open.pop_back();
    while (seen.size() < kMostInstructions && seen.insert(pc).second) {
      const std::string_view bytes = elf.bytes(pc - module->bias, 15);
      const isa::Insn in = isa::decode(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
      if (in.cls == isa::Class::Bad || in.length == 0) break;
      const Address next = pc + in.length, target = next + static_cast<uint64_t>(int64_t{in.rel});
      if (in.cls == isa::Class::Ret) exits_.emplace(pc, KnownCall::Leave);
      if (in.cls == isa::Class::JmpInd) exits_.emplace(pc, KnownCall::Jump);
      // Through a variable of the linker's; one through a register is a switch, mostly.
      if (in.cls == isa::Class::JmpInd && in.disp_at && functions_[entries_.at(entry)].leaving)
        elusive_.insert(entry);
      if (in.cls == isa::Class::Ret || in.cls == isa::Class::JmpInd || in.cls == isa::Class::Trap) break;
      if (in.cls == isa::Class::Jmp) {
        if (entries_.count(target))
          exits_.emplace(pc, KnownCall::Jump);
        else
          open.push_back(target);
        break;
      }
      if (in.cls == isa::Class::Jcc || in.cls == isa::Class::Loop) {
        if (entries_.count(target))
          exits_.emplace(pc, KnownCall::Jump);
        else
          open.push_back(target);
      }
      // Behind a call that does not return another function may begin.
      const symbols::Symbol* symbol = elf.symbol_at(next - module->bias);
      if (symbol && symbol->start + module->bias == next) break;
      pc = next;
    }
  }
}

bool KnownCalls::is_named_elsewhere(std::string_view name) const {
  const std::string text = '\0' + std::string(name) + '\0';
  const auto& files = session_.timeline().log().files();
  for (const symbols::Module& m : session_.program().modules()) {
    try {
      const auto& all = m.elf().symbols();
      const bool defines = std::any_of(all.begin(), all.end(), [&](const symbols::Symbol& s) {
        return without_version(s.name) == name && s.code && s.rank <= kWeakest;
      });
      // A library that has it has it for others; a program for itself.
      if (defines && !files.empty() && m.name != files.front().path) continue;
      std::ifstream in(m.file, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      if (defines || bytes.find(text) != std::string::npos) return true;
    } catch (const Error&) {  // not a file that code is in
    }
  }
  return false;
}

std::set<Address> KnownCalls::return_addresses(const Stretch& stretch) const {
  std::set<Address> found;
  timeline::Sweep sweep;
  for (Address entry : elusive_) {
    Tap& tap = sweep.taps.list.emplace_back();
    tap.action = Tap::Log;
    tap.start = entry;
    tap.values = {session_.compiler().compile("*(unsigned long *)$rsp", 0).code};
  }
  sweep.from = stretch.from, sweep.to = stretch.to;
  sweep.record = [&](const TapRecord&, const uint8_t* bytes) {
    found.insert(CapturedValues(bytes).word());
    return true;
  };
  if (!elusive_.empty()) session_.timeline().sweep(sweep);
  return found;
}

bool KnownCalls::run(const Stretch& stretch, const std::function<bool(const KnownCall&)>& take,
                     const Watcher& watcher) const {
  if (points_.empty()) return true;
  symbols::Compiler& compiler = session_.compiler();
  auto code = [&](const char* text) { return compiler.compile(text, 0).code; };
  const auto stack = code("$rsp"), back = code("*(unsigned long *)$rsp"), rdi = code("$rdi"),
             rsi = code("$rsi"), rdx = code("$rdx"), rax = code("$rax");
  std::vector<Point> points = points_;
  const size_t returns = points.size();  // from here on they are places behind calls
  for (Address back : return_addresses(stretch)) points.push_back({KnownCall::Leave, 0, back});
  if (session_.timeline().attention.stop_asked) return false;
  timeline::Sweep sweep;
  for (const Point& p : points) {
    Tap& tap = sweep.taps.list.emplace_back();
    tap.kind = Tap::Pc;
    tap.action = Tap::Log;
    tap.start = p.pc;
    tap.values = {stack};
    if (p.kind == KnownCall::Enter) tap.values = {stack, back, rdi, rsi, rdx};
    if (p.kind == KnownCall::Leave) tap.values = {stack, rax};
  }
  sweep.from = stretch.from, sweep.to = stretch.to;
  sweep.progress = watcher.progress;
  sweep.record = [&](const TapRecord& record, const uint8_t* bytes) {
    const Point& p = points[record.tap];
    CapturedValues values(bytes);
    KnownCall call;
    call.kind = p.kind;
    call.function = p.function;
    call.at = {record.tick, record.event, record.pc};
    call.thread = record.thread;
    call.stack = values.word();
    if (p.kind == KnownCall::Enter) {
      call.back = values.word();
      for (uint64_t& a : call.args) a = values.word();
    } else if (p.kind == KnownCall::Leave) {
      call.result = values.word();
      if (record.tap >= returns) call.stack -= sizeof(Address), call.behind = true;
    }
    return take(call);
  };
  return session_.timeline().sweep(sweep).complete;
}

const OpenCalls::Chain& OpenCalls::enter(const KnownCall& call) {
  Open& open = open_[call.stack];
  // Whoever is there and has not jumped here was left by an exception.
  if (!open.jumped || open.chain.back().thread != call.thread) open.chain.clear();
  open.jumped = false;
  open.chain.push_back(call);
  return open.chain;
}

OpenCalls::Chain OpenCalls::leave(const KnownCall& call) {
  auto found = open_.find(call.stack);
  if (found == open_.end() || found->second.chain.back().thread != call.thread) return {};
  if (call.kind == KnownCall::Jump) {
    found->second.jumped = true;
    return {};
  }
  Chain chain = std::move(found->second.chain);
  open_.erase(found);
  return chain;
}

bool OpenCalls::any(const std::function<bool(const KnownCall&)>& f) const {
  for (const auto& [stack, open] : open_)
    if (std::any_of(open.chain.begin(), open.chain.end(), f)) return true;
  return false;
}

std::vector<OpenCalls::Chain> OpenCalls::rest() const {
  std::vector<Chain> all;
  for (const auto& [stack, open] : open_) all.push_back(open.chain);
  std::sort(all.begin(), all.end(),
            [](const Chain& a, const Chain& b) { return a.front().at < b.front().at; });
  return all;
}

std::vector<StackAt> stacks_at(Session& session, const std::vector<Position>& moments,
                               const Watcher& watcher) {
  std::vector<StackAt> stacks(moments.size());
  std::vector<size_t> order(moments.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return moments[a] < moments[b]; });
  timeline::Sweep sweep;
  Tap& tap = sweep.taps.list.emplace_back();
  tap.kind = Tap::Moment;
  tap.action = Tap::Log;
  tap.stack = true;
  for (size_t i : order)
    if (tap.moments.empty() || tap.moments.back().at != moments[i]) tap.moments.push_back({moments[i], 0});
  if (tap.moments.empty()) return stacks;
  sweep.from = Position{};
  sweep.progress = watcher.progress;
  size_t next = 0;
  sweep.record = [&](const TapRecord& record, const uint8_t* bytes) {
    CapturedValues values(bytes);
    symbols::UnwindRegisters registers;
    const auto gpr = values.next();
    std::memcpy(registers.gpr, gpr.data(), std::min(gpr.size(), sizeof registers.gpr));
    StackAt found;
    found.frames = session.frames(registers, registers.gpr[symbols::UnwindRegisters::kRsp], values.next(),
                                  &found.complete);
    // One that was not met, which should not be, is passed over.
    auto is = [&](size_t i) { return moments[i].tick == record.tick && moments[i].pc == record.pc; };
    while (next < order.size() && moments[order[next]].tick <= record.tick && !is(order[next])) next++;
    for (; next < order.size() && is(order[next]); next++) stacks[order[next]] = found;
    return next < order.size();
  };
  session.timeline().sweep(sweep);
  return stacks;
}

}  // namespace backstep::session
