// PROCMAP_QUERY: the ioctl of /proc/PID/maps that tells of one mapping, since Linux 6.11. Our file of that
// name is a memory file with the text of a moment (proc_files.cc), so we answer it: from the books of the
// process whose file it is, as they are now, in the order in which the kernel looks at things.
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/room_for_fds.h"
#include "guest/buffers.h"
#include "record/descriptors.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;

namespace {

using layout::kPage;
constexpr uint64_t kQuery = 0xc068'6611;  // PROCMAP_QUERY: _IOWR('f', 17, struct procmap_query)

// struct procmap_query of linux/fs.h, which older headers do not have.
struct Query {
  uint64_t size, flags, addr;
  uint64_t start, end, rights, page_size, offset, inode;
  uint32_t major, minor, name_size, build_id_size;
  uint64_t name_addr, build_id_addr;
};
static_assert(sizeof(Query) == 104);
constexpr uint64_t kRead = 1, kWrite = 2, kExec = 4, kShared = 8, kCoveringOrNext = 16, kFileBacked = 32,
                   kAllFlags = 63;

bool is_shared(const Region& r) {
  return (r.flags & MAP_TYPE) != MAP_PRIVATE;
}

uint64_t rights_of(const Region& r) {
  return (r.prot & PROT_READ ? kRead : 0) | (r.prot & PROT_WRITE ? kWrite : 0) |
         (r.prot & PROT_EXEC ? kExec : 0) | (is_shared(r) ? kShared : 0);
}

const Region* matching(const MemoryMap& map, uint64_t addr, uint64_t flags) {
  const uint64_t rights = flags & (kRead | kWrite | kExec | kShared);
  for (const Region* r = map.next(addr); r; r = map.next(r->end)) {
    const bool fits = (!(flags & kFileBacked) || r->inode) && (rights_of(*r) & rights) == rights;
    if (fits && ((flags & kCoveringOrNext) || r->start <= addr)) return r;
    if (!(flags & kCoveringOrNext)) return nullptr;
    addr = r->end;
  }
  return nullptr;
}

// The note that linkers leave in a program: what it is called by those who look for its symbols.
std::vector<char> build_id_in(const std::vector<char>& notes) {
  constexpr size_t kLongest = 20;
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    const size_t name = at + sizeof note, desc = name + ((uint64_t{note.n_namesz} + 3) & ~3ull);
    const size_t end = desc + ((uint64_t{note.n_descsz} + 3) & ~3ull);
    if (end > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes.data() + name, "GNU", 4) == 0 && note.n_descsz > 0 && note.n_descsz <= kLongest)
      return {notes.data() + desc, notes.data() + desc + note.n_descsz};
    at = end;
  }
  return {};
}

