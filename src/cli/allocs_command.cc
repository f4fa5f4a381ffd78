// `backstep allocs`: what a recorded program did wrong with its heap.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/stacks.h"
#include "recording/tree.h"
#include "session/heap_report.h"

namespace backstep::cli {
namespace {

using session::HeapFinding;
using session::HeapLeak;
using session::HeapReach;
using session::HeapReport;

std::string blocks_text(uint64_t blocks, uint64_t bytes) {
  return fmt::format("{} byte{} in {} block{}", format_count(bytes), bytes == 1 ? "" : "s",
                     format_count(blocks), blocks == 1 ? "" : "s");
}

void print_leak(const HeapLeak& l) {
  const auto& deed = l.first.allocated;
  const std::string heading = fmt::format("{} {}; {} in thread {} at {}{}", blocks_text(l.blocks, l.bytes),
                                          session::heap_reach_name(l.reach), deed.function->name, deed.thread,
                                          point_of(deed.at), l.blocks > 1 ? " (the first)" : "");
  print_stack(heading, l.stack);
}

std::string size_text(uint64_t n) {
  return fmt::format("{} byte{}", format_count(n), n == 1 ? "" : "s");
}

// Where an address is, seen from a block.
std::string place_text(const HeapFinding& f) {
  if (!f.block) return "in no block of the heap";
  const auto& b = *f.block;
  const uint64_t size = std::max<uint64_t>(b.size, 1);
  if (f.address == b.address) return fmt::format("a block of {}", size_text(b.size));
  if (f.address < b.address)
    return fmt::format("{} before a block of {}", size_text(b.address - f.address), size_text(b.size));
  if (f.address - b.address >= size)
    return fmt::format("{} behind a block of {}", size_text(f.address - b.address - b.size),
                       size_text(b.size));
  return fmt::format("{} into a block of {}", size_text(f.address - b.address), size_text(b.size));
}

void print_finding(const HeapFinding& f) {
  std::string text = fmt::format("{}: ", f.kind);
  if (f.is_access) text += fmt::format("{} of {} at ", f.store ? "store" : "load", size_text(f.size));
  text += fmt::format("{:#x}, {}", f.address, place_text(f));
  if (!f.is_access && f.size) text += fmt::format(", said to have {}", size_text(f.size));
  text += fmt::format("; thread {} at {}", f.thread, point_of(f.at));
  if (f.count > 1) text += fmt::format(" ({} times; this is the first)", format_count(f.count));
  print_stack(text, f.stack);
  if (!f.block) return;
  auto deed = [](const char* what, const session::HeapDeed& d, const session::StackAt& stack) {
    print_stack(
        fmt::format("  {} with {} in thread {} at {}", what, d.function->name, d.thread, point_of(d.at)),
        stack);
  };
  if (f.block->freed) deed("freed", *f.block->freed, f.freed);
  deed("allocated", f.block->allocated, f.allocated);
}

void print_report(const HeapReport& report, bool reachable, uint64_t limit) {
  if (report.errors_known) {
    for (const HeapFinding& f : report.findings) print_finding(f), put_line("");
    if (report.findings.empty()) put_line("no errors were found");
  }
  if (report.leaks_known) {
    uint64_t shown = 0, hidden = 0;
    for (const HeapLeak& l : report.leaks) {
      if (l.reach == HeapReach::Reachable && !reachable) continue;
      if (shown >= limit) {
        hidden++;
        continue;
      }
      shown++;
      print_leak(l), put_line("");
    }
    if (hidden) put_line(fmt::format("({} more places; --limit for more)\n", format_count(hidden)));
  }
  put_line(fmt::format("allocated        {}, freed {}",
                       blocks_text(report.allocated.blocks, report.allocated.bytes),
                       blocks_text(report.freed.blocks, report.freed.bytes)));
  put_line(fmt::format("at most          {} at a time, at {}", size_text(report.peak),
                       format_point(report.peak_at)));
  if (!report.leaks_known) return;
  for (size_t i = 0; i < session::kHeapReaches; i++) {
    const auto reach = static_cast<HeapReach>(i);
    put_line(fmt::format("{:<16} {}{}", session::heap_reach_name(reach),
                         blocks_text(report.left[i].blocks, report.left[i].bytes),
                         reach == HeapReach::Reachable && report.left[i].blocks && !reachable
                             ? " (--reachable lists them)"
                             : ""));
  }
}

struct Shown {
  bool frees, uses, unwritten, leaks, reachable;
  uint64_t limit;
};

// `number`: it is one of several processes.
int report_of(Asking& asking, const Shown& shown, const uint64_t* number) {
  auto session = asking.open();
  session::HeapReportRequest request;
  request.to = asking.stretch(*session).to;
  request.errors = shown.frees;
  request.uses = shown.uses;
  request.unwritten = shown.unwritten;
  request.leaks = shown.leaks;
  HeapReport report;
  {
    ProgressBar bar("looking");
    report = session::heap_report(*session, request, bar.watcher());
  }
  const session::AskedProcess process{number ? *number : 0,
                                      static_cast<uint64_t>(session->timeline().log().pid()), ""};
  if (asking.json) {
    Json object = session::heap_json(report);
    if (number) add_process(object, process);
    put_line(object.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    if (number) put_line(fmt::format("#{}, pid {}", process.number, process.pid));
    print_report(report, shown.reachable, shown.limit);
    if (number) put_line("");
  }
  const bool lost = report.left[static_cast<size_t>(HeapReach::Lost)].blocks > 0;
  return lost || !report.findings.empty() ? kExitFailure : 0;
}

}  // namespace

int allocs_command(const Args& args) {
  Asking asking;
  std::vector<std::string> arguments;
  bool leaks = false, errors = false, frees = false, uninitialised = false, reachable = false;
  uint64_t limit = 20;
  CommandLine line(
      "allocs", "[options] [DIR]",
      "The heap of a recorded run: what had not been freed at its end, by the stack that allocated it, and\n"
      "whether something still points to it (--leaks, which is what is done if nothing is said); and what\n"
      "was freed twice, was never allocated, or was freed by a function that does not fit (--frees), and "
      "uses\n"
      "of memory after its free or beyond its ends (--errors: both; --uninitialised: before anybody has "
      "written\n"
      "to it, too).\n"
      "All memory of malloc, new and their relatives counts, also of libraries and before main; of a forked\n"
      "process, that of its parent, too. With --to MOMENT, the heap as it was then.\n"
      "Exit status: 1 if memory was lost or errors were found, else 0.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep allocs\n"
      "  backstep allocs --errors server-3\n"
      "  backstep allocs --leaks --reachable --to 50%\n"
      "  backstep sql 'SELECT function, caller, sum(size) FROM allocs WHERE freed IS NULL GROUP BY 1, 2'");
  asking.add_options(line);
  line.add_flag("--leaks", leaks, "what was not freed (the default)");
  line.add_flag("--errors", errors, "what was done wrong: frees, loads and stores");
  line.add_flag("--frees", frees, "… frees only, which takes far less time");
  line.add_flag("--uninitialised", uninitialised,
                "--errors, and loads of what nobody has written, which may be\nharmless");
  line.add_flag("--reachable", reachable, "list what is still pointed to as well");
  line.add_option("-n,--limit", limit, "at most N places of leaks, the largest (20)").type_name("N");
  line.add_option("DIR", arguments);
  if (auto status = line.parse_args(args)) return *status;
  if (arguments.size() > 1) throw Error("one recording at a time", kExitUsage);
  if (!arguments.empty()) asking.dir = arguments[0];
  if (!asking.from.empty() && asking.from != "start")
    throw Error("what is allocated depends on all that was before: there is no --from here", kExitUsage);
  errors |= uninitialised;
  const Shown shown{errors || frees, errors, uninitialised, leaks || !(errors || frees), reachable, limit};
  if (asking.process.empty()) return report_of(asking, shown, nullptr);
  const auto recording = recording::Library::standard().resolve(asking.dir);
  const auto numbers = session::find_several(recording, asking.process);
  if (!numbers) return report_of(asking, shown, nullptr);
  int status = 0;
  for (uint64_t n : *numbers) {
    if (recording::is_without_events(recording, n)) continue;
    asking.process = fmt::format("#{}", n);
    status = std::max(status, report_of(asking, shown, &n));
  }
  return status;
}

}  // namespace backstep::cli
