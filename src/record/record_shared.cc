// Shared memory of the guest: which pages it may touch, and what is logged when it gets them
// (shared_memory.h).
#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/room_for_fds.h"
#include "guest/buffers.h"
#include "record/deadlines.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;
using recording::EventKind;

namespace {

using layout::kPage;
using layout::page_up;

using Hold = SharedObject::Hold;

// How long the guest keeps a page at least, so that it can do something with it: handing it on takes about as
// long. That is counted from the moment at which the guest goes on: between getting the page and that there
// is work of ours, and the kernel may run somebody else; if others could have the page by then, the guest
// would come no further than the instruction that wants it, again and again. Before the guest goes on it is
// kept for longer, but not for ever. Nobody needs to wait for either when we wait ourselves.
constexpr int64_t kHold = 50'000;
constexpr int64_t kHoldUntilGuest = 10'000'000;

int real_prot(int prot, Hold hold) {
  const int all = (prot & (PROT_READ | PROT_WRITE)) | (prot & PROT_EXEC ? PROT_READ : 0);
  return hold == Hold::None ? PROT_NONE : hold == Hold::Read && (all & PROT_WRITE) ? PROT_READ : all;
}

}  // namespace

SharedObject* Recorder::shared_object(const Region& r) {
  if (!(r.flags & MAP_SHARED) || r.inode == 0) return nullptr;
  auto it = objects_.find({r.dev, r.inode});
  return it == objects_.end() ? nullptr : it->second.get();
}

std::string Recorder::control_path(uint64_t dev, uint64_t inode) const {
  return recording_.base() + "/" + control_name(dev, inode);
}

// Before a shared mapping `r` of `fd` is logged, with the contents that it has: from here on we hear of
// everybody who opens the file, so what is not in those contents comes from who has it open already, or from
// recorded processes, which take part. False: the memory cannot be kept exact (noted).
bool Recorder::attach(const Region& r, int fd, void* alias) {
  const uint64_t bytes = r.offset + (r.end - r.start);
  RoomForFds room;
  if (auto it = objects_.find({r.dev, r.inode}); it != objects_.end() && it->second->only_written) {
    let_go(*it->second);
    objects_.erase(it);
  }
  auto& object = objects_[{r.dev, r.inode}];
  try {
    if (object) {
      object->extend(fd, r.offset, bytes);
      object->forget_all();  // replay maps the file as it is now, not as we knew it
      return true;
    }
    windows_of_ = nullptr;
    object = std::make_unique<SharedObject>(recording_.base(), control_name(r.dev, r.inode), fd, r.offset,
                                            bytes, alias);
    object->file = {r.dev, r.inode};
  } catch (const Error& e) {
    objects_.erase({r.dev, r.inode});
    note_once(fmt::format("{}; what other processes change in {} is not recorded", e.what(), r.name));
    return false;
  }
  bool bell = r.flags & MAP_ANONYMOUS;  // only children can have it, and we know of those
  if (!bell) {
    tree_.count_shared_file();
    bell = watch_opens(*object, fd);
  }
  if (is_foreign() && (!object->alone() || !bell)) open_to_foreigners(*object);
  hang_bells();
  return true;
}

// Processes that cannot ask each other for pages have it.
void Recorder::open_to_foreigners(SharedObject& object) {
  note_once(
      "memory is shared between processes of different PID namespaces: each access to it was made "
      "alone, which is slow");
  object.set_open();
  if (!object.has_view()) open_object(object);
}

// … after it was logged. `outsiders`: others may have it already.
void Recorder::share(const Region& r, bool outsiders) {
  SharedObject* object = shared_object(r);
  if (!object) return;
  if (outsiders && !object->is_open() &&
      (r.dev == kSegments ? outsider_has_segment(static_cast<int>(r.inode) - 1)
                          : outsider_has(r.dev, r.inode)))
    let_outsiders_in(*object);
  // Who had it open and has closed it just now may have written what is not in the log: that was told, too.
  if (!object->is_open() &&
      std::any_of(watches_.begin(), watches_.end(), [](const auto& watch) { return watch.second.fresh; }))
    look_for_outsiders();
  if (object->is_open()) {
    if (object->has_view())
      show_view(*object);
    else
      open_object(*object);
  } else if (!object->alone()) {
    start_sharing();
    protect_shared(*object, r.start, r.end);
  }
}