// … of the file that is mapped there; empty: none.
std::vector<char> build_id_of(const Region& r) {
  constexpr uint64_t kMostNotes = 1 << 16, kMostSegments = 256;
  const RoomForFds room;
  const Fd fd(open(r.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat st {};
  Elf64_Ehdr header;
  if (!r.inode || !fd || fstat(fd.get(), &st) != 0 || st.st_dev != r.dev || st.st_ino != r.inode ||
      !S_ISREG(st.st_mode) || pread(fd.get(), &header, sizeof header, 0) != sizeof header ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    return {};
  for (uint64_t i = 0; i < header.e_phnum && i < kMostSegments; i++) {
    Elf64_Phdr segment;
    if (pread(fd.get(), &segment, sizeof segment, static_cast<off_t>(header.e_phoff + i * sizeof segment)) !=
        sizeof segment)
      return {};
    if (segment.p_type != PT_NOTE) continue;
    std::vector<char> notes(std::min<uint64_t>(segment.p_filesz, kMostNotes));
    if (pread(fd.get(), notes.data(), notes.size(), static_cast<off_t>(segment.p_offset)) !=
        static_cast<ssize_t>(notes.size()))
      return {};
    if (auto id = build_id_in(notes); !id.empty()) return id;
  }
  return {};
}

}  // namespace

// Whose map it is that was opened as this descriptor: its name tells (do_open). 0: it is none.
int Recorder::map_behind(int fd) const {
  char target[128] = "";
  int pid = 0;
  const ssize_t n = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target, sizeof target - 1);
  return n > 0 && std::sscanf(target, "/memfd:proc-%d-maps", &pid) == 1 ? pid : 0;
}

// nullopt: it is another ioctl.
std::optional<int64_t> Recorder::query_map(const uint64_t args[6]) {
  if ((args[1] & 0xffff'ffff) != kQuery) return std::nullopt;
  const int pid = map_behind(static_cast<int>(args[0]));
  if (!pid) return std::nullopt;
  std::vector<char> name, id;
  Query query{};
  const int64_t result = answer_query(pid, args[2], &query, sizeof query, name, id);
  log_call(syscall_row(SYS_ioctl), SYS_ioctl, args, result);
  // What the table does not know of; also if there was no room for all of it.
  for (const auto& [addr, length] :
       {std::pair(query.name_addr, name.size()), {query.build_id_addr, id.size()}})
    for (uint64_t at = addr; at < addr + length;) {
      const uint64_t n = std::min(addr + length - at, kPage - at % kPage);
      log_memory(at, n);
      at += n;
    }
  return result;
}

int64_t Recorder::answer_query(int pid, uint64_t at, void* to, size_t size, std::vector<char>& name,
                               std::vector<char>& id) {
  Query& q = *static_cast<Query*>(to);
  uint64_t given;
  if (!read_guest(at, &given)) return -EFAULT;
  if (given > kPage) return -E2BIG;
  if (given < offsetof(Query, start)) return -EINVAL;
  std::vector<char> bytes(std::max<uint64_t>(given, size));
  if (!bs_guarded_copy(bytes.data(), reinterpret_cast<const void*>(at), given)) return -EFAULT;
  if (std::any_of(bytes.begin() + static_cast<ptrdiff_t>(size), bytes.end(), [](char c) { return c != 0; }))
    return -E2BIG;
  std::memcpy(&q, bytes.data(), size);
  if ((q.flags & ~kAllFlags) || !q.name_size != !q.name_addr || !q.build_id_size != !q.build_id_addr)
    return -EINVAL;
  std::optional<Shown> other;
  if (!is_own_memory(pid) && !(other = published_by(recording_, pid))) return -ESRCH;
  const Region* r = matching(other ? *other->map : process_.map, q.addr, q.flags);
  if (!r) return -ENOENT;
  q.start = r->start, q.end = r->end;
  q.rights = rights_of(*r);
  q.page_size = kPage;
  q.offset = r->inode ? r->offset : 0;
  q.inode = r->inode;
  q.major = r->inode ? major(r->dev) : 0, q.minor = r->inode ? minor(r->dev) : 0;
  if (q.build_id_size) {
    id = build_id_of(*r);
    if (q.build_id_size < id.size()) return -ENAMETOOLONG;
    q.build_id_size = static_cast<uint32_t>(id.size());
  }
  if (q.name_size) {
    if (!r->name.empty()) name.assign(r->name.c_str(), r->name.c_str() + r->name.size() + 1);
    if (name.size() > std::min<uint64_t>(q.name_size, 4096)) return -ENAMETOOLONG;
    q.name_size = static_cast<uint32_t>(name.size());
  }
  if (bs_record.sharing) {
    own_range(q.name_addr, name.size(), SharedObject::Hold::Write);
    own_range(q.build_id_addr, id.size(), SharedObject::Hold::Write);
  }
  if (!name.empty() && !process_.copy_out(q.name_addr, name.data(), name.size())) return -EFAULT;
  if (!id.empty() && !process_.copy_out(q.build_id_addr, id.data(), id.size())) return -EFAULT;
  return process_.copy_out(at, &q, std::min<uint64_t>(size, given)) ? 0 : -EFAULT;
}

}  // namespace backstep::recorder
