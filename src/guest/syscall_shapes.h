// Printing of the things inside system calls: strings, flags and the well-known structs, in strace's
// notation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "guest/syscall_names.h"
#include "guest/syscall_table.h"

namespace backstep::guest {

std::string print_hex(uint64_t value);      // "0x1f"
std::string print_address(uint64_t value);  // "NULL" or "0x1f"

// In double quotes with C escapes; what is longer than `limit` bytes is cut and followed by "...".
std::string print_bytes(std::span<const std::byte> bytes, size_t limit);

// "O_RDWR|O_CLOEXEC"; bits without a name as a number at the end.
std::string print_flags(Names names, uint64_t value);
// "SEEK_SET", or the number.
std::string print_enum(Names names, uint64_t value);
std::string print_signal(uint64_t signo);  // "SIGINT", "SIGRT_3"
std::string print_mode(uint64_t mode);     // "0644"

// "{st_mode=S_IFREG|0644, st_size=2996, ...}"; empty if the shape is None or the bytes are too few for it.
std::string print_shape(Shape shape, std::span<const std::byte> bytes, size_t limit);

}  // namespace backstep::guest
