// `backstep pack`: a recording refers to mapped files in the shared store; packing copies them into its
// folder, which can then be moved, archived or sent. Its logs are compressed.
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/options.h"
#include "recording/kept_sources.h"
#include "recording/library.h"
#include "recording/log_packer.h"
#include "recording/log_reader.h"
#include "recording/tree.h"
#include "session/modules.h"
#include "symbols/source_files.h"

namespace backstep::cli {
namespace {

// A recorder has started us: with all signals blocked and the program's limits, and others have better use
// for the processors.
void stay_behind() {
  constexpr int kIdleClass = 3 << 13, kProcess = 1;
  constexpr int kLast = 19;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const auto what : {RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_NOFILE}) {
    rlimit limit{};
    if (getrlimit(what, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(what, &limit);
  }
  setpriority(PRIO_PROCESS, 0, kLast);
  const sched_param none_needed{};
  sched_setscheduler(0, SCHED_IDLE, &none_needed);
  syscall(SYS_ioprio_set, kProcess, 0, kIdleClass);
}

// Those of the distribution have theirs elsewhere, if anywhere.
size_t pack_sources(const recording::Library& library, const recording::Recording& r) {
  std::map<std::string, std::string> files;  // key -> the path that was mapped
  for (uint64_t process : r.processes()) {
    if (recording::is_without_events(r, process)) continue;
    recording::LogReader log(r.log_path(process));
    for (recording::Event e; log.next(e);)
      if (e.kind == recording::EventKind::Map && !e.key.empty()) files.emplace(e.key, e.text);
  }
  std::set<std::string> sources;
  for (const auto& [key, path] : files) {
    if (session::is_of_the_system(path)) continue;
    try {
      sources.merge(symbols::source_files(symbols::ElfFile(library.contents_path(r, key), path)));
    } catch (const Error&) {
      continue;  // no ELF file
    }
  }
  return static_cast<size_t>(std::count_if(sources.begin(), sources.end(), [&](const std::string& path) {
    return !path.starts_with("/usr/include/") && !session::is_of_the_system(path) &&
           recording::keep_source(r, path);
  }));
}

}  // namespace

int pack_command(const Args& args) {
  using recording::Library;
  using recording::Recording;
  std::string dir;
  bool quiet = false, logs = false, sources = false;
  CommandLine line(
      "pack", "[-q] [--sources | --logs] [DIR]",
      "Copies the contents of all files that the program had mapped (its libraries and so on) from\n"
      "the shared store into the recording's folder. After that the folder needs nothing else:\n"
      "copy it to another machine and replay it there. Long logs are compressed, if that has not been\n"
      "done while they were recorded. DIR: a name or path; the latest if left out.",
      "Example:\n"
      "  backstep pack sort-1 && tar -C ~/.local/share/backstep -czf sort-1.tar.gz sort-1");
  line.add_flag("-q,--quiet", quiet, "print nothing");
  line.add_flag("--sources", sources,
                "also take the program's source files along, as they are now, as far\n"
                "as debug information names them; gdb then shows those");
  line.add_flag("--logs", logs,
                "only compress the logs, at the lowest priority; if the recording is\n"
                "still being made, until it is complete ('backstep record' starts this\n"
                "for long ones)");
  line.add_option("DIR", dir);
  if (auto status = line.parse_args(args)) return *status;
  if (logs && sources) throw Error("--logs is about logs only: it does not go with --sources", kExitUsage);
  if (logs) stay_behind();
  Library library = Library::standard();
  Recording r = library.resolve(dir);
  if (logs) {
    const uint64_t freed = recording::pack_logs(r, true, false);
    if (!quiet) fmt::print("{}: {} less\n", r.dir(), format_size(freed));
    return 0;
  }
  const uint64_t freed = recording::pack_logs(r, false, true);
  uint64_t grown = library.pack(r);
  if (sources) {
    const size_t kept = pack_sources(library, r);
    if (!quiet) fmt::print("{}: {} source files taken along\n", r.dir(), kept);
  }
  if (!quiet)
    fmt::print("{}: {} files, {} added{}; the folder is self-contained\n", r.dir(), r.keys().size(),
               format_size(grown),
               freed ? fmt::format(", {} saved by compressing logs", format_size(freed)) : "");
  return 0;
}

}  // namespace backstep::cli
