// Ends of the way back: system calls, files, the start of the program.
#include "session/flow_origins.h"

#include <gelf.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "events/recorded_call.h"
#include "session/present.h"
#include "symbols/types.h"

namespace backstep::session {
namespace {

using recording::Event;
using recording::EventKind;
using Kind = FlowOrigin::Kind;

std::string section_of(const symbols::Module& module, Address address, bool* zero) {
  *zero = false;
  try {
    Elf* elf = module.elf().elf();
    size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0) return "";
    for (Elf_Scn* s = nullptr; (s = elf_nextscn(elf, s));) {
      GElf_Shdr h;
      if (!gelf_getshdr(s, &h) || !(h.sh_flags & SHF_ALLOC)) continue;
      if (address - module.bias < h.sh_addr || address - module.bias >= h.sh_addr + h.sh_size) continue;
      *zero = h.sh_type == SHT_NOBITS;
      const char* name = elf_strptr(elf, names, h.sh_name);
      return name ? name : "";
    }
  } catch (const Error&) {  // it names nothing
  }
  return "";
}

std::string last_of_path(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Of text, the line that a byte is in.
std::string line_around(std::span<const std::byte> bytes, uint64_t at) {
  constexpr uint64_t kMost = 60;
  auto text = [&](uint64_t i) { return static_cast<char>(bytes[i]); };
  uint64_t from = at, to = at;
  while (from > 0 && text(from - 1) != '\n' && at - from < kMost) from--;
  while (to < bytes.size() && text(to) != '\n' && to - at < kMost) to++;
  std::string line;
  for (uint64_t i = from; i < to; i++) {
    const char c = text(i);
    if (!std::isprint(static_cast<unsigned char>(c)) && c != '\t' && !(c & 0x80)) return "";
    line += c;
  }
  return line;
}

// recvmsg gives the sender's name and control data, too; what it is about comes last.
uint64_t bytes_before_message(const Event& e) {
  uint64_t all = 0;
  for (const auto& p : e.pieces)
    if (p.kind == recording::PieceKind::OutAt || p.kind == recording::PieceKind::OutAtArg)
      all += p.bytes.size();
  return all - std::min(all, static_cast<uint64_t>(e.result));
}

}  // namespace

std::string flow_number(const std::vector<uint8_t>& bytes) {
  if (bytes.empty()) return "";
  if (bytes.size() > 8 || bytes.size() == 3 || (bytes.size() > 4 && bytes.size() < 8))
    return symbols::quoted(bytes, false);
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  if (bytes.size() == 1)
    return std::isprint(bytes[0]) ? fmt::format("{} '{}'", value, static_cast<char>(bytes[0]))
                                  : fmt::format("{}", value);
  const unsigned unused = 64 - 8 * static_cast<unsigned>(bytes.size());
  const int64_t number = static_cast<int64_t>(value << unused) >> unused;
  constexpr int64_t kPointers = 1 << 20;
  if (bytes.size() == 8 && (number > kPointers || number < -kPointers)) return fmt::format("{:#x}", value);
  return fmt::format("{}", number);
}

std::optional<Recorded::OwnEvent> Recorded::owner(uint64_t process, uint64_t event) {
  for (;;) {
    auto [own, fresh] = first_own_.try_emplace(process, 0);
    if (fresh) own->second = timeline::LogIndex(recording_, process).own();
    if (event >= own->second) return OwnEvent{process, event - own->second};
    const auto& all = channels().processes();
    const auto info =
        std::find_if(all.begin(), all.end(), [&](const auto& p) { return p.number == process; });
    if (info == all.end() || !info->parent || info->parent >= process) return std::nullopt;
    process = info->parent;
  }
}

FlowPlace Origins::place(const replayer::StepRecord& step) {
  FlowPlace p;
  p.process = session_.timeline().log().process();
  p.at = step.at;
  p.thread = step.thread;
  const auto frames = session_.program().frames_at(step.at.pc);
  if (!frames.empty()) p.function = frames[0].function, p.file = frames[0].file, p.line = frames[0].line;
  if (p.function.empty()) p.function = session_.program().place(step.at.pc).function;
  if (step.length) p.instruction = trail_.decoder().text(step);
  return p;
}

// Does the log say where in memory the bytes were?
static bool is_followed(uint16_t nr) {
  return nr == SYS_write || nr == SYS_writev || nr == SYS_sendto || nr == SYS_sendmsg;
}

void Origins::tell_stream(FlowOrigin& origin, const OpenFile& file, uint64_t byte, uint64_t count,
                          const Recorded::OwnEvent& read) {
  std::string why;
  bool checked = true;
  for (uint64_t done = 0; done < count;) {
    const uint64_t at = byte + done;
    const Message* m = recorded_.messages().of_read(read.process, read.event, at, why);
    if (!m) break;
    if (!is_followed(m->write->nr)) {
      why = fmt::format("process #{} has put it there with {}, which is not followed", m->write->process,
                        guest::syscall_name(m->write->nr));
      break;
    }
    const uint64_t in_message = at - m->read->part - m->read_byte;
    const uint64_t there = std::min(count - done, m->bytes - in_message);
    pieces.push_back({m->write, m->write->part + m->write_byte + in_message, there});
    checked = checked && m->checked;
    done += there;
  }
  origin.sentence = fmt::format("read from {}", file.name);
  if (pieces.empty()) {
    origin.sentence += ": " + why;
    return;
  }
  const Transfer& write = *pieces[0].write;
  origin.sentence += fmt::format(
      ", written by process #{}, event {}, byte {} of {}{}{}", write.process, write.event, pieces[0].byte,
      write.bytes, pieces.size() > 1 ? fmt::format(", and so on, in {} pieces", pieces.size()) : "",
      checked ? "" : " (by the order of the calls alone)");
}

void Origins::tell_call_data(FlowOrigin& origin, const Change& change, const Loc& loc, uint64_t count) {
  origin.kind = Kind::Read;
  const auto logged = trail_.event(change.event);
  const Event& e = logged->event;
  origin.call = guest::print_syscall(events::view_of(e));
  const std::string name = guest::syscall_name(e.nr);
  const uint64_t in_piece = loc.where - change.first.where;
  uint64_t byte = change.part + in_piece;
  if (e.nr == SYS_recvmsg) byte -= std::min(byte, bytes_before_message(e));
  for (const auto& p : e.pieces) {
    const bool out = p.kind == recording::PieceKind::OutAt || p.kind == recording::PieceKind::OutAtArg;
    if (out && (p.kind == recording::PieceKind::OutAt ? p.addr : e.args[p.arg]) == change.first.where)
      origin.data = line_around(p.bytes, in_piece);
  }
  const timeline::LogIndex& log = session_.timeline().log();
  switch (e.nr) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_recvfrom:
    case SYS_recvmsg:
      break;
    case SYS_getrandom:
      origin.sentence = "random bytes, from getrandom";
      return;
    case SYS_clock_gettime:
    case SYS_gettimeofday:
    case SYS_time:
      origin.sentence = "the time, from " + name;
      return;
    default:
      origin.sentence = fmt::format("written by the kernel in {}", name);
      return;
  }
  // Events of ancestors belong to other logs: before its birth a forked process is its parent.
  const auto own = recorded_.owner(log.process(), change.event);
  if (!own) {
    origin.sentence = fmt::format("read by {} before the process was forked", name);
    return;
  }
  const auto file = recorded_.channels().file_at(own->process, own->event, static_cast<int>(e.args[0]));
  if (!file) {
    origin.sentence = fmt::format("read from descriptor {}", static_cast<int>(e.args[0]));
    return;
  }
  std::string unknown;
  const bool channel =
      file->kind == OpenFile::Pipe || file->kind == OpenFile::SocketPair || file->kind == OpenFile::Socket;
  // What was there at the start is somebody else's, mostly.
  if (channel && (file->made_here || !file->kernel ||
                  recorded_.messages().of_read(own->process, own->event, byte, unknown)))
    return tell_stream(origin, *file, byte, count, *own);
  origin.file = file->name;
  if (file->kind != OpenFile::File) {
    origin.sentence = fmt::format("read from {}, byte {} of what {} got there", file->name, byte, name);
    return;
  }
  const bool at_offset = e.nr == SYS_pread64 || e.nr == SYS_preadv || e.nr == SYS_preadv2;
  const uint64_t base = at_offset ? e.args[3] : file->offset;
  const bool sure = at_offset || file->sure;
  origin.offset = base + byte;
  origin.sentence = fmt::format("read from {}, offset {}{}", file->name, base + byte,
                                sure ? "" : " (if no other process has moved it)");
  if (count > 1) origin.sentence += fmt::format(", {} bytes", count);
}

