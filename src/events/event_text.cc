// How each kind of event reads. System calls are printed by the system-call table's own printer; the rest is
// here.
#include "events/event_text.h"

#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/printable.h"
#include "base/text.h"
#include "engine/host_ops.h"
#include "events/recorded_call.h"
#include "guest/socket_address.h"
#include "guest/syscall_print.h"
#include "guest/syscall_table.h"

namespace backstep::events {
namespace {

using Json = nlohmann::ordered_json;
using recording::EndKind;
using recording::EventKind;

constexpr const char* kKinds[] = {"none",   "syscall",  "instr",  "signal", "map",  "memory",
                                  "start",  "checksum", "note",   "end",    "file", "turn",
                                  "shared", "gap",      "resize", "channel"};
constexpr const char* kRegisters[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8",
                                      "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip", "rflags"};

std::string signal_name(int64_t signo) {
  const char* name = sigabbrev_np(static_cast<int>(signo));
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signo);
}

const char* instruction_name(uint16_t op) {
  using engine::HostOp;
  switch (static_cast<HostOp>(op)) {
    case HostOp::Cpuid:
      return "cpuid";
    case HostOp::Rdtsc:
      return "rdtsc";
    case HostOp::Rdtscp:
      return "rdtscp";
    case HostOp::Rdrand:
      return "rdrand";
    case HostOp::Rdseed:
      return "rdseed";
    case HostOp::Rdpid:
      return "rdpid";
    case HostOp::Xgetbv:
      return "xgetbv";
    case HostOp::None:
      break;
  }
  return "instruction";
}

std::string values_text(const recording::Event& event) {
  std::string out;
  for (uint64_t value : event.values) out += fmt::format("{}{:#x}", out.empty() ? "" : ", ", value);
  return out;
}

std::string channel_text(const recording::ChannelName& c) {
  const char* const kReasons[] = {"there at the start", "made", "received", "named"};
  const auto reason = static_cast<size_t>(c.reason);
  std::string out =
      fmt::format("channel {} ({}): ", c.fd, reason < std::size(kReasons) ? kReasons[reason] : "?");
  if (c.object == recording::ChannelObject::Pipe) return out + fmt::format("pipe {}", c.inode);
  out += fmt::format("socket {}", c.cookie);
  const std::string local = guest::socket_address(c.local).text(),
                    peer = guest::socket_address(c.peer).text();
  if (!local.empty()) out += " " + local;
  if (!peer.empty()) out += " -> " + peer;
  return out;
}

Json channel_json(const recording::ChannelName& c) {
  Json j = {{"fd", c.fd}, {"reason", static_cast<int>(c.reason)}};
  if (c.object == recording::ChannelObject::Pipe) {
    j["pipe"] = c.inode;
    return j;
  }
  j["socket"] = c.cookie;
  if (c.net) j["net"] = c.net;
  j["family"] = c.family;
  if (c.type) j["type"] = c.type;
  if (c.peer_pid) j["peer_pid"] = c.peer_pid;
  j["local"] = to_utf8(guest::socket_address(c.local).text());
  j["peer"] = to_utf8(guest::socket_address(c.peer).text());
  return j;
}

std::string signal_text(const recording::Event& event) {
  siginfo_t info{};
  memcpy(&info, event.body.data(), std::min(event.body.size(), sizeof info));
  std::string out = fmt::format("{} {{si_code={}", signal_name(event.signo), info.si_code);
  bool fault =
      event.signo == SIGSEGV || event.signo == SIGBUS || event.signo == SIGILL || event.signo == SIGFPE;
  if (fault) out += fmt::format(", si_addr={:#x}", reinterpret_cast<uintptr_t>(info.si_addr));
  out += fmt::format("}} at {:#x}", event.pc);
  return event.flags & recording::kAsynchronous ? out + " (from outside)" : out;
}

std::string map_text(const recording::Event& event) {
  auto right = [&](int bit, char c) { return event.prot & bit ? c : '-'; };
  if (event.flags & recording::kGone)
    return fmt::format("unmap {:#x}-{:#x} {}", event.addr, event.addr + event.length, printable(event.text));
  std::string out =
      fmt::format("map {:#x}-{:#x} {}{}{}{}", event.addr, event.addr + event.length, right(PROT_READ, 'r'),
                  right(PROT_WRITE, 'w'), right(PROT_EXEC, 'x'), event.map_flags & MAP_SHARED ? 's' : 'p');
  if (!event.text.empty()) out += " " + printable(event.text);
  if (!event.key.empty()) out += fmt::format(" + {:#x}, contents {}", event.offset, event.key.substr(0, 8));
  return out;
}

std::string end_text(const recording::Event& event) {
  recording::Manifest::End end{event.end, event.result, 0, event.tick, 0, {}};
  std::string out = recording::end_text(end);
  if (event.end == EndKind::Signal) out += fmt::format(" at {:#x}", event.pc);
  return out;
}

std::string bytes_text(std::span<const std::byte> bytes, size_t limit) {
  return quote_bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size(), limit);
}