// From here on pages have owners, and requests for them must be served while the guest waits in the kernel:
// that is what bodies are for.
void Recorder::start_sharing() {
  bs_record.sharing = true;
  start_threads();
}

// Changes the real rights to a part of a mapping.
bool Recorder::protect(SharedObject& object, uint64_t at, uint64_t size, int prot) {
  bool done = false;
  change_mappings(object, [&] { done = mprotect(reinterpret_cast<void*>(at), size, prot) == 0; });
  return done;
}

// Takes the rights away, except to what is held.
void Recorder::protect_shared(SharedObject& object, uint64_t start, uint64_t end) {
  process_.map.for_each([&](const Region& r) {
    if (shared_object(r) != &object || r.end <= start || r.start >= end) return;
    process_.engine().forget(r.start, r.end);
    process_.forget_aliases(r.start, r.end);
    protect(object, r.start, r.end - r.start, PROT_NONE);
    for (uint64_t page : object.held_pages()) {
      const uint64_t offset = page * kPage;
      if (offset < r.offset || offset - r.offset >= r.end - r.start) continue;
      protect(object, r.start + (offset - r.offset), kPage, real_prot(r.prot, object.hold(page)));
    }
  });
}

// The guest's mappings of an object. Looking through all of them for each page would take longer than the
// rest.
const std::vector<Recorder::Window>& Recorder::windows(SharedObject& object) {
  if (windows_version_ != process_.map.version() || windows_of_ != &object) {
    windows_.clear();
    process_.map.for_each([&](const Region& r) {
      if (shared_object(r) == &object) windows_.push_back({r.start, r.end, r.offset, r.prot});
    });
    windows_version_ = process_.map.version();
    windows_of_ = &object;
  }
  return windows_;
}

// A page that changes hands often gets a mapping of its own in the kernel's books, by another access advice
// than its neighbours have: splitting and joining mappings is most of the cost of mprotect.
void Recorder::keep_apart(SharedObject& object, uint64_t page, uint64_t at) {
  constexpr uint64_t kMost = 8192;
  if (object.set_apart(page, kMost))
    change_mappings(object, [&] {
      madvise(reinterpret_cast<void*>(at), kPage, page % 2 ? MADV_RANDOM : MADV_SEQUENTIAL);
    });
}

// Makes the guest's rights to a page those that it holds.
void Recorder::set_page_rights(SharedObject& object, uint64_t page) {
  const Hold hold = object.hold(page);
  for (const Window& w : windows(object)) {
    const uint64_t offset = page * kPage;
    if (offset < w.offset || offset - w.offset >= w.end - w.start) continue;
    const uint64_t at = w.start + (offset - w.offset);
    if (w.prot & PROT_EXEC) process_.engine().forget(at, at + kPage);
    process_.forget_aliases(at, at + kPage);
    if (hold == Hold::None) keep_apart(object, page, at);
    if (protect(object, at, kPage, real_prot(w.prot, hold))) continue;
    // The kernel allows no more mappings (vm.max_map_count): begin anew, with nothing.
    for (const Window& all : windows(object)) protect(object, all.start, all.end - all.start, PROT_NONE);
    object.release_all();
    return;
  }
}

// After the guest changed its mappings: rights that the kernel gave are taken away again.
void Recorder::check_shared(uint64_t start, uint64_t end) {
  if (!bs_record.sharing) return;
  for (auto& [key, object] : objects_)
    if (!object->alone()) protect_shared(*object, start, end);
}

