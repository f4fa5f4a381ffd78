// A program's way into guest memory, in the order of execve: find the file, follow `#!` lines until an ELF
// file is reached, open its interpreter (ld.so), and only then map: the stack, the program, the interpreter;
// last, the start stack is written. Whatever can be wrong with the files is found before the first mapping.
//
// Two things differ from the kernel, both for the sake of equal addresses in every run: nothing is
// randomised, and position-independent files go to the lowest free place of the images' zone, program
// first, so that all guest code usually lies together below 2 GB.
//
// The vdso is missing in the auxiliary vector (time is an event that must be logged), and so is rseq (the
// one registration per kernel thread belongs to the host's libc).
#include "guest/image.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "guest/elf.h"
#include "guest/start_stack.h"

// Since Linux 5.14; older headers lack it.
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

namespace backstep::guest {
namespace {

using layout::page_down;
using layout::page_up;

constexpr uint64_t kStackMin = 256 << 10;
static_assert(layout::kStackEnd - kStackMax >= layout::kAnonymousEnd);
constexpr size_t kScriptBytes = 256;     // BINPRM_BUF_SIZE: what the kernel reads of a script
constexpr int kScriptDepth = 5;          // scripts in a row before the kernel says ELOOP
constexpr uint64_t kSignalStack = 2048;  // AT_MINSIGSTKSZ: our frame with AVX takes less (signal_frame.cc)

std::string in_quotes(const std::string& s) {
  return "'" + s + "'";
}

// ---- Finding the file

std::string search_path(const std::vector<std::string>& env) {
  for (auto& entry : env)
    if (entry.starts_with("PATH=")) return entry.substr(5);
  return "/bin:/usr/bin";  // what execvp takes when PATH is unset
}

// Like the shell: the first executable file wins; a file that is there but not executable is remembered, so
// that the error can name it; directories do not count.
std::string find_program(const std::string& name, const std::vector<std::string>& env) {
  if (name.find('/') != std::string::npos) return name;
  std::string not_executable;
  const std::string path = search_path(env);
  for (std::string_view rest = path; !name.empty();) {
    size_t colon = rest.find(':');
    std::string folder(rest.substr(0, colon));
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    struct stat st;
    if (!stat(candidate.c_str(), &st) && S_ISREG(st.st_mode)) {
      if (!faccessat(AT_FDCWD, candidate.c_str(), X_OK, AT_EACCESS)) return candidate;
      if (not_executable.empty()) not_executable = candidate;
    }
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (!not_executable.empty()) return not_executable;
  throw LoadError("cannot run " + in_quotes(name) + ": command not found in PATH", ENOENT);
}

// ---- Scripts

struct ScriptLine {
  std::string interpreter;
  std::optional<std::string> argument;  // all that follows the interpreter, as one argument
};

// The rules of the kernel's binfmt_script. It looks at 256 bytes, padded with NULs. A longer line is cut, and
// good as long as the interpreter's name was not cut. Blanks inside the argument stay; blanks at the end are
// dropped, but not when the file ends without a newline. nullopt: not a script, or one that execve answers
// with ENOEXEC.
std::optional<ScriptLine> script_line(const ProgramFile& file) {
  constexpr std::string_view kBlank = " \t", kNameEnd{" \t\0", 3};
  auto bytes = file.read(0, kScriptBytes);
  bytes.resize(kScriptBytes);
  std::string_view line(bytes.data(), bytes.size());
  if (!line.starts_with("#!")) return std::nullopt;

  size_t name = line.find_first_not_of(kBlank, 2);
  size_t end = line.find_first_of(std::string_view("\n\0", 2));
  if (end == std::string_view::npos || line[end] == '\0') {
    if (line.find_first_of(kNameEnd, name) == std::string_view::npos) return std::nullopt;
    end = kScriptBytes - 1;
  }
  line = line.substr(0, end);
  line = line.substr(0, line.find_last_not_of(kBlank) + 1);
  if (name >= line.size()) return std::nullopt;

  size_t name_end = std::min(line.find_first_of(kNameEnd, name), line.size());
  ScriptLine script;
  script.interpreter = line.substr(name, name_end - name);
  if (name_end < line.size() && line[name_end] != '\0') {
    auto argument = line.substr(line.find_first_not_of(kBlank, name_end));
    script.argument = argument.substr(0, argument.find('\0'));
  }
  return script;
}

// The ELF file behind `path`; scripts on the way put their interpreters in front of `argv`. `ask`: the
// kernel, whether it would execute each of the files.
ElfImage open_program(std::string path, std::vector<std::string>& argv, bool ask) {
  const std::string command = in_quotes(path);
  std::string role = "cannot run " + command;
  for (int depth = 0;; depth++) {
    ProgramFile file(path, role);
    if (ask) file.ask_kernel();
    auto script = script_line(file);
    if (!script) return read_elf(std::move(file));
    if (depth == kScriptDepth)
      throw LoadError("cannot run " + command + ": its #! line leads through too many scripts", ELOOP);
    if (script->interpreter.empty())  // the kernel opens the current folder
      throw LoadError("cannot run " + command + ": its #! line names no interpreter", EACCES);
    role =
        "cannot run " + command + ": bad interpreter " + in_quotes(script->interpreter) + " in the #! line";
    if (depth > 0) role += " of " + in_quotes(path);
    std::vector<std::string> before{script->interpreter};
    if (script->argument) before.push_back(*script->argument);
    before.push_back(path);
    argv.erase(argv.begin());
    argv.insert(argv.begin(), before.begin(), before.end());
    path = script->interpreter;
  }
}

std::optional<ElfImage> open_interpreter(const ElfImage& program, bool ask) {
  if (program.interpreter.empty()) return std::nullopt;
  const std::string role =
      program.file.role() + ": its dynamic linker " + in_quotes(program.interpreter) + " cannot be loaded";
  try {
    ProgramFile file(program.interpreter, role);
    if (ask) file.ask_kernel();
    return read_elf(std::move(file));
  } catch (LoadError& e) {
    if (e.err == ENOEXEC) throw LoadError(e.what(), ELIBBAD);
    throw;
  }
}

// Whether the kernel would have given this process more rights than it has; under us it gives none.
bool would_gain_privilege(const ProgramFile& file) {
  struct statvfs fs;
  if (!fstatvfs(file.fd(), &fs) && (fs.f_flag & ST_NOSUID)) return false;
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return false;
  const struct stat& st = file.status();
  if ((st.st_mode & S_ISUID) && st.st_uid != geteuid()) return true;
  // setgid without group execution once meant mandatory locking and gives nothing
  if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid()) return true;
  return geteuid() != 0 && fgetxattr(file.fd(), "security.capability", nullptr, 0) > 0;
}

// ---- Mapping

uint64_t lowest_mappable_address() {
  uint64_t lowest = 65536;
  std::ifstream("/proc/sys/vm/mmap_min_addr") >> lowest;
  return std::max(lowest, layout::kPage);
}

// How far the image is moved from the addresses in its headers.
uint64_t choose_bias(const ElfImage& image, const MemoryMap& memory) {
  if (image.header.e_type == ET_DYN) {
    auto space = memory.find_free(image.high - image.low + image.align - layout::kPage, 0, Zone::Images);
    if (!space) throw LoadError(image.file.role() + ": no room for it in the address space", ENOMEM);
    return (*space - image.low + image.align - 1) & ~(image.align - 1);
  }
  char range[64];
  snprintf(range, sizeof range, "0x%lx-0x%lx", image.low, image.high);
  if (image.low < lowest_mappable_address())
    throw LoadError(image.file.role() + ": it is linked to the fixed addresses " + range +
                        ", which begin below what the system lets programs map (vm.mmap_min_addr)",
                    EPERM);
  if (!memory.is_free(image.low, image.high))
    throw LoadError(image.file.role() + ": it is linked to the fixed addresses " + range +
                        ", which Backstep needs for itself; link it elsewhere or as PIE",
                    ENOMEM);
  return 0;
}

Region anonymous(uint64_t start, uint64_t end, int prot, std::string name = {}) {
  Region r;
  r.start = start, r.end = end, r.prot = prot, r.flags = MAP_PRIVATE | MAP_ANONYMOUS;
  r.name = std::move(name);
  return r;
}

void place_segment(const ElfImage& image, const Elf64_Phdr& ph, uint64_t bias, Placer& placer) {
  int prot = (ph.p_flags & PF_R ? PROT_READ : 0) | (ph.p_flags & PF_W ? PROT_WRITE : 0) |
             (ph.p_flags & PF_X ? PROT_EXEC : 0);
  uint64_t start = ph.p_vaddr + bias;
  uint64_t file_end = start + ph.p_filesz, end = start + ph.p_memsz;
  uint64_t zeroes = page_down(start);  // where whole pages of zeroes begin
  if (ph.p_filesz) {
    zeroes = page_up(file_end);
    Region r;
    r.start = page_down(start), r.end = zeroes, r.prot = prot, r.flags = MAP_PRIVATE;
    r.offset = page_down(ph.p_offset);
    r.name = image.file.path();
    r.dev = image.file.status().st_dev, r.inode = image.file.status().st_ino;
    placer.map(r, image.file.fd());
    // To the end of the page, not of the segment: ld.so's first malloc takes its memory from there and
    // counts on zeroes.
    if (ph.p_memsz > ph.p_filesz && (prot & PROT_WRITE) && zeroes > file_end)
      placer.write(file_end, std::vector<std::byte>(zeroes - file_end));
  }
  // The kernel makes these pages as it makes brk memory: always writable.
  if (page_up(end) > zeroes)
    placer.map(anonymous(zeroes, page_up(end), PROT_READ | PROT_WRITE | (prot & PROT_EXEC)), -1);
}

uint64_t place_image(const ElfImage& image, Placer& placer) {
  uint64_t bias = choose_bias(image, placer.memory());
  for (auto& segment : image.segments) place_segment(image, segment, bias, placer);
  return bias;
}

// In the kernel's order. Three values are addresses on the stack, filled in when that is built.
std::vector<uint64_t> auxiliary_vector(const ElfImage& program, uint64_t bias, uint64_t interpreter_base,
                                       const StartOptions& options) {
  // clang-format off
  return {
      AT_MINSIGSTKSZ, kSignalStack,
      AT_HWCAP, options.hwcap,
      AT_PAGESZ, layout::kPage,
      AT_CLKTCK, static_cast<uint64_t>(sysconf(_SC_CLK_TCK)),
      AT_PHDR, program.program_headers ? program.program_headers + bias : 0,
      AT_PHENT, sizeof(Elf64_Phdr),
      AT_PHNUM, program.header.e_phnum,
      AT_BASE, interpreter_base,
      AT_FLAGS, 0,
      AT_ENTRY, program.header.e_entry + bias,
      AT_UID, getuid(),
      AT_EUID, geteuid(),
      AT_GID, getgid(),
      AT_EGID, getegid(),
      AT_SECURE, 0,
      AT_RANDOM, 0,
      AT_HWCAP2, options.hwcap2,
      AT_EXECFN, 0,
      AT_PLATFORM, 0,
      AT_NULL, 0,
  };
  // clang-format on
}

}  // namespace

bool is_program(const std::string& name) {
  const char* path = getenv("PATH");
  try {
    const std::string file =
        find_program(name, path ? std::vector{std::string("PATH=") + path} : std::vector<std::string>());
    struct stat st;
    return !stat(file.c_str(), &st) && S_ISREG(st.st_mode) &&
           !faccessat(AT_FDCWD, file.c_str(), X_OK, AT_EACCESS);
  } catch (const LoadError&) {
    return false;
  }
}

LoadError::LoadError(const std::string& sentence, int err)
    : Error(sentence, err == ENOENT ? kExitNotFound : kExitNotExecutable), err(err) {}

void check_program(const StartOptions& options) {
  std::vector<std::string> argv = options.argv;
  if (argv.empty()) argv.emplace_back();
  const std::string path = options.path.empty() ? find_program(argv[0], options.env) : options.path;
  open_interpreter(open_program(path, argv, options.ask_kernel), options.ask_kernel);
  if (!arguments_fit(argv, options.env, path, options.stack_size))
    throw LoadError("cannot run " + in_quotes(path) + ": the arguments and the environment are too long",
                    E2BIG);
}

StartState load_program(const StartOptions& options, Placer& placer) {
  StartState start;
  start.argv = options.argv;
  if (start.argv.empty()) start.argv.emplace_back();  // as the kernel does since 5.18
  const std::string path = options.path.empty() ? find_program(start.argv[0], options.env) : options.path;

  ElfImage program = open_program(path, start.argv, options.ask_kernel);
  std::optional<ElfImage> interpreter = open_interpreter(program, options.ask_kernel);
  if (!arguments_fit(start.argv, options.env, path, options.stack_size))
    throw LoadError("cannot run " + in_quotes(path) +
                        ": the arguments and the environment are too long (E2BIG); a larger stack limit "
                        "(ulimit -s) allows more, up to 6 MB",
                    E2BIG);
  start.exe = program.file.path();
  // As long as a process executes a file, it does not go away: its inode is nobody else's, its file system is
  // in use.
  mmap(nullptr, layout::kPage, PROT_NONE, MAP_PRIVATE, program.file.fd(), 0);
  start.exe_file = {program.file.status().st_dev, program.file.status().st_ino};
  start.interpreter = program.interpreter;
  start.lost_privilege = would_gain_privilege(program.file);

  start.stack_end = layout::kStackEnd;
  start.stack_start = start.stack_end - page_down(std::clamp(options.stack_size, kStackMin, kStackMax));
  int stack_prot = PROT_READ | PROT_WRITE | (program.executable_stack ? PROT_EXEC : 0);
  placer.map(anonymous(start.stack_start, start.stack_end, stack_prot, kStackName), -1);
  placer.memory().brk_start = placer.memory().brk = layout::kBrkStart;

  // Linux' start_data and end_data.
  uint64_t data_start = 0, data_end = 0;
  for (const Elf64_Phdr& ph : program.segments) {
    data_start = std::max(data_start, ph.p_vaddr);
    data_end = std::max(data_end, ph.p_vaddr + ph.p_filesz);
  }
  start.initialized_data = data_end - std::min(data_start, data_end);

  uint64_t bias = place_image(program, placer);
  uint64_t base = interpreter ? place_image(*interpreter, placer) : 0;
  start.rip = interpreter ? interpreter->header.e_entry + base : program.header.e_entry + bias;

  start.auxv = auxiliary_vector(program, bias, base, options);
  StartStack stack =
      build_start_stack(start.stack_end, start.argv, options.env, path, options.random, start.auxv);
  start.rsp = stack.rsp;
  ProgramLayout& at = start.layout;
  at.start_code = ~0ull;
  for (const Elf64_Phdr& ph : program.segments) {
    const uint64_t from = ph.p_vaddr + bias, to = from + ph.p_filesz;
    if (ph.p_flags & PF_X)
      at.start_code = std::min(at.start_code, from), at.end_code = std::max(at.end_code, to);
    at.start_data = std::max(at.start_data, from), at.end_data = std::max(at.end_data, to);
  }
  at.start_stack = stack.rsp;
  at.arg_start = stack.arg_start, at.arg_end = at.env_start = stack.env_start, at.env_end = stack.env_end;
  placer.write(stack.rsp, stack.bytes);
  return start;
}

}  // namespace backstep::guest
