// Memory files that stand for files which the program had mapped: shared, or privately while it changed them.
// Their contents come from the store and from the log; several mappings of a file show the same.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/file_data.h"
#include "recording/store.h"
#include "replay/replayer.h"

namespace backstep::replayer {

using namespace guest;
using recording::Event;

int Replayer::shared_file(const Event& e, int contents) {
  Fd& file = shared_[{e.dev, e.inode}];
  if (!file) file = Fd(memfd_create("backstep-shared", MFD_CLOEXEC));
  struct stat st {};
  fstat(contents, &st);
  // Of a large file only what is mapped was kept.
  const bool part = recording::is_sparse_key(e.key);
  if (!file || ftruncate(file.get(), st.st_size) != 0 ||
      !copy_data(contents, file.get(), part ? e.offset : 0, part ? e.offset + e.length : ~0ull))
    throw Error(fmt::format("cannot make a memory file for {}: {}", e.text, errno_text(errno)));
  return file.get();
}

// Of a file that is mapped privately and that the program changes (record/record_live.cc). Its size follows.
int Replayer::live_file(const Event& e, int contents) {
  Fd& file = live_[{e.dev, e.inode}];
  if (!file) file = Fd(memfd_create("backstep-live", MFD_CLOEXEC));
  struct stat now {
  }, then{};
  if (!file || fstat(file.get(), &now) != 0 || fstat(contents, &then) != 0 ||
      (then.st_size > now.st_size && ftruncate(file.get(), then.st_size) != 0) ||
      !copy_data(contents, file.get(), e.offset, e.offset + e.length))
    throw Error(fmt::format("cannot make a memory file for {}: {}", e.text, errno_text(errno)));
  return file.get();
}

void Replayer::change_live(const Event& e) {
  auto file = live_.find({e.dev, e.inode});
  if (file == live_.end())
    throw Error("the log is damaged: a change of a file that is not mapped", kExitDivergence);
  process_.map.for_each([&](const Region& r) {
    if (r.flags & MAP_SHARED || r.dev != e.dev || r.inode != e.inode) return;
    note_change(r.start, r.end);
    process_.engine().forget(r.start, r.end);
  });
  if (ftruncate(file->second.get(), static_cast<off_t>(e.length)) != 0 ||
      (!e.body.empty() && pwrite(file->second.get(), e.body.data(), e.body.size(),
                                 static_cast<off_t>(e.offset)) != static_cast<ssize_t>(e.body.size())))
    throw Error("cannot change a memory file: " + errno_text(errno));
}

// A file that is mapped shared has become longer or shorter.
void Replayer::resize(const Event& e) {
  if (e.kind == recording::EventKind::FileSize && e.flags & recording::kLive) return change_live(e);
  auto file = shared_.find({e.dev, e.inode});
  if (file == shared_.end()) return;
  if (ftruncate(file->second.get(), static_cast<off_t>(e.length)) != 0)
    throw Error("cannot change the size of a memory file: " + errno_text(errno));
  process_.map.for_each([&](const Region& r) {
    if (r.flags & MAP_SHARED && r.dev == e.dev && r.inode == e.inode) note_change(r.start, r.end);
  });
}

}  // namespace backstep::replayer