// Objects that the guest has no mapping of any more: ours must not keep them alive (or unsealed).
void Recorder::drop_unmapped() {
  std::erase_if(objects_, [&](auto& entry) {
    bool mapped = false;
    process_.map.for_each([&](const Region& r) { mapped |= shared_object(r) == entry.second.get(); });
    if (!mapped) let_go(*entry.second);
    return !mapped;
  });
}

void Recorder::let_go(SharedObject& object) {
  windows_of_ = nullptr;
  for (auto* pages : {&requests_, &fresh_})
    std::erase_if(*pages, [&](auto& entry) { return entry.first == &object; });
  std::erase_if(watches_, [&](auto& watch) {
    if (watch.second.object != &object) return false;
    inotify_rm_watch(bs_record.our_fds[kQueueFd], watch.first);
    return true;
  });
  object.detach();
}

// True: others have changed it. Nullopt: the object was opened while we waited; nobody owns its pages any
// more.
std::optional<bool> Recorder::get_page(SharedObject& object, uint64_t page, Hold wanted) {
  begin_holds();
  const bool changed = object.acquire(page, wanted, [this] { serve_shared(); });
  object.keep_until(page, monotonic_ns() + kHold);
  if (object.has_view()) {
    object.release_all();
    return std::nullopt;
  }
  if (object.hold(page) < wanted) {
    open_object(object);
    return std::nullopt;
  }
  return changed;
}

// Gets the page at `addr` for the guest. `in_call`: for the system call under way, else for the instruction
// at rip. False: not a shared page, or it is accessible already.
bool Recorder::own_page(uint64_t addr, Hold wanted, bool in_call) {
  const Region* r = process_.map.find(addr);
  SharedObject* object = r ? shared_object(*r) : nullptr;
  if (!object || object->alone() || object->has_view()) return false;
  if (wanted == Hold::Write && !(r->prot & PROT_WRITE)) wanted = Hold::Read;
  const uint64_t at = addr & ~(kPage - 1), page = (r->offset + (at - r->start)) / kPage;
  if (object->hold(page) >= wanted) return false;
  if (!in_call && own_alone(*object)) return true;
  const std::optional<bool> changed = get_page(*object, page, wanted);
  if (!changed) return true;
  if (log_existence(*object, page, in_call) && *changed)
    log_shared(at, object->contents(page), object->before(), in_call);
  set_page_rights(*object, page);
  if (!in_call) {
    object->keep_until(page, monotonic_ns() + kHoldUntilGuest);
    fresh_.emplace_back(object, page);
  }
  if (object->contested(page)) {
    requests_.emplace_back(object, page);
    serve_shared_at(object->kept_until(page));
  }
  return true;
}

// The guest goes on, or we wait for something: what it got since it stopped is kept for a moment from here.
void Recorder::begin_holds() {
  if (fresh_.empty()) return;
  const int64_t until = monotonic_ns() + kHold;
  bool contested = false;
  for (auto [object, page] : fresh_) {
    object->keep_until(page, until);
    contested |= object->contested(page);
  }
  fresh_.clear();
  if (contested) serve_shared_at(until);
}

// The pages from `first` to `last` hold code that is about to be translated. What is not there for us is got,
// if that does not mean to wait for an outsider: then its instructions are executed one by one (access_open).
bool Recorder::own_code(uint64_t first, uint64_t last) {
  if (!bs_record.sharing) return true;
  // What can be written is write-protected while translations of it are in use, and the right to write is
  // given back by those who see to that: so it must be ours.
  auto wanted = [](const Region& r) { return r.prot & PROT_WRITE ? Hold::Write : Hold::Read; };
  auto is_there = [&](uint64_t at) {
    const Region* r = process_.map.find(at);
    SharedObject* object = r ? shared_object(*r) : nullptr;
    if (!object || object->alone()) return true;
    if (object->has_view())
      return std::any_of(opened_.begin(), opened_.end(), [&](const OpenPage& o) { return o.at == at; });
    const uint64_t page = (r->offset + (at - r->start)) / kPage;
    return object->hold(page) >= wanted(*r) && object->exists(page);
  };
  // To get one others may be given away.
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; i++) {
    bool all = true;
    for (uint64_t at = first; at <= last; at += kPage) {
      if (is_there(at)) continue;
      const Region* r = process_.map.find(at);
      if (!own_page(at, r ? wanted(*r) : Hold::Read, false)) return false;
      all = false;
    }
    if (all) return true;
  }
  return false;
}

