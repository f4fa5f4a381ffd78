// One system call as one line of text, the way strace prints it:
//
//     openat(AT_FDCWD, "/etc/passwd", O_RDONLY|O_CLOEXEC) = 3
//     read(3, "root:x:0:0:root:/root:/bin/bash\n"..., 4096) = 1024
//     stat("/nowhere", 0x7ffc8a3e1d60) = -1 ENOENT (No such file or directory)
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "guest/syscall_table.h"

namespace backstep::guest {

// What is known about memory that the call used. Numbers and meaning are those of the log's pieces
// (recording/format.h, which lies in a layer above this one).
enum class PieceKind : uint8_t {
  OutAtArg = 0,  // `bytes` were written where the argument points
  OutAt = 1,     // `bytes` were written at `addr`, which belongs to the argument (an iovec's buffer, …)
  Text = 2,      // `bytes` are what the argument points to: a string, or any input one wants to see
  Sum = 3,       // only the CRC of an input is known
  TextAt = 4,  // `bytes` are at `addr`, which belongs to the argument: the address that a message is sent to
};

struct SyscallView {
  struct Piece {
    int arg = 0;  // index of the argument
    PieceKind kind = PieceKind::OutAtArg;
    uint64_t addr = 0;  // OutAt, TextAt only
    std::span<const std::byte> bytes;
    uint32_t crc = 0;     // Sum only
    uint64_t length = 0;  // Sum only: bytes that the CRC is of
  };
  uint16_t nr = 0;
  int64_t result = 0;  // as the kernel returns it: -errno on failure
  uint64_t args[6] = {};
  std::vector<Piece> pieces;
};

// Strings and buffers are cut after `limit` bytes.
std::string print_syscall(const SyscallView& call, size_t limit = 32);

// The same in its parts.
struct PrintedCall {
  struct Argument {
    int index = 0;
    ArgSpec spec;  // as it is in this very call
    std::string text;
  };
  std::string name;
  std::vector<Argument> arguments;
  std::string result;
  std::string line() const;
};
PrintedCall print_parts(const SyscallView& call, size_t limit = 32);
std::string print_argument(const SyscallView& call, int index, size_t limit = 32);
// A number beyond 16 bits, which logs cannot tell from others (recording::logged_number), and its name here.
inline constexpr uint64_t kBeyondNumbers = 0xffff;
inline constexpr const char* kUnknownCall = "syscall_unknown";
std::string syscall_name(uint64_t nr);  // "read", or "syscall_999" if it has none
bool is_error(int64_t result);          // what the kernel returned is -errno

}  // namespace backstep::guest
