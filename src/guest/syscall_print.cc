// Printing a system call: walks the row of the table and prints each argument by its kind.
//
// What an argument pointed to is shown if the recording has it: written memory always, strings that were read
// as text, other input only as a checksum, in which case the address is printed. So a line never shows what
// was not recorded. Structs and flags are printed by syscall_shapes.cc.
#include "guest/syscall_print.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "guest/syscall_shapes.h"
#include "guest/syscall_table.h"

namespace backstep::guest {
namespace {

using Piece = SyscallView::Piece;

const Piece* find_piece(const SyscallView& call, int index, std::initializer_list<PieceKind> kinds) {
  for (const Piece& p : call.pieces)
    for (PieceKind kind : kinds)
      if (p.arg == index && p.kind == kind) return &p;
  return nullptr;
}

std::vector<const Piece*> pieces_of(const SyscallView& call, int index, PieceKind kind) {
  std::vector<const Piece*> found;
  for (const Piece& p : call.pieces)
    if (p.arg == index && p.kind == kind) found.push_back(&p);
  return found;
}

std::string join(const std::vector<std::string>& parts) {
  std::string s;
  for (const std::string& part : parts) s += (s.empty() ? "" : ", ") + part;
  return s;
}

std::string print_content(const ArgSpec& spec, std::span<const std::byte> bytes, size_t limit) {
  std::string s = print_shape(spec.shape, bytes, limit);
  return s.empty() ? print_bytes(bytes, limit) : s;
}

// Memory that the kernel wrote (or what the program gave, if somebody logged it).
std::string print_buffer(const SyscallView& call, const ArgSpec& spec, int index, size_t limit) {
  uint64_t address = call.args[index];
  if (address == 0) return "NULL";
  bool error = is_error(call.result);
  // After an error an ioctl's buffer is logged for exactness, but says nothing.
  if (error && call.nr == SYS_ioctl) return print_hex(address);
  if (const Piece* p = find_piece(call, index, {PieceKind::OutAtArg, PieceKind::Text})) {
    if (!p->bytes.empty()) {
      std::string text = print_content(spec, p->bytes, limit);
      // Of what a program writes, only the beginning is logged as text; the checksum says how much there was.
      const Piece* sum = p->kind == PieceKind::Text ? find_piece(call, index, {PieceKind::Sum}) : nullptr;
      bool cut = sum && sum->length > p->bytes.size() && !text.ends_with("...");
      return cut ? text + "..." : text;
    }
  }
  bool by_result = spec.len == Len::Result || spec.len == Len::ResultTimes || spec.len == Len::ResultUpTo;
  if (!error && call.result == 0 && by_result) return spec.shape == Shape::None ? "\"\"" : "[]";
  return print_hex(address);
}

std::string print_text(const SyscallView& call, int index, size_t limit) {
  const Piece* p = find_piece(call, index, {PieceKind::Text});
  return p ? print_bytes(p->bytes, limit) : print_address(call.args[index]);
}

std::string print_argv(const SyscallView& call, int index, size_t limit) {
  std::vector<const Piece*> texts = pieces_of(call, index, PieceKind::Text);
  if (texts.empty()) return print_address(call.args[index]);
  bool environment = (call.nr == SYS_execve && index == 2) || (call.nr == SYS_execveat && index == 3);
  if (environment) return print_hex(call.args[index]) + " /* " + std::to_string(texts.size()) + " vars */";
  std::vector<std::string> parts;
  for (const Piece* p : texts) parts.push_back(print_bytes(p->bytes, limit));
  return "[" + join(parts) + "]";
}

std::string print_chunk(const Piece& p, size_t limit) {
  return "{iov_base=" + print_bytes(p.bytes, limit) + ", iov_len=" + std::to_string(p.bytes.size()) + "}";
}

std::string print_iovec(const SyscallView& call, int index, size_t limit) {
  std::vector<std::string> parts;
  for (PieceKind kind : {PieceKind::OutAt, PieceKind::Text})
    for (const Piece* p : pieces_of(call, index, kind)) parts.push_back(print_chunk(*p, limit));
  return parts.empty() ? print_address(call.args[index]) : "[" + join(parts) + "]";
}

// A msghdr whose 56 bytes were logged; its parts are recognized by their addresses.
std::string print_msghdr(const SyscallView& call, int index, size_t limit) {
  const Piece* header = find_piece(call, index, {PieceKind::OutAtArg});
  std::vector<const Piece*> parts = pieces_of(call, index, PieceKind::OutAt);
  if (!header || header->bytes.size() < 56) return print_iovec(call, index, limit);
  uint64_t words[7];
  std::memcpy(words, header->bytes.data(), 56);
  std::string name = print_address(words[0]), control = print_address(words[4]);
  std::vector<std::string> chunks;
  for (const Piece* p : parts) {
    if (p->addr == words[0]) {
      name = print_shape(Shape::Sockaddr, p->bytes, limit);
    } else if (p->addr != words[4]) {
      chunks.push_back(print_chunk(*p, limit));
    }
  }
  return "{msg_name=" + name + ", msg_namelen=" + std::to_string(static_cast<uint32_t>(words[1])) +
         ", msg_iov=" + (chunks.empty() ? print_address(words[2]) : "[" + join(chunks) + "]") +
         ", msg_iovlen=" + std::to_string(words[3]) + ", msg_control=" + control +
         ", msg_controllen=" + std::to_string(words[5]) +
         ", msg_flags=" + print_flags(Names::MsgFlags, static_cast<uint32_t>(words[6])) + "}";
}

std::string print_fd_set(const SyscallView& call, int index) {
  const Piece* p = find_piece(call, index, {PieceKind::OutAtArg});
  return p ? print_shape(Shape::CpuSet, p->bytes, 0) : print_address(call.args[index]);
}

std::string print_ioctl_request(uint64_t value) {
  auto request = static_cast<uint32_t>(value);
  if (const char* name = ioctl_name(request)) return name;
  uint32_t size = (request >> 16) & 0x3fff, direction = request >> 30;
  if (size == 0 && direction == 0) return print_hex(request);
  static constexpr const char* kDirections[] = {"_IOC_NONE", "_IOC_WRITE", "_IOC_READ",
                                                "_IOC_READ|_IOC_WRITE"};
  return std::string("_IOC(") + kDirections[direction] + ", " + print_hex((request >> 8) & 0xff) + ", " +
         print_hex(request & 0xff) + ", " + print_hex(size) + ")";
}

std::string print_argument(const SyscallView& call, const ArgSpec& spec, int index, size_t limit) {
  uint64_t value = call.args[index];
  auto names = static_cast<Names>(spec.names);
  switch (spec.kind) {
    case Arg::None:
      return {};
    case Arg::Int:
    case Arg::Pid:
      return std::to_string(static_cast<int32_t>(value));
    case Arg::Fd: {
      constexpr int32_t kAtFdcwd = -100;
      auto fd = static_cast<int32_t>(value);
      return fd == kAtFdcwd ? "AT_FDCWD" : std::to_string(fd);
    }
    case Arg::Uint:
      return std::to_string(static_cast<uint32_t>(value));
    case Arg::Long:
      return std::to_string(static_cast<int64_t>(value));
    case Arg::Size:
      return std::to_string(value);
    case Arg::Hex:
    case Arg::Varies:
      return value ? print_hex(value) : "0";
    case Arg::Address:
    case Arg::Unknown:
      return print_address(value);
    case Arg::Signal:
      return print_signal(value);
    case Arg::Mode:
      return print_mode(static_cast<uint32_t>(value));
    case Arg::Flags:
      return print_flags(names, value);
    case Arg::Enum:
      return print_enum(names, value);
    case Arg::Path:
      return print_text(call, index, std::max<size_t>(limit, 4096));
    case Arg::Str:
      return print_text(call, index, limit);
    case Arg::Counters:
    case Arg::In:
    case Arg::InStruct:
    case Arg::Out:
    case Arg::OutStruct:
    case Arg::InOut:
    case Arg::Pollfds:
    case Arg::SockLen:
    case Arg::Regset:
    case Arg::IfConf:
      return print_buffer(call, spec, index, limit);
    case Arg::IovIn:
    case Arg::IovOut:
    case Arg::MmsgIn:
    case Arg::MmsgOut:
      return print_iovec(call, index, limit);
    case Arg::MsgIn:
    case Arg::MsgOut:
      return print_msghdr(call, index, limit);
    case Arg::FdSet:
      return print_fd_set(call, index);
    case Arg::Argv:
      return print_argv(call, index, limit);
    case Arg::Ioctl:
      return print_ioctl_request(value);
    case Arg::Fcntl:
      return print_enum(Names::FcntlCommand, value);
    case Arg::Prctl:
      return print_enum(Names::PrctlOption, value);
  }
  return print_hex(value);
}

bool waits_with_timeout(uint16_t nr) {
  return nr == SYS_poll || nr == SYS_ppoll || nr == SYS_select || nr == SYS_pselect6;
}

std::string print_result(const SyscallView& call, const Syscall& row) {
  if (row.traits & kNoReturn) return "?";
  if (is_error(call.result)) {
    auto number = static_cast<int>(-call.result);
    const char* name = name_of(Names::Errno, static_cast<uint64_t>(number));
    if (number >= 512) return "? " + (name ? std::string(name) : std::to_string(number));  // the kernel's own
    return "-1 " + (name ? std::string(name) : std::to_string(number)) + " (" + std::strerror(number) + ")";
  }
  auto value = static_cast<uint64_t>(call.result);
  if (row.traits & kHexResult) return print_hex(value);
  if (call.nr == SYS_fcntl) {
    auto command = static_cast<uint32_t>(call.args[1]);
    constexpr uint32_t kGetfd = 1, kGetfl = 3;
    if (command == kGetfl) return print_hex(value) + " (flags " + print_flags(Names::OpenFlags, value) + ")";
    if (command == kGetfd && value) return print_hex(value) + " (flags FD_CLOEXEC)";
  }
  if (call.nr == SYS_umask) return print_mode(value);
  if (waits_with_timeout(call.nr) && value == 0) return "0 (Timeout)";
  return std::to_string(call.result);
}

}  // namespace

bool is_error(int64_t result) {
  return result < 0 && result >= -4095;
}

std::string syscall_name(uint64_t nr) {
  if (nr == kBeyondNumbers) return kUnknownCall;
  const char* name = syscall_row(nr).name;
  return name ? name : "syscall_" + std::to_string(nr);
}

std::string print_argument(const SyscallView& call, int index, size_t limit) {
  return print_argument(call, arg_spec(call.nr, call.args, index), index, limit);
}

PrintedCall print_parts(const SyscallView& call, size_t limit) {
  const Syscall& row = syscall_row(call.nr);
  PrintedCall parts{syscall_name(call.nr), {}, print_result(call, row)};
  for (int i = 0; i < row.argc; i++) {
    ArgSpec spec = arg_spec(call.nr, call.args, i);
    if (spec.kind != Arg::None) parts.arguments.push_back({i, spec, print_argument(call, spec, i, limit)});
  }
  return parts;
}

std::string PrintedCall::line() const {
  std::string list;
  for (const Argument& argument : arguments) list += (list.empty() ? "" : ", ") + argument.text;
  return name + "(" + list + ") = " + result;
}

std::string print_syscall(const SyscallView& call, size_t limit) {
  return print_parts(call, limit).line();
}

}  // namespace backstep::guest