void Origins::tell_change(FlowOrigin& origin, const Change& change, const replayer::StepRecord& step,
                          const Loc& loc, uint64_t count) {
  origin.place = place(step);
  pieces.clear();
  switch (change.how) {
    case Change::CallData:
      return tell_call_data(origin, change, loc, count);
    case Change::CallResult: {
      origin.kind = Kind::Result;
      if (change.event == ~0ull) {
        origin.call = guest::syscall_name(step.gpr[RAX]);
      } else {
        origin.call = guest::print_syscall(events::view_of(trail_.event(change.event)->event));
      }
      origin.sentence = "result of " + origin.call.substr(0, origin.call.find('('));
      return;
    }
    case Change::CallScratch:
      origin.kind = Kind::Unknown;
      origin.sentence = "overwritten by a system call: it is where that returns to, or the flags";
      return;
    case Change::Mapped: {
      const Event& e = trail_.event(change.event)->event;
      if (e.kind == EventKind::Map && !e.text.empty()) {
        origin.kind = Kind::Image;
        origin.file = e.text;
        origin.offset = e.offset + (loc.where - e.addr);
        origin.sentence = fmt::format("in {}, offset {}, which was mapped there", e.text, *origin.offset);
        if (const std::string what = data_name(loc.where); !what.empty()) origin.sentence += ": " + what;
        return;
      }
      // What was mapped is told behind the call that did it.
      const bool behind_call = e.kind == EventKind::Map && change.event > 0;
      const Event& call = behind_call ? trail_.event(change.event - 1)->event : e;
      origin.kind = Kind::Zero;
      if (call.kind == EventKind::Syscall) origin.call = guest::print_syscall(events::view_of(call));
      origin.sentence = "new memory: zero, not written since";
      return;
    }
    case Change::FromOutside:
      origin.kind = Kind::Outside;
      origin.sentence = "written from outside: memory that is shared with another process";
      return;
    case Change::SignalFrame:
      origin.kind = Kind::Signal;
      origin.sentence = "saved or restored by the kernel around a signal handler";
      return;
    case Change::SignalStart:
      origin.kind = Kind::Signal;
      origin.sentence = fmt::format("what the kernel starts the handler of signal {} with",
                                    trail_.event(change.event)->event.signo);
      return;
    case Change::HostOp:
      origin.kind = Kind::Instruction;
      origin.sentence = "from the processor: " + origin.place.instruction;
      return;
    case Change::Lost:
      origin.kind = Kind::Unknown;
      origin.sentence = "the recording has a gap here";
      return;
    case Change::Instruction:
      return;
  }
}

