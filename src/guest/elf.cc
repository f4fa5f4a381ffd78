// Reading a program file with the kernel's eyes, but with more to say. execve answers every flaw with one of
// four error numbers; a person who typed `backstep record` wants to know that the file is a 32-bit program,
// or for another machine, or cut off by a broken download.
//
// We are stricter than the kernel in one point: it maps a file that is shorter than its headers promise and
// lets the program die of SIGBUS later. Here that page might be touched by the recorder, on the host's side,
// so such a file is refused.
#include "guest/elf.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "guest/image.h"

namespace backstep::guest {
namespace {

using layout::page_down;
using layout::page_up;

[[noreturn]] void refuse(const std::string& role, const std::string& reason, int err) {
  throw LoadError(role + ": " + reason, err);
}

[[noreturn]] void refuse(const std::string& role, int err) {
  refuse(role, errno_text(err), err);
}

[[noreturn]] void refuse_access(const std::string& role, int err, const std::string& why) {
  if (err == EACCES) refuse(role, "permission denied: " + why, err);
  refuse(role, err);
}

// The name that /proc/self/exe and /proc/self/maps show for an open file.
std::string name_of_fd(int fd, const std::string& fallback) {
  char name[PATH_MAX];
  ssize_t n = readlink(("/proc/thread-self/fd/" + std::to_string(fd)).c_str(), name, sizeof name);
  if (n > 0 && name[0] == '/') return std::string(name, n);
  char* real = realpath(fallback.c_str(), nullptr);
  std::string result = real ? real : fallback;
  free(real);
  return result;
}

void check_header(const ElfImage& image) {
  const Elf64_Ehdr& h = image.header;
  const std::string& role = image.file.role();
  if (h.e_machine == EM_386)
    refuse(role, "it is a 32-bit x86 program; Backstep runs x86-64 programs", ENOEXEC);
  if (h.e_machine != EM_X86_64)
    refuse(role,
           "it is a program for another processor (ELF machine " + std::to_string(h.e_machine) +
               "); Backstep runs x86-64 programs",
           ENOEXEC);
  if (h.e_ident[EI_CLASS] != ELFCLASS64)
    refuse(role, "it uses the x32 ABI; Backstep runs 64-bit x86-64 programs", ENOEXEC);
  if (h.e_ident[EI_DATA] != ELFDATA2LSB) refuse(role, "malformed ELF header (byte order)", ENOEXEC);
  if (h.e_type != ET_EXEC && h.e_type != ET_DYN)
    refuse(role, "it is an ELF file but not a program (object file or core dump?)", ENOEXEC);
  if (h.e_phentsize != sizeof(Elf64_Phdr) || h.e_phnum == 0 || h.e_phnum > 65536 / sizeof(Elf64_Phdr))
    refuse(role, "malformed ELF header (program header table)", ENOEXEC);
}

void add_segment(ElfImage& image, const Elf64_Phdr& ph) {
  auto malformed = [&](const char* what) {
    refuse(image.file.role(), std::string("malformed ELF file (") + what + ")", ENOEXEC);
  };
  if (ph.p_filesz > ph.p_memsz) malformed("a segment is larger in the file than in memory");
  if (ph.p_vaddr > kGuestEnd || ph.p_memsz > kGuestEnd - ph.p_vaddr)
    malformed("a segment's address is out of range");
  if (ph.p_filesz) {
    if ((ph.p_vaddr - ph.p_offset) % layout::kPage) malformed("a segment's address and file offset disagree");
    if (ph.p_offset > image.file.size() || ph.p_filesz > page_up(image.file.size()) - ph.p_offset)
      malformed("it is shorter than its headers say; is it truncated?");
  }
  if (std::has_single_bit(ph.p_align)) image.align = std::max<uint64_t>(image.align, ph.p_align);
  bool first = image.segments.empty();
  image.low = first ? page_down(ph.p_vaddr) : std::min(image.low, page_down(ph.p_vaddr));
  image.high = std::max(image.high, page_up(ph.p_vaddr + ph.p_memsz));
  if (ph.p_offset <= image.header.e_phoff && image.header.e_phoff - ph.p_offset < ph.p_filesz)
    image.program_headers = image.header.e_phoff - ph.p_offset + ph.p_vaddr;
  image.segments.push_back(ph);
}

std::string read_interpreter(const ElfImage& image, const Elf64_Phdr& ph) {
  std::vector<char> name;
  if (ph.p_filesz >= 2 && ph.p_filesz <= PATH_MAX) name = image.file.read(ph.p_offset, ph.p_filesz);
  if (name.size() < 2 || name.size() != ph.p_filesz || name.back() != '\0')
    refuse(image.file.role(), "malformed ELF file (name of its interpreter)", ENOEXEC);
  return name.data();
}

}  // namespace

ProgramFile::ProgramFile(const std::string& path, const std::string& role) : role_(role) {
  if (stat(path.c_str(), &stat_)) refuse(role, errno);
  if (S_ISDIR(stat_.st_mode)) refuse(role, "it is a directory", EACCES);
  if (!S_ISREG(stat_.st_mode)) refuse(role, "it is not a regular file", EACCES);
  if (faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS))
    refuse_access(role, errno, "it is not executable for you, or its file system is mounted noexec");
  fd_.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd_) refuse_access(role, errno, "Backstep must be able to read what it runs");
  if (fstat(fd_.get(), &stat_)) refuse(role, errno);
  path_ = name_of_fd(fd_.get(), path);
}

