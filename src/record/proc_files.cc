// Files of /proc/self that would show our machinery: the kernel's text, with what is ours taken out or
// replaced by what the guest should see.
#include "record/proc_files.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

namespace backstep::recorder {

using namespace guest;

namespace {

std::string kernel_text(const std::string& name) {
  std::ifstream in("/proc/self/" + name);
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

std::string status(const Process& process) {
  const Signals signals = dispositions(process);
  const Sizes size = sizes(process);
  std::istringstream lines(kernel_text("status"));
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
    if (name == "SigBlk") line = fmt::format("SigBlk:\t{:016x}", process.signals.mask);
    if (name == "SigIgn") line = fmt::format("SigIgn:\t{:016x}", signals.ignored);
    if (name == "SigCgt") line = fmt::format("SigCgt:\t{:016x}", signals.caught);
    // A container's own filters, which are there anyway, count too.
    const size_t filters = count(process.current().filters);
    if (name == "Seccomp" && filters) line = "Seccomp:\t2";
    if (name == "Seccomp_filters")
      line = fmt::format("Seccomp_filters:\t{}", filters + std::strtoul(line.c_str() + 16, nullptr, 10));
    text += line + "\n";
  }
  return text;
}

// proc(5): fields are counted from 1; the second is the command in parentheses.
std::string stat(const Process& process) {
  std::string line = kernel_text("stat");
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
  set(32, process.signals.mask & 0x7fff'ffff);
  set(33, signals.ignored & 0x7fff'ffff);
  set(34, signals.caught & 0x7fff'ffff);
  std::string text = line.substr(0, close + 1);
  for (const std::string& field : fields) text += " " + field;
  return text + "\n";
}

std::string statm(const Process& process) {
  const Sizes size = sizes(process);
  std::istringstream numbers(kernel_text("statm"));
  uint64_t all = 0, resident = 0, shared = 0;
  numbers >> all >> resident >> shared;
  constexpr uint64_t kPage = layout::kPage;
  resident = std::min(resident, size.all / kPage);
  return fmt::format("{} {} {} {} 0 {} 0\n", size.all / kPage, resident, std::min(shared, resident),
                     size.code / kPage, (size.data + size.stack) / kPage);
}

// The kernel's entries for what is the guest's, with the guest's own rights and names.
std::string smaps(const Process& process) {
  std::istringstream lines(kernel_text("smaps"));
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

std::optional<std::string> proc_file(const std::string& name, const Process& process) {
  if (name == "maps") return process.map.proc_maps();
  if (name == "smaps") return smaps(process);
  if (name == "status") return status(process);
  if (name == "stat") return stat(process);
  if (name == "statm") return statm(process);
  return std::nullopt;
}

}  // namespace backstep::recorder
