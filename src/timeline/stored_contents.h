// The tables of contents that a recording's folder has of one process, and what they are good for.
#pragma once
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "recording/contents.h"
#include "timeline/worker.h"

namespace backstep::timeline {

struct StoredWindow {
  Position from, to;
  uint64_t size = 0;  // bytes on disk
};

class StoredContents {
 public:
  StoredContents(const recording::Recording& recording, uint64_t process);

  // In the order of time.
  std::vector<StoredWindow> list();
  // The part of [from, to) from `from` on of which it is known that none of the taps can match; `from`:
  // nothing.
  Position quiet_until(const Position& from, const Position& to, const Taps& taps);
  // The table of a window that [from, to) is a part of; null: there is none.
  const recording::Contents* covering(const Position& from, const Position& to);
  // Is there one for the moment?
  const StoredWindow* at(const Position& moment);
  // Throws Error.
  void add(const Position& from, const Position& to, const recording::Contents& contents);
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Known {
    StoredWindow window;
    recording::ContentsFolder::Entry entry;
    std::shared_ptr<const recording::Contents> contents;  // null: not read, or forgotten again
    bool damaged = false;
  };
  void read_list();
  const recording::Contents* contents_of(Known& known);

  recording::ContentsFolder folder_;
  std::vector<Known> known_;  // in the order of time
  bool listed_ = false;
  std::list<size_t> recent_;  // those that are in memory, the latest first
  std::vector<std::string> notes_;
};

}  // namespace backstep::timeline
