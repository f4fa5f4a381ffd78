// Files that can be executed, opened and checked: what execve looks at before it touches memory.
#pragma once
#include <elf.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"

namespace backstep::guest {

// An open file that passed execve's checks of type and permission.
class ProgramFile {
 public:
  // Throws LoadError; `role` opens the sentence: "cannot run 'x'", "cannot load the interpreter 'x' of 'y'".
  ProgramFile(const std::string& path, const std::string& role);
  // One that is open already; `name` is for messages.
  ProgramFile(Fd file, std::string name, const std::string& role);

  // Asks the kernel (Linux 6.14) whether it would execute the file, which is also what those hear of who
  // watch it for that (fanotify's FAN_OPEN_EXEC). Throws LoadError if it would not: somebody has it open for
  // writing, for instance.
  void ask_kernel() const;

  // Bytes from `offset`; fewer than asked for at the end of the file.
  std::vector<char> read(uint64_t offset, size_t size) const;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }  // absolute, symbolic links resolved
  const std::string& role() const { return role_; }
  uint64_t size() const { return stat_.st_size; }
  const struct stat& status() const { return stat_; }

 private:
  Fd fd_;
  std::string path_, role_;
  struct stat stat_ = {};
};

// An x86-64 program file whose headers hold: every load segment lies inside the file and inside the address
// space, file offsets and addresses agree modulo the page, file size <= memory size.
struct ElfImage {
  ProgramFile file;
  Elf64_Ehdr header;
  std::vector<Elf64_Phdr> segments;  // PT_LOAD with a size, in the order of the file
  std::string interpreter;           // PT_INTERP or empty
  uint64_t low = 0, high = 0;        // page-aligned span of the segments, before relocation
  uint64_t align = 0;                // largest p_align, at least a page
  uint64_t program_headers = 0;      // address of the program header table before relocation; 0: not loaded
  bool executable_stack = false;
};

// Throws LoadError.
ElfImage read_elf(ProgramFile file);

}  // namespace backstep::guest