std::string syscall_text(const recording::Event& event, size_t strings) {
  std::string out = guest::print_syscall(view_of(event), strings);
  if (event.flags & recording::kInexact) out += " (inexact)";
  if (event.result == guest::kNotMade) out += " (not made yet: something else came first)";
  if (event.flags & recording::kDenied) out += " (by a filter of the program's own)";
  return out;
}

std::string shared_text(const recording::Event& event) {
  uint64_t changed = 0;
  for (const recording::Piece& piece : event.pieces) changed += piece.bytes.size();
  return fmt::format("shared memory {:#x}, {} bytes changed by another process", event.addr, changed);
}

std::string turn_text(const recording::Event& event) {
  switch (static_cast<recording::TurnReason>(event.nr)) {
    case recording::TurnReason::Preempted:
      return fmt::format("turn to thread {}", event.next_thread);
    case recording::TurnReason::Blocked:
      return fmt::format("waits in a system call; turn to thread {}", event.next_thread);
    case recording::TurnReason::Vforked:
      return fmt::format("waits in vfork; its child is thread {}", event.next_thread);
    case recording::TurnReason::Ended:
      return fmt::format("ends; turn to thread {}", event.next_thread);
  }
  return "turn";
}

}  // namespace

const char* kind_name(EventKind kind) {
  auto i = static_cast<size_t>(kind);
  return i < std::size(kKinds) ? kKinds[i] : "unknown";
}

std::string event_name(const recording::Event& event) {
  switch (event.kind) {
    case EventKind::Syscall:
      return guest::syscall_name(event.nr);
    case EventKind::Instr:
      return instruction_name(event.nr);
    case EventKind::Signal:
      return signal_name(event.signo);
    default:
      return kind_name(event.kind);
  }
}

std::vector<std::string> event_names() {
  std::vector<std::string> names(std::begin(kKinds) + 1, std::end(kKinds));
  for (int nr = 0; nr < guest::kSyscallCount; nr++)
    if (const char* name = guest::syscall_row(static_cast<uint64_t>(nr)).name) names.emplace_back(name);
  for (auto op = static_cast<uint16_t>(engine::HostOp::Cpuid);
       op <= static_cast<uint16_t>(engine::HostOp::Xgetbv); op++)
    names.emplace_back(instruction_name(op));
  for (int signo = 1; signo < NSIG; signo++) names.push_back(signal_name(signo));
  return names;
}

bool has_failed(const recording::Event& event) {
  constexpr int64_t kMostErrors = 4095;
  return event.kind == EventKind::Syscall && event.result < 0 && event.result >= -kMostErrors &&
         event.result != guest::kNotMade;
}

