// prctl(PR_SET_MM): a program tells where its parts are, for those who look at it in /proc. Daemons do so
// when they give themselves another name (cmdline), and those who restore processes. To the kernel these are
// the recorder's parts, so the books are ours; the checks are the kernel's, in its order. What brk() does is
// not changed by it.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/prctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>

#include "guest/buffers.h"
#include "record/descriptors.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;

namespace {

constexpr uint64_t kUserEnd = 0x7fff'ffff'f000;  // TASK_SIZE
constexpr uint64_t kWithoutFile = 0xffff'ffff;   // exe_fd

uint64_t lowest_address() {
  static const uint64_t lowest = [] {
    uint64_t value = 65536;
    std::ifstream("/proc/sys/vm/mmap_min_addr") >> value;
    return value;
  }();
  return lowest;
}

bool is_address(uint64_t at) {
  return at >= lowest_address() && at < kUserEnd;
}

bool is_valid(const ProgramLayout& at, uint64_t data_limit) {
  for (uint64_t a : {at.start_code, at.end_code, at.start_data, at.end_data, at.start_brk, at.brk,
                     at.start_stack, at.arg_start, at.arg_end, at.env_start, at.env_end})
    if (!is_address(a)) return false;
  if (at.start_code >= at.end_code || at.start_data > at.end_data || at.start_brk > at.brk ||
      at.arg_start > at.arg_end || at.env_start > at.env_end)
    return false;
  return data_limit == Limit::kNone || at.brk - at.start_brk + (at.end_data - at.start_data) <= data_limit;
}

// How many bytes the kernel keeps of it.
uint64_t auxv_size() {
  constexpr uint64_t kUsual = 416;
  uint64_t words[128];
  const int size = prctl(kGetAuxv, words, sizeof words, 0, 0);
  return size > 0 ? static_cast<uint64_t>(size) : kUsual;
}

}  // namespace

ProgramLayout Recorder::program_layout() const {
  ProgramLayout now = start_.layout;
  if (!now.start_brk) now.start_brk = process_.map.brk_start;
  if (!now.brk) now.brk = process_.map.brk;
  return now;
}

int64_t Recorder::do_set_mm(const Syscall& row, const uint64_t args[6]) {
  const uint64_t what = args[1];
  const bool sized = what == PR_SET_MM_AUXV || what == PR_SET_MM_MAP || what == PR_SET_MM_MAP_SIZE;
  if (args[4] || (args[3] && !sized)) return -EINVAL;
  if (what == PR_SET_MM_MAP_SIZE) return execute(row, SYS_prctl, args);
  int64_t result;
  if (what == PR_SET_MM_MAP) {
    result = args[3] == sizeof(prctl_mm_map) ? set_mm_map(args[2]) : -EINVAL;
  } else if (prctl(PR_SET_MM, PR_SET_MM_START_CODE, 0, 0, 0) != 0 && errno == EPERM) {
    result = -EPERM;  // no address would do there, so this is about the right to set one
  } else if (what == PR_SET_MM_EXE_FILE) {
    result = set_mm_exe(static_cast<int>(args[2]));
  } else if (what == PR_SET_MM_AUXV) {
    result = set_mm_auxv(args[2], args[3], args[3]);
  } else {
    result = set_mm_field(what, args[2]);
  }
  if (result == 0 && !vfork_) {
    published_.layout(program_layout());
    published_.auxv(start_.auxv);
    published_.exe(start_.exe);
  }
  return result;
}

