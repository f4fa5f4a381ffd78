// The controller cuts what is missing into jobs of some seconds, has an engine run them, and takes their
// results into the recording as they come, each table by itself and at once: whatever happens later, what was
// gathered stays. A job that has left no good result, for whatever reason, is run again, some times.
//
// All files lie in a folder of the recording's, jobs/NAME, which is removed at the end. It has a lock that is
// held as long as the controller lives; so the next one knows which folders nobody looks after any more. What
// those have of good results is taken in before they go. Jobs that are still queued for a folder that has
// gone end at once.
#include "cluster/controller.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/job.h"
#include "recording/parcel.h"
#include "recording/process_facts.h"
#include "timeline/traces_in_parts.h"

namespace backstep::cluster {
namespace {

namespace fs = std::filesystem;
using recording::Parcel;
using recording::ParcelIdentity;
using timeline::Position;
using Span = timeline::Timeline::Span;

constexpr size_t kMostJobs = 1000;    // what Slurm allows an array to have, unless it is told otherwise
constexpr double kUsualTicks = 20e6;  // of a second
constexpr double kTracing = 1.5;      // how much longer tables of contents take than recording …
constexpr size_t kShownOfOutput = 8;  // lines of a job that failed

// … and traces than those.
double slower_at(int level) {
  return level == 1 ? 1 : level == 2 ? 6 : 15;
}

double time_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Fd lock_of(const std::string& path, int how) {
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd && flock(fd.get(), how) != 0) fd.reset();
  return fd;
}

// Takes in what a parcel has.
void take_in(timeline::Timeline& timeline, const Parcel& parcel, JobsDone& done) {
  for (const Parcel::Window& w : parcel.windows) {
    const recording::WindowBounds& b = w.bounds;
    const Position from{b.from_tick, b.from_event, b.from_pc}, to{b.to_tick, b.to_event, b.to_pc};
    done.windows++;
    if (parcel.level > 1) {
      std::vector<timeline::TracePart> parts;
      for (const auto& p : w.parts) parts.push_back({p.count, p.links, p.stores});
      timeline.traces().add(from, to, parcel.level, parts);
    } else if (w.packed.empty()) {
      done.unknown++;
    } else {
      timeline.contents().add(from, to, recording::Contents::unpack(w.packed));
    }
  }
  if (parcel.level > 1) done.reduced += timeline.traces().reduce();
}

// The folder of this controller's jobs. Made when all that others have left behind is tidied up.
class JobFolder {
 public:
  JobFolder(timeline::Timeline& timeline, const recording::Recording& recording,
            const ParcelIdentity& identity)
      : all_(fs::absolute(recording.base()).string() + "/jobs") {
    std::error_code ec;
    fs::create_directory(all_, ec);
    const Fd turn = lock_of(all_ + "/lock", LOCK_EX);
    if (!turn) throw Error(fmt::format("cannot write to {}: {}", all_, errno_text(errno)));
    for (const auto& entry : fs::directory_iterator(all_, ec)) {
      if (!entry.is_directory(ec)) continue;
      if (const Fd lock = lock_of(entry.path().string() + "/lock", LOCK_EX | LOCK_NB))
        tidy_up(timeline, entry.path(), identity);
    }
    std::string name = all_ + "/XXXXXX";
    if (!mkdtemp(name.data()))
      throw Error(fmt::format("cannot make a folder in {}: {}", all_, errno_text(errno)));
    path_ = name;
    lock_ = lock_of(path_ + "/lock", LOCK_EX);
  }
  ~JobFolder() {
    std::error_code ec;
    const Fd turn = lock_of(all_ + "/lock", LOCK_EX);
    fs::remove_all(path_, ec);
    // The last one puts out the light.
    bool others = false;
    for (const auto& entry : fs::directory_iterator(all_, ec)) others = others || entry.is_directory(ec);
    if (!others) fs::remove_all(all_, ec);
  }
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  static void tidy_up(timeline::Timeline& timeline, const fs::path& folder, const ParcelIdentity& identity) {
    std::error_code ec;
    for (const auto& file : fs::directory_iterator(folder, ec)) {
      if (file.path().extension() != ".tables") continue;
      try {
        JobsDone nobody;
        take_in(timeline, Parcel::read(file.path(), identity), nobody);
      } catch (const Error&) {
        // It is made again.
      }
    }
    fs::remove_all(folder, ec);
  }