ProgramFile::ProgramFile(Fd file, std::string name, const std::string& role)
    : fd_(std::move(file)), path_(std::move(name)), role_(role) {
  if (fstat(fd_.get(), &stat_)) refuse(role, errno);
  if (!S_ISREG(stat_.st_mode)) refuse(role, "it is not a regular file", EACCES);
}

void ProgramFile::ask_kernel() const {
  constexpr int kCheck = 0x10000;  // AT_EXECVE_CHECK
  const char* const argv[] = {"", nullptr};
  auto ask = [&](int fd) {
    return syscall(SYS_execveat, fd, "", argv, argv + 1, AT_EMPTY_PATH | kCheck) == 0 ? 0 : errno;
  };
  static const bool known = ask(-1) == EBADF;  // else the kernel is older, or a container's filter says no
  const int err = known ? ask(fd()) : 0;
  if (err) refuse(role_, err);
}

std::vector<char> ProgramFile::read(uint64_t offset, size_t size) const {
  std::vector<char> bytes(size);
  size_t have = 0;
  while (have < size) {
    ssize_t n = pread(fd_.get(), bytes.data() + have, size - have, static_cast<off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EINVAL) refuse(role_, errno);
    if (n <= 0) break;  // EINVAL: an offset from a malformed header, beyond what a file can have
    have += n;
  }
  bytes.resize(have);
  return bytes;
}

ElfImage read_elf(ProgramFile file) {
  ElfImage image{.file = std::move(file), .header = {}, .segments = {}, .interpreter = {}};
  const std::string& role = image.file.role();
  auto head = image.file.read(0, sizeof image.header);
  if (head.size() < SELFMAG || memcmp(head.data(), ELFMAG, SELFMAG) != 0)
    refuse(role, "it is neither an ELF program nor a script with a usable #! line", ENOEXEC);
  if (head.size() < sizeof image.header) refuse(role, "malformed ELF header (file too short)", ENOEXEC);
  memcpy(&image.header, head.data(), sizeof image.header);
  check_header(image);

  image.align = layout::kPage;
  auto table = image.file.read(image.header.e_phoff, image.header.e_phnum * sizeof(Elf64_Phdr));
  if (table.size() != image.header.e_phnum * sizeof(Elf64_Phdr))
    refuse(role, "malformed ELF file (program headers lie outside the file; is it truncated?)", ENOEXEC);
  for (size_t at = 0; at < table.size(); at += sizeof(Elf64_Phdr)) {
    Elf64_Phdr ph;
    memcpy(&ph, &table[at], sizeof ph);
    if (ph.p_type == PT_LOAD && ph.p_memsz > 0) add_segment(image, ph);
    if (ph.p_type == PT_INTERP && image.interpreter.empty()) image.interpreter = read_interpreter(image, ph);
    if (ph.p_type == PT_GNU_STACK) image.executable_stack = ph.p_flags & PF_X;
  }
  if (image.segments.empty()) refuse(role, "malformed ELF file (nothing to load)", ENOEXEC);
  if (image.header.e_entry >= kGuestEnd)
    refuse(role, "malformed ELF file (entry point out of range)", ENOEXEC);
  return image;
}

}  // namespace backstep::guest
