// Memory of other processes: process_vm_readv, process_vm_writev, and writes to /proc/PID/mem.
//
// A process that is not recorded is the kernel's business. One that is must log what is changed in it, at a
// place between two of its instructions, or in a call in which it waits: so it is asked to make the change
// (letters.h). Whether the caller may do that at all the kernel says. Two that write to each other at the
// same time serve each other's letters while they wait for answers.
//
// What a letter changed is a Shared event, as if the page had been got from another process.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/room_for_fds.h"
#include "guest/buffers.h"
#include "record/descriptors.h"
#include "record/letters.h"
#include "record/life.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;
using recording::EventKind;

namespace {

using layout::kPage;
constexpr uint64_t kNowhere = 0x7fff'ffff'f000;  // the end of user memory: nothing is ever mapped there

// Address and length. nullopt: it cannot be read, or is too long; the kernel says so.
using Parts = std::vector<std::pair<uint64_t, uint64_t>>;
std::optional<Parts> read_vector(uint64_t addr, uint64_t count) {
  if (count > UIO_MAXIOV) return std::nullopt;
  Parts parts;
  for (uint64_t i = 0; i < count; i++) {
    Iovec part;
    if (!read_guest(addr + i * sizeof part, &part)) return std::nullopt;
    parts.emplace_back(part.base, part.length);
  }
  return parts;
}

uint64_t sum_of(const Parts& parts) {
  uint64_t sum = 0;
  for (const auto& [addr, length] : parts) sum += std::min<uint64_t>(length, ~0ull >> 12);
  return sum;
}

// The bytes from `skip` on, `most` at most, up to the first that cannot be read.
std::vector<char> take(const Parts& parts, uint64_t skip, uint64_t most) {
  std::vector<char> bytes;
  for (auto [addr, length] : parts) {
    const uint64_t passed = std::min(skip, length);
    skip -= passed, addr += passed, length -= passed;
    while (length && bytes.size() < most) {
      const uint64_t n = std::min({length, kPage - addr % kPage, most - bytes.size()});
      const size_t had = bytes.size();
      bytes.resize(had + n);
      if (!bs_guarded_copy(bytes.data() + had, reinterpret_cast<const void*>(addr), n)) {
        bytes.resize(had);
        return bytes;
      }
      addr += n, length -= n;
    }
  }
  return bytes;
}

void put_byte(const Parts& parts, uint64_t index, char byte) {
  for (const auto& [addr, length] : parts) {
    if (index < length) {
      bs_guarded_copy(reinterpret_cast<void*>(addr + index), &byte, 1);
      return;
    }
    index -= length;
  }
}

// How much of a range can be accessed, from its start on.
template <class May>
uint64_t accessible(const MemoryMap& map, uint64_t start, uint64_t length, const May& may) {
  uint64_t at = start;
  for (const Region* r = map.find(at); r && at - start < length && may(*r); r = map.find(at)) at = r->end;
  return std::min(at - start, length);
}

// As the kernel does it: what is mapped read-only and private is copied for a debugger.
bool may_be_written(const Region& r, bool force) {
  return r.prot & PROT_WRITE || (force && !(r.flags & MAP_SHARED));
}

}  // namespace

// --- serving ---

// Between two instructions, or (`in_call`) in a call in which we wait.
void Recorder::serve_letters(bool in_call) {
  LetterBox* box = published_.letters();
  if (!box || !box->has_mail()) return;
  while (Letter* letter = box->next()) {
    // Others may have been meant for the program that this process was before.
    const bool ours = letter->life == published_.lives();
    const std::vector<char> bytes(letter->bytes(), letter->bytes() + letter->length);
    box->answer(*letter,
                ours ? receive(letter->address, bytes, letter->force != 0, in_call) : letter->length);
  }
  if (!opened_.empty()) close_views();
  // Whoever is written to once will be again: then the guest's calls need not be made anew for it.
  if (bs_record.threads || vfork_) return;
  try {
    start_threads();
  } catch (const Error&) {  // no timers, no kernel threads
  }
}

