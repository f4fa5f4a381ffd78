// Files of /proc/PID that would show our machinery: the kernel's text, with what is ours taken out or
// replaced by what the guest should see.
#include "record/proc_files.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

#include "record/life.h"

namespace backstep::recorder {

using namespace guest;

namespace {

using layout::kPage;

std::string kernel_text(const ProcFile& file, const Shown& process) {
  std::ifstream in(kernels_path(file, process));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// How far the initial stack of another process has grown: to the lowest page that was ever touched.
uint64_t stack_size(const Shown& process) {
  if (process.stack) return *process.stack;
  uint64_t start = layout::kStackEnd;
  for (const Region* r = process.map->find(start - 1); r && r->name == kStackName;
       r = process.map->find(start - 1))
    start = r->start;
  const uint64_t whole = layout::kStackEnd - start, least = std::min(process.first_stack, whole);
  std::ifstream pagemap(process.folder + "/pagemap", std::ios::binary);
  pagemap.seekg(static_cast<std::streamoff>(start / kPage * 8));
  constexpr uint64_t kThere = 3ull << 62;  // in memory, or swapped out
  for (uint64_t at = start, entry = 0; at < layout::kStackEnd - least; at += kPage)
    if (!pagemap.read(reinterpret_cast<char*>(&entry), sizeof entry) || (entry & kThere))
      return pagemap ? layout::kStackEnd - at : least;
  return least;
}

struct Sizes {  // bytes
  uint64_t all = 0, data = 0, stack = 0, code = 0, libraries = 0;
};
Sizes sizes(const Shown& process) {
  Sizes s;
  s.stack = stack_size(process);
  s.all = process.map->size() + s.stack;
  s.data = process.map->data_size();
  process.map->for_each([&](const Region& r) {
    if (r.prot & PROT_EXEC) (r.name == process.exe ? s.code : s.libraries) += r.end - r.start;
  });
  return s;
}

Shown::Thread thread_of(const ProcFile& file, const Shown& process) {
  const Shown::Thread* thread = process.thread(file.tid);
  return thread ? *thread : Shown::Thread{};
}

// How large the kernel's table of descriptors would be without ours, which have high numbers.
uint64_t descriptor_slots(const Shown& process) {
  constexpr uint64_t kFirst = 64, kStep = 128;
  uint64_t last = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(process.folder + "/fd", ignored)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (std::find(process.our_fds.begin(), process.our_fds.end(), fd) == process.our_fds.end())
      last = std::max(last, static_cast<uint64_t>(fd));
  }
  return last < kFirst ? kFirst : std::bit_ceil(last / kStep + 1) * kStep;
}

// What the thread does, which one kernel thread does for all of them. `kernels`: what that file says.
char state_of(const ProcFile& file, const Shown& process, char kernels) {
  const int tid = file.tid ? file.tid : process.pid;
  const auto thread = std::find_if(process.threads.begin(), process.threads.end(),
                                   [&](const Shown::Thread& t) { return t.tid == tid; });
  const char runner = file.tid ? life_of(static_cast<uint32_t>(process.pid)).state : kernels;
  const bool stopped = runner == 'T' || runner == 't' || runner == 'Z' || runner == 'X';
  if (process.ended || stopped) return runner;
  if (thread == process.threads.end()) return 'Z';  // the first one has ended
  if (thread->state == 0 || (process.threads.size() == 1 && tid == process.pid)) return kernels;
  // Who has the turn may sleep in a call.
  return thread->state == 'R' && (runner == 'S' || runner == 'D') ? runner : thread->state;
}

const char* state_name(char state) {
  switch (state) {
    case 'R':
      return "R (running)";
    case 'S':
      return "S (sleeping)";
    case 't':
      return "t (tracing stop)";
    case 'Z':
      return "Z (zombie)";
    default:
      return nullptr;
  }
}

std::string status(const ProcFile& file, const Shown& process) {
  const Shown::Thread thread = thread_of(file, process);
  const Sizes size = sizes(process);
  std::istringstream lines(kernel_text(file, process));
  std::string text, line;
  auto kilobytes = [](const char* name, uint64_t bytes) {
    return fmt::format("{}:\t{:8} kB", name, bytes >> 10);
  };
  while (std::getline(lines, line)) {
    const std::string name = line.substr(0, line.find(':'));
    if (name == "State" && line.size() > 7)
      if (const char* text_of = state_name(state_of(file, process, line[7])))
        line = fmt::format("State:\t{}", text_of);
    if (name == "FDSize" && !process.ended) line = fmt::format("FDSize:\t{}", descriptor_slots(process));
    if (name == "VmPeak" || name == "VmSize") line = kilobytes(name.c_str(), size.all);
    if (name == "VmData") line = kilobytes("VmData", size.data);
    if (name == "VmStk") line = kilobytes("VmStk", size.stack);
    if (name == "VmExe") line = kilobytes("VmExe", size.code);
    if (name == "VmLib") line = kilobytes("VmLib", size.libraries);
    if (name == "Threads" && !process.ended) line = fmt::format("Threads:\t{}", process.threads.size());
    if (name == "SigBlk") line = fmt::format("SigBlk:\t{:016x}", thread.blocked);
    if (name == "SigIgn") line = fmt::format("SigIgn:\t{:016x}", process.ignored);
    if (name == "SigCgt") line = fmt::format("SigCgt:\t{:016x}", process.caught);
    // A container's own filters, which are there anyway, count too.
    if (name == "Seccomp" && thread.filters) line = "Seccomp:\t2";
    if (name == "Seccomp_filters")
      line =
          fmt::format("Seccomp_filters:\t{}", thread.filters + std::strtoul(line.c_str() + 16, nullptr, 10));
    text += line + "\n";
  }
  return text;
}

// proc(5): fields are counted from 1; the second is the command in parentheses.
std::string stat(const ProcFile& file, const Shown& process) {
  std::string line = kernel_text(file, process);
  const size_t close = line.rfind(')');
  if (close == std::string::npos) return line;
  std::istringstream rest(line.substr(close + 1));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  auto set = [&](size_t number, uint64_t value) {
    if (number >= 3 && number - 3 < fields.size()) fields[number - 3] = std::to_string(value);
  };
  if (!fields.empty()) fields[0][0] = state_of(file, process, fields[0][0]);
  if (!process.ended) {
    set(20, process.threads.size());
    set(23, sizes(process).all);
    // Who has no right to see addresses sees 1.
    const bool permitted = fields.size() > 26 - 3 && fields[26 - 3].size() > 1;
    const ProgramLayout& at = process.layout;
    const std::pair<size_t, uint64_t> places[] = {
        {26, at.start_code}, {27, at.end_code},  {28, at.start_stack}, {45, at.start_data}, {46, at.end_data},
        {47, at.start_brk},  {48, at.arg_start}, {49, at.arg_end},     {50, at.env_start},  {51, at.env_end}};
    for (const auto& [number, address] : places)
      if (permitted) set(number, address);
    set(29, 0), set(30, 0);
  }
  set(32, thread_of(file, process).blocked & 0x7fff'ffff);
  set(33, process.ignored & 0x7fff'ffff);
  set(34, process.caught & 0x7fff'ffff);
  std::string text = line.substr(0, close + 1);
  for (const std::string& field : fields) text += " " + field;
  return text + "\n";
}

std::string statm(const ProcFile& file, const Shown& process) {
  const Sizes size = sizes(process);
  std::istringstream numbers(kernel_text(file, process));
  uint64_t all = 0, resident = 0, shared = 0;
  numbers >> all >> resident >> shared;
  resident = std::min(resident, size.all / kPage);
  return fmt::format("{} {} {} {} 0 {} 0\n", size.all / kPage, resident, std::min(shared, resident),
                     size.code / kPage, (size.data + size.stack) / kPage);
}

// Of another process, and of one with a single thread, the kernel's will do.
std::string call(const ProcFile& file, const Shown& process) {
  const Shown::Thread thread = thread_of(file, process);
  if (thread.state == 'R') return "running\n";
  return thread.call.empty() ? kernel_text(file, process) : thread.call;
}

// The limits that we keep ourselves: the kernel's are raised.
std::string limits(const ProcFile& file, const Shown& process) {
  auto value = [](uint64_t n) { return n == Limit::kNone ? "unlimited" : std::to_string(n); };
  std::istringstream lines(kernel_text(file, process));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    struct {
      const char *name, *unit;
      Limit limit;
    } const kept[] = {{"Max address space", "bytes", process.limits.space},
                      {"Max data size", "bytes", process.limits.data},
                      {"Max stack size", "bytes", process.limits.stack},
                      {"Max open files", "files", process.limits.files}};
    for (const auto& [name, unit, limit] : kept)
      if (line.starts_with(name))
        line = fmt::format("{:<25} {:<20} {:<20} {:<10}", name, value(limit.soft), value(limit.hard), unit);
    text += line + "\n";
  }
  return text;
}

// One mapping of the guest's in smaps. The kernel's mappings are others: it joins code and constants, which
// are both only readable for us, and has parts of one apart. Sizes in memory are added up, or divided.
struct MappedSizes {
  std::vector<std::pair<std::string, uint64_t>> lines;  // name and kB
  std::string flags;

  void add(const std::string& name, uint64_t kb) {
    auto it = std::find_if(lines.begin(), lines.end(), [&](auto& line) { return line.first == name; });
    if (it == lines.end()) it = lines.insert(lines.end(), {name, 0});
    const bool sum =
        name != "KernelPageSize" && name != "MMUPageSize" && name != "THPeligible" && name != "ProtectionKey";
    it->second = sum ? it->second + kb : kb;
  }
};

std::string size_line(const std::string& name, uint64_t value, const char* unit) {
  constexpr size_t kEnd = 24;  // of the number
  return fmt::format("{}:{:>{}}{}\n", name, value, kEnd - 1 - std::min(name.size(), kEnd - 2), unit);
}

// The kernel's flags, with the rights that the guest has.
std::string region_flags(const std::string& kernels, const Region& r) {
  std::string text = "VmFlags:";
  if (r.prot & PROT_READ) text += " rd";
  if (r.prot & PROT_WRITE) text += " wr";
  if (r.prot & PROT_EXEC) text += " ex";
  std::istringstream words(kernels);
  for (std::string word; words >> word;)
    if (word != "rd" && word != "wr" && word != "ex") text += " " + word;
  return text + " \n";
}

// By the region's start.
std::map<uint64_t, MappedSizes> mapped_sizes(const ProcFile& file, const Shown& process) {
  std::map<uint64_t, MappedSizes> shown;
  ProcFile smaps = file;
  smaps.name = "smaps";
  std::istringstream lines(kernel_text(smaps, process));
  uint64_t start = 0, end = 0;
  auto each_part = [&](auto&& f) {
    for (const Region* r = process.map->next(start); r && r->start < end; r = process.map->next(r->end))
      f(*r, std::min(end, r->end) - std::max(start, r->start));
  };
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    // Not into `start` at once: "Anonymous" begins with a digit.
    if (uint64_t from, to; sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      start = from;
      end = to;
      continue;
    }
    if (end <= start || colon == std::string::npos) continue;
    const std::string name = line.substr(0, colon), rest = line.substr(colon + 1);
    const uint64_t value = std::strtoull(rest.c_str(), nullptr, 10);
    const bool size = rest.ends_with(" kB") && !name.ends_with("PageSize") && name != "Size";
    each_part([&](const Region& r, uint64_t part) {
      MappedSizes& sizes = shown[r.start];
      if (name == "VmFlags")
        sizes.flags = region_flags(rest, r);
      else if (name == "Size")
        sizes.add(name, part >> 10);
      else
        sizes.add(name,
                  size && part != end - start ? value * (part / kPage) / ((end - start) / kPage) : value);
    });
  }
  return shown;
}

std::string smaps(const ProcFile& file, const Shown& process) {
  std::map<uint64_t, MappedSizes> shown = mapped_sizes(file, process);
  std::string text;
  process.map->for_each([&](const Region& r) {
    MemoryMap one;
    one.add(r);
    text += one.proc_maps();
    const MappedSizes& sizes = shown[r.start];
    for (const auto& [name, value] : sizes.lines) {
      const bool bare = name == "THPeligible" || name == "ProtectionKey";
      text += size_line(name, value, bare ? "" : " kB");
    }
    text += sizes.flags;
  });
  return text;
}

// The sums of smaps. The kernel has lines that smaps has not (shares of kinds of memory): they are divided as
// the sum is.
std::string smaps_rollup(const ProcFile& file, const Shown& process) {
  MappedSizes sums;
  for (const auto& [start, sizes] : mapped_sizes(file, process))
    for (const auto& [name, value] : sizes.lines) sums.add(name, value);
  auto sum = [&](const std::string& name) -> std::optional<uint64_t> {
    for (const auto& [known, value] : sums.lines)
      if (known == name) return value;
    return std::nullopt;
  };
  Region all{~0ull, 0, 0, MAP_PRIVATE, 0, "[rollup]", 0, 0};
  process.map->for_each([&](const Region& r) {
    all.start = std::min(all.start, r.start);
    all.end = std::max(all.end, r.end);
  });
  MemoryMap one;
  one.add(all);
  std::istringstream lines(kernel_text(file, process));
  std::string text, line;
  std::getline(lines, line);
  if (line.empty()) return text;
  text = one.proc_maps();
  uint64_t left = sum("Pss").value_or(0);  // of it
  while (std::getline(lines, line)) {
    const std::string name = line.substr(0, line.find(':'));
    uint64_t value = std::strtoull(line.c_str() + std::min(line.size(), name.size() + 1), nullptr, 10);
    if (auto known = sum(name)) {
      value = *known;
    } else if (name == "Pss_Anon" || name == "Pss_File" || name == "Pss_Shmem") {
      if (name == "Pss_Anon") value = sum("Anonymous").value_or(value);
      value = std::min(value, left);
      left -= value;
    }
    text += size_line(name, value, " kB");
  }
  return text;
}

// In the kernel's order: nodes (N0=…) and the size of pages last.
size_t place(const std::pair<std::string, uint64_t>& count) {
  constexpr std::string_view kOrder[] = {"anon",      "dirty",  "mapped",    "mapmax",
                                         "swapcache", "active", "writeback", "N"};
  const std::string_view name = count.first.starts_with('N') ? "N" : std::string_view(count.first);
  return static_cast<size_t>(std::find(std::begin(kOrder), std::end(kOrder), name) - std::begin(kOrder));
}

// Counts of pages of the kernel's mappings are shown with the guest's that they begin in.
std::string numa_maps(const ProcFile& file, const Shown& process) {
  using Counts = std::vector<std::pair<std::string, uint64_t>>;
  struct Kernels {
    std::string policy;
    Counts counts;
  };
  std::map<uint64_t, Kernels> mappings;
  std::istringstream lines(kernel_text(file, process));
  for (std::string line, word; std::getline(lines, line);) {
    std::istringstream words(line);
    uint64_t start = 0;
    Kernels k;
    words >> std::hex >> start >> k.policy;
    while (words >> word) {
      const size_t equals = word.find('=');
      if (equals != std::string::npos && !word.starts_with("file="))
        k.counts.emplace_back(word.substr(0, equals), std::strtoull(word.c_str() + equals + 1, nullptr, 10));
    }
    mappings[start] = std::move(k);
  }
  std::string text;
  process.map->for_each([&](const Region& r) {
    auto it = mappings.upper_bound(r.start);
    const bool known = it != mappings.begin();
    text += fmt::format("{:08x} {}", r.start, known ? std::prev(it)->second.policy : "default");
    if (r.name.starts_with('/')) text += " file=" + r.name;
    if (r.name.starts_with('[')) text += " " + r.name.substr(1, r.name.size() - 2);  // heap, stack
    Counts sums;
    for (it = mappings.lower_bound(r.start); it != mappings.end() && it->first < r.end; ++it)
      for (const auto& count : it->second.counts) {
        auto sum = std::find_if(sums.begin(), sums.end(), [&](auto& s) { return s.first == count.first; });
        if (sum == sums.end()) sum = sums.insert(sums.end(), {count.first, 0});
        const bool adds = count.first != "mapmax" && count.first != "kernelpagesize_kB";
        sum->second = adds ? sum->second + count.second : std::max(sum->second, count.second);
      }
    std::stable_sort(sums.begin(), sums.end(), [](auto& a, auto& b) { return place(a) < place(b); });
    for (const auto& [name, count] : sums) text += fmt::format(" {}={}", name, count);
    text += "\n";
  });
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

std::optional<ProcFile> parse_proc_path(const std::string& path, int self) {
  if (!path.starts_with("/proc")) return std::nullopt;
  const std::string plain = std::filesystem::path(path).lexically_normal();
  std::string_view rest = plain;
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
    file.pid = getpid();
    file.tid = self;
  } else if (strip("self")) {
    file.pid = getpid();
  } else if (auto pid = take_number(rest)) {
    file.pid = *pid;
  } else {
    return std::nullopt;
  }
  if (std::string_view before = rest; strip("task") && !rest.empty()) {
    auto tid = take_number(rest);
    if (!tid) return std::nullopt;
    file.tid = *tid;
  } else {
    rest = before;
  }
  file.name = rest;
  while (file.name.ends_with('/')) file.name.pop_back();
  return file;
}

bool is_text(const ProcFile& file) {
  constexpr std::string_view kNames[] = {"auxv",  "cmdline",      "environ", "limits", "maps",   "numa_maps",
                                         "smaps", "smaps_rollup", "stat",    "statm",  "status", "syscall"};
  return std::find(std::begin(kNames), std::end(kNames), file.name) != std::end(kNames);
}

bool may_show_us(const ProcFile& file) {
  constexpr std::string_view kOthers[] = {"", "exe", "fd", "fdinfo", "mem", "task"};
  return file.tid || file.name.starts_with("fd/") || file.name.starts_with("fdinfo/") || is_text(file) ||
         std::find(std::begin(kOthers), std::end(kOthers), file.name) != std::end(kOthers);
}

std::string kernels_path(const ProcFile& file, const Shown& process) {
  return file.tid ? fmt::format("{}/task/{}/{}", process.folder, file.tid, file.name)
                  : process.folder + "/" + file.name;
}

SignalSets signal_sets(const Process& process) {
  SignalSets sets;
  for (int signo = 1; signo <= kSignals; signo++) {
    if (process.actions[signo].handler == 1) sets.ignored |= 1ull << (signo - 1);
    if (process.actions[signo].handler > 1) sets.caught |= 1ull << (signo - 1);
  }
  return sets;
}

Shown shown_of(const Process& process) {
  Shown shown;
  shown.pid = getpid();
  shown.folder = "/proc/self";
  shown.map = &process.map;
  const SignalSets signals = signal_sets(process);
  shown.ignored = signals.ignored;
  shown.caught = signals.caught;
  shown.limits = process.limits;
  shown.first_stack = process.first_stack;
  shown.stack = process.stack_size();
  for (const auto& [name, thread] : process.threads()) {
    const bool current = thread.get() == &process.current();
    shown.threads.push_back(
        {thread->tid, current ? process.signals.mask : thread->signals.mask, count(thread->filters), 0, {}});
  }
  for (int fd : bs_record.our_fds)
    if (fd >= 0) shown.our_fds.push_back(fd);
  return shown;
}

std::optional<std::string> proc_file(const ProcFile& file, const Shown& process) {
  if (file.name == "maps") return process.map->proc_maps();
  if (file.name == "smaps") return smaps(file, process);
  if (file.name == "smaps_rollup") return smaps_rollup(file, process);
  if (file.name == "numa_maps") return numa_maps(file, process);
  if (file.name == "status") return status(file, process);
  if (file.name == "stat") return stat(file, process);
  if (file.name == "statm") return statm(file, process);
  if (file.name == "limits") return limits(file, process);
  if (file.name == "syscall") return call(file, process);
  return std::nullopt;
}

}  // namespace backstep::recorder
