// fuzz_instructions: random instructions natively and translated, final states compared.
//
//   fuzz_instructions [--seconds N] [--count N] [--seed S]... [--mode NAME]... [--keep-going N]
//                     [--regressions FILE] [--case LINE]
//
// Without --seed: a fixed list and one from the clock, which is printed. Without --mode: all modes, one after
// the other. A mode is a way in which the engine works (options.h) and whether AVX-512 is used; the latter
// makes the engine count in memory for good, so each mode has processes of its own. Ends with 1 at the first
// mismatch (or after N), with the smallest form of the case that still shows it, as a line for
// regressions.txt.
#include <fmt/format.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "case.h"
#include "engine/engine.h"
#include "generate.h"

namespace fuzz {
namespace {

using backstep::EngineOptions;
using Clock = std::chrono::steady_clock;

struct Mode {
  std::string name;
  bool evex = false;
  EngineOptions options;
  Drive drive = Drive::Run;
};

// A mode's name is a list of words. Nothing of this may change what a snippet does.
std::optional<Mode> parse_mode(const std::string& name) {
  Mode mode{name, false, {}, Drive::Run};
  std::istringstream words(name);
  for (std::string word; std::getline(words, word, '+');) {
    if (word == "evex")
      mode.evex = true;  // AVX-512 instructions, too
    else if (word == "memory")
      mode.options.counter = EngineOptions::Counter::Memory;  // count ticks in memory
    else if (word == "tiny")
      mode.options.cache_size = 64 << 10;  // flushes all the time
    else if (word == "single")
      mode.options.max_block = 1;
    else if (word == "double")
      mode.options.max_block = 2;
    else if (word == "unlinked")
      mode.options.links = false;
    else if (word == "checked")
      mode.options.check_ticks = true;  // stops every few ticks
    else if (word == "stepped")
      mode.drive = Drive::Step, mode.options.check_ticks = true;
    else if (word == "interrupted")
      mode.drive = Drive::Interrupt;
    else if (word != "plain")
      return std::nullopt;
  }
  return mode;
}

constexpr const char* kModes[] = {"plain",
                                  "evex",
                                  "memory",
                                  "checked",
                                  "single",
                                  "unlinked",
                                  "tiny",
                                  "tiny+double+unlinked+memory+checked",
                                  "stepped",
                                  "interrupted",
                                  "evex+checked",
                                  "evex+single",
                                  "evex+stepped",
                                  "evex+interrupted",
                                  "checked+interrupted",
                                  "tiny+checked"};

// A child process that works on batches.
class Worker {
 public:
  template <class Run>
  explicit Worker(Run run) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(to[1]), close(from[0]);
      run(to[0], from[1]);
    }
    close(to[0]), close(from[1]);
    to_ = to[1], from_ = from[0];
  }
  ~Worker() {
    close(to_), close(from_);
    kill(pid_, SIGKILL);
    int status;
    waitpid(pid_, &status, 0);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // An empty string, or how it failed.
  std::string batch() {
    char byte = 1;
    if (write(to_, &byte, 1) != 1) return "it is gone";
    pollfd p{from_, POLLIN, 0};
    if (poll(&p, 1, 20'000) == 0) return "it hangs";
    if (read(from_, &byte, 1) == 1) return "";
    int status = 0;
    waitpid(pid_, &status, WNOWAIT);
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
    return fmt::format("it ended ({} {})", info.si_code == CLD_EXITED ? "status" : "signal", info.si_status);
  }

 private:
  pid_t pid_;
  int to_, from_;
};

class Session {
 public:
  Session() {
    void* p = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("no shared memory");
    shared = static_cast<Shared*>(p);
  }

  void use(const Mode& mode) {
    mode_ = mode;
    engine_.reset();
  }

  // Runs the batch in both worlds. A message: a process failed, at shared->current.
  std::string run() {
    for (;;) {
      if (!native_)
        native_ = std::make_unique<Worker>([&](int in, int out) { native_process(*shared, in, out); });
      std::string trouble = native_->batch();
      if (trouble.empty()) break;
      // A snippet may destroy its process. It is left out.
      native_.reset();
      native_deaths++;
      if (shared->count <= 1) {
        shared->cases[0].native.end = End::Skipped;
        shared->cases[0].translated.end = End::Skipped;
        return "";
      }
      shared->cases[shared->current] = shared->cases[shared->current ? 0 : 1];
    }
    if (shared->reborn) engine_.reset();
    shared->reborn = false;
    if (!engine_)
      engine_ = std::make_unique<Worker>(
          [&](int in, int out) { engine_process(*shared, in, out, mode_.options, mode_.evex, mode_.drive); });
    std::string trouble = engine_->batch();
    if (!trouble.empty()) engine_.reset();
    return trouble;
  }

  // The one case alone: what is wrong with it.
  std::string judge(const Case& c) {
    Case copy = c;
    fill_start(copy);
    copy.stepped = true;
    shared->cases[0] = copy;
    shared->count = 1;
    std::string trouble = run();
    if (!trouble.empty()) return "  the engine's process: " + trouble + "\n";
    return compare(shared->cases[0]);
  }

  Shared* shared;
  unsigned native_deaths = 0;

 private:
  Mode mode_;
  std::unique_ptr<Worker> native_, engine_;
};

struct Totals {
  uint64_t cases = 0, instructions = 0, faults = 0, syscalls = 0, timeouts = 0, skipped = 0, stepped = 0;
  std::set<uint32_t> kinds;
};

// Instructions replaced by nops as long as the case stays wrong.
Case smallest(Session& session, const Case& c, const std::vector<Item>& items) {
  Case best = c;
  for (size_t i = items.size(); i-- > 0;) {
    Case tried = best;
    std::memset(tried.code + items[i].offset, 0x90, items[i].size);
    if (!session.judge(tried).empty()) best = tried;
  }
  return best;
}

void report(Session& session, const Mode& mode, uint64_t seed, const Case& c, const std::vector<Item>& items,
            const std::string& wrong) {
  std::cout << fmt::format("\nMISMATCH in mode {}, seed {:#x}\n{}\n{}{}", mode.name, seed, print_case(c),
                           disassemble(c), wrong);
  Case before = c;
  std::string again = session.judge(before);
  if (again.empty()) {
    std::cout << "  (alone, the case is right: it depends on the cases before it in its batch)\n";
    return;
  }
  Case small = smallest(session, before, items);
  std::cout << "reduced:\n"
            << print_case(small) << "\n"
            << disassemble(small) << session.judge(small) << std::flush;
}

// Runs cases of one seed in one mode until the time is over. Returns the number of mismatches.
unsigned fuzz_seed(Session& session, const Mode& mode, uint64_t seed, Clock::time_point until,
                   uint64_t max_cases, unsigned keep_going, Totals& totals) {
  Generator generator(seed, mode.evex, true);
  Shared& s = *session.shared;
  unsigned wrong_cases = 0;
  for (uint64_t done = 0; done < max_cases && Clock::now() < until;) {
    s.count = static_cast<unsigned>(std::min<uint64_t>(kBatch, max_cases - done));
    for (unsigned i = 0; i < s.count; i++) generator.make(s.cases[i], i);
    done += s.count;
    std::string trouble = session.run();
    if (!trouble.empty()) {
      Case bad = s.cases[s.current];
      unsigned slot = s.current;
      report(session, mode, seed, bad, generator.items(slot), "  the engine's process: " + trouble + "\n");
      if (++wrong_cases >= keep_going) return wrong_cases;
      continue;
    }
    std::vector<std::pair<unsigned, std::string>> wrong;
    for (unsigned i = 0; i < s.count; i++) {
      const Case& c = s.cases[i];
      generator.learn(c, i);
      totals.cases++;
      totals.timeouts += c.native.end == End::Timeout;
      totals.skipped += c.native.end != End::Timeout && c.translated.end == End::Skipped;
      totals.faults += c.native.end == End::Fault;
      totals.syscalls += c.native.end == End::Fault && c.native.signo == SIGSYS;
      totals.stepped += c.native.ticks_known;
      for (const Item& item : generator.items(i)) totals.instructions += item.kind != 0;
      std::string difference = compare(c);
      if (!difference.empty()) wrong.emplace_back(i, difference);
    }
    if (wrong.empty()) continue;
    std::vector<Case> cases;
    for (auto& [i, text] : wrong) cases.push_back(s.cases[i]);
    for (size_t k = 0; k < wrong.size(); k++) {
      report(session, mode, seed, cases[k], generator.items(wrong[k].first), wrong[k].second);
      if (++wrong_cases >= keep_going) return wrong_cases;
    }
  }
  generator.collect_kinds(totals.kinds);
  return wrong_cases;
}

// The lines of a file, in all modes that they are made for. Returns the number of mismatches.
unsigned run_lines(Session& session, const std::vector<std::string>& lines, const std::vector<Mode>& modes) {
  unsigned wrong = 0;
  for (const Mode& mode : modes) {
    session.use(mode);
    for (const std::string& line : lines) {
      Case c{};
      std::string error;
      if (!parse_case(line, c, &error)) {
        std::cout << "cannot read '" << line << "': " << error << "\n";
        return wrong + 1;
      }
      if (c.evex != mode.evex) continue;
      std::string difference = session.judge(c);
      if (difference.empty()) continue;
      wrong++;
      std::cout << fmt::format("\nREGRESSION in mode {}\n{}\n{}{}", mode.name, line, disassemble(c),
                               difference);
    }
  }
  return wrong;
}

int main(int argc, char** argv) {
  double seconds = 10;
  uint64_t count = ~0ull;
  unsigned keep_going = 1;
  std::vector<uint64_t> seeds;
  std::vector<std::string> names, lines;
  for (int i = 1; i < argc; i++) {
    std::string option = argv[i];
    if (i + 1 == argc) {
      std::cerr << "usage: fuzz_instructions [--seconds N] [--count N] [--seed S]... [--mode NAME]... "
                   "[--keep-going N]\n"
                   "                         [--regressions FILE] [--case LINE]\nmodes (words can be "
                   "combined by +):";
      for (const char* mode : kModes) std::cerr << " " << mode;
      std::cerr << "\n";
      return 2;
    }
    std::string value = argv[++i];
    if (option == "--seconds")
      seconds = std::stod(value);
    else if (option == "--count")
      count = std::stoull(value, nullptr, 0), seconds = 1e6;
    else if (option == "--seed")
      seeds.push_back(std::stoull(value, nullptr, 0));
    else if (option == "--mode")
      names.push_back(value);
    else if (option == "--keep-going")
      keep_going = static_cast<unsigned>(std::stoul(value));
    else if (option == "--case")
      lines.push_back(value);
    else if (option == "--regressions") {
      std::ifstream file(value);
      for (std::string line; std::getline(file, line);)
        if (!line.empty() && line[0] != '#') lines.push_back(line);
    } else {
      std::cerr << "fuzz_instructions: unknown option " << option << "\n";
      return 2;
    }
  }
  if (!(getauxval(AT_HWCAP2) & 2)) {
    std::cout << "SKIP: this kernel does not let programs set their FS base\n";
    return 77;
  }
  bool avx512 = xsave_layout().hi16 != 0;
  if (names.empty()) names.assign(std::begin(kModes), std::end(kModes));
  std::vector<Mode> modes;
  for (const std::string& name : names) {
    std::optional<Mode> mode = parse_mode(name);
    if (!mode) {
      std::cerr << "fuzz_instructions: unknown mode " << name << "\n";
      return 2;
    }
    if (avx512 || !mode->evex) modes.push_back(*mode);
  }
  bool only_lines = !lines.empty() && seeds.empty() && argc == 3;
  if (seeds.empty())
    seeds = {1, 2, 3, static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())};

  Session session;
  unsigned wrong = run_lines(session, lines, modes);
  if (wrong || only_lines) return wrong ? 1 : 0;

  auto begin = Clock::now();
  Totals totals;
  double share = seconds / static_cast<double>(modes.size() * seeds.size());
  unsigned part = 0;
  for (const Mode& mode : modes) {
    session.use(mode);
    for (uint64_t seed : seeds) {
      auto until =
          begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(share * ++part));
      uint64_t before = totals.cases;
      wrong += fuzz_seed(session, mode, seed, until, count, keep_going - wrong, totals);
      std::cout << fmt::format("mode {} seed {:#x}: {} cases\n", mode.name, seed, totals.cases - before)
                << std::flush;
      if (wrong >= keep_going) break;
    }
    if (wrong >= keep_going) break;
  }
  std::cout << fmt::format(
      "{} cases, {} random instructions of {} kinds, {} ended by a fault, {} by a system call; ticks counted "
      "in {}; {} "
      "timeouts, "
      "{} not comparable, {} native processes lost, {} interruptions; {} mismatches\n",
      totals.cases, totals.instructions, totals.kinds.size(), totals.faults, totals.syscalls, totals.stepped,
      totals.timeouts, totals.skipped, session.native_deaths, session.shared->interruptions, wrong);
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace fuzz

int main(int argc, char** argv) {
  return fuzz::main(argc, argv);
}
