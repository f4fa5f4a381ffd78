#include "recording/tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <map>

#include "base/error.h"
#include "base/fd.h"
#include "recording/log_reader.h"

namespace backstep::recording {

Tree::Tree(const Recording& recording) {
  constexpr off_t kSize = 4096;
  const std::string path = recording.dir() + "/tree";
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  void* p = MAP_FAILED;
  // Allocated, not only sized: a store into a sparse mapping of a full disk would be a SIGBUS.
  if (int err = fd ? posix_fallocate(fd.get(), 0, kSize) : errno; err) {
    errno = err;
  } else {
    p = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  }
  if (p == MAP_FAILED) throw Error(fmt::format("cannot make {}: {}", path, errno_text(errno)));
  last_ = static_cast<uint64_t*>(p);
  uint64_t none = 0;
  __atomic_compare_exchange_n(last_, &none, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

uint64_t Tree::next_number() {
  return __atomic_add_fetch(last_, 1, __ATOMIC_SEQ_CST);
}

std::vector<ProcessInfo> list_processes(const Recording& recording) {
  std::map<uint64_t, ProcessInfo> all;
  for (uint64_t number : recording.processes()) {
    ProcessInfo info;
    info.number = number;
    try {
      const FileHeader header = LogFile(recording.log_path(number)).header();
      info.birth = static_cast<Birth>(header.birth);
      info.parent = header.parent;
      info.parent_event = header.parent_event;
      info.pid = header.pid;
      info.damaged = header.process != number;
    } catch (const Error&) {
      info.damaged = true;
    }
    try {
      Manifest m = Manifest::load(recording.manifest_path(number));
      info.argv = m.argv;
      info.end = m.end;
    } catch (const Error&) {
      // A child that has not ended properly: its command is its parent's.
      if (auto parent = all.find(info.parent); parent != all.end()) info.argv = parent->second.argv;
    }
    all[number] = info;
  }
  std::vector<ProcessInfo> list;
  for (auto& [number, info] : all) list.push_back(std::move(info));
  return list;
}

uint64_t find_process(const Recording& recording, uint64_t pid_or_number) {
  uint64_t found = 0;
  const auto all = list_processes(recording);
  for (const ProcessInfo& info : all)
    if (info.pid == pid_or_number) found = info.number;
  for (const ProcessInfo& info : all)
    if (!found && info.number == pid_or_number) found = info.number;
  if (!found)
    throw Error(fmt::format("the recording {} has no process {}; 'backstep ps' lists them", recording.name(),
                            pid_or_number),
                kExitUsage);
  return found;
}

std::optional<Manifest::End> final_end(const Recording& recording,
                                       const std::optional<Manifest::End>& first) {
  std::optional<Manifest::End> end = first;
  // Numbers grow along the chain, so this ends.
  for (uint64_t number = 1;
       end && end->kind == EndKind::Exec && end->status > static_cast<int64_t>(number);) {
    number = static_cast<uint64_t>(end->status);
    try {
      end = Manifest::load(recording.manifest_path(number)).end;
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  return end;
}

}  // namespace backstep::recording