// If nobody else is left, all pages are ours again. Not while a repeated string instruction is half done: a
// replay would be there when it faults on a page, and not all of these are its.
bool Recorder::own_alone(SharedObject& object) {
  if (process_.engine().is_half_done()) return false;
  constexpr size_t kMost = 1024;           // pages that are logged for it
  constexpr int64_t kPause = 100'000'000;  // until it is tried again: all pages must be looked at
  if (object.others() || !requests_.empty() || monotonic_ns() < alone_again_ns_) return false;
  alone_again_ns_ = monotonic_ns() + kPause;
  std::vector<std::pair<uint64_t, uint64_t>> changed;  // address, page
  for (uint64_t page : object.stale(kMost + 1)) {
    auto at = address_of(object, page);
    if (!at) return false;  // a mapping that comes later would show what was not logged
    if (object.exists(page)) changed.emplace_back(*at, page);
  }
  if (changed.size() > kMost || !object.return_alone()) return false;
  if (auto size = shared_.find(object.file); size != shared_.end())
    if (const uint64_t pages = object.existing_pages();
        pages < object.pages() || pages * kPage > page_up(size->second))
      log_resize(object, pages, false);
  for (auto [at, page] : changed) log_shared(at, object.contents(page), nullptr, false);
  process_.map.for_each([&](const Region& r) {
    if (shared_object(r) != &object) return;
    process_.engine().forget(r.start, r.end);
    process_.forget_aliases(r.start, r.end);
    protect(object, r.start, r.end - r.start, real_prot(r.prot, Hold::Write));
  });
  return true;
}

std::optional<uint64_t> Recorder::address_of(SharedObject& object, uint64_t page) {
  const uint64_t offset = page * kPage;
  for (const Window& w : windows(object))
    if (offset >= w.offset && offset - w.offset < w.end - w.start) return w.start + (offset - w.offset);
  return std::nullopt;
}

// … for writing, wherever and whether the guest has it mapped.
void Recorder::own_object_page(SharedObject& object, uint64_t page) {
  if (object.has_view()) return;
  const std::optional<uint64_t> at = address_of(object, page);
  const std::optional<bool> changed = get_page(object, page, Hold::Write);
  if (!changed) return;
  if (!at) {
    if (*changed) object.forget(page);
  } else if (log_existence(object, page, true) && *changed) {
    log_shared(*at, object.contents(page), object.before(), true);
  }
  if (at) set_page_rights(object, page);
}

// Files become longer and shorter by what other processes do. What a replay must have is as many pages as
// there were when the program came to one that it did not know of, or that had gone: that is found here, and
// logged in front of what the access brings. False: the page is not there, and the access ends with SIGBUS.
bool Recorder::log_existence(SharedObject& object, uint64_t page, bool in_call) {
  const bool there = object.exists(page);
  auto size = shared_.find(object.file);
  if (size == shared_.end() || there == (page * kPage < size->second)) return there;
  log_resize(object, there ? page + 1 : page, in_call);
  return there;
}

void Recorder::log_resize(SharedObject& object, uint64_t pages, bool in_call) {
  uint64_t& known = shared_[object.file];
  if (pages == page_up(known) / kPage) return;
  if (pages * kPage < known) object.forget_from(pages);
  known = pages * kPage;
  log_.reserve(256);
  recording::Appender& log = log_.appender();
  if (!log.chunk) return;
  uint8_t* at =
      log.begin(EventKind::Resize, recording::kAsynchronous | (in_call ? recording::kInCall : 0), 0);
  at = log.put_place(at, context().tick, context().rip - (in_call ? 2 : 0));
  for (uint64_t v : {object.file.first, object.file.second, known}) at = recording::put_varint(at, v);
  log.commit(at);
}

