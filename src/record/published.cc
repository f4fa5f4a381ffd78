#include "record/published.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>

#include "base/fd.h"
#include "base/room_for_fds.h"
#include "record/letters.h"
#include "record/life.h"
#include "record/published_file.h"
#include "record/shared_words.h"
#include "recording/shared_folder.h"

namespace backstep::recorder {

using guest::MemoryMap;
using guest::Region;

namespace {

constexpr uint32_t kVersion = 6;
using layout::kPage;
constexpr uint64_t kFirstPlace = 7 * kPage;  // holds what most programs do in all their life
constexpr uint64_t kSecondPlace = kSlotSize - kPage - kFirstPlace;
static_assert(kTable % kPage == 0 && sizeof(PublishedHead) <= kPage);
constexpr std::string_view kPrefix = "shown-";

enum Kind : uint32_t { kAdd, kRemove, kProtect, kThread, kThreadEnded, kExe, kAuxv, kArgv, kLayout };

struct Record {
  uint32_t size;  // with this; the next one begins at the next multiple of 8
  uint32_t kind;
};
struct AddRecord {  // and the name
  uint64_t start, end, offset, dev, inode;
  int32_t prot, flags;
};
struct ThreadRecord {
  uint64_t blocked, filters;
  int32_t tid, reserved;
};
struct RangeRecord {
  uint64_t start, end, prot;
};

uint64_t aligned(uint64_t size) {
  return (size + 7) & ~7ull;
}

uint64_t where_word(uint64_t page, uint64_t length) {
  return page << 32 | length;
}

std::string name_of(int pid, uint64_t started) {
  return fmt::format("{}{}-{}", kPrefix, pid, started);
}

}  // namespace

// --- writing ---

Published::Published(const std::string& folder, std::function<void()> rewrite)
    : folder_(folder), rewrite_(std::move(rewrite)) {}

Published::~Published() {
  forget();
  if (table_) munmap(table_, kTable);
}

// In this process alone.
void Published::forget() {
  if (slot_head_) munmap(slot_head_, kSlotSize);
  if (box_) munmap(box_, kBoxSize);
  box_ = nullptr;
  if (head_ && head_ != slot_head_) munmap(head_, mapped_);
  head_ = slot_head_ = nullptr;
  slot_ = nullptr;
  name_.clear();
}

namespace {

// A slot that is ours, free, or of a process that was killed; null: all are in use.
PublishedSlot* take_slot(PublishedSlot* table, uint32_t me, uint64_t started) {
  for (PublishedSlot* slot = table; slot < table + kSlots; slot++)
    if (slot->pid == me && slot->started == started) return slot;
  for (bool of_the_dead : {false, true})
    for (PublishedSlot* slot = table; slot < table + kSlots; slot++) {
      uint32_t pid = __atomic_load_n(&slot->pid, __ATOMIC_SEQ_CST);
      if (pid && !(of_the_dead && is_dead(pid, slot->started))) continue;
      if (!__atomic_compare_exchange_n(&slot->pid, &pid, me, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
      store<uint64_t>(slot->started, 0);
      return slot;
    }
  return nullptr;
}

// Not only sized: a store into a sparse mapping of a full disk would be a SIGBUS. The program's own limit on
// file sizes (ulimit -f) is ours too; running into it would be a SIGXFSZ for the program.
bool allocate_within_limit(int fd, uint64_t offset, uint64_t size) {
  struct stat st {};
  rlimit limit{};
  if (fstat(fd, &st) != 0) return false;
  if (offset + size > static_cast<uint64_t>(st.st_size) && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      limit.rlim_cur < offset + size)
    return false;
  return posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(size)) == 0;
}

}  // namespace

void* map_part(int fd, uint64_t offset, uint64_t size) {
  if (!allocate_within_limit(fd, offset, size)) return nullptr;
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  return p == MAP_FAILED ? nullptr : p;
}

void Published::begin() {
  const auto me = static_cast<uint32_t>(getpid());
  const Life life = life_of(me);
  if (!life.started) return;  // no /proc: then nobody else has one either
  RoomForFds room;
  Fd fd(recording::make_shared_file(table_path(folder_), O_RDWR | O_CLOEXEC));
  if (!fd) return;
  if (!table_) table_ = static_cast<PublishedSlot*>(map_part(fd.get(), 0, kTable));
  if (!table_ || !(slot_ = take_slot(table_, me, life.started))) return;
  slot_head_ = static_cast<PublishedHead*>(
      map_part(fd.get(), slot_offset(static_cast<uint64_t>(slot_ - table_)), kSlotSize));
  if (!slot_head_) return store<uint32_t>(slot_->pid, 0);
  if (slot_->started == life.started && slot_head_->state == PublishedHead::Elsewhere)
    recording::remove_file(folder_ + "/" + name_of(getpid(), life.started));
  head_ = slot_head_;
  mapped_ = kSlotSize;
  places_[0] = {1, kFirstPlace};
  places_[1] = {1 + kFirstPlace / kPage, kSecondPlace};
  used_ = 0;
  length_ = 0;
  overflow_ = false;
  told_.clear();
  store<uint32_t>(head_->state, PublishedHead::Loading);
  head_->rewrites = 0;
  std::fill(std::begin(head_->our_fds), std::end(head_->our_fds), -1);
  std::fill(std::begin(head_->vforked), std::end(head_->vforked), 0);
  std::fill(std::begin(head_->exe_file), std::end(head_->exe_file), 0);
  std::fill(std::begin(head_->states), std::end(head_->states), PublishedHead::ThreadState{});
  store(head_->bell, 0u);
  __atomic_fetch_add(&head_->lives, 1, __ATOMIC_SEQ_CST);
  store(head_->where, where_word(places_[0].page, 0));
  store(head_->version, kVersion);
  store(slot_->started, life.started);
}

// The slot is too small: on in a file of our own.
bool Published::move_out() {
  name_ = name_of(getpid(), slot_->started);
  RoomForFds room;
  Fd fd(recording::make_shared_file(path(), O_RDWR | O_CLOEXEC));
  void* p = fd && ftruncate(fd.get(), 0) == 0 ? map_part(fd.get(), 0, kPage + kSlotSize) : nullptr;
  if (!p) {
    recording::remove_file(path());
    name_.clear();
    return false;
  }
  head_ = static_cast<PublishedHead*>(p);
  mapped_ = kPage + kSlotSize;
  *head_ = *slot_head_;
  places_[0] = {1, kSlotSize};
  places_[1] = {};
  used_ = 0;
  length_ = 0;
  overflow_ = false;
  rewriting_ = true;
  tell_all();
  rewriting_ = false;
  if (overflow_) return false;
  head_->rewrites = 0;
  store(head_->where, where_word(places_[0].page, length_));
  store<uint32_t>(slot_head_->state, PublishedHead::Elsewhere);
  return true;
}

void Published::set_state(PublishedHead::State state) {
  if (!head_) return;
  store<uint32_t>(head_->state, state);
  set_bell(state == PublishedHead::Ready ? slot_->pid : 0);
}

// Those who ring say so first and then look whom; so when nobody is about to, who was rung before has its
// signal, and can do without its handler from here on (the end, execve). One that was killed in between is
// not waited for.
void Published::set_bell(uint32_t pid) {
  if (!slot_head_) return;
  store(slot_head_->bell, pid);
  const timespec pause{0, 100'000};
  constexpr int kMost = 200;
  for (int i = 0; i < kMost && __atomic_load_n(&slot_head_->callers, __ATOMIC_SEQ_CST); i++)
    nanosleep(&pause, nullptr);
}

int Published::owner() const {
  return slot_ ? static_cast<int>(slot_->pid) : 0;
}

LetterBox* Published::letters() {
  if (box_ || !slot_head_ || !__atomic_load_n(&slot_head_->letters, __ATOMIC_SEQ_CST)) return box_;
  RoomForFds room;
  Fd fd(recording::open_file(table_path(folder_), O_RDWR | O_CLOEXEC));
  if (fd) box_ = map_box(fd.get(), static_cast<uint64_t>(slot_ - table_));
  return box_;
}

void Published::end() {
  set_bell(0);
  if (!name_.empty()) recording::remove_file(path());
  if (!slot_) return;
  set_state(PublishedHead::Loading);
  store<uint32_t>(slot_->pid, 0);
  const bool last =
      std::all_of(table_, table_ + kSlots, [](const PublishedSlot& slot) { return slot.pid == 0; });
  if (last) recording::remove_file(table_path(folder_));
}

void Published::become_child() {
  forget();
  begin();
  tell_all();
  set_state(PublishedHead::Ready);
}

void Published::tell_all() {
  told_.clear();
  if (head_) rewrite_();
}

// Room for another place at the end of the file.
bool Published::add_place(Place& place, uint64_t bytes) {
  if (name_.empty()) return false;
  RoomForFds room;
  Fd fd(recording::open_file(path(), O_RDWR | O_CLOEXEC));
  bytes = (bytes + kPage - 1) & ~(kPage - 1);
  if (!fd || !allocate_within_limit(fd.get(), mapped_, bytes)) return false;
  void* p = mremap(head_, mapped_, mapped_ + bytes, MREMAP_MAYMOVE);
  if (p == MAP_FAILED) return false;
  head_ = static_cast<PublishedHead*>(p);
  place = {mapped_ / kPage, bytes};
  mapped_ += bytes;
  return true;
}

// The place is full. While everything is told anew that is the one that nobody reads: it is moved to where
// there is more room. Else the other one takes over, with room for much more than it holds then: writing it
// again and again would take long.
void Published::use_place(uint64_t bytes) {
  constexpr uint64_t kRoom = 8;
  auto enlarge = [&](uint64_t size) {
    Place next;
    if (!add_place(next, size)) return false;
    std::memcpy(base() + next.page * kPage, base() + places_[used_].page * kPage, length_);
    places_[used_] = next;
    return true;
  };
  if (rewriting_) {
    enlarge(2 * (length_ + bytes));
    return;
  }
  rewriting_ = true;
  store(head_->rewrites, head_->rewrites + 1);
  used_ ^= 1;
  length_ = 0;
  bool done = places_[used_].size || add_place(places_[used_], places_[used_ ^ 1].size);
  if (done) {
    tell_all();
    done = !overflow_ &&
           (kRoom * (length_ + bytes) <= 2 * places_[used_].size || enlarge(kRoom * (length_ + bytes)));
  }
  rewriting_ = false;
  if (!done && name_.empty() && move_out()) return;
  if (!done) return give_up();
  store(head_->where, where_word(places_[used_].page, length_));
  store(head_->rewrites, head_->rewrites + 1);
}

// No space on the disk, or no way to the file.
void Published::give_up() {
  store<uint32_t>(slot_head_->state, PublishedHead::Native);
  if (head_ != slot_head_) munmap(head_, mapped_);
  head_ = nullptr;
}

void Published::append(uint32_t kind, const void* fixed, size_t size, std::string_view text) {
  if (!head_) return;
  const uint64_t whole = sizeof(Record) + size + text.size(), bytes = aligned(whole);
  if (length_ + bytes > places_[used_].size) use_place(bytes);
  if (!head_ || length_ + bytes > places_[used_].size) {
    overflow_ = true;
    return;
  }
  char* at = base() + places_[used_].page * kPage + length_;
  const Record record{static_cast<uint32_t>(whole), kind};
  std::memcpy(at, &record, sizeof record);
  if (size) std::memcpy(at + sizeof record, fixed, size);
  if (!text.empty()) std::memcpy(at + sizeof record + size, text.data(), text.size());
  length_ += bytes;
  if (!rewriting_) store(head_->where, where_word(places_[used_].page, length_));
}

void Published::program(uint64_t number) {
  if (head_) store(head_->program, number);
}

void Published::signals(uint64_t ignored, uint64_t caught) {
  if (!head_) return;
  store(head_->ignored, ignored);
  store(head_->caught, caught);
}

void Published::our_fds(const int (&fds)[kOurFds]) {
  if (!head_) return;
  for (unsigned i = 0; i < kOurFds; i++) store(head_->our_fds[i], static_cast<int32_t>(fds[i]));
}

void Published::limits(const guest::Limits& limits) {
  if (head_) head_->limits = limits;
}

void Published::first_stack(uint64_t bytes) {
  if (head_) store(head_->first_stack, bytes);
}

void Published::vforked(size_t depth, int pid) {
  if (!head_ || depth >= PublishedHead::kVforks) return;
  store(head_->vforked[depth], static_cast<uint32_t>(pid));
  set_bell(pid ? static_cast<uint32_t>(pid) : depth ? head_->vforked[depth - 1] : slot_->pid);
}

void Published::thread(const Shown::Thread& thread) {
  if (!head_) return;
  auto [it, fresh] = told_.try_emplace(thread.tid, thread);
  if (!fresh && it->second.told_alike(thread)) return;
  it->second = thread;
  const ThreadRecord record{thread.blocked, thread.filters, thread.tid, 0};
  append(kThread, &record, sizeof record);
}

uint32_t* Published::thread_word(int tid) {
  if (!slot_head_ || !head_) return nullptr;
  PublishedHead::ThreadState* free = nullptr;
  for (auto& state : slot_head_->states) {
    if (state.tid == tid) return &state.waits;
    if (state.tid == 0 && !free) free = &state;
  }
  if (!free) return nullptr;
  store<uint32_t>(free->waits, 0);
  store<int32_t>(free->tid, tid);
  return &free->waits;
}

void Published::thread_ended(int tid) {
  if (slot_head_)
    for (auto& state : slot_head_->states)
      if (state.tid == tid) store<int32_t>(state.tid, 0);
  if (!told_.erase(tid)) return;
  append(kThreadEnded, &tid, sizeof tid);
}

void Published::exe(const std::string& path) {
  append(kExe, nullptr, 0, path);
}

void Published::exe_file(const std::pair<uint64_t, uint64_t>& file) {
  if (!slot_head_) return;
  store(slot_head_->exe_file[0], file.first);
  store(slot_head_->exe_file[1], file.second);
}

void Published::auxv(const std::vector<uint64_t>& words) {
  append(kAuxv, words.data(), words.size() * sizeof(uint64_t));
}

void Published::layout(const guest::ProgramLayout& layout) {
  append(kLayout, &layout, sizeof layout);
}

void Published::argv(const std::string& words) {
  append(kArgv, nullptr, 0, words);
}

void Published::on_add(const Region& r) {
  const AddRecord record{r.start, r.end, r.offset, r.dev, r.inode, r.prot, r.flags};
  append(kAdd, &record, sizeof record, r.name);
}

void Published::on_remove(uint64_t start, uint64_t end) {
  const RangeRecord record{start, end, 0};
  append(kRemove, &record, sizeof record);
}

void Published::on_protect(uint64_t start, uint64_t end, int prot) {
  const RangeRecord record{start, end, static_cast<uint64_t>(prot)};
  append(kProtect, &record, sizeof record);
}

// --- reading ---

const Shown::Thread* Shown::thread(int tid) const {
  for (const Thread& t : threads)
    if (t.tid == (tid ? tid : pid)) return &t;
  return tid || threads.empty() ? nullptr : &threads.front();
}

namespace {

// Reads without mapping: the file may get shorter at any time (a new program).
bool read_at(int fd, void* to, size_t size, uint64_t offset) {
  return pread(fd, to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

template <class T>
bool take(std::string_view bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  return true;
}

void apply(uint32_t kind, std::string_view bytes, Shown& shown) {
  switch (kind) {
    case kAdd: {
      AddRecord r{};
      if (!take(bytes, r)) return;
      shown.copy->add(
          {r.start, r.end, r.prot, r.flags, r.offset, std::string(bytes.substr(sizeof r)), r.dev, r.inode});
      return;
    }
    case kRemove:
    case kProtect: {
      RangeRecord r{};
      if (!take(bytes, r)) return;
      if (kind == kRemove)
        shown.copy->remove(r.start, r.end);
      else
        shown.copy->protect(r.start, r.end, static_cast<int>(r.prot));
      return;
    }
    case kThread: {
      ThreadRecord r{};
      if (!take(bytes, r)) return;
      const Shown::Thread t{r.tid, r.blocked, r.filters, 0, {}};
      auto it = std::find_if(shown.threads.begin(), shown.threads.end(),
                             [&](const Shown::Thread& other) { return other.tid == t.tid; });
      if (it == shown.threads.end())
        shown.threads.push_back(t);
      else
        *it = t;
      return;
    }
    case kThreadEnded: {
      int tid = 0;
      if (take(bytes, tid))
        std::erase_if(shown.threads, [&](const Shown::Thread& t) { return t.tid == tid; });
      return;
    }
    case kExe:
      shown.exe = bytes;
      return;
    case kAuxv:
      shown.auxv.resize(bytes.size() / sizeof(uint64_t));
      std::memcpy(shown.auxv.data(), bytes.data(), shown.auxv.size() * sizeof(uint64_t));
      return;
    case kLayout:
      take(bytes, shown.layout);
      return;
    case kArgv:
      shown.argv = bytes;
      return;
    default:
      return;
  }
}

struct Reading {
  PublishedHead head{};
  std::string records;
};

PublishedHead head_of(int fd, uint64_t base) {
  PublishedHead head{};
  if (!read_at(fd, &head, sizeof head, base) || head.version != kVersion) head.state = PublishedHead::Loading;
  return head;
}

// Head and records of one moment; Loading if there is none.
Reading read_all(int fd, uint64_t base, bool records) {
  for (int tries = 0; tries < 100; tries++) {
    Reading r;
    const uint64_t rewrites = head_of(fd, base).rewrites;
    r.head = head_of(fd, base);
    if (r.head.state != PublishedHead::Ready || !records) return r;
    r.records.resize(r.head.where & 0xffff'ffff);
    const bool complete =
        read_at(fd, r.records.data(), r.records.size(), base + (r.head.where >> 32) * kPage);
    // The records have only grown since, or have moved to the other place once: then these are still there.
    const PublishedHead after = head_of(fd, base);
    const uint64_t safe = rewrites % 2 ? rewrites + 1 : rewrites + 2;
    if (complete && after.state == PublishedHead::Ready && after.rewrites <= safe) return r;
  }
  return {};
}

// What the process with this pid and start has published; nullopt: it has no slot.
std::optional<Reading> find_slot(const std::string& folder, uint32_t pid, uint64_t started, bool records) {
  Fd fd(recording::open_file(table_path(folder), O_RDONLY | O_CLOEXEC));
  std::vector<PublishedSlot> table(kSlots);
  if (!fd || !read_at(fd.get(), table.data(), kTable, 0)) return std::nullopt;
  auto slot = std::find_if(table.begin(), table.end(),
                           [&](const PublishedSlot& s) { return s.pid == pid && s.started == started; });
  if (slot == table.end()) return std::nullopt;
  Reading all = read_all(fd.get(), slot_offset(static_cast<uint64_t>(slot - table.begin())), records);
  if (all.head.state != PublishedHead::Elsewhere) return all;
  Fd own(recording::open_file(folder + "/" + name_of(static_cast<int>(pid), started), O_RDONLY | O_CLOEXEC));
  Reading moved = own ? read_all(own.get(), 0, records) : Reading{};
  std::copy(std::begin(all.head.states), std::end(all.head.states), moved.head.states);
  return moved;
}

Shown shown_from(const Reading& from, int pid) {
  Shown shown;
  shown.pid = pid;
  shown.folder = fmt::format("/proc/{}", pid);
  shown.copy = std::make_shared<MemoryMap>();
  shown.map = shown.copy.get();
  shown.ignored = from.head.ignored;
  shown.caught = from.head.caught;
  shown.limits = from.head.limits;
  shown.first_stack = from.head.first_stack;
  shown.program = from.head.program;
  for (int fd : from.head.our_fds)
    if (fd >= 0) shown.our_fds.push_back(fd);
  std::string_view rest = from.records;
  for (Record record{}; take(rest, record) && record.size >= sizeof record && record.size <= rest.size();) {
    apply(record.kind, rest.substr(sizeof record, record.size - sizeof record), shown);
    rest.remove_prefix(std::min<size_t>(aligned(record.size), rest.size()));
  }
  for (Shown::Thread& thread : shown.threads)
    for (const auto& state : from.head.states)
      if (state.tid == thread.tid) thread.state = state.waits ? 'S' : 'R';
  return shown;
}

// A child of vfork has nothing of its own: it runs in the memory of its parent, or of its parent's parent.
std::optional<Shown> shown_by_parent(const std::string& folder, int pid, uint32_t parent, bool records) {
  for (unsigned depth = 0; depth < PublishedHead::kVforks && parent > 1; depth++) {
    const Life life = life_of(parent);
    if (const auto all = find_slot(folder, parent, life.started, records)) {
      const auto& children = all->head.vforked;
      if (all->head.state != PublishedHead::Ready ||
          std::find(std::begin(children), std::end(children), static_cast<uint32_t>(pid)) ==
              std::end(children))
        return std::nullopt;
      Shown shown = shown_from(*all, pid);
      Shown::Thread only = shown.threads.empty() ? Shown::Thread{} : shown.threads.front();
      only.tid = pid;
      only.state = 0;
      shown.threads = {only};
      return shown;
    }
    parent = life.parent;
  }
  return std::nullopt;
}

enum class Runs { Us, Another, NotKnown };
Runs what_runs(int pid) {
  struct stat ours {
  }, other{};
  if (::stat("/proc/self/exe", &ours) != 0) return Runs::NotKnown;
  if (::stat(fmt::format("/proc/{}/exe", pid).c_str(), &other) != 0)
    return errno == EACCES || errno == EPERM ? Runs::NotKnown : Runs::Another;
  return ours.st_dev == other.st_dev && ours.st_ino == other.st_ino ? Runs::Us : Runs::Another;
}

// Whoever was killed could not put the kernel's books in order before its end (leave_real_state).
std::optional<Shown> killed(const std::string& folder, int pid) {
  const Life life = life_of(static_cast<uint32_t>(pid));
  if (life.state != 'Z') return std::nullopt;
  const auto all = find_slot(folder, static_cast<uint32_t>(pid), life.started, true);
  if (!all || all->head.state != PublishedHead::Ready) return std::nullopt;
  Shown shown = shown_from(*all, pid);
  shown.ended = true;
  return shown;
}

}  // namespace

bool is_recorded(int pid) {
  return what_runs(pid) == Runs::Us;
}

int process_of(int tid) {
  std::ifstream in(fmt::format("/proc/{}/status", tid));
  for (std::string line; std::getline(in, line);)
    if (int pid; std::sscanf(line.c_str(), "Tgid: %d", &pid) == 1) return pid;
  return 0;
}

std::optional<Shown> published_by(const recording::Recording& recording, int pid, bool records) {
  constexpr int kTries = 300;
  const timespec pause{0, 1'000'000};
  static std::set<std::pair<int, uint64_t>> strangers;  // waited for in vain: of other recordings, replays
  for (int i = 0; i < kTries; i++) {
    const Runs runs = what_runs(pid);
    if (runs == Runs::Another) return killed(recording.dir(), pid);
    const Life life = life_of(static_cast<uint32_t>(pid));
    if (const auto all = find_slot(recording.base(), static_cast<uint32_t>(pid), life.started, records)) {
      if (all->head.state == PublishedHead::Ready) return shown_from(*all, pid);
      if (all->head.state == PublishedHead::Native) return std::nullopt;
    } else if (auto shown = shown_by_parent(recording.base(), pid, life.parent, records)) {
      return shown;
    }
    if (runs == Runs::NotKnown || strangers.count({pid, life.started})) return std::nullopt;
    if (i + 1 == kTries) strangers.insert({pid, life.started});
    nanosleep(&pause, nullptr);
  }
  return std::nullopt;
}

bool is_executed(const std::string& folder, const std::pair<uint64_t, uint64_t>& file) {
  Fd fd(recording::open_file(table_path(folder), O_RDONLY | O_CLOEXEC));
  std::vector<PublishedSlot> table(kSlots);
  if (!fd || !read_at(fd.get(), table.data(), kTable, 0)) return false;
  for (size_t i = 0; i < kSlots; i++) {
    const PublishedSlot& slot = table[i];
    if (!slot.pid || !slot.started) continue;
    const PublishedHead head = head_of(fd.get(), slot_offset(i));
    if (head.exe_file[0] == file.first && head.exe_file[1] == file.second &&
        head.state != PublishedHead::Loading && !is_dead(slot.pid, slot.started))
      return true;
  }
  return false;
}

std::vector<int> published_pids(const std::string& folder) {
  Fd fd(open(table_path(folder).c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<PublishedSlot> table(kSlots);
  std::vector<int> pids;
  if (!fd || !read_at(fd.get(), table.data(), kTable, 0)) return pids;
  for (const PublishedSlot& slot : table)
    if (slot.pid && !is_dead(slot.pid, slot.started)) pids.push_back(static_cast<int>(slot.pid));
  return pids;
}

void unpublish(const std::string& folder) {
  Published file(folder, [] {});
  file.begin();
  file.end();
}

void clean_published(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    uint32_t pid = 0;
    uint64_t started = 0;
    if (name.starts_with(kPrefix) &&
        std::sscanf(name.c_str() + kPrefix.size(), "%u-%lu", &pid, &started) == 2 && is_dead(pid, started))
      unlink(entry.path().c_str());
  }
  Fd fd(recording::open_file(table_path(folder), O_RDONLY | O_CLOEXEC));
  std::vector<PublishedSlot> table(kSlots);
  if (!fd || !read_at(fd.get(), table.data(), kTable, 0)) return;
  const bool used = std::any_of(table.begin(), table.end(), [](const PublishedSlot& slot) {
    return slot.pid && slot.pid != static_cast<uint32_t>(getpid()) && !is_dead(slot.pid, slot.started);
  });
  if (!used) unlink(table_path(folder).c_str());
}

}  // namespace backstep::recorder
