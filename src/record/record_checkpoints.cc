// Checkpoints that are made while the program is recorded (record --checkpoints), so that the first debugging
// session of a long recording finds them already.
//
// When: after so much CPU time, at the next instruction boundary that is not directly behind an event. A
// timer says that it is time, by a signal, since a program may run for hours without a system call. The
// program must not notice, so that signal must never interrupt a call of its own. One of a timer of CPU time
// does not: the kernel looks at such timers when a thread returns to user mode, and sends the signal there
// (CONFIG_POSIX_CPU_TIMERS_TASK_WORK, on x86 since Linux 5.9); calls that wait and calls that move bytes run
// to their end. Timers of real time would break off sleeps and cut writes to pipes short.
//
// The checkpoint is written by ourselves while the program stands still. A helper process would be quicker
// for the program, but a child of it that it did not make, in its process group and under its limits.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/error.h"
#include "base/room_for_fds.h"
#include "guest/buffers.h"
#include "record/recorder.h"
#include "recording/shared_folder.h"
#include "recording/stored_state.h"

namespace backstep::recorder {

using namespace guest;

namespace {

constexpr double kSoon = 1e-4;  // seconds until the next try, where one was in vain

}  // namespace

bool Recorder::cpu_timers_spare_calls() {
  utsname name{};
  int major = 0, minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 5 || (major == 5 && minor >= 10);
}

// At the start of a program, and of a forked child, which has none of its parent's timers.
void Recorder::start_checkpoints() {
  series_.reset();
  bs_record.checkpoint_request = false;
  checkpoint_timer_ = -1;
  if (options_.checkpoints <= 0 || detached_ || !log_.active()) return;
  try {
    if (!cpu_timers_spare_calls()) throw Error("this needs Linux 5.10");
    RoomForFds room;
    series_.emplace(recording_, origin_.process, options_.checkpoints);
    checkpoint_timer_ = make_timer(CLOCK_THREAD_CPUTIME_ID, kCheckpointSignal, kCheckpointTimer);
    checkpoint_cpu_ = recording::thread_cpu_seconds();
    await_checkpoint(options_.checkpoints);
  } catch (const Error& e) {
    end_checkpoints(e.what());
  }
}

void Recorder::end_checkpoints(const std::string& why) {
  if (checkpoint_timer_ >= 0) syscall(SYS_timer_delete, checkpoint_timer_);
  checkpoint_timer_ = -1;
  const bool some = series_ && !series_->numbers().empty();
  series_.reset();
  manifest_.checkpoints_note =
      fmt::format("{} checkpoints were made while recording: {}", some ? "no more" : "no", why);
}

void Recorder::await_checkpoint(double seconds) const {
  if (checkpoint_timer_ < 0) return;
  const auto ns = static_cast<int64_t>(std::max(seconds, 1e-4) * 1e9);
  constexpr int64_t kSecond = 1'000'000'000;
  const itimerspec spec{{0, 0}, {ns / kSecond, ns % kSecond}};
  syscall(SYS_timer_settime, checkpoint_timer_, 0, &spec, nullptr);
}

// Executes one instruction, so that a replay comes by this place with nothing else to do there: directly
// behind an event it would go on with what follows that. False: not here, or something else came up (and has
// been reacted to).
bool Recorder::step_away() {
  Context& ctx = context();
  // Behind branches nothing stops the guest without tick checks.
  if (next_instruction().cls != isa::Class::Plain) return false;
  const auto stop = process_.engine().step();
  // A step takes back all requests to stop, also those that came during it.
  ctx.stop_request = 1;
  if (stop) react(*stop);
  return !stop;
}

void Recorder::make_checkpoint() {
  bs_record.checkpoint_request = false;
  if (!series_ || !log_.active() || detached_) return;
  uint64_t pages = 0;
  {
    RoomForFds room;
    pages = recording::count_pages(process_);
  }
  const double ran = recording::thread_cpu_seconds() - checkpoint_cpu_, wanted = series_->distance(pages);
  if (ran < wanted) return await_checkpoint(wanted - ran);
  // Others may write such memory while we read it; and what of it a replay has is not what we have.
  bool shared = !opened_.empty();
  process_.map.for_each([&](const Region& r) { shared |= (r.flags & MAP_SHARED) != 0; });
  if (process_.has_lodgers()) return await_checkpoint(kSoon);
  if (shared) {
    manifest_.checkpoints_note =
        "no checkpoints were made while the program had memory that it shares with others, or might (mmap "
        "with MAP_SHARED)";
    return await_checkpoint(wanted);
  }
  if (!step_away()) return await_checkpoint(kSoon);
  const recording::Appender& log = log_.appender();
  if (!log.chunk || log.p == reinterpret_cast<const uint8_t*>(log.chunk + 1) || process_.signals.restore_mask)
    return await_checkpoint(kSoon);
  const Context& ctx = context();
  recording::StoredState state;
  state.log = origin_.process, state.path_at = forks_, state.event_base = event_base_;
  state.chunk_offset = log_.chunk_offset(), state.chunk_index = log.chunk->index;
  state.chunk_first_event = log.chunk->first_event, state.chunk_wall_ns = log.chunk->wall_ns;
  state.at = static_cast<uint64_t>(log.p - reinterpret_cast<const uint8_t*>(log.chunk + 1));
  state.event = log.events, state.tick = log.tick;
  state.looked_ahead = false;
  try {
    const bool made = series_->make(pages, [&](recording::CheckpointWriter& writer) {
      RoomForFds room;
      std::vector<Fd> copies;
      std::vector<int> files;
      for (const auto& [id, live] : live_) {
        const Fd& copy = copies.emplace_back(recording::open_file(live.path, O_RDONLY | O_CLOEXEC));
        struct stat st {};
        if (!copy || fstat(copy.get(), &st) != 0)
          throw Error(fmt::format("cannot read {}: {}", live.path, errno_text(errno)));
        state.live.push_back({id.first, id.second, static_cast<uint64_t>(st.st_size)});
        files.push_back(copy.get());
      }
      const std::vector<uint8_t> bytes = recording::pack(state, process_);
      recording::store_memory(writer, process_, files);
      writer.finish(ctx.tick, event_base_ + log.events, ctx.rip, recording::Maker::Record, bytes,
                    std::nullopt);
    });
    if (made) checkpoint_cpu_ = recording::thread_cpu_seconds();
    await_checkpoint(made ? series_->distance(pages) : wanted / 4);
  } catch (const std::exception& e) {
    end_checkpoints(e.what());
  }
}

}  // namespace backstep::recorder