std::string event_text(const recording::Event& event, size_t strings) {
  switch (event.kind) {
    case EventKind::Syscall:
      return syscall_text(event, strings);
    case EventKind::Instr:
      return fmt::format("{} = {}", instruction_name(event.nr), values_text(event));
    case EventKind::Signal:
      return signal_text(event);
    case EventKind::Map:
      return map_text(event);
    case EventKind::Memory:
      return fmt::format("memory {:#x}, {} bytes: {}", event.addr, event.length,
                         bytes_text(event.body, strings));
    case EventKind::FileSize:
    case EventKind::Resize:
      return fmt::format("file {}:{} has {} bytes now", event.dev, event.inode, event.length) +
             (event.body.empty() ? ""
                                 : fmt::format(", {} at {}: {}", event.body.size(), event.offset,
                                               bytes_text(event.body, strings)));
    case EventKind::Turn:
      return turn_text(event);
    case EventKind::Shared:
      return shared_text(event);
    case EventKind::Gap:
      return fmt::format("gap: what happened in the next {} ticks is not known", event.ticks);
    case EventKind::Start:
      return event.values.size() < 18
                 ? "start"
                 : fmt::format("start rip={:#x} rsp={:#x}", event.values[16], event.values[4]);
    case EventKind::Checksum:
      return fmt::format("checksum of memory {:08x}", event.digest);
    case EventKind::Note:
      return "note: " + printable(event.text);
    case EventKind::End:
      return end_text(event);
    case EventKind::Channel:
      return channel_text(event.channel);
    case EventKind::None:
      break;
  }
  return "unknown event";
}

Json event_json(const recording::Event& event, size_t strings) {
  Json j = {{"event", event.number}, {"kind", kind_name(event.kind)}, {"name", to_utf8(event_name(event))}};
  j["tick"] = event.tick;
  j["pc"] = event.pc;
  j["thread"] = event.thread;
  if (event.order.given) j["order"]["given"] = event.order.given;
  if (event.order.got) j["order"]["got"] = event.order.got;
  j["size"] = event.size;
  j["text"] = to_utf8(event_text(event, strings));
  switch (event.kind) {
    case EventKind::Syscall: {
      int argc = guest::syscall_row(event.nr).argc;
      j["nr"] = event.nr;
      j["args"] = std::vector<uint64_t>(event.args, event.args + argc);
      j["result"] = event.result;
      j["made"] = event.result != guest::kNotMade;
      j["inexact"] = (event.flags & recording::kInexact) != 0;
      break;
    }
    case EventKind::Instr:
      j["values"] = event.values;
      break;
    case EventKind::Signal:
      j["signo"] = event.signo;
      break;
    case EventKind::Map:
      j["address"] = event.addr;
      j["length"] = event.length;
      j["prot"] = event.prot;
      j["flags"] = event.map_flags;
      j["offset"] = event.offset;
      j["file"] = to_utf8(event.text);
      j["key"] = event.key;
      if (event.inode) j["device"] = event.dev, j["inode"] = event.inode;
      break;
    case EventKind::Memory:
      j["address"] = event.addr;
      j["length"] = event.length;
      break;
    case EventKind::FileSize:
    case EventKind::Resize:
      j["device"] = event.dev;
      j["inode"] = event.inode;
      j["length"] = event.length;
      if (!event.body.empty()) j["offset"] = event.offset, j["bytes"] = event.body.size();
      break;
    case EventKind::Start:
      for (size_t i = 0; i < std::min(event.values.size(), std::size(kRegisters)); i++)
        j["registers"][kRegisters[i]] = event.values[i];
      break;
    case EventKind::Gap:
      j["ticks"] = event.ticks;
      break;
    case EventKind::Turn:
      j["next_thread"] = event.next_thread;
      break;
    case EventKind::Channel:
      j["channel"] = channel_json(event.channel);
      break;
    case EventKind::Checksum:
      j["checksum"] = event.digest;
      break;
    case EventKind::End:
      j["status"] = event.result;
      break;
    default:
      break;
  }
  return j;
}

}  // namespace backstep::events