// Returns how many of the bytes could be written.
uint64_t Recorder::receive(uint64_t addr, std::span<const char> bytes, bool force, bool in_call) {
  uint64_t done = 0;
  while (done < bytes.size()) {
    const uint64_t at = addr + done, n = std::min(bytes.size() - done, kPage - at % kPage);
    if (!receive_in_page(at, bytes.subspan(done, n), force, in_call)) break;
    done += n;
  }
  return done;
}

bool Recorder::receive_in_page(uint64_t addr, std::span<const char> bytes, bool force, bool in_call) {
  const uint64_t page = addr & ~(kPage - 1);
  const Region* r = process_.map.find(addr);
  if (!r || !may_be_written(*r, force)) return false;
  const bool locked = !(r->prot & PROT_WRITE);
  process_.engine().forget(page, page + kPage);
  process_.map.overwrite(page, page + kPage);
  process_.prepare_write(page, page + kPage);
  if (bs_record.sharing && in_call) own_range(addr, bytes.size(), SharedObject::Hold::Write);
  if (bs_record.sharing && !in_call) own_for_host(addr, addr + bytes.size(), true);
  auto* start = reinterpret_cast<void*>(page);
  if (locked && mprotect(start, kPage, PROT_READ | PROT_WRITE) != 0) return false;
  const bool done = bs_guarded_copy(reinterpret_cast<void*>(addr), bytes.data(), bytes.size());
  if (locked) mprotect(start, kPage, process_.page_protection(page));
  if (done) log_letter(addr, bytes, in_call);
  return done;
}

void Recorder::log_letter(uint64_t addr, std::span<const char> bytes, bool in_call) {
  log_.reserve(2 * kPage + 256);
  recording::Appender& log = log_.appender();
  if (!log.chunk) return;
  const uint8_t flags = recording::kAsynchronous | (in_call ? recording::kInCall : 0);
  uint8_t* at = log.begin(EventKind::Shared, flags, 0, {0, next_order()});
  at = log.put_place(at, context().tick, context().rip - (in_call ? 2 : 0));
  at = recording::put_u32(at, register_digest(context()));
  at = recording::put_varint(at, addr & ~(kPage - 1));
  // All of it, also what is not new: pages that are written to become the process's own.
  at = recording::put_varint(at, addr % kPage);
  at = recording::put_varint(at, bytes.size());
  std::memcpy(at, bytes.data(), bytes.size());
  log.commit(at + bytes.size());
}

// --- writing ---

// A signal has come that ends this process.
bool Recorder::is_dying() const {
  const HotState& s = bs_record;
  for (unsigned i = 0; i < s.pending_count; i++)
    if (s.fatal_mask >> (s.pending[i].si_signo - 1) & 1) return true;
  return false;
}

// While another process is to do something for the call under way: what others want of us is done.
void Recorder::let_others_work(const std::function<void()>& wait) {
  fall_asleep();
  wait();
  wake_up();
  serve_shared();
  if (stop_asked_) serve_stop();
  serve_letters(true);
}

// The way to a process that can be written to only by letters. nullopt: it is not recorded (any more), and
// the kernel writes; null: it belongs to another recording, or is one of those that have no box.
std::optional<LettersTo*> Recorder::letters_to(int pid) {
  using Target = LettersTo::Target;
  constexpr size_t kMost = 64;
  constexpr int kPatience = 300;
  Target target = Target::Unknown;
  for (int i = 0; i < kPatience && is_recorded(pid); i++) {
    if (letters_.size() >= kMost) letters_.clear();
    auto& to = letters_[pid];
    if (!to || to->target() == Target::Gone) to = std::make_unique<LettersTo>(recording_.base(), pid);
    target = to->target();
    if (target == Target::Ready) return to.get();
    letters_.erase(pid);
    if (target == Target::Native) return std::nullopt;
    let_others_work([] { usleep(1000); });  // it is being started, or becomes another program
  }
  if (!is_recorded(pid)) return std::nullopt;
  note_once("the memory of a process of another recording, or of one without a log, was not written (EPERM)");
  return nullptr;
}

