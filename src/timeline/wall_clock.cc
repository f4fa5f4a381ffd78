// The log is ordered by ticks and keeps no time of its own, but there are clocks in it: every read of a clock
// that the program made (there is no vdso in the guest, so each is a system call with its result logged), the
// start and the end in the manifest, and the moment when each chunk of the log was opened. Between two of
// these, time is taken as going evenly with the ticks; so a place where the program slept without looking at
// a clock is found only roughly, and the user is told between which two times.
#include "timeline/wall_clock.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <optional>

#include "base/error.h"
#include "timeline/times.h"

namespace backstep::timeline {
namespace {

constexpr int64_t kFinest = 1'000'000;  // clocks are read often; a millisecond is enough

// What a system call told about a clock; nullopt: nothing.
struct Reading {
  int64_t ns = 0;
  bool monotonic = false;
};
std::optional<Reading> reading_of(const recording::Event& e) {
  if (e.result != 0) return std::nullopt;
  Reading r;
  if (e.nr == SYS_clock_gettime) {
    switch (static_cast<int>(e.args[0])) {
      case CLOCK_REALTIME:
      case CLOCK_REALTIME_COARSE:
        break;
      case CLOCK_MONOTONIC:
      case CLOCK_MONOTONIC_COARSE:
        r.monotonic = true;
        break;
      default:
        return std::nullopt;
    }
  }
  for (const recording::Piece& piece : e.pieces) {
    int64_t words[2];
    if (piece.kind != recording::PieceKind::OutAtArg || piece.bytes.size() != sizeof words) continue;
    std::memcpy(words, piece.bytes.data(), sizeof words);
    r.ns = words[0] * kSecond + words[1] * (e.nr == SYS_gettimeofday ? 1000 : 1);
    return r;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> end_ns(const recording::Recording& recording, uint64_t process) {
  try {
    const auto manifest = recording::Manifest::load(recording.manifest_path(process));
    int64_t ns = 0;
    if (!manifest.end || __builtin_add_overflow(manifest.start_ns, manifest.end->duration_ns, &ns)) return {};
    return ns;
  } catch (const Error&) {
    return {};  // it has none
  }
}

void WallClock::add(Tick tick, int64_t ns) {
  // A clock that was set back tells nothing here.
  if (!known_.empty() && (ns < known_.back().ns || tick < known_.back().tick)) return;
  known_.push_back({tick, ns});
}

WallClock::WallClock(const LogIndex& log, const recording::Manifest& manifest, std::optional<int64_t> end_ns)
    : start_(manifest.start_ns) {
  const std::optional<int64_t> offset = manifest.start_monotonic_ns
                                            ? std::optional(manifest.start_ns - manifest.start_monotonic_ns)
                                            : std::nullopt;
  uint64_t chunk = 0;
  log.each(0, [&](const Moment& m, std::span<const uint8_t> bytes) {
    if (m.wall_ns != chunk) {
      chunk = m.wall_ns;
      add(m.tick, static_cast<int64_t>(chunk));
    }
    if (m.kind != recording::EventKind::Syscall || (m.nr != SYS_clock_gettime && m.nr != SYS_gettimeofday))
      return true;
    recording::Event e;
    Tick tick = 0;
    recording::decode_event(bytes, tick, e);
    auto reading = reading_of(e);
    if (!reading || (reading->monotonic && !offset)) return true;
    const int64_t ns = reading->ns + (reading->monotonic ? *offset : 0);
    if (known_.empty() || ns - known_.back().ns >= kFinest) add(m.tick, ns);
    return true;
  });
  // The end of the first program is the only one that its manifest knows.
  if (end_ns)
    add(log.last().tick, *end_ns);
  else if (manifest.end && log.image() == 1 && log.own() == 0)
    add(log.last().tick, manifest.start_ns + manifest.end->duration_ns);
  if (known_.empty()) known_.push_back({0, start_});
}

WallClock::Estimate WallClock::at_tick(Tick tick) const {
  auto after =
      std::lower_bound(known_.begin(), known_.end(), tick, [](const Known& k, Tick t) { return k.tick < t; });
  if (after == known_.end()) after = std::prev(known_.end());
  if (after->tick == tick || after == known_.begin()) return {tick, after->ns, *after, *after};
  auto before = std::prev(after);
  if (tick > after->tick) return {tick, after->ns, *after, *after};
  const double share =
      static_cast<double>(tick - before->tick) / static_cast<double>(after->tick - before->tick);
  const auto part = static_cast<int64_t>(share * static_cast<double>(after->ns - before->ns));
  return {tick, before->ns + part, *before, *after};
}

WallClock::Estimate WallClock::at_time(int64_t ns) const {
  auto after =
      std::lower_bound(known_.begin(), known_.end(), ns, [](const Known& k, int64_t t) { return k.ns < t; });
  if (after == known_.end()) return {known_.back().tick, known_.back().ns, known_.back(), known_.back()};
  if (after->ns == ns || after == known_.begin()) return {after->tick, after->ns, *after, *after};
  auto before = std::prev(after);
  const double share = static_cast<double>(ns - before->ns) / static_cast<double>(after->ns - before->ns);
  const auto part = static_cast<Tick>(std::llround(share * static_cast<double>(after->tick - before->tick)));
  return {before->tick + part, ns, *before, *after};
}

}  // namespace backstep::timeline