// What changed in the page since this process had it; `before` null: that is not known.
void Recorder::log_shared(uint64_t addr, const unsigned char* contents, const SharedObject::Page* before,
                          bool in_call) {
  log_.reserve(2 * kPage + 256);
  recording::Appender& log = log_.appender();
  if (!log.chunk) return;
  static const SharedObject::Page zeroes{};
  const uint8_t flags =
      recording::kAsynchronous | (in_call ? recording::kInCall : 0) | (before ? 0 : recording::kFromZero);
  uint8_t* at = log.begin(EventKind::Shared, flags, 0, {0, next_order()});
  at = log.put_place(at, context().tick, context().rip - (in_call ? 2 : 0));
  at = recording::put_u32(at, register_digest(context()));
  at = recording::put_varint(at, addr);
  at = recording::put_runs(at, before ? before->data() : zeroes.data(), contents, kPage);
  log.commit(at);
}

void Recorder::own_range(uint64_t addr, uint64_t size, Hold wanted) {
  if (size == 0 || !bs_record.sharing) return;
  for (const Region* r = process_.map.next(addr); r && r->start < addr + size;
       r = process_.map.next(r->end)) {
    SharedObject* object = shared_object(*r);
    if (!object) continue;
    const uint64_t end = std::min(r->end, addr + size);
    for (uint64_t at = std::max(r->start, addr) & ~(kPage - 1); at < end && !object->has_view(); at += kPage)
      own_page(at, wanted, true);
    if (object->has_view()) open_range(*object, *r, std::max(r->start, addr), end);
  }
}

// What a call may read or write.
void Recorder::own_arguments(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  uint64_t most = kPage;
  for (int i = 0; i < row.argc; i++)
    if (row.args[i].kind == Arg::Size || row.args[i].kind == Arg::Uint) most = std::max(most, args[i]);
  most = std::min<uint64_t>(most, 1 << 30);
  auto reads = [&](uint64_t a, uint64_t n) { own_range(a, n, Hold::Read); };
  auto writes = [&](uint64_t a, uint64_t n) { own_range(a, n, Hold::Write); };
  for (int i = 0; i < row.argc; i++) {
    if (is_scalar(row.args[i].kind) || !args[i]) continue;
    const ArgSpec spec = arg_spec(nr, args, i);
    if (is_scalar(spec.kind) || spec.kind == Arg::Address) continue;
    switch (spec.kind) {
      case Arg::IovIn:
      case Arg::IovOut:
        reads(args[i], std::min<uint64_t>(args[spec.n], 1024) * sizeof(Iovec));
        if (spec.kind == Arg::IovIn)
          for_each_iovec(args[i], std::min<uint64_t>(args[spec.n], 1024), ~0ull >> 1, reads);
        else
          for_each_iovec(args[i], std::min<uint64_t>(args[spec.n], 1024), ~0ull >> 1, writes);
        break;
      case Arg::MsgIn:
        reads(args[i], sizeof(Msghdr));
        for_each_message_part(args[i], ~0ull >> 1, reads);
        break;
      case Arg::MsgOut:
        writes(args[i], sizeof(Msghdr));
        for_each_message_part(args[i], ~0ull >> 1, writes);
        break;
      case Arg::MmsgIn:
      case Arg::MmsgOut: {
        const uint64_t count = std::min<uint64_t>(args[spec.n], 1024);
        writes(args[i], count * kMmsgSize);
        for (uint64_t k = 0; k < count; k++)
          if (spec.kind == Arg::MmsgIn)
            for_each_message_part(args[i] + k * kMmsgSize, ~0ull >> 1, reads);
          else
            for_each_message_part(args[i] + k * kMmsgSize, ~0ull >> 1, writes);
        break;
      }
      case Arg::Path:
      case Arg::Str:
        reads(args[i], 1);
        break;
      case Arg::In:
        reads(args[i], most);
        break;
      default:
        writes(args[i], most);
        break;
    }
  }
}

