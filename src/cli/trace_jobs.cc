// Signals that would end us (Ctrl-C, a closed terminal, a shutdown) cancel the jobs first, wherever they run.
#include "cli/trace_jobs.h"

#include <csignal>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/format.h"
#include "cli/interrupts.h"

namespace backstep::cli {
namespace {

std::string own_path() {
  std::error_code ec;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", ec);
  if (ec) throw Error("cannot find out where this program is; say it with --job-program");
  return path.string();
}

// Blanks separate words, unless they are quoted.
std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool any = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); i++) {
    const char c = text[i];
    if (quote ? c == quote : c == '\'' || c == '"') {
      quote = quote ? 0 : c;
      any = true;
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
      any = true;
    } else if (!quote && (c == ' ' || c == '\t' || c == '\n')) {
      if (any) words.push_back(std::exchange(word, ""));
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  if (quote) throw Error("a quote in --job-options is not closed", kExitUsage);
  if (any) words.push_back(word);
  return words;
}

}  // namespace

void TraceJobs::add_options(CommandLine& line) {
  line.add_option("--jobs", wishes.engine,
                  "have them made by jobs: processes here (local), on other\n"
                  "machines through GNU parallel (ssh), or in a cluster (slurm)")
      .type_name("local|ssh|slurm")
      .among({"local", "ssh", "slurm"});
  line.add_option("--hosts", wishes.how.hosts,
                  "for ssh: names with commas between them, or a file with one per line")
      .type_name("HOSTS|FILE");
  line.add_option("--at-once", at_once,
                  "jobs at a time: here, on each host, of the array\n"
                  "(as many as there are processors)")
      .type_name("N")
      .between(1, 100000);
  line.add_option("--job-seconds", wishes.seconds, "about how long a job takes (5)")
      .type_name("N")
      .between(0.001, 86400);
  line.add_option("--tries", tries, "how often a job is tried (3)").type_name("N").between(1, 100);
  line.add_option("--job-program", wishes.how.program,
                  "where backstep is on the machines that run jobs (as here)")
      .type_name("PATH");
  line.add_option("--job-options", options, "for sbatch or parallel: '--partition=short --mem=2G'")
      .type_name("WORDS");
  line.add_option("--job", job, "be one of these jobs: make what the file says").type_name("FILE");
}

void TraceJobs::run(session::Session& session, const session::Stretch& stretch, int level) {
  if (wishes.how.program.empty()) wishes.how.program = own_path();
  wishes.how.options = words_in(options);
  wishes.tries = static_cast<unsigned>(tries);
  wishes.how.at_once = at_once;
  run_level(session, stretch, 1);
  if (level > 1) run_level(session, stretch, level);
}

void TraceJobs::run_level(session::Session& session, const session::Stretch& stretch, int level) {
  timeline::Timeline& timeline = session.timeline();
  int signal = 0;
  cluster::JobsDone done;
  wishes.level = level;
  {
    Interrupts interrupts({SIGTERM, SIGHUP});
    timeline.attention = interrupts.ear();
    ProgressBar bar(level == 1 ? "tracing" : level == 2 ? "tracing, level 2" : "tracing, level 3");
    const auto shown = bar.watcher();
    done = cluster::make_by_jobs(timeline, recording::Library::standard(), session.recording(),
                                 stretch.from.value_or(timeline.now()),
                                 stretch.to.value_or(timeline.log().last().position()), wishes,
                                 interrupts.ear(), {shown.progress, shown.note});
    signal = Interrupts::asked_by();
    timeline.attention = {};
  }
  if (!done.complete) {
    fmt::print(stderr, "backstep: the jobs are cancelled; what was made is kept\n");
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  if (done.jobs)
    fmt::print(stderr, "backstep: {} windows{} made by {} jobs{}\n",
               format_count(done.windows - done.unknown),
               level == 1 ? "" : fmt::format(" of level {}", level), format_count(done.jobs),
               done.again ? fmt::format(", {} of them run again", format_count(done.again)) : "");
  tell_unknown(done.unknown);
  tell_reduced(done.reduced, timeline.traces().budget);
}

void tell_reduced(size_t windows, uint64_t budget) {
  if (windows)
    fmt::print(stderr,
               "backstep: {} windows were reduced to a lower level, so that they take no more than {} "
               "(--budget)\n",
               format_count(windows), format_size(budget));
}

void tell_unknown(size_t windows) {
  if (windows)
    fmt::print(
        stderr,
        "backstep: {} windows have no table of contents: the program has memory at addresses that leave no "
        "room for one, or more than 64 GB of it\n",
        windows);
}

}  // namespace backstep::cli