  std::string all_, path_;
  Fd lock_;
};

double ticks_per_second_of(const recording::Recording& recording, uint64_t process) {
  for (const auto& facts : recording::process_facts(recording))
    if (facts.info.number == process && facts.cpu_ns && *facts.cpu_ns > 0 && facts.ticks)
      return static_cast<double>(facts.ticks) * 1e9 / static_cast<double>(*facts.cpu_ns);
  return kUsualTicks;
}

// Windows that follow each other, together as long as a job should take.
std::vector<Span> cut_into_jobs(const timeline::Timeline& timeline, const std::vector<Span>& holes,
                                double seconds, double rate) {
  double all = 0;
  for (const Span& hole : holes) all += static_cast<double>(hole.to.tick - hole.from.tick);
  const double enough =
      std::max(seconds * rate / kTracing,
               all / (kMostJobs - static_cast<double>(std::min(holes.size(), kMostJobs / 2))));
  std::vector<Span> jobs;
  for (const Span& hole : holes) {
    double length = enough;  // the first window of a hole begins a job
    for (const Span& window : timeline.windows_in(hole)) {
      if (length >= enough) {
        jobs.push_back({window.from, window.from});
        length = 0;
      }
      jobs.back().to = window.to;
      length += static_cast<double>(window.to.tick - window.from.tick);
    }
  }
  return jobs;
}

std::string last_lines_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    for (char& c : line)
      if (static_cast<unsigned char>(c) < 0x20 && c != '\t') c = ' ';
    lines.push_back(line);
    if (lines.size() > kShownOfOutput) lines.erase(lines.begin());
  }
  std::string text;
  for (const std::string& line : lines) text += "\n    " + line;
  return text.empty() ? " (it said nothing)" : text;
}

class Controller {
 public:
  Controller(timeline::Timeline& timeline, const JobWishes& wishes, const ParcelIdentity& identity,
             const JobFolder& folder, std::vector<Span> spans)
      : timeline_(timeline), wishes_(wishes), identity_(identity), folder_(folder.path()) {
    for (const Span& span : spans) {
      jobs_.push_back({span, 0, 0, ""});
      all_ += static_cast<double>(span.to.tick - span.from.tick);
    }
    left_ = jobs_.size();
    done_.jobs = left_;
  }

  JobsDone run(JobEngine& engine, const timeline::Attention& ear, const JobWatcher& watcher) {
    std::vector<size_t> to_start(jobs_.size());
    for (size_t i = 0; i < to_start.size(); i++) to_start[i] = i;
    while (left_ > 0) {
      if (!to_start.empty()) engine.start(to_start);
      to_start.clear();
      const std::vector<size_t> over = engine.ended(ear);
      if (ear.stop_wanted && ear.stop_wanted()) {
        done_.complete = false;
        return done_;
      }
      for (size_t number : over) jobs_[number].ended = time_now();
      for (size_t number = 0; number < jobs_.size(); number++) {
        if (!jobs_[number].ended || gather(number)) continue;
        if (jobs_[number].wrong.empty() && time_now() - jobs_[number].ended < engine.lateness()) continue;
        fail(number, engine, watcher);
        to_start.push_back(number);
      }
      if (watcher.progress) watcher.progress(gathered_ / std::max(1.0, all_));
    }
    return done_;
  }

 private:
  struct Known {
    Span span;
    unsigned failed = 0;
    double ended = 0;   // when; 0: it has not, or is done with
    std::string wrong;  // with the result that is there
  };