// Looks at requests again at that time, wherever the guest is then.
void Recorder::serve_shared_at(int64_t when) {
  bs_record.share_request = true;
  itimerspec soon{{0, 0}, {when / kSecond, when % kSecond}};
  syscall(SYS_timer_settime, timer_, TIMER_ABSTIME, &soon, nullptr);
  armed_ = 0;
}

// Somebody asked for pages of ours, or to share an object that we have alone.
void Recorder::serve_shared() {
  if (!bs_record.share_request) return;
  bs_record.share_request = false;
  for (auto& [key, object] : objects_) {
    if (object->must_leave_alone() && is_foreign()) {
      open_to_foreigners(*object);
    } else if (object->must_leave_alone()) {
      start_sharing();
      object->leave_alone();
      protect_shared(*object, 0, ~0ull);
    }
    for (uint64_t page : object->asked()) requests_.emplace_back(object.get(), page);
    if (object->is_open() && !object->has_view()) open_object(*object);
    stop_asked_ |= object->is_stopping();
  }
  hang_bells();
  grant_requests(monotonic_ns());
}

// Gives back what others want and what was held for long enough at the time `now`.
void Recorder::grant_requests(int64_t now) {
  int64_t next = kNever;
  std::erase_if(requests_, [&](auto& request) {
    SharedObject* object = request.first;
    const uint64_t page = request.second;
    const Hold to = object->leaves(page);
    if (object->hold(page) > to && now < object->kept_until(page)) {
      next = std::min(next, object->kept_until(page));
      return false;
    }
    const Hold before = object->hold(page);
    if (to < before) {
      // First the rights, then the page.
      object->lower(page, to, [&] { set_page_rights(*object, page); });
    } else if (before == Hold::None) {
      object->lower(page, to, [] {});
    }
    return true;
  });
  if (next != kNever) serve_shared_at(next);
}

// Around a wait in the kernel: who waits is not asked for its pages, they are taken.
void Recorder::fall_asleep() {
  if (!bs_record.sharing) return;
  for (auto& [key, object] : objects_)
    for (uint64_t page : object->asked()) requests_.emplace_back(object.get(), page);
  grant_requests(kNever);
  for (auto& [key, object] : objects_) object->fall_asleep();
}

void Recorder::wake_up() {
  if (!bs_record.sharing) return;
  for (auto& [key, object] : objects_)
    for (uint64_t page : object->awake()) {
      set_page_rights(*object, page);
      requests_.emplace_back(object.get(), page);
    }
  for (auto& [key, object] : objects_)
    if (object->is_open() && !object->has_view()) open_object(*object);
  if (!requests_.empty()) bs_record.share_request = true;
  hang_bells();
}

// Before we are stopped: then nobody is there to be asked for anything.
void Recorder::fall_asleep_for_stop() {
  for (auto& [key, object] : objects_) {
    if (!object->alone()) continue;
    start_sharing();
    object->leave_alone();
    protect_shared(*object, 0, ~0ull);
  }
  fall_asleep();
}

void Recorder::serve_stop() {
  stop_asked_ = false;
  if (vfork_) return;
  fall_asleep_for_stop();
  for (auto& [key, object] : objects_) object->expect_stop();
  for (auto& [key, object] : objects_) object->await_stop();
  // The signal has been sent. Who returns from the kernel has taken it.
  usleep(1000);
  wake_up();
}

// fork: both sides get the pages that they need one by one.
void Recorder::share_with_child(bool foreign_child) {
  for (auto& [key, object] : objects_) {
    if (foreign_child && !object->has_view()) open_to_foreigners(*object);
    object->release_all();
    object->leave_alone();
    object->attach_child();
    start_sharing();
    protect_shared(*object, 0, ~0ull);
  }
}

void Recorder::leave_shared() {
  if (vfork_) return;
  requests_.clear();
  fresh_.clear();
  for (auto& [key, object] : objects_) object->detach();
}

}  // namespace backstep::recorder
