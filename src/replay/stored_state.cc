// A replay's state to a checkpoint file, and back (recording/stored_state.h has what is in it).
//
// Restoring starts from a worker at the start of the recording. All of the guest's memory is unmapped, mapped
// as in the checkpoint, and filled.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "recording/stored_state.h"
#include "replay/replayer.h"

namespace backstep::replayer {
namespace {

using recording::Backing;
using recording::EventKind;
using recording::StoredState;

using layout::kPage;

// Checksums are no proof: a stranger can make them as well.
[[noreturn]] void fail() {
  throw Error("a checkpoint's state cannot be understood");
}

// Does the event with that number begin there (or the chunk end)?
bool is_event(const recording::Chunk& chunk, uint64_t wanted, uint64_t number) {
  if (wanted > chunk.events.size()) return false;
  uint64_t at = 0, event = chunk.first_event;
  for (; at < wanted; event++) {
    recording::EventHeader header;
    std::memcpy(&header, chunk.events.data() + at, sizeof header);
    at += header.size;
  }
  return at == wanted && event == number;
}

}  // namespace

uint64_t Replayer::store(recording::CheckpointWriter& writer,
                         const std::optional<recording::Written>& written) {
  if (!can_store()) throw Error("a checkpoint cannot be made here");
  watch_.disarm();
  const HotState& s = bs_replay;
  StoredState state;
  state.log = log_->header().process, state.path_at = path_at_, state.event_base = event_base_;
  state.chunk_offset = chunk_.offset, state.chunk_index = chunk_.index;
  state.chunk_first_event = chunk_.first_event, state.chunk_wall_ns = chunk_.wall_ns;
  state.at = static_cast<uint64_t>(s.p - chunk_.events.data());
  state.event = s.event, state.tick = s.tick;
  state.resume_call = resume_call_, state.goal = goal_;
  state.held_nr = held_.nr, state.held_result = held_.result;
  state.before_vfork = before_vfork_;
  std::vector<int> files;
  auto add = [&](const auto& from, std::vector<recording::MemoryFile>& to) {
    for (const auto& [id, file] : from) {
      struct stat st {};
      if (fstat(file.get(), &st) != 0) throw Error("cannot look at a memory file: " + errno_text(errno));
      to.push_back({id.first, id.second, static_cast<uint64_t>(st.st_size)});
      files.push_back(file.get());
    }
  };
  add(shared_, state.shared);
  add(live_, state.live);
  const std::vector<uint8_t> bytes = recording::pack(state, process_);
  recording::store_memory(writer, process_, files);
  const Position now = position();
  return writer.finish(now.tick, now.event, now.pc, recording::Maker::Replay, bytes, written);
}

bool Replayer::can_store() const {
  return !diverted_ && !outcome_ && !shared_fault_ && !bs_replay.executed && bs_replay.p &&
         !process_.has_lodgers();
}

// Now and then in a replay to the end. Ticks are the only clock that can be looked at without stopping often.
void Replayer::store_on_the_way() {
  constexpr double kLook = 0.005;  // seconds between two looks, about
  const Tick tick = context().tick;
  const double now = recording::thread_cpu_seconds();
  const double rate = static_cast<double>(tick - looked_at_) / std::max(now - looked_cpu_, 1e-6);
  const double step = std::min(kLook, options_.checkpoints / 4) * rate;
  looked_at_ = tick, looked_cpu_ = now;
  look_at_ = tick + std::max<Tick>(1 << 12, static_cast<Tick>(step));
  bool there = false;
  for (; !stored_before_.empty() && stored_before_.back() <= tick; there = true) stored_before_.pop_back();
  if (there) stored_cpu_ = now;
  // Only in the log that is asked for: the way through those of its ancestors is not its own.
  if (!can_store() || path_at_ != path_.size() || now - stored_cpu_ < options_.checkpoints) return;
  const uint64_t pages = recording::count_pages(process_);
  if (now - stored_cpu_ < series_->distance(pages)) return;
  try {
    if (series_->make(pages, [&](recording::CheckpointWriter& writer) { store(writer, std::nullopt); }))
      stored_cpu_ = recording::thread_cpu_seconds();
  } catch (const Error& e) {
    fmt::print(stderr, "backstep: no more checkpoints are made: {}\n", e.what());
    series_.reset();
    look_at_ = ~0ull;
  }
  looked_cpu_ = recording::thread_cpu_seconds();
}

void Replayer::restore(recording::CheckpointFolder& folder, uint64_t number) {
  recording::CheckpointFile& file = folder.open(number);
  unpack_state(file.state(), folder, number);
  const Position now = position();
  const auto& header = file.header();
  // A recorder does not count the notes that follow, and a replay does.
  if (now.tick != header.tick || now.pc != header.pc || now.event < header.event)
    throw Error("a checkpoint's state is not that of its moment");
}

// The state was made while recording, when nobody knew what comes next. If that is from outside, at a control
// point of its own, it is the goal, as it would be for a replay that had come here.
void Replayer::look_ahead() {
  recording::EventHeader header;
  while (peek(header)) {
    recording::Event e;
    const auto kind = static_cast<EventKind>(header.kind);
    if (recording::is_remark(kind)) {
      take(e);
      continue;
    }
    const bool outside = (kind == EventKind::Signal || kind == EventKind::Turn || kind == EventKind::End ||
                          kind == EventKind::Gap)
                             ? (header.flags & recording::kAsynchronous) != 0
                             : (kind == EventKind::Shared || kind == EventKind::Resize) &&
                                   !(header.flags & recording::kInCall);
    if (outside) {
      Tick tick = bs_replay.tick;
      recording::decode_event({bs_replay.p, header.size}, tick, e);
      goal_ = ControlPoint{e.tick, e.pc};
    }
    return;
  }
}

void Replayer::unpack_state(std::span<const uint8_t> bytes, recording::CheckpointFolder& folder,
                            uint64_t number) {
  HotState& s = bs_replay;
  process_.unmap_all();
  const StoredState state = recording::unpack(bytes, process_);
  path_at_ = state.path_at, event_base_ = state.event_base;
  if (path_at_ > path_.size()) fail();
  open_log(state.log);
  auto chunk = log_->seek(state.chunk_offset, static_cast<uint32_t>(state.chunk_index),
                          state.chunk_first_event, state.chunk_wall_ns);
  if (!chunk || !is_event(*chunk, state.at, state.event))
    throw Error("a checkpoint lies in a part of the log that is damaged");
  chunk_ = *chunk;
  s.p = chunk_.events.data() + state.at;
  s.end = chunk_.events.data() + chunk_.events.size();
  s.position = log_->position();
  s.event = state.event, s.tick = state.tick;
  s.executed = false;
  resume_call_ = state.resume_call, goal_ = state.goal;
  held_.nr = state.held_nr, held_.result = state.held_result;
  deliver_ = false;
  if (state.evex_seen && state.hi16_offset != engine::bs_cache.hi16_offset)
    throw Error("a checkpoint has AVX-512 registers in the form of another CPU");
  before_vfork_ = state.before_vfork;
  if (state.evex_seen) process_.engine().count_in_memory();
  if (!state.looked_ahead) look_ahead();

  shared_.clear();
  live_.clear();
  std::vector<int> spaces;
  auto make = [&](const std::vector<recording::MemoryFile>& files, const char* name, auto& to) {
    for (const recording::MemoryFile& wanted : files) {
      Fd& file = to[{wanted.dev, wanted.inode}] = Fd(memfd_create(name, MFD_CLOEXEC));
      if (!file || ftruncate(file.get(), static_cast<off_t>(wanted.size)) != 0)
        throw Error("cannot make a memory file: " + errno_text(errno));
      spaces.push_back(file.get());
    }
  };
  make(state.shared, "backstep-shared", shared_);
  make(state.live, "backstep-live", live_);

  // Writable first; then the contents; then as the guest has it.
  for (const recording::Part& p : state.parts) {
    int flags = MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_PRIVATE, fd = -1;
    Fd contents;
    switch (p.backing) {
      case Backing::Anonymous:
        flags |= MAP_ANONYMOUS;
        break;
      case Backing::StoreFile:
        contents = Fd(library_.open_contents(recording_, p.key));
        fd = contents.get();
        if (verified_.insert(p.key).second && !recording::Store::matches(fd, p.key))
          throw Error(fmt::format("the kept contents with the key {} are damaged", p.key));
        break;
      case Backing::SharedFile: {
        auto file = shared_.find({p.dev, p.inode});
        if (file == shared_.end()) fail();
        fd = file->second.get();
        flags = MAP_FIXED_NOREPLACE | MAP_SHARED;
        break;
      }
      case Backing::LiveFile: {
        auto file = live_.find({p.dev, p.inode});
        if (file == live_.end()) fail();
        fd = file->second.get();
        break;
      }
      default:
        fail();
    }
    auto* place = reinterpret_cast<void*>(p.start);
    if (mmap(place, p.end - p.start, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(p.offset)) !=
        place)
      throw Error(fmt::format("cannot map memory at {:#x}: {}", p.start, errno_text(errno)));
  }
  for (const guest::Region& r : state.regions) process_.map.add(r);

  std::vector<recording::PageRun> runs = folder.open(number).runs();
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) {
    return std::pair(a.file, a.index) < std::pair(b.file, b.index);
  });
  for (const recording::PageRun& run : runs) {
    recording::CheckpointFile& file = folder.open(run.file);
    constexpr uint64_t kMostPages = guest::kGuestEnd / kPage;
    if (run.space > spaces.size() || run.address % kPage || run.count > kMostPages ||
        (run.space == 0 && !process_.map.is_mapped(run.address, run.address + run.count * kPage)))
      fail();
    for (uint64_t i = 0; i < run.count; i++) {
      const uint8_t* bytes = file.page(run.index + i);
      const uint64_t to = run.address + i * kPage;
      if (run.space == 0) {
        // There is nothing behind the end of a file.
        if (!bs_guarded_copy(reinterpret_cast<void*>(to), bytes, kPage)) fail();
        continue;
      }
      // The last page may go beyond the file's end, which must not move.
      struct stat st {};
      const int fd = spaces[run.space - 1];
      if (fstat(fd, &st) != 0 || static_cast<uint64_t>(st.st_size) <= to) fail();
      const uint64_t n = std::min<uint64_t>(kPage, static_cast<uint64_t>(st.st_size) - to);
      if (pwrite(fd, bytes, n, static_cast<off_t>(to)) != static_cast<ssize_t>(n))
        throw Error("cannot write to a memory file: " + errno_text(errno));
    }
  }
  for (const guest::Region& r : state.regions) {
    const int prot = guest::Process::real_protection(r.prot);
    if (prot != (PROT_READ | PROT_WRITE) &&
        mprotect(reinterpret_cast<void*>(r.start), r.end - r.start, prot) != 0)
      throw Error(fmt::format("cannot protect memory at {:#x}: {}", r.start, errno_text(errno)));
  }
}

