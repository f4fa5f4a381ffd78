// The table of Linux system calls (x86-64, up to kernel 6.18).
//
// A recording must hold everything that the kernel writes into the program's memory; a byte forgotten here is
// a replay that goes astray later, far from the cause. So the knowledge is kept as data, one line per call,
// in a form that can be read against the manual page and that a test can check against the real kernel
// (tests/unit/syscall_table_test.cc fills buffers with patterns, makes calls and looks what has changed).
// Recorder, replayer and printer are small interpreters of these lines.
//
// The lines stand in syscall_rows_classic.h and syscall_rows_modern.h, sorted by number and written with the
// constexpr functions of syscall_build.h. An example:
//
//     plain(SYS_read, "read", {fd("fd"), out("buf", kResult), size("count")}, kMayBlock),
//
// is executed when recording; `result` bytes at `buf` are logged; it may sleep. Where one argument decides
// what another one is (ioctl, fcntl, …), the line says varies(), and syscall_sub.cc and syscall_ioctl.cc know
// more.
//
// Refused calls fall in three groups: those that let the kernel write to memory at times of its own
// (io_uring, kernel AIO, userfaultfd), those that change the machine under our feet (LDT, I/O ports,
// protection keys, shadow stacks, rseq), and young ones that every program has a way around and that would
// need machinery of their own (clone3, futex_waitv). All of them are missing from some real kernel
// configuration, so ENOSYS is an answer that programs expect.
//
// This file belongs to the hot world (base/hot.h): constant data and a few functions without calls.
#include "guest/syscall_table.h"

#include "guest/syscall_build.h"
#include "guest/syscall_rows_classic.h"
#include "guest/syscall_rows_modern.h"

namespace backstep::guest {
namespace {

using namespace build;

struct Table {
  Syscall rows[kSyscallCount] = {};
};
constexpr Table build_table() {
  Table t;
  for (const Row& r : kClassicRows) t.rows[r.nr] = r.call;
  for (const Row& r : kModernRows) t.rows[r.nr] = r.call;
  return t;
}
constexpr Table kTable = build_table();

// A call that is not in the table: six values that may all be pointers.
constexpr Syscall kUnknownRow = row(0, nullptr, How::Unknown,
                                    {unknown_arg("a"), unknown_arg("b"), unknown_arg("c"), unknown_arg("d"),
                                     unknown_arg("e"), unknown_arg("f")},
                                    kOutOnError)
                                    .call;

uint64_t smaller(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

}  // namespace

const Syscall& syscall_row(uint64_t nr) {
  if (nr >= kSyscallCount || kTable.rows[nr].name == nullptr) return kUnknownRow;
  return kTable.rows[nr];
}

int count_width(Len len) {
  return len == Len::DedupeRange ? 2 : 4;
}

uint64_t count_address(const ArgSpec& spec, const uint64_t args[6], int index) {
  switch (spec.len) {
    case Len::SockLenAt:
    case Len::CapData:
      return args[spec.n];
    case Len::FileHandle:
    case Len::SizedTail:
      return args[index];
    case Len::Fiemap:
      return args[index] ? args[index] + 24 : 0;
    case Len::DedupeRange:
      return args[index] ? args[index] + 16 : 0;
    default:
      return 0;
  }
}

uint64_t result_capacity(const ArgSpec& spec, const uint64_t args[6], int index) {
  const uint64_t next = index < 5 ? args[index + 1] : 0;
  switch (spec.len) {
    case Len::Result:
    case Len::StringResult:
      return spec.n ? args[spec.n] : index < 4 ? next : 0;
    case Len::ResultTimes:
      return static_cast<uint32_t>(next) * uint64_t{spec.n};
    case Len::ResultUpTo:
      return args[spec.n] * (spec.unit ? spec.unit : 1);
    case Len::ResultPlus:
      return next + spec.n;
    default:
      return 0;
  }
}

uint64_t buffer_bytes(const ArgSpec& spec, const uint64_t args[6], int64_t result, uint64_t old_count,
                      uint64_t new_count) {
  uint64_t got = result > 0 ? static_cast<uint64_t>(result) : 0;
  // A socklen_t above the maximal int is refused by the kernel, so only sane values get here on success.
  uint64_t count = smaller(old_count, new_count);
  switch (spec.len) {
    case Len::None:
    case Len::NulString:
      return 0;
    case Len::Fixed:
      return spec.n;
    case Len::Result:
    case Len::StringResult:
      return spec.kind == Arg::IovOut ? 0 : got;
    case Len::ResultTimes:
      return got * spec.n;
    case Len::ResultUpTo:
      return smaller(got, args[spec.n]) * spec.unit;
    case Len::ResultPlus:
      return result < 0 ? 0 : got + spec.n;
    case Len::ByArg:
      return spec.unit == 32 ? static_cast<uint32_t>(args[spec.n]) : args[spec.n];
    case Len::ByArgTimes:
      return uint64_t{static_cast<uint32_t>(args[spec.n])} * spec.unit;
    case Len::ByArgPlus:
      return args[spec.n] + spec.unit;
    case Len::BitsOfArg: {
      uint64_t bits = static_cast<uint32_t>(args[spec.n]);
      return bits <= spec.unit ? 0 : (bits - spec.unit + 63) / 64 * 8;
    }
    case Len::PagesOfArg:
      return (args[spec.n] + 4095) / 4096;
    case Len::SockLenAt:
      return count * (spec.unit ? spec.unit : 1);
    case Len::CapData:
      return old_count == 0x19980330 ? 12 : 24;  // _LINUX_CAPABILITY_VERSION_1
    case Len::FileHandle:
    case Len::SizedTail:
      return 8 + count;
    case Len::Fiemap:
      return 32 + 56 * count;
    case Len::DedupeRange:
      return 24 + 32 * count;
  }
  return 0;
}

}  // namespace backstep::guest
