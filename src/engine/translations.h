// Translations that outlive the process: what one run of a program has translated, the next one maps.
// translations.cc tells how.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/cache.h"

namespace backstep::engine {

class Translations {
 public:
  // `folder`: where the files are; it must exist. `start`: a hash of what the program starts with (its file,
  // its interpreter, and where they lie), which names the file. Both stay for the life of the process.
  void use(const std::string& folder, uint64_t start);
  bool used() const { return !folder_.empty(); }
  uint64_t taken_in() const { return taken_in_; }  // blocks, in all loads

  // Takes in what is kept for the cache's present mode. The cache must be empty. Whatever is wrong with the
  // file, the answer is only that nothing is kept.
  void load();
  // Control reaches this range for the first time since the last flush or change of the range: code that is
  // kept for it becomes known.
  void activate(const FetchRange& range);
  // The guest's mapping of [start, end) changes.
  void forget(Address start, Address end);
  // Keeps what is there, if that is considerably more than what is kept already.
  void save();

 private:
  // A range of guest code, and which records (kPages) of its pages hold code made from it.
  struct Range {
    Address start = 0, end = 0;
    Content content;
    uint64_t offset = 0;
    std::vector<uint32_t> pages;
    uint64_t jumps = 0;  // in the file: offset of its part of the jump table
    bool known = false;  // the guest has it mapped, and its code is in the books
    bool same(const FetchRange& r) const {
      return start == r.start && end == r.end && content == r.content && offset == r.offset;
    }
  };
  struct Header;
  struct Layout;

  uint64_t mode() const;
  std::string path() const;
  void begin();  // nothing is known if the cache was emptied since
  bool map(int fd, const Header& header, uint64_t size);
  bool verify(const uint8_t* file, const Header& header) const;
  bool read_ranges(const uint8_t* file, const Header& header);
  bool write(int fd, Header& header);
  void make_room(uint64_t bytes) const;

  std::string folder_;
  uint64_t start_ = 0;
  uint64_t flushes_ = 0;     // Statistics::flushes that the state below belongs to
  uint8_t* file_ = nullptr;  // the mapped file; pieces of it have moved to their places
  uint64_t loaded_ = 0;      // blocks taken in
  uint64_t taken_in_ = 0;
  uint64_t made_before_ = 0;  // blocks and landings that this process had made at the last load or save
  std::vector<Range> ranges_;
};

// The folder for them, made if need be: $XDG_CACHE_HOME/backstep or ~/.cache/backstep. Empty: there is none
// that is ours alone.
std::string translations_folder();

}  // namespace backstep::engine
