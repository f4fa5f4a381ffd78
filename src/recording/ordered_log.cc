// A merge of logs. Where a log begins is in the header of its first chunk, so that one of a thousand
// processes is not read, nor mapped, before its time has come, and no longer than until it ends.
#include "recording/ordered_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/fd.h"
#include "recording/log_parts.h"
#include "recording/tree.h"

namespace backstep::recording {

namespace {

struct Beginning {
  uint64_t order, wall_ns;
  uint32_t version;
};

// Nullopt: there is none, or it is damaged (which whoever reads it will say).
std::optional<Beginning> beginning_of(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  FileHeader file{};
  ChunkHeader chunk{};
  if (!fd || pread(fd.get(), &file, sizeof file, 0) != sizeof file ||
      std::memcmp(file.magic, kLogMagic, sizeof file.magic) != 0 ||
      !read_first_chunk(fd.get(), file.header_size, chunk))
    return std::nullopt;
  return Beginning{file.version < kOrderVersion ? 0 : chunk.first_order, chunk.wall_ns, file.version};
}

}  // namespace

OrderedLog::OrderedLog(const Recording& recording, uint64_t number, int thread)
    : number_(number), reader_(recording.log_path(number), thread) {}

bool OrderedLog::next() {
  if (!reader_.next(event_)) return false;
  uint64_t at = event_.order.number();
  if (reader_.file().header().version < kOrderVersion) {
    at = reader_.wall_ns();
  } else if (event_.kind == EventKind::Turn && event_.order.given) {
    waiting_[event_.thread] = event_.order.given;
  } else if (event_.kind == EventKind::Syscall) {
    if (auto began = waiting_.extract(event_.thread)) at = began.mapped();
  }
  if (at == 0 && event_.number == 0) at = reader_.first_order();
  place_ = std::max(place_, at);
  return true;
}

OrderedLogs::OrderedLogs(const Recording& recording, bool threads)
    : recording_(recording), threads_(threads) {
  for (uint64_t number : recording.processes()) {
    const auto beginning = beginning_of(recording.log_path(number));
    if (beginning && beginning->version < kOrderVersion) by_time_ = true;
    const uint64_t at = !beginning                           ? 0
                        : beginning->version < kOrderVersion ? beginning->wall_ns
                                                             : beginning->order;
    queue_.push({at, number});
  }
}

void OrderedLogs::forget(uint64_t number) {
  auto log = open_.find(number);
  if (log == open_.end()) return;
  if (auto damage = log->second->damage()) damage_.push_back({number, *damage});
  open_.erase(log);
}

const OrderedLog* OrderedLogs::next() {
  // The current one goes to where its next event is.
  if (auto log = open_.find(current_); current_ && log != open_.end()) {
    if (!dropped_.contains(current_) && log->second->next()) {
      queue_.push({log->second->place(), current_});
    } else {
      forget(current_);
    }
  }
  current_ = 0;
  while (!queue_.empty()) {
    const Entry entry = queue_.top();
    queue_.pop();
    if (dropped_.contains(entry.number)) {
      forget(entry.number);
      continue;
    }
    auto log = open_.find(entry.number);
    if (log == open_.end()) {
      try {
        if (is_without_events(recording_, entry.number)) continue;
        const int thread = threads_ ? first_thread(recording_, entry.number) : 1;
        log =
            open_.emplace(entry.number, std::make_unique<OrderedLog>(recording_, entry.number, thread)).first;
        if (!log->second->next()) {
          forget(entry.number);
          continue;
        }
        // Its first event may be later than where it begins.
        if (log->second->place() > entry.place) {
          queue_.push({log->second->place(), entry.number});
          continue;
        }
      } catch (const Error& e) {
        damage_.push_back({entry.number, e.what()});
        continue;
      }
    }
    current_ = entry.number;
    return log->second.get();
  }
  return nullptr;
}

}  // namespace backstep::recording
