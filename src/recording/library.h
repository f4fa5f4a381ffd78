// Where recordings live, and what one of them looks like from outside.
//
//   $BACKSTEP_DIR/            else $XDG_DATA_HOME/backstep, else ~/.local/share/backstep
//     latest -> sort-3        the newest recording (also one made elsewhere with -o)
//     sort-1/ sort-2/ …       recordings: program name and a number
//     store/                  file contents shared by all recordings (recording/store.h)
//     elsewhere/              one symlink per recording made elsewhere that uses this store
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recording/manifest.h"
#include "recording/store.h"

namespace backstep::recording {

// One recording's folder. A value: it holds names, not open files. (A recorder whose process may lose sight
// of the folder keeps that open itself, and says so with reach_by.)
//
//   manifest.json     recording/manifest.h
//   process-1.log     the log of each process (recording/format.h)
//   process-2.json    manifests of the processes after the first (if they ended, or execve made them)
//   tree              the counter of processes (recording/tree.h)
//   shared-*, shown-* while it is made: what processes must know of each other (src/record)
//   store-keys        keys of the file contents that it needs, one per line, with a checksum each
//   files/            those contents themselves, laid out like a store: after `pack`, and what processes
//   needed
//                     that could not write to the store
class Recording {
 public:
  explicit Recording(std::string dir) : dir_(std::move(dir)), base_(dir_) {}

  const std::string& dir() const { return dir_; }    // its name
  const std::string& base() const { return base_; }  // where its files are reached
  void reach_by(std::string base) { base_ = std::move(base); }
  std::string name() const;  // last part of the path
  std::string manifest_path(uint64_t process = 1) const {
    return base_ + (process == 1 ? "/manifest.json" : "/process-" + std::to_string(process) + ".json");
  }
  std::string log_path(uint64_t process = 1) const {
    return base_ + "/process-" + std::to_string(process) + ".log";
  }
  std::string keys_path() const { return base_ + "/store-keys"; }
  std::string files_path() const { return base_ + "/files"; }

  Manifest manifest() const { return Manifest::load(manifest_path()); }
  // Virtual names of the processes that have a log, ascending.
  std::vector<uint64_t> processes() const;
  // Does a process still record into it?
  bool is_being_made() const;
  // Bytes in the folder (shared file contents not counted).
  uint64_t size() const;

  std::set<std::string> keys() const;
  // The first line of the list of keys that is damaged, if any.
  std::optional<uint64_t> damaged_key() const;
  // Writes a key down, so that garbage collection spares its contents. Call it once per key.
  void add_key(const std::string& key) const;

 private:
  std::string dir_, base_;
};

// Bytes in all files of a folder and of those in it.
uint64_t size_with_folders(const std::string& dir);

class Library {
 public:
  explicit Library(const std::string& dir);
  static Library standard();  // as the environment says

  const std::string& dir() const { return dir_; }
  Store store() const { return Store(dir_ + "/store"); }

  // Makes the folder for a new recording: `output` if given (must not exist yet), else PROGRAM-N here, and
  // points `latest` to it.
  Recording create(const std::string& program, const std::string& output = "") const;

  // The recording that a DIR argument means: "" the latest, a name in the library, or a path.
  Recording resolve(const std::string& argument) const;

  // All recordings, in the order in which they were made; those made elsewhere too.
  std::vector<Recording> list() const;

  // Removes a recording's folder and, if it was the latest, points `latest` to the newest of the rest.
  // Refuses a folder that does not look like a recording.
  void remove(const Recording& recording) const;
  // The same for a recording that `create` made and that never came to anything: there may be no manifest
  // yet.
  void discard(const Recording& recording) const;

  // Removes file contents that no recording refers to any more; bytes freed.
  uint64_t collect_garbage(std::chrono::seconds grace = Store::kGrace) const;

  // Contents for replay: the recording's own `files` first, then the shared store. The caller owns the fd.
  int open_contents(const Recording& recording, const std::string& key) const;
  // Path of the same; empty if neither has it.
  std::string contents_path(const Recording& recording, const std::string& key) const;

  // Copies all contents that the recording needs into it; bytes it has grown by.
  uint64_t pack(const Recording& recording) const;

 private:
  void set_latest(const std::string& target) const;
  std::string near_recording(const std::string& argument) const;
  void register_elsewhere(const std::string& absolute) const;

  std::string dir_;  // absolute
};

}  // namespace backstep::recording
