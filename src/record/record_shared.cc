// Shared memory of the guest: which pages it may touch, and what is logged when it gets them
// (shared_memory.h).
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "guest/buffers.h"
#include "record/recorder.h"

namespace backstep::recorder {

using namespace guest;
using recording::EventKind;

namespace {

constexpr uint64_t kPage = layout::kPage;

int real_prot(int prot) {
  return (prot & (PROT_READ | PROT_WRITE)) | (prot & PROT_EXEC ? PROT_READ : 0);
}

}  // namespace

SharedObject* Recorder::shared_object(const Region& r) {
  if (!(r.flags & MAP_SHARED) || r.inode == 0) return nullptr;
  auto it = objects_.find({r.dev, r.inode});
  return it == objects_.end() ? nullptr : it->second.get();
}

// A new shared mapping `r` of `fd`, which is in place.
void Recorder::share(const Region& r, int fd) {
  if (detached_) return;
  const uint64_t bytes = r.offset + (r.end - r.start);
  auto& object = objects_[{r.dev, r.inode}];
  try {
    if (object) {
      object->extend(fd, bytes);
    } else {
      object = std::make_unique<SharedObject>(
          fmt::format("{}/shared-{:x}-{:x}", recording_.dir(), r.dev, r.inode), fd, bytes);
    }
  } catch (const Error& e) {
    objects_.erase({r.dev, r.inode});
    note_once(fmt::format("{}; what other processes change in {} is not recorded", e.what(), r.name));
    return;
  }
  if (object->alone()) return;
  start_sharing();
  protect_shared(*object, r.start, r.end);
}

// From here on pages have owners, and requests for them must be served while the guest waits in the kernel:
// that is what bodies are for.
void Recorder::start_sharing() {
  bs_record.sharing = true;
  start_threads();
}

// Takes the rights away, except to what is owned.
void Recorder::protect_shared(SharedObject& object, uint64_t start, uint64_t end) {
  process_.map.for_each([&](const Region& r) {
    if (shared_object(r) != &object || r.end <= start || r.start >= end) return;
    process_.engine().forget(r.start, r.end);
    mprotect(reinterpret_cast<void*>(r.start), r.end - r.start, PROT_NONE);
    for (uint64_t page : object.owned_pages()) {
      const uint64_t offset = page * kPage;
      if (offset < r.offset || offset - r.offset >= r.end - r.start) continue;
      mprotect(reinterpret_cast<void*>(r.start + (offset - r.offset)), kPage, real_prot(r.prot));
    }
  });
}

void Recorder::set_page_rights(SharedObject& object, uint64_t page, bool access) {
  process_.map.for_each([&](const Region& r) {
    if (shared_object(r) != &object) return;
    const uint64_t offset = page * kPage;
    if (offset < r.offset || offset - r.offset >= r.end - r.start) return;
    auto* at = reinterpret_cast<void*>(r.start + (offset - r.offset));
    if (!access)
      process_.engine().forget(reinterpret_cast<uint64_t>(at), reinterpret_cast<uint64_t>(at) + kPage);
    mprotect(at, kPage, access ? real_prot(r.prot) : PROT_NONE);
  });
}

// After the guest changed its mappings: rights that the kernel gave are taken away again.
void Recorder::check_shared(uint64_t start, uint64_t end) {
  if (!bs_record.sharing) return;
  for (auto& [key, object] : objects_)
    if (!object->alone()) protect_shared(*object, start, end);
}

// Makes the guest the owner of the page at `addr`. `in_call`: for the system call under way, else for the
// instruction at rip. False: not a shared page, or it is accessible already.
bool Recorder::own_page(uint64_t addr, bool in_call) {
  const Region* r = process_.map.find(addr);
  SharedObject* object = r ? shared_object(*r) : nullptr;
  if (!object || object->alone()) return false;
  const uint64_t at = addr & ~(kPage - 1), page = (r->offset + (at - r->start)) / kPage;
  if (object->owns(page)) return false;
  if (object->acquire(page, [this] { serve_shared(); })) {
    if (in_call) {
      set_page_rights(*object, page, true);
      log_memory(at, kPage, recording::kInCall);
    } else {
      log_shared(at, object->contents(page));
    }
  }
  set_page_rights(*object, page, true);
  if (!in_call) last_acquired_ = {context().tick, context().rip};
  return true;
}

void Recorder::log_shared(uint64_t addr, const unsigned char* contents) {
  log_.reserve(kPage + 256);
  recording::Appender& log = log_.appender();
  if (!log.chunk) return;
  uint8_t* at = log.begin(EventKind::Shared, recording::kAsynchronous, 0);
  at = log.put_place(at, context().tick, context().rip);
  at = recording::put_u32(at, register_digest(context()));
  at = recording::put_varint(at, addr);
  std::memcpy(at, contents, kPage);
  log.commit(at + kPage);
}

void Recorder::own_range(uint64_t addr, uint64_t size) {
  if (size == 0 || !bs_record.sharing) return;
  for (const Region* r = process_.map.next(addr); r && r->start < addr + size;
       r = process_.map.next(r->end)) {
    if (!shared_object(*r)) continue;
    const uint64_t end = std::min(r->end, addr + size);
    for (uint64_t at = std::max(r->start, addr) & ~(kPage - 1); at < end; at += kPage) own_page(at, true);
  }
}

// What a call may read or write.
void Recorder::own_arguments(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  uint64_t most = kPage;
  for (int i = 0; i < row.argc; i++)
    if (row.args[i].kind == Arg::Size || row.args[i].kind == Arg::Uint) most = std::max(most, args[i]);
  most = std::min<uint64_t>(most, 1 << 30);
  auto own = [&](uint64_t a, uint64_t n) { own_range(a, n); };
  for (int i = 0; i < row.argc; i++) {
    if (is_scalar(row.args[i].kind) || !args[i]) continue;
    const ArgSpec spec = arg_spec(nr, args, i);
    if (is_scalar(spec.kind) || spec.kind == Arg::Address) continue;
    switch (spec.kind) {
      case Arg::IovIn:
      case Arg::IovOut:
        own_range(args[i], std::min<uint64_t>(args[spec.n], 1024) * sizeof(Iovec));
        for_each_iovec(args[i], std::min<uint64_t>(args[spec.n], 1024), ~0ull >> 1, own);
        break;
      case Arg::MsgIn:
      case Arg::MsgOut:
        own_range(args[i], sizeof(Msghdr));
        for_each_message_part(args[i], ~0ull >> 1, own);
        break;
      case Arg::Path:
      case Arg::Str:
        own_range(args[i], 1);
        break;
      default:
        own_range(args[i], most);
        break;
    }
  }
}

// Somebody asked for pages of ours, or to share an object that we have alone.
void Recorder::serve_shared() {
  if (!bs_record.share_request) return;
  bs_record.share_request = false;
  const Context& ctx = context();
  for (auto& [key, object] : objects_) {
    if (object->must_leave_alone()) {
      start_sharing();
      object->leave_alone();
      protect_shared(*object, 0, ~0ull);
      continue;
    }
    const std::vector<uint64_t> owned = object->owned_pages();
    for (uint64_t page : owned) {
      if (!object->wanted(page)) continue;
      // The instruction that needed the page must have been executed, or nobody would ever get on.
      if (last_acquired_ == ControlPoint{ctx.tick, ctx.rip} && !process_.current().in_call) {
        bs_record.share_request = true;
        itimerspec soon{{0, 0}, {0, 30'000}};
        syscall(SYS_timer_settime, timer_, 0, &soon, nullptr);
        armed_ = 0;
        last_acquired_ = {};
        return;
      }
      set_page_rights(*object, page, false);
      object->release(page);
    }
  }
}

// fork: both sides get the pages that they need one by one.
void Recorder::share_with_child() {
  for (auto& [key, object] : objects_) {
    object->release_all();
    object->leave_alone();
    object->attach_child();
    start_sharing();
    protect_shared(*object, 0, ~0ull);
  }
}

void Recorder::leave_shared() {
  if (vfork_) return;
  for (auto& [key, object] : objects_) object->detach();
}

}  // namespace backstep::recorder
