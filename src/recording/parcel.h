// Tables of contents and traces on their way into a recording: what a job on another machine has made of a
// stretch of the run, in one file. docs/trace-format.md has every byte.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "recording/contents.h"

namespace backstep::recording {

// What a parcel must be of to be taken in: the recording and the process in it, and the build of Backstep
// that made it, which has to be our own.
struct ParcelIdentity {
  uint64_t process = 0;
  uint64_t log = 0;    // as in CheckpointHeader
  uint64_t build = 0;  // XXH3-64 of the build's id, or of the version if it has none

  static ParcelIdentity of(const Recording& recording, uint64_t process);
  friend bool operator==(const ParcelIdentity&, const ParcelIdentity&) = default;
};

struct Parcel {
  struct Window {
    WindowBounds bounds;
    std::vector<uint8_t> packed;  // level 1: Contents::pack; empty: there can be no table of it
    // Levels 2 and 3: its trace, in the parts that it was made in.
    struct Part {
      uint64_t count = 0;           // stores
      std::vector<uint8_t> links;   // Backlinks::pack
      std::vector<uint8_t> stores;  // level 3: TraceChunk::stores
    };
    std::vector<Part> parts = {};
  };
  int level = 1;                // of all of them
  std::vector<Window> windows;  // in the order of time, each beginning where the one before ends

  // Writes it under another name first, so that there are no half ones. Throws Error.
  void write(const std::string& path, const ParcelIdentity& identity) const;
  // Throws Error: it is not there, damaged, of another version, or not of this identity; or its windows do
  // not follow each other.
  static Parcel read(const std::string& path, const ParcelIdentity& identity);
};

}  // namespace backstep::recording