std::string Origins::data_name(Address address) const {
  const symbols::Module* module = session_.program().module_at(address);
  if (!module) return "";
  bool zero = false;
  const std::string section = section_of(*module, address, &zero);
  return section.empty() ? last_of_path(module->name)
                         : fmt::format("{} of {}", section, last_of_path(module->name));
}

bool Origins::tell_image(FlowOrigin& origin, Address address, uint64_t count) {
  const symbols::Module* module = session_.program().module_at(address);
  if (!module) return false;
  bool zero = false;
  const std::string section = section_of(*module, address, &zero);
  origin.file = module->name;
  origin.kind = zero ? Kind::Zero : Kind::Image;
  origin.sentence = zero ? fmt::format("zero from the start: {} of {}, not written before", section,
                                       last_of_path(module->name))
                         : fmt::format("a constant of the program: {} of {}, {} byte{} at {:#x}",
                                       section.empty() ? "the image" : section, last_of_path(module->name),
                                       count, count == 1 ? "" : "s", address - module->bias);
  return true;
}

// Strings that the kernel puts above the stack, and the tables that lead to them.
bool Origins::tell_start_stack(FlowOrigin& origin, Address address, uint64_t) {
  timeline::Timeline& timeline = session_.timeline();
  timeline.go_to_start();
  timeline::Worker& worker = timeline.present();
  const auto state = worker.state();
  const Address stack = worker.registers(state.tid).gpr[RSP];
  auto word = [&](Address at) {
    uint64_t value = 0;
    const auto bytes = worker.read(at, 8);
    if (bytes.size() == 8) std::memcpy(&value, bytes.data(), 8);
    return value;
  };
  auto text = [&](Address at) {
    const auto bytes = worker.read(at, 4096);
    return std::string(bytes.begin(), std::find(bytes.begin(), bytes.end(), 0));
  };
  constexpr Address kStack = 16 << 20;
  if (address < stack || address - stack > kStack) return false;
  origin.kind = Kind::Argument;
  const uint64_t argc = word(stack);
  Address at = stack + 8;
  if (address < at) {
    origin.sentence = "argc, the number of arguments";
    return true;
  }
  for (uint64_t i = 0; i < argc; i++, at += 8) {
    const std::string value = text(word(at));
    if (address >= at && address < at + 8) origin.sentence = fmt::format("the address of argv[{}]", i);
    if (address >= word(at) && address <= word(at) + value.size())
      origin.sentence = fmt::format("argv[{}], \"{}\", from its byte {}", i, value, address - word(at));
  }
  for (at += 8; word(at) != 0; at += 8) {
    const std::string value = text(word(at));
    const std::string name = value.substr(0, value.find('='));
    if (address >= at && address < at + 8) origin.sentence = "the address of " + name + " in the environment";
    if (address >= word(at) && address <= word(at) + value.size())
      origin.sentence = fmt::format("the environment: {}", value);
  }
  if (origin.sentence.empty())
    origin.sentence = "from the kernel: the auxiliary vector, or what it points to";
  return true;
}

void Origins::tell_beginning(FlowOrigin& origin, const Loc& loc, uint64_t count, int thread) {
  origin.place.process = session_.timeline().log().process();
  origin.place.at = {session_.timeline().first().tick, 0, 0};
  origin.place.thread = thread;
  if (loc.kind != Loc::Memory) {
    origin.kind = Kind::Unknown;
    origin.sentence = thread > 1 ? fmt::format("thread {} began with it", thread)
                                 : "the program began with it in " + register_name(loc, count);
    return;
  }
  if (tell_image(origin, loc.where, count) || tell_start_stack(origin, loc.where, count)) return;
  origin.kind = Kind::Zero;
  origin.sentence = "not written since the start of the program";
}

}  // namespace backstep::session
