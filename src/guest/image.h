// Loading a program the way the kernel's execve does: resolves scripts (#!), checks the ELF file, maps its
// segments and those of its interpreter, and builds the first stack (argv, envp, auxv).
// Every mapping and every byte that loading puts into guest memory goes through `Placer`, so that the
// recorder can log it and a replay needs no loader.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "guest/memory_map.h"

namespace backstep::guest {

// How loading touches guest memory; the recorder implements it.
class Placer {
 public:
  virtual ~Placer() = default;
  // Maps file contents (fd >= 0, page-aligned offset) or zeroes at exactly `r.start`, private, with r.prot
  // (the implementation keeps PROT_EXEC out of the real mapping) and enters `r` into the memory map.
  virtual void map(const Region& r, int fd) = 0;
  // Writes bytes into memory that is mapped already.
  virtual void write(uint64_t addr, std::span<const std::byte> bytes) = 0;
  virtual MemoryMap& memory() = 0;
};

// The initial stack gets no larger, whatever RLIMIT_STACK says.
inline constexpr uint64_t kStackMax = 1000ull << 20;

// Where a program's parts are, as prctl(PR_SET_MM) names them and /proc/PID/stat shows them.
struct ProgramLayout {
  uint64_t start_code = 0, end_code = 0, start_data = 0, end_data = 0, start_brk = 0, brk = 0,
           start_stack = 0, arg_start = 0, arg_end = 0, env_start = 0, env_end = 0;
};

struct StartState {
  uint64_t rip = 0, rsp = 0;
  std::string exe;                         // absolute path of the ELF file that was loaded: /proc/self/exe
  std::pair<uint64_t, uint64_t> exe_file;  // … its device and inode
  std::string interpreter;                 // PT_INTERP, empty for static
  std::vector<std::string> argv;           // as the program sees it (scripts: interpreter first)
  std::vector<uint64_t> auxv;              // pairs, ending in AT_NULL
  uint64_t stack_start = 0, stack_end = 0;
  uint64_t initialized_data = 0;  // bytes of the last segment that come from the file
  ProgramLayout layout;           // without brk, which changes
  bool lost_privilege = false;    // setuid/setgid bits or file capabilities that do not take effect under us
};

// Whether the shell would find a program of that name, and may execute it.
bool is_program(const std::string& name);

struct StartOptions {
  std::string path;               // file to run, as given to execve; empty: look for argv[0]
  std::vector<std::string> argv;  // without `path`, argv[0] is looked up in PATH unless it has a slash
  std::vector<std::string> env;
  uint64_t stack_size = 8 << 20;   // RLIMIT_STACK; capped
  uint64_t hwcap = 0, hwcap2 = 0;  // for auxv
  std::byte random[16] = {};       // AT_RANDOM
  // Natively the kernel opens each of the files once, to execute it: then this is the one time.
  bool ask_kernel = false;
};

// Why a program cannot be loaded. `err` is what the kernel's execve fails with for the same reason; the exit
// code is the shell's: 127 for ENOENT (the program, or the interpreter that a script or an ELF file asks for,
// is missing), 126 for everything else (directory, no permission, not ELF nor script, 32-bit, other
// architecture, malformed, arguments too long).
class LoadError : public Error {
 public:
  LoadError(const std::string& sentence, int err);
  int err;
};

// What can be said before the program that is running is gone: throws LoadError as load_program would.
void check_program(const StartOptions& options);

// Throws LoadError in one sentence. What depends on the file alone is checked before the first call of
// `placer`.
StartState load_program(const StartOptions& options, Placer& placer);

}  // namespace backstep::guest
