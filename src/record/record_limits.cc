// Limits on memory: RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK (guest/limits.h). We keep them for the guest and
// answer for them; the kernel gets them only when the program goes on without us. Of RLIMIT_NOFILE that goes
// for the hard limit alone: what we open for ourselves goes above the soft one, and does not count for the
// program.
//
// The initial stack is mapped as large as it may get, since the kernel must be able to write to it in system
// calls. How large that is depends on RLIMIT_STACK and on what RLIMIT_AS leaves: when these change, the part
// that nobody has touched yet is given or taken, and a Map event says so to the replay.
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "guest/buffers.h"
#include "record/recorder.h"
#include "record/rights.h"

namespace backstep::recorder {

using namespace guest;

namespace {

using layout::kPage;

// null: the kernel keeps it.
Limit* kept_limit(Limits& limits, uint64_t resource) {
  switch (resource) {
    case RLIMIT_AS:
      return &limits.space;
    case RLIMIT_DATA:
      return &limits.data;
    case RLIMIT_STACK:
      return &limits.stack;
    case RLIMIT_NOFILE:
      return &limits.files;
    default:
      return nullptr;
  }
}

// CAP_SYS_RESOURCE, in the first user namespace: elsewhere it does not count.
bool may_raise_hard_limits() {
  uint64_t inside = 1, outside = 1, count = 0;
  std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
  return has_capability(CAP_SYS_RESOURCE) && inside == 0 && outside == 0 && count == 0xffff'ffff;
}

}  // namespace

Limits inherited_limits() {
  Limits limits;
  for (auto resource : {RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_NOFILE}) {
    rlimit real{};
    if (getrlimit(resource, &real) == 0) *kept_limit(limits, resource) = {real.rlim_cur, real.rlim_max};
  }
  return limits;
}

void hand_to_kernel(const Limits& limits) {
  Limits copy = limits;
  for (auto resource : {RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_NOFILE}) {
    const Limit& limit = *kept_limit(copy, resource);
    rlimit real{};
    if (getrlimit(resource, &real) == 0 && real.rlim_cur == limit.soft && real.rlim_max == limit.hard)
      continue;
    real = {limit.soft, limit.hard};
    setrlimit(resource, &real);
  }
}

int64_t Recorder::set_limit(uint64_t resource, Limit& kept, uint64_t address) {
  Limit next;
  if (!read_guest(address, &next)) return -EFAULT;
  if (next.soft > next.hard) return -EINVAL;
  if (next.hard > kept.hard && !may_raise_hard_limits()) return -EPERM;
  if (resource == RLIMIT_NOFILE) {
    uint64_t most = 1 << 20;
    std::ifstream("/proc/sys/fs/nr_open") >> most;
    if (next.hard > most) return -EPERM;
    rlimit real{};
    getrlimit(RLIMIT_NOFILE, &real);
    real = {next.soft, std::max<rlim_t>(real.rlim_max, next.soft)};
    if (setrlimit(RLIMIT_NOFILE, &real) != 0) return -errno;
    kept = next;
    tell_limits();
    watch_descriptors();
    return 0;
  }
  kept = next;
  // Arguments of the next program are counted with the kernel's.
  rlimit real{};
  if (resource == RLIMIT_STACK && getrlimit(RLIMIT_STACK, &real) == 0 && next.soft > real.rlim_cur) {
    real = {next.soft, std::max(real.rlim_max, next.soft)};
    setrlimit(RLIMIT_STACK, &real);
  }
  tell_limits();
  watch_stack_ |= resource != RLIMIT_DATA;
  stack_fits_ = ~0ull;
  return 0;
}

int64_t Recorder::do_rlimit(const Syscall& row, uint64_t nr, const uint64_t args[6]) {
  const bool any = nr == SYS_prlimit64;
  const auto resource = static_cast<uint32_t>(any ? args[1] : args[0]);
  const uint64_t fresh = any ? args[2] : nr == SYS_setrlimit ? args[1] : 0;
  const uint64_t old = any ? args[3] : nr == SYS_getrlimit ? args[1] : 0;
  auto logged = [&](int64_t result) {
    log_call(row, nr, args, result);
    return result;
  };
  if (resource == RLIMIT_NOFILE) {  // somebody else may have set it
    rlimit real{};
    getrlimit(RLIMIT_NOFILE, &real);
    Limit& files = process_.limits.files;
    files = {real.rlim_cur, std::max<uint64_t>(std::min<uint64_t>(files.hard, real.rlim_max), real.rlim_cur)};
    watch_descriptors();
  }
  Limits limits = process_.limits;
  if (!kept_limit(limits, resource)) return logged(execute(row, nr, args));
  const auto pid = any ? static_cast<int>(args[0]) : 0;
  const auto& threads = process_.threads();
  const bool own = pid == 0 || pid == getpid() ||
                   std::any_of(threads.begin(), threads.end(), [&](auto& t) { return t.second->tid == pid; });
  if (!own) {
    const auto other = is_recorded(pid) ? published_by(recording_, process_of(pid), false) : std::nullopt;
    if (!other) return logged(execute(row, nr, args));
    if (fresh && resource == RLIMIT_NOFILE) return logged(execute(row, nr, args));
    if (fresh) {
      note_once("prlimit of the memory of another process that is recorded was refused with EPERM");
      return logged(-EPERM);
    }
    limits = other->limits;
  }
  if (nr != SYS_prlimit64 && (nr == SYS_setrlimit ? fresh : old) == 0) return logged(-EFAULT);
  if (fresh)
    if (int64_t err = set_limit(resource, *kept_limit(process_.limits, resource), fresh)) return logged(err);
  const bool told = !old || process_.copy_out(old, kept_limit(limits, resource), sizeof(Limit));
  return logged(told ? 0 : -EFAULT);
}

void Recorder::fit_stack() {
  const Limits& limits = process_.limits;
  const uint64_t start = process_.stack_start(), now = layout::kStackEnd - start;
  stack_fits_ = process_.map.version();
  if (now == 0) return;
  uint64_t most = std::min(limits.stack.soft, kStackMax);
  if (limits.space.soft != Limit::kNone)
    most = std::min(most, limits.space.soft - std::min(limits.space.soft, process_.map.size()));
  most &= ~(kPage - 1);
  if (most < now) {
    most = std::max(most, process_.stack_size());
    if (most >= now) return;
    Region rest = *process_.map.find(start);
    rest.end = layout::kStackEnd - most;
    process_.sys_munmap(rest.start, rest.end - rest.start);
    log_map(rest, "", recording::kGone);
  } else if (most > now) {
    Region more = *process_.map.find(start);
    more.end = start;
    more.start = layout::kStackEnd - most;
    for (const Region* r = process_.map.next(more.start); r && r->start < start;
         r = process_.map.next(r->end))
      more.start = r->end;
    if (more.start == more.end || process_.map_region(more, -1) != 0) return;
    log_map(more, "");
  }
  stack_fits_ = process_.map.version();
}

}  // namespace backstep::recorder
