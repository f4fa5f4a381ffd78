#include "recording/tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"
#include "base/hot.h"
#include "recording/log_reader.h"
#include "recording/shared_folder.h"

namespace backstep::recording {

namespace {

constexpr off_t kSize = 4096;
constexpr size_t kOrderWords = 256;  // from here on: what changes too often to have a checksum
constexpr size_t kLine = 8;          // words of a cache line
enum : size_t { kOrderCounter = 0, kFirstWriter = kLine, kSecondWriter = 2 * kLine, kOrderEnd = 3 * kLine };

// Number and checksum change in one step, whoever is killed when.
uint64_t with_check(uint32_t number) {
  return number | static_cast<uint64_t>(hot::crc32c(0, &number, sizeof number)) << 32;
}

}  // namespace

bool is_crash(int signo) {
  for (int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
    if (signo == crash) return true;
  return false;
}

Tree::Tree(const Recording& recording) {
  const std::string path = Tree::path(recording);
  Fd fd(make_shared_file(path, O_RDWR | O_CLOEXEC));
  void* p = MAP_FAILED;
  // Allocated, not only sized: a store into a sparse mapping of a full disk would be a SIGBUS.
  if (int err = fd ? posix_fallocate(fd.get(), 0, kSize) : errno; err) {
    errno = err;
  } else {
    p = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  }
  if (p == MAP_FAILED) throw Error(fmt::format("cannot make {}: {}", path, errno_text(errno)));
  last_ = static_cast<uint64_t*>(p);
  orders_ = last_ + kOrderWords + kOrderCounter;
  uint64_t none = 0;
  __atomic_compare_exchange_n(last_, &none, with_check(1), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

namespace {

// The number before.
template <class Change>
uint32_t change(uint64_t* word, const Change& change) {
  uint64_t before = __atomic_load_n(word, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(word, &before, with_check(change(static_cast<uint32_t>(before))), false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return static_cast<uint32_t>(before);
}

uint64_t count(uint64_t* word) {
  return change(word, [](uint32_t n) { return n + 1; }) + 1ull;
}

bool is_counter(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word == 0 || word == with_check(static_cast<uint32_t>(word));
}

}  // namespace

uint64_t* Tree::writer(int fd) const {
  const bool one = __atomic_load_n(last_ + 5, __ATOMIC_SEQ_CST);
  return last_ + kOrderWords + (fd == STDERR_FILENO && !one ? kSecondWriter : kFirstWriter);
}

void Tree::note_outputs() {
  struct stat out {
  }, err{};
  if (fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev &&
      out.st_ino == err.st_ino)
    __atomic_store_n(last_ + 5, with_check(1), __ATOMIC_SEQ_CST);
}

uint64_t Tree::next_number() {
  return count(last_);
}

void Tree::count_shared_file() {
  count(last_ + 1);
}

void Tree::count_user() {
  count(last_ + 4);
}

uint64_t Tree::space() const {
  return static_cast<uint64_t>(static_cast<uint32_t>(__atomic_load_n(last_ + 7, __ATOMIC_SEQ_CST))) * kSize;
}

uint64_t Tree::take_space(uint64_t bytes) {
  const auto pages = static_cast<uint32_t>(bytes / kSize);
  return (change(last_ + 7, [pages](uint32_t n) { return n + pages; }) + static_cast<uint64_t>(pages)) *
         kSize;
}

bool Tree::set(Fact fact) {
  return !(change(last_ + 6, [fact](uint32_t facts) { return facts | fact; }) & fact);
}

void Tree::note_crash(uint64_t number) {
  uint64_t none = 0;
  __atomic_compare_exchange_n(last_ + 2, &none, with_check(static_cast<uint32_t>(number)), false,
                              __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  count(last_ + 3);
}

bool Tree::is_intact(const Recording& recording) {
  std::ifstream in(path(recording), std::ios::binary);
  if (!in) return true;  // a recorder that was killed at once
  std::vector<char> bytes(kSize + 1);
  in.read(bytes.data(), kSize + 1);
  constexpr size_t kWords = 8;
  for (size_t i = 0; i < kWords; i++)
    if (!is_counter(bytes.data() + 8 * i)) return false;
  for (size_t i = kWords; i < kSize / 8; i++) {
    const bool ours = i == kOrderWords + kOrderCounter || i == kOrderWords + kFirstWriter ||
                      i == kOrderWords + kSecondWriter;
    if (!ours && std::any_of(bytes.begin() + 8 * i, bytes.begin() + 8 * i + 8, [](char b) { return b != 0; }))
      return false;
  }
  return in.gcount() == kSize;
}

bool is_without_events(const Recording& recording, uint64_t number) {
  std::error_code ec;
  return number > 1 && std::filesystem::file_size(recording.log_path(number), ec) == 0 && !ec &&
         !std::filesystem::exists(recording.manifest_path(number), ec);
}

std::vector<ProcessInfo> list_processes(const Recording& recording) {
  std::map<uint64_t, ProcessInfo> all;
  for (uint64_t number : recording.processes()) {
    ProcessInfo info;
    info.number = number;
    try {
      const LogFile log(recording.log_path(number));
      const FileHeader& header = log.header();
      info.start_ns = log.start_ns();
      info.birth = static_cast<Birth>(header.birth);
      info.parent = header.parent;
      info.parent_event = header.parent_event;
      info.pid = header.pid;
      info.damaged = header.process != number;
    } catch (const Error&) {
      info.empty = is_without_events(recording, number);
      info.damaged = !info.empty;
    }
    try {
      Manifest m = Manifest::load(recording.manifest_path(number));
      info.argv = m.argv;
      info.end = m.end;
    } catch (const Error&) {
      // A child that has not ended properly: its command is its parent's.
      if (auto parent = all.find(info.parent); parent != all.end()) info.argv = parent->second.argv;
    }
    if (auto parent = all.find(info.parent); parent != all.end())
      info.spawned = info.birth == Birth::Exec && parent->second.pid != info.pid;
    all[number] = info;
  }
  std::vector<ProcessInfo> list;
  for (auto& [number, info] : all) list.push_back(std::move(info));
  return list;
}

const char* birth_name(const ProcessInfo& info) {
  switch (info.birth) {
    case Birth::Start:
      return "start";
    case Birth::Fork:
      return "fork";
    case Birth::Exec:
      return info.spawned ? "spawn" : "exec";
  }
  return "?";
}

namespace {

[[noreturn]] void no_process(const Recording& recording, const std::string& name) {
  throw Error(
      fmt::format("the recording {} has no process {}; 'backstep ps' lists them", recording.name(), name),
      kExitUsage);
}

}  // namespace

uint64_t find_process(const Recording& recording, uint64_t number) {
  const auto all = recording.processes();
  if (std::find(all.begin(), all.end(), number) == all.end())
    no_process(recording, fmt::format("#{}", number));
  return number;
}

uint64_t find_process(const Recording& recording, const std::string& name) {
  constexpr std::string_view kNumber = "#", kLog = "process-", kPid = "pid:";
  std::string_view digits = name;
  auto strip = [&](std::string_view prefix) {
    if (!digits.starts_with(prefix)) return false;
    digits.remove_prefix(prefix.size());
    return true;
  };
  const bool only_number = strip(kNumber) || strip(kLog), only_pid = !only_number && strip(kPid);
  uint64_t value = 0;
  auto [end, err] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (err != std::errc{} || end != digits.data() + digits.size())
    throw Error(
        fmt::format("'{}' names no process: give a pid (1234 or pid:1234) or a number that 'backstep ps' "
                    "shows (#2 or process-2)",
                    name),
        kExitUsage);
  if (only_number) return find_process(recording, value);
  uint64_t found = 0;
  for (const ProcessInfo& info : list_processes(recording))
    if (info.pid == value) found = info.number;
  if (found) return found;
  if (only_pid) no_process(recording, name);
  return find_process(recording, value);
}

int first_thread(const Recording& recording, uint64_t number) {
  const FileHeader header = LogFile(recording.log_path(number)).header();
  if (static_cast<Birth>(header.birth) != Birth::Fork || header.parent >= number) return 1;
  LogReader parent(recording.log_path(header.parent), first_thread(recording, header.parent));
  Event event;
  while (parent.next(event))
    if (event.number >= header.parent_event) return event.thread;
  return parent.thread_now();  // the parent was killed before it could log the fork
}

namespace {

// The log that follows one with this end: 0 if there is none. Numbers grow along the chain, so it ends.
uint64_t next_program(uint64_t number, const std::optional<Manifest::End>& end) {
  if (!end || end->kind != EndKind::Exec || end->status <= static_cast<int64_t>(number)) return 0;
  return static_cast<uint64_t>(end->status);
}

std::optional<Manifest::End> end_of(const Recording& recording, uint64_t number) {
  try {
    return Manifest::load(recording.manifest_path(number)).end;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

uint64_t next_program(const Recording& recording, uint64_t number) {
  return next_program(number, end_of(recording, number));
}

Final final_end(const Recording& recording, const std::optional<Manifest::End>& first) {
  Final last{1, first};
  while (const uint64_t next = next_program(last.process, last.end)) last = {next, end_of(recording, next)};
  return last;
}

}  // namespace backstep::recording