// Bytes that were written there, from the first on. nullopt: the process has gone.
std::optional<uint64_t> Recorder::send_letter(LettersTo& to, int pid, uint64_t addr,
                                              std::span<const char> bytes, bool force) {
  using Reply = LettersTo::Reply;
  constexpr int64_t kRingAgain = 1'000'000, kPatience = 20'000'000'000;
  const int64_t begin = monotonic_ns();
  int64_t rung = begin;
  bool posted = to.post(addr, bytes, force);
  if (posted) to.ring();
  // What one that does not answer would say.
  auto by_map = [&]() -> uint64_t {
    if (!posted) return 0;
    to.leave();
    const auto shown = published_by(recording_, pid);
    if (!shown || !shown->map) return bytes.size();
    return accessible(*shown->map, addr, bytes.size(),
                      [&](const Region& r) { return may_be_written(r, force); });
  };
  for (;;) {
    let_others_work([&] { posted ? to.wait() : static_cast<void>(usleep(1000)); });
    const int64_t now = monotonic_ns();
    const Reply reply = posted ? to.look() : Reply::None;
    if (reply == Reply::Answered) return to.answer();
    if (reply == Reply::Gone) {
      to.leave();
      return std::nullopt;
    }
    if (reply == Reply::Stopped || now > begin + kPatience) return by_map();
    if (is_dying()) {
      if (posted) to.leave();
      return 0;
    }
    if (!posted && life_of(static_cast<uint32_t>(to.owner())).state == 'T') return 0;
    if (!posted) posted = to.post(addr, bytes, force);
    if (now > rung + kRingAgain && posted) {
      to.ring();
      rung = now;
    }
  }
}

// As much of it as can be written; -ESRCH: nothing, as the process has gone.
int64_t Recorder::write_other(LettersTo* to, int pid, uint64_t addr, const Source& bytes, uint64_t length,
                              bool force) {
  uint64_t done = 0;
  while (done < length) {
    const std::vector<char> part = bytes(done, std::min(length - done, LettersTo::kMost));
    if (part.empty()) break;
    const auto written = send_letter(*to, pid, addr + done, part, force);
    if (!written && done == 0) return -ESRCH;
    done += written.value_or(0);
    if (!written || *written < part.size()) break;
  }
  return static_cast<int64_t>(done);
}

bool Recorder::is_own_memory(int pid) const {
  return pid == getpid() || (vfork_ && pid == published_.owner());
}

int64_t Recorder::do_process_vm(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  auto pid = static_cast<int>(args[0]);
  const bool others = pid > 0 && !is_own_memory(pid) && is_recorded(pid);
  if (others) {
    if (const int owner = process_of(pid)) pid = owner;
  }
  const bool writes = nr == SYS_process_vm_writev;
  if (writes && is_own_memory(pid)) return write_own_memory(row, args);
  const auto local = read_vector(args[1], args[2]), remote = read_vector(args[3], args[4]);
  int64_t result;
  if (!others || is_own_memory(pid) || !local || !remote) {
    result = execute(row, nr, args);
  } else if (writes) {
    result = write_process(row, args, pid, *local, *remote);
  } else {
    const uint64_t most = std::min(sum_of(*local), sum_of(*remote));
    const auto to = letters_to(pid);
    const auto letters = to && *to ? (*to)->waiting() : Letters{};
    result = execute(row, nr, args);
    // Where pages have owners, who does not own them has no right to them: not even to be read there.
    if (result == -EFAULT || (result >= 0 && static_cast<uint64_t>(result) < most))
      if (auto all = read_process(pid, *local, *remote)) result = std::max(result, *all);
    if (result > 0) show_letters(letters, *local, *remote, static_cast<uint64_t>(result));
  }
  if (bs_record.sharing) own_arguments(row, nr, args);
  log_call(row, nr, args, result);
  return result;
}