int64_t Recorder::set_mm_field(uint64_t what, uint64_t address) {
  if (!is_address(address)) return -EINVAL;
  ProgramLayout next = program_layout();
  struct {
    uint64_t what;
    uint64_t ProgramLayout::*field;
    bool mapped;  // something must be there, or above
  } const fields[] = {{PR_SET_MM_START_CODE, &ProgramLayout::start_code, false},
                      {PR_SET_MM_END_CODE, &ProgramLayout::end_code, false},
                      {PR_SET_MM_START_DATA, &ProgramLayout::start_data, false},
                      {PR_SET_MM_END_DATA, &ProgramLayout::end_data, false},
                      {PR_SET_MM_START_STACK, &ProgramLayout::start_stack, true},
                      {PR_SET_MM_START_BRK, &ProgramLayout::start_brk, false},
                      {PR_SET_MM_BRK, &ProgramLayout::brk, false},
                      {PR_SET_MM_ARG_START, &ProgramLayout::arg_start, true},
                      {PR_SET_MM_ARG_END, &ProgramLayout::arg_end, true},
                      {PR_SET_MM_ENV_START, &ProgramLayout::env_start, true},
                      {PR_SET_MM_ENV_END, &ProgramLayout::env_end, true}};
  for (const auto& f : fields) {
    if (f.what != what) continue;
    next.*f.field = address;
    if (!is_valid(next, process_.limits.data.soft)) return -EINVAL;
    // (Natively the highest mapping is the stack, or the vdso above it.)
    if (f.mapped && !process_.map.next(address)) return -EFAULT;
    start_.layout.*f.field = address;
    return 0;
  }
  return -EINVAL;
}

int64_t Recorder::set_mm_map(uint64_t address) {
  prctl_mm_map given;
  if (!read_guest(address, &given)) return -EFAULT;
  const ProgramLayout next{given.start_code, given.end_code,  given.start_data,  given.end_data,
                           given.start_brk,  given.brk,       given.start_stack, given.arg_start,
                           given.arg_end,    given.env_start, given.env_end};
  if (!is_valid(next, process_.limits.data.soft)) return -EINVAL;
  const std::vector<uint64_t> before = start_.auxv;
  if (given.auxv_size) {
    if (!given.auxv) return -EINVAL;
    if (int64_t err = set_mm_auxv(reinterpret_cast<uint64_t>(given.auxv), given.auxv_size, auxv_size()))
      return err;
  }
  if (given.exe_fd != kWithoutFile) {
    // Its own rights are looked at first: an impossible descriptor is refused only to who has them.
    prctl_mm_map probe = given;
    probe.auxv_size = 0;
    probe.exe_fd = INT_MAX;
    errno = 0;
    prctl(PR_SET_MM, PR_SET_MM_MAP, &probe, sizeof probe, 0);
    const int64_t err = errno == EPERM ? -EPERM : set_mm_exe(static_cast<int>(given.exe_fd));
    if (err) {
      start_.auxv = before;
      return err;
    }
  }
  start_.layout = next;
  return 0;
}

// The first `copied` bytes are new, where less is given zero.
int64_t Recorder::set_mm_auxv(uint64_t address, uint64_t size, uint64_t copied) {
  const uint64_t room = auxv_size();
  if (size > room) return -EINVAL;
  std::vector<uint64_t> words(room / 8 + 1, 0);
  if (size && !bs_guarded_copy(words.data(), reinterpret_cast<const void*>(address), size)) return -EFAULT;
  words.resize(room / 8);
  words[words.size() - 1] = words[words.size() - 2] = 0;
  std::vector<uint64_t> kept = start_.auxv;
  kept.resize(words.size(), 0);
  std::memcpy(kept.data(), words.data(), std::min<uint64_t>(copied, room));
  // As /proc shows it: up to the first AT_NULL.
  size_t end = 0;
  while (end + 2 < kept.size() && kept[end] != 0) end += 2;
  kept.resize(std::min(end + 2, kept.size()));
  start_.auxv = kept;
  return 0;
}

int64_t Recorder::set_mm_exe(int fd) {
  struct stat st {};
  if (fd < 0 || is_our_fd(static_cast<uint64_t>(fd)) || fstat(fd, &st) != 0) return -EBADF;
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  struct statvfs fs {};
  if (!S_ISREG(st.st_mode) || (fstatvfs(fd, &fs) == 0 && fs.f_flag & ST_NOEXEC)) return -EACCES;
  if (faccessat(AT_FDCWD, link.c_str(), X_OK, AT_EACCESS) != 0) return -errno;
  bool mapped = false;
  process_.map.for_each([&](const Region& r) { mapped |= std::pair(r.dev, r.inode) == start_.exe_file; });
  if (mapped) return -EBUSY;
  char path[4096];
  const ssize_t n = readlink(link.c_str(), path, sizeof path);
  if (n <= 0) return -EACCES;
  start_.exe = std::string(path, static_cast<size_t>(n));
  start_.exe_file = {st.st_dev, st.st_ino};
  published_.exe_file(start_.exe_file);
  return 0;
}

}  // namespace backstep::recorder
