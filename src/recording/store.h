// Contents of mapped files, by hash, shared between all recordings of a library.
// A key is the XXH3-128 of the contents in 32 hex digits; `<dir>/<first 2 digits>/<key>` is the file.
// Of a large file only the part that is mapped is kept, at its place in a file of the same size that has
// holes elsewhere. Its key is `s` and 31 hex digits: a hash of the blocks that are not zero.
#pragma once
#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <string>

namespace backstep::recording {

inline constexpr size_t kKeyLength = 32;

bool is_key(const std::string& text);
bool is_sparse_key(const std::string& text);

// How much of the disk a file takes that may be one of a store: holes do not count.
uint64_t kept_bytes(const std::string& name, const struct stat& st);

// The bytes of a file that are mapped: [from, to).
struct Extent {
  uint64_t from = 0, to = ~0ull;
};

class Store {
 public:
  // Nothing is made on disk until the first `add`.
  explicit Store(const std::string& dir);

  // There, and this process may add to it?
  bool is_writable() const;

  // Puts the contents of a regular file into the store, unless they are there, and returns their key: all of
  // it, or, of a large file that is no program, what is in the extent.
  // The position of `fd` does not move. Throws Error (not a regular file, unreadable, no space).
  // The caller must write the key to the recording's list of keys within kGrace, see collect_garbage.
  std::string add(int fd, const Extent& mapped = {});
  // The same without looking at or entering the identity index: always reads the file.
  std::string insert(int fd, const Extent& mapped = {});
  // Copies contents of another store. The result is the key that they have: `key`, unless they are damaged.
  std::string insert_kept(int fd, const std::string& key);

  // Read-only, close-on-exec; throws Error if the store has no such contents. The caller owns the fd.
  int open(const std::string& key) const;
  bool has(const std::string& key) const;
  // Reads the file again: are the contents what the key says? False also if it is missing.
  bool verify(const std::string& key) const;
  // Are the contents of an open file what the key says?
  static bool matches(int fd, const std::string& key);
  std::string path(const std::string& key) const;
  const std::string& dir() const { return dir_; }

  // Removes all contents whose key is not in `used`, except those that were added (or added again) less than
  // `grace` ago: a recorder may be about to write their key down. Returns the number of bytes freed.
  static constexpr std::chrono::seconds kGrace{60};
  uint64_t collect_garbage(const std::set<std::string>& used, std::chrono::seconds grace = kGrace);

 private:
  void prepare();                                 // makes the folders
  bool take(const std::string& key, off_t size);  // there? then it is marked as used now
  std::string insert_whole(int fd, const std::string& name);
  std::string insert_part(int fd, const Extent& mapped, const std::string& name);
  std::string accept(int file, std::string& temporary, const std::string& key);
  std::string index_path(const struct stat& st, const std::string& part) const;
  void enter_index(const std::string& entry, const std::string& key);
  std::string temporary_path() const;

  struct {
    struct stat file {};
    std::string key;
    int64_t added = 0;
  } last_;                 // the file that `add` found last
  std::string dir_;        // absolute: the program may change its working directory
  bool prepared_ = false;  // the folders are known to be there
};

}  // namespace backstep::recording