int64_t Recorder::write_process(const Syscall& row, const uint64_t args[6], int pid, const Parts& local,
                                const Parts& remote) {
  // Everything that the kernel looks at before it writes: to an address where there is nothing.
  std::vector<iovec> nowhere;
  for (const auto& [addr, length] : remote) nowhere.push_back({reinterpret_cast<void*>(kNowhere), length});
  uint64_t probe[6];
  std::copy(args, args + 6, probe);
  probe[3] = reinterpret_cast<uint64_t>(nowhere.data());
  if (const int64_t refused = execute(row, SYS_process_vm_writev, probe); refused != -EFAULT) return refused;
  const auto to = letters_to(pid);
  if (!to) return execute(row, SYS_process_vm_writev, args);
  if (!*to) return -EPERM;
  uint64_t done = 0;
  for (const auto& [addr, length] : remote) {
    const int64_t n = write_other(
        *to, pid, addr, [&](uint64_t at, uint64_t most) { return take(local, done + at, most); }, length,
        false);
    if (n < 0 && done == 0) return n;
    done += static_cast<uint64_t>(std::max<int64_t>(n, 0));
    if (n < 0 || static_cast<uint64_t>(n) < length) break;
  }
  return done ? static_cast<int64_t>(done) : -EFAULT;
}

// What a process that is stopped will find changed when it goes on is changed for those who read it.
void Recorder::show_letters(const Letters& letters, const Parts& local, const Parts& remote, uint64_t done) {
  for (const auto& [start, bytes] : letters)
    for (uint64_t i = 0; i < bytes.size(); i++) {
      uint64_t at = 0;  // in what was read
      for (const auto& [addr, length] : remote) {
        const uint64_t offset = start + i - addr;
        if (offset < length && at + offset < done) put_byte(local, at + offset, bytes[i]);
        at += length;
      }
    }
}