// What was executed is what is in the code cache, if that was empty when it began and has not been emptied
// since. Making the code again costs time: that is done only where there is not much of it.
void Replayer::count_executed() {
  constexpr ptrdiff_t kLittleCode = 512 << 10;
  stepped_.clear();
  code_since_.reset();
  if (engine::bs_cache.hot - reinterpret_cast<uint8_t*>(layout::kCacheStart) > kLittleCode) return;
  process_.engine().start_anew(true);
  code_since_ = engine::bs_cache.stats.flushes;
}

void Replayer::executed_since(recording::Written& written) {
  written.code_known = code_since_ == engine::bs_cache.stats.flushes;
  if (!written.code_known) return;
  written.code = stepped_;
  for (uint32_t i = 1; i < engine::bs_cache.pages; i++)
    written.code.push_back({engine::kPages[i].page, engine::kPages[i].page + kPage});
  simplify(written.code);
}

std::optional<recording::Written> Replayer::written_since_last() {
  std::optional<recording::Written> result;
  if (auto ranges = written_.collect()) {
    result.emplace();
    result->tick = written_since_.tick, result->event = written_since_.event, result->pc = written_since_.pc;
    result->ranges = std::move(*ranges);
    executed_since(*result);
  }
  written_since_ = position();
  if (written_.start()) count_executed();
  return result;
}

}  // namespace backstep::replayer
