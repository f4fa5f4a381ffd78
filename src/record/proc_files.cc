// Files of /proc/self that would show our machinery: the kernel's text, with what is ours taken out or
// replaced by what the guest should see.
#include "record/proc_files.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "recording/log_reader.h"

namespace backstep::recorder {

using namespace guest;

namespace {

// The kernel's text; for a thread other than the first, which is the kernel's too, that of its own folder.
std::string kernel_text(const ProcFile& file) {
  std::ifstream in(file.tid ? fmt::format("/proc/self/task/{}/{}", file.tid, file.name)
                            : "/proc/self/" + file.name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Signals {
  uint64_t ignored = 0, caught = 0;
};
Signals dispositions(const Process& process) {
  Signals s;
  for (int signo = 1; signo <= kSignals; signo++) {
    if (process.actions[signo].handler == 1) s.ignored |= 1ull << (signo - 1);
    if (process.actions[signo].handler > 1) s.caught |= 1ull << (signo - 1);
  }
  return s;
}

struct Sizes {  // bytes
  uint64_t all = 0, data = 0, stack = 0, code = 0;
};
Sizes sizes(const Process& process) {
  Sizes s;
  process.map.for_each([&](const Region& r) {
    const uint64_t n = r.end - r.start;
    const bool stack = r.name == "[stack]";
    s.all += stack ? std::min<uint64_t>(n, 132 << 10) : n;  // natively it grows as it is used
    if (stack) s.stack = std::min<uint64_t>(n, 132 << 10);
    if (r.prot & PROT_EXEC) s.code += n;
    if (!stack && (r.prot & PROT_WRITE) && !(r.flags & MAP_SHARED)) s.data += n;
  });
  return s;
}

// Files of the process are about its first thread, if that is still there.
const Thread& thread_of(const ProcFile& file, const Process& process) {
  for (const auto& [name, thread] : process.threads())
    if (file.tid ? thread->tid == file.tid : name == 1) return *thread;
  return process.current();
}

uint64_t mask_of(const Thread& thread, const Process& process) {
  return &thread == &process.current() ? process.signals.mask : thread.signals.mask;
}

std::string status(const ProcFile& file, const Process& process) {
  const Thread& thread = thread_of(file, process);
  const Signals signals = dispositions(process);
  const Sizes size = sizes(process);
  std::istringstream lines(kernel_text(file));
  std::string text, line;
  auto kilobytes = [](const char* name, uint64_t bytes) {
    return fmt::format("{}:\t{:8} kB", name, bytes >> 10);
  };
  while (std::getline(lines, line)) {
    const std::string name = line.substr(0, line.find(':'));
    if (name == "VmPeak" || name == "VmSize") line = kilobytes(name.c_str(), size.all);
    if (name == "VmData") line = kilobytes("VmData", size.data);
    if (name == "VmStk") line = kilobytes("VmStk", size.stack);
    if (name == "VmExe") line = kilobytes("VmExe", size.code);
    if (name == "VmLib") line = kilobytes("VmLib", 0);
    if (name == "Threads") line = fmt::format("Threads:\t{}", process.threads().size());
    if (name == "SigBlk") line = fmt::format("SigBlk:\t{:016x}", mask_of(thread, process));
    if (name == "SigIgn") line = fmt::format("SigIgn:\t{:016x}", signals.ignored);
    if (name == "SigCgt") line = fmt::format("SigCgt:\t{:016x}", signals.caught);
    // A container's own filters, which are there anyway, count too.
    const size_t filters = count(thread.filters);
    if (name == "Seccomp" && filters) line = "Seccomp:\t2";
    if (name == "Seccomp_filters")
      line = fmt::format("Seccomp_filters:\t{}", filters + std::strtoul(line.c_str() + 16, nullptr, 10));
    text += line + "\n";
  }
  return text;
}

// proc(5): fields are counted from 1; the second is the command in parentheses.
std::string stat(const ProcFile& file, const Process& process) {
  std::string line = kernel_text(file);
  const size_t close = line.rfind(')');
  if (close == std::string::npos) return line;
  std::istringstream rest(line.substr(close + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  auto set = [&](size_t number, uint64_t value) {
    if (number >= 3 && number - 3 < fields.size()) fields[number - 3] = std::to_string(value);
  };
  const Signals signals = dispositions(process);
  set(20, process.threads().size());
  set(23, sizes(process).all);
  for (size_t address : {26, 27, 28, 29, 30, 45, 46, 47})
    set(address, 0);  // as without the right to see them
  set(32, mask_of(thread_of(file, process), process) & 0x7fff'ffff);
  set(33, signals.ignored & 0x7fff'ffff);
  set(34, signals.caught & 0x7fff'ffff);
  std::string text = line.substr(0, close + 1);
  for (const std::string& field : fields) text += " " + field;
  return text + "\n";
}

std::string statm(const ProcFile& file, const Process& process) {
  const Sizes size = sizes(process);
  std::istringstream numbers(kernel_text(file));
  uint64_t all = 0, resident = 0, shared = 0;
  numbers >> all >> resident >> shared;
  constexpr uint64_t kPage = layout::kPage;
  resident = std::min(resident, size.all / kPage);
  return fmt::format("{} {} {} {} 0 {} 0\n", size.all / kPage, resident, std::min(shared, resident),
                     size.code / kPage, (size.data + size.stack) / kPage);
}

// The kernel's entries for what is the guest's, with the guest's own rights and names.
std::string smaps(const ProcFile& file, const Process& process) {
  std::istringstream lines(kernel_text(file));
  std::string text, line;
  bool shown = false;
  while (std::getline(lines, line)) {
    uint64_t start = 0, end = 0;
    if (sscanf(line.c_str(), "%lx-%lx ", &start, &end) == 2 && line.find('-') < 17) {
      const Region* r = process.map.find(start);
      shown = r != nullptr;
      if (!shown) continue;
      MemoryMap one;
      Region part = *r;
      part.offset += start - r->start;
      part.start = start;
      part.end = std::min(end, r->end);
      one.add(part);
      text += one.proc_maps();
    } else if (shown) {
      text += line + "\n";
    }
  }
  return text;
}

}  // namespace

uint64_t ProcFile::descriptor() const {
  const size_t slash = name.find('/');
  uint64_t number = 0;
  const char* last = name.data() + name.size();
  if (slash == std::string::npos) return ~0ull;
  auto [end, err] = std::from_chars(name.data() + slash + 1, last, number);
  return err == std::errc{} && end == last ? number : ~0ull;
}

namespace {

// Takes a number and the slash behind it, if there is one, off the front of a path.
std::optional<int> take_number(std::string_view& path) {
  int number = 0;
  auto [end, err] = std::from_chars(path.data(), path.data() + path.size(), number);
  if (err != std::errc{} || number <= 0) return std::nullopt;
  std::string_view rest = path.substr(static_cast<size_t>(end - path.data()));
  if (!rest.empty() && rest.front() != '/') return std::nullopt;
  while (rest.starts_with('/')) rest.remove_prefix(1);
  path = rest;
  return number;
}

}  // namespace

std::optional<ProcFile> own_proc_file(const std::string& path, const Process& process) {
  std::string_view rest = path;
  auto strip = [&](std::string_view prefix) {
    if (!rest.starts_with(prefix) || (rest.size() > prefix.size() && rest[prefix.size()] != '/'))
      return false;
    rest.remove_prefix(prefix.size());
    while (rest.starts_with('/')) rest.remove_prefix(1);
    return true;
  };
  ProcFile file;
  if (!strip("/proc")) return std::nullopt;
  if (strip("thread-self")) {
    file.tid = process.current().name == 1 ? 0 : process.current().tid;
  } else if (!strip("self")) {
    auto pid = take_number(rest);
    if (pid != getpid()) return std::nullopt;
  }
  if (std::string_view before = rest; strip("task") && !rest.empty()) {
    auto tid = take_number(rest);
    auto has = [&](const auto& t) { return t.second->tid == tid; };
    auto found = std::find_if(process.threads().begin(), process.threads().end(), has);
    if (found == process.threads().end()) return std::nullopt;
    file.tid = found->first == 1 ? 0 : *tid;
  } else {
    rest = before;
  }
  file.name = rest;
  while (file.name.ends_with('/')) file.name.pop_back();
  return file;
}

bool is_recorded(int pid) {
  struct stat ours {
  }, other{};
  return ::stat("/proc/self/exe", &ours) == 0 &&
         ::stat(fmt::format("/proc/{}/exe", pid).c_str(), &other) == 0 && ours.st_dev == other.st_dev &&
         ours.st_ino == other.st_ino;
}

std::optional<ProcFile> other_proc_file(const std::string& path) {
  constexpr std::string_view kProc = "/proc/";
  std::string_view rest = path;
  if (!rest.starts_with(kProc)) return std::nullopt;
  rest.remove_prefix(kProc.size());
  auto pid = take_number(rest);
  if (!pid || *pid == getpid() || (rest != "exe" && rest != "environ") || !is_recorded(*pid))
    return std::nullopt;
  return ProcFile{std::string(rest), *pid};
}

namespace {

uint64_t parent_of(uint64_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(in, line);
  const size_t close = line.rfind(')');
  if (close == std::string::npos || close + 4 >= line.size()) return 0;
  return std::strtoull(line.c_str() + close + 4, nullptr, 10);
}

}  // namespace

namespace {

using recording::Birth;
using recording::EndKind;

// Has a forked child become another program? Most do at once, so only the beginnings of long logs are looked
// at.
bool became_another(const std::string& path) {
  constexpr uint64_t kMost = 10'000;
  recording::LogReader log(path);
  recording::Event event;
  while (log.next(event) && event.number < kMost)
    if (event.kind == recording::EventKind::End) return event.end == EndKind::Exec;
  return false;
}

// nullopt: there is nothing to read yet.
std::optional<recording::Manifest> current_manifest(const recording::Recording& recording, uint64_t pid) {
  try {
    auto numbers = recording.processes();
    for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
      recording::FileHeader header = recording::LogFile(recording.log_path(*number)).header();
      if (header.pid != pid) continue;
      const bool forked = static_cast<Birth>(header.birth) == Birth::Fork;
      if (forked && became_another(recording.log_path(*number))) return std::nullopt;
      // A forked child has none of its own before it ends. It is the same program as its parent.
      while (static_cast<Birth>(header.birth) == Birth::Fork && header.parent < header.process)
        header = recording::LogFile(recording.log_path(header.parent)).header();
      auto manifest = recording::Manifest::load(recording.manifest_path(header.process));
      if (!forked && manifest.end && manifest.end->kind == EndKind::Exec) return std::nullopt;
      return manifest;
    }
  } catch (const Error&) {
    // Being written at the moment.
  }
  return std::nullopt;
}

}  // namespace

// Processes that were started a moment ago are waited for. One that has no log then is a child of vfork, and
// so the same program as its parent.
std::optional<recording::Manifest> manifest_of(const recording::Recording& recording, uint64_t pid) {
  constexpr int kTries = 300;
  const timespec pause{0, 1'000'000};
  for (int i = 0; i < kTries; i++) {
    if (auto manifest = current_manifest(recording, pid)) return manifest;
    if (!is_recorded(static_cast<int>(pid))) return std::nullopt;
    nanosleep(&pause, nullptr);
  }
  return current_manifest(recording, parent_of(pid));
}

std::optional<std::string> proc_file(const ProcFile& file, const Process& process) {
  if (file.name == "maps") return process.map.proc_maps();
  if (file.name == "smaps") return smaps(file, process);
  if (file.name == "status") return status(file, process);
  if (file.name == "stat") return stat(file, process);
  if (file.name == "statm") return statm(file, process);
  return std::nullopt;
}

}  // namespace backstep::recorder