// process_vm_readv past the rights that pages have only for us. nullopt: it cannot be done.
std::optional<int64_t> Recorder::read_process(int pid, const Parts& local, const Parts& remote) {
  const auto shown = published_by(recording_, pid);
  RoomForFds room;
  const Fd memory(::open(fmt::format("/proc/{}/mem", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!shown || !shown->map || !memory) return std::nullopt;
  std::vector<char> bytes;
  const uint64_t most = sum_of(local);
  for (const auto& [addr, length] : remote) {
    const uint64_t wanted = std::min(length, most - bytes.size());
    const uint64_t there =
        accessible(*shown->map, addr, wanted, [](const Region& r) { return (r.prot & PROT_READ) != 0; });
    const size_t had = bytes.size();
    bytes.resize(had + there);
    const ssize_t n = pread(memory.get(), bytes.data() + had, there, static_cast<off_t>(addr));
    bytes.resize(had + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (bytes.size() - had < wanted || bytes.size() == most) break;
  }
  uint64_t done = 0;
  for (const auto& [addr, length] : local) {
    const uint64_t n = std::min(length, bytes.size() - done);
    if (n && !process_.copy_out(addr, bytes.data() + done, n)) break;
    done += n;
  }
  return done || bytes.empty() ? std::optional(done ? static_cast<int64_t>(done) : -EFAULT) : std::nullopt;
}

// --- /proc/PID/mem ---

// Whose memory the descriptor is: it may have been inherited from who opened its own.
int Recorder::memory_behind(int fd) const {
  char path[64];
  const ssize_t n = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path, sizeof path);
  const auto file = n > 0 ? parse_proc_path(std::string(path, static_cast<size_t>(n)), process_.current().tid)
                          : std::nullopt;
  return file ? file->pid : getpid();
}

// What a write to such a file asks for. nullopt: the kernel says what is wrong with it, and writes nothing.
struct MemoryWrite {
  Parts local;
  bool moves;  // the file's position
  off_t start;
  uint64_t length;
};
static std::optional<MemoryWrite> memory_write(uint64_t nr, const uint64_t args[6]) {
  const bool vector = nr == SYS_writev || nr == SYS_pwritev || nr == SYS_pwritev2;
  const bool moves =
      nr == SYS_write || nr == SYS_writev || (nr == SYS_pwritev2 && static_cast<int64_t>(args[3]) == -1);
  auto local = vector ? read_vector(args[1], args[2]) : Parts{{args[1], args[2]}};
  const off_t start = moves ? lseek(static_cast<int>(args[0]), 0, SEEK_CUR) : static_cast<off_t>(args[3]);
  if (!local || (!moves && start < 0)) return std::nullopt;
  for (const auto& [address, size] : *local)
    if (size > ~0ull >> 1) return std::nullopt;
  return MemoryWrite{*local, moves, start, std::min<uint64_t>(sum_of(*local), 0x7fff'f000)};
}

// A write to /proc/self/mem goes past all protections, ours included. What it changes is logged behind it.
std::optional<int64_t> Recorder::write_memory(uint64_t nr, const uint64_t args[6]) {
  if (!(kind_of(args[0]) & kFdMemory)) return std::nullopt;
  const Syscall& row = syscall_row(nr);
  auto logged = [&](int64_t result) {
    log_call(row, nr, args, result);
    return result;
  };
  if (const int pid = memory_behind(static_cast<int>(args[0])); !is_own_memory(pid)) {
    const auto result = write_memory_of(pid, nr, args);
    if (!result) return std::nullopt;
    if (bs_record.sharing) own_arguments(row, nr, args);
    return logged(*result);
  }
  const auto asked = memory_write(nr, args);
  if (!asked) return logged(execute(row, nr, args));
  const auto start = static_cast<uint64_t>(asked->start);
  uint64_t end = start;
  for (const Region* r = process_.map.find(end); r && end < start + asked->length; r = process_.map.find(end))
    end = r->end;
  end = std::min(end, start + asked->length);
  if (asked->start < 0 || (end == start && asked->length)) return logged(-EIO);
  process_.engine().forget(start, end);
  process_.map.overwrite(start, end);
  process_.prepare_write(start, end);
  if (bs_record.sharing) own_range(start, end - start, SharedObject::Hold::Write);
  // What lies behind the guest's memory is ours.
  std::vector<iovec> parts;
  for (uint64_t left = end - start; const auto& [address, length] : asked->local) {
    parts.push_back({reinterpret_cast<void*>(address), std::min(length, left)});
    left -= parts.back().iov_len;
  }
  uint64_t real[6];
  std::copy(args, args + 6, real);
  if (nr == SYS_write || nr == SYS_pwrite64)
    real[2] = parts[0].iov_len;
  else
    real[1] = reinterpret_cast<uint64_t>(parts.data());
  const int64_t result = execute(row, nr, real);
  logged(result);
  if (result > 0) log_memory(start, static_cast<uint64_t>(result));
  return result;
}

// A write to the memory of another process, past the rights to its pages. nullopt: the kernel makes it.
std::optional<int64_t> Recorder::write_memory_of(int pid, uint64_t nr, const uint64_t args[6]) {
  const auto fd = static_cast<int>(args[0]);
  // Is there still such memory?
  const char byte = 0;
  const ssize_t probe = pwrite(fd, &byte, 1, static_cast<off_t>(kNowhere));
  if (probe >= 0 || errno != EIO) return probe >= 0 ? 0 : -errno;
  const auto to = letters_to(pid);
  if (!to) return std::nullopt;
  if (!*to) return -EPERM;
  const auto asked = memory_write(nr, args);
  if (!asked) return std::nullopt;
  const auto start = static_cast<uint64_t>(asked->start), length = asked->length;
  if (length == 0) return 0;
  bool unreadable = false;
  const int64_t done = write_other(
      *to, pid, start,
      [&](uint64_t at, uint64_t most) {
        auto bytes = take(asked->local, at, most);
        unreadable = bytes.size() < most;
        // Page by page, each of them as a whole.
        if (unreadable) bytes.resize(bytes.size() / kPage * kPage);
        return bytes;
      },
      length, true);
  if (done < 0) return 0;  // it has gone
  if (done > 0 && asked->moves) lseek(fd, static_cast<off_t>(start + static_cast<uint64_t>(done)), SEEK_SET);
  if (static_cast<uint64_t>(done) == length) return done;
  return unreadable ? -EFAULT : done ? done : -EIO;
}

}  // namespace backstep::recorder