  // True: it is done. Of a result that is no good, `wrong` says why.
  bool gather(size_t number) {
    Known& job = jobs_[number];
    const std::string path = result_path(folder_, number);
    if (access(path.c_str(), F_OK) != 0) return false;
    try {
      const Parcel parcel = Parcel::read(path, identity_);
      check_bounds(job.span, parcel);
      if (parcel.level != wishes_.level) throw Error("the result is of another level than the job is");
      take_in(timeline_, parcel, done_);
    } catch (const Error& e) {
      job.wrong = e.what();
      return false;
    }
    job.ended = 0;
    left_--;
    gathered_ += static_cast<double>(job.span.to.tick - job.span.from.tick);
    unlink(path.c_str());
    return true;
  }

  // A moment that is only known by its tick, as people say it, is found by the job in full.
  static bool is_meant(const Position& wanted, const Position& found) {
    return found.tick == wanted.tick && (!wanted.event || found.event == wanted.event) &&
           (!wanted.pc || found.pc == wanted.pc);
  }

  static void check_bounds(const Span& span, const Parcel& parcel) {
    if (!parcel.windows.empty()) {
      const auto& first = parcel.windows.front().bounds;
      const auto& last = parcel.windows.back().bounds;
      if (is_meant(span.from, {first.from_tick, first.from_event, first.from_pc}) &&
          is_meant(span.to, {last.to_tick, last.to_event, last.to_pc}))
        return;
    }
    throw Error("the result is of another stretch of the run than the job is");
  }

  void fail(size_t number, const JobEngine& engine, const JobWatcher& watcher) {
    Known& job = jobs_[number];
    job.failed++;
    job.ended = 0;
    std::string why = job.wrong.empty() ? "it left no result" : job.wrong;
    if (const std::string end = engine.end_of(number); !end.empty()) why += " (" + end + ")";
    job.wrong.clear();
    unlink(result_path(folder_, number).c_str());
    const std::string which = fmt::format("job {} of {} (ticks {} to {})", number + 1, jobs_.size(),
                                          job.span.from.tick, job.span.to.tick);
    const std::string said = last_lines_of(output_path(folder_, number));
    if (job.failed >= wishes_.tries)
      throw Error(
          fmt::format("{} has failed {} times: {}. What it said last:{}\nThe tables that were made are kept.",
                      which, job.failed, why, said));
    done_.again++;
    if (watcher.note) watcher.note(fmt::format("{} is run again: {}", which, why));
  }

  timeline::Timeline& timeline_;
  const JobWishes& wishes_;
  ParcelIdentity identity_;
  std::string folder_;
  std::vector<Known> jobs_;
  size_t left_ = 0;
  double all_ = 0, gathered_ = 0;  // ticks
  JobsDone done_;
};

}  // namespace

JobsDone make_by_jobs(timeline::Timeline& timeline, const recording::Library& library,
                      const recording::Recording& recording, const Position& from, const Position& to,
                      const JobWishes& wishes, const timeline::Attention& ear, const JobWatcher& watcher) {
  const uint64_t process = timeline.log().process();
  const auto identity = ParcelIdentity::of(recording, process);
  const JobFolder folder(timeline, recording, identity);
  JobsDone none;
  auto holes = timeline.missing_contents(from, to);
  none.complete = holes.has_value();
  if (!holes) return none;
  if (wishes.level > 1) holes = timeline::missing_traces(timeline, wishes.level, from, to);
  if (holes->empty()) return none;
  timeline.finish_storing();
  const std::vector<Span> spans = cut_into_jobs(timeline, *holes, wishes.seconds / slower_at(wishes.level),
                                                ticks_per_second_of(recording, process));
  Job job{library.dir(), fs::absolute(recording.dir()).string(), process, identity.build, wishes.level, {}};
  for (size_t i = 0; i < spans.size(); i++) {
    job.span = spans[i];
    job.write(job_path(folder.path(), i));
  }
  JobWishes complete = wishes;
  complete.how.folder = folder.path();
  complete.how.name = "backstep-" + recording.name();
  const auto engine = make_engine(complete.engine, complete.how);
  return Controller(timeline, complete, identity, folder, spans).run(*engine, ear, watcher);
}

}  // namespace backstep::cluster
