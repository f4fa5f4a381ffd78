// Jobs as array jobs of Slurm. The folder with the jobs' files lies in the recording, which the nodes see at
// the same path: a shared file system, as clusters have it. So a job takes its file from there and writes its
// result there.
//
// What is under way `squeue` tells, which asks the controller's memory and costs it little; no accounting
// database is needed. A job that it does not list any more has ended, and its result says how. A controller
// that cannot be reached for a while does not mean that jobs have ended.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "base/child.h"
#include "base/error.h"
#include "cluster/job_engine.h"

namespace backstep::cluster {
namespace {

constexpr double kSeenLate = 10;  // seconds: attributes of files are cached by NFS for so long
constexpr double kFirstPause = 0.2, kLongestPause = 5;
constexpr double kMostSilence = 120;  // seconds without an answer of Slurm's
constexpr const char* kSlurmNeeds =
    "'--jobs slurm' needs the client programs of Slurm (apt-get install slurm-client)";

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string first_line(const std::string& text) {
  const size_t begin = std::min(text.find_first_not_of("\r\n\t "), text.size());
  return text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
}

ChildOptions slurm_child() {
  ChildOptions options;
  options.advice = kSlurmNeeds;
  return options;
}

// 3,4,5,9 as "3-5,9".
std::string ranges_of(std::vector<size_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) end++;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (end > i + 1) text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

class SlurmEngine : public JobEngine {
 public:
  explicit SlurmEngine(const EngineWishes& wishes) : wishes_(wishes) {}
  ~SlurmEngine() override {
    for (const auto& [id, numbers] : arrays_) cancel(id);
  }

  void start(const std::vector<size_t>& numbers) override {
    std::string array = ranges_of(numbers);
    if (wishes_.at_once) array += "%" + std::to_string(wishes_.at_once);
    std::vector<std::string> words = {"sbatch",
                                      "--parsable",
                                      "--array=" + array,
                                      "--job-name=" + wishes_.name,
                                      "--chdir=" + wishes_.folder,
                                      "--output=" + wishes_.folder + "/job-%a.log",
                                      "--open-mode=truncate",
                                      "--ntasks=1",
                                      "--cpus-per-task=1",
                                      "--no-requeue"};
    words.insert(words.end(), wishes_.options.begin(), wishes_.options.end());
    const std::string script = fmt::format("#!/bin/sh\nexec {} trace --job {}/job-\"$SLURM_ARRAY_TASK_ID\"\n",
                                           shell_word(wishes_.program), shell_word(wishes_.folder));
    const Finished sent = run_to_end(words, script, slurm_child());
    const std::string id = first_line(sent.output).substr(0, first_line(sent.output).find(';'));
    if (!sent.ok() || id.empty() || !std::all_of(id.begin(), id.end(), ::isdigit))
      throw Error(fmt::format("Slurm does not take jobs: sbatch ended with {}: {}", end_text(sent.status),
                              first_line(sent.errors)));
    arrays_[id] = {numbers.begin(), numbers.end()};
    heard_ = seconds_now();
    pause_ = kFirstPause;
  }

  std::vector<size_t> ended(const timeline::Attention& ear) override {
    listen_for(ear, pause_);
    if (ear.stop_wanted && ear.stop_wanted()) return {};
    const double began = seconds_now();
    std::vector<size_t> over;
    for (auto array = arrays_.begin(); array != arrays_.end();) {
      const auto queue = in_queue(array->first);
      if (!queue) {
        ++array;
        continue;
      }
      for (size_t number : array->second)
        if (!queue->contains(number)) over.push_back(number);
      for (size_t number : over) array->second.erase(number);
      array = array->second.empty() ? arrays_.erase(array) : std::next(array);
    }
    // Not more than a tenth of the time is for asking, and that not too often: other users ask, too.
    pause_ = over.empty() ? std::min(pause_ * 1.5, kLongestPause) : kFirstPause;
    pause_ = std::max(pause_, 10 * (seconds_now() - began));
    return over;
  }

  double lateness() const override { return kSeenLate; }

  std::string end_of(size_t number) const override {
    auto state = states_.find(number);
    return state == states_.end() ? "" : "Slurm's last word: " + state->second;
  }

 private:
  // The numbers that have not ended; nullopt: Slurm does not answer at the moment.
  std::optional<std::set<size_t>> in_queue(const std::string& id) {
    const Finished asked = run_to_end(
        {"squeue", "--noheader", "--array", "--jobs=" + id, "--format=%K %T %r"}, "", slurm_child());
    // Jobs that ended some time ago are forgotten.
    if (!asked.ok() && asked.errors.find("Invalid job id") != std::string::npos) return std::set<size_t>{};
    if (!asked.ok()) {
      if (seconds_now() - heard_ > kMostSilence)
        throw Error(fmt::format("Slurm does not answer any more: {}", first_line(asked.errors)));
      return std::nullopt;
    }
    heard_ = seconds_now();
    std::set<size_t> there;
    std::istringstream lines(asked.output);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      size_t number = 0;
      std::string state, reason;
      if (!(fields >> number >> state)) continue;
      std::getline(fields, reason);
      states_[number] = state + (reason == " None" ? "" : "," + reason);
      static const std::set<std::string> kOver = {"COMPLETED", "FAILED",    "CANCELLED",     "TIMEOUT",
                                                  "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL",
                                                  "DEADLINE",  "REVOKED"};
      // What could not be launched is held until somebody looks after it.
      const bool held = reason.find("launch failed") != std::string::npos;
      if (held) cancel(fmt::format("{}_{}", id, number));
      if (!held && !kOver.contains(state)) there.insert(number);
    }
    return there;
  }

  static void cancel(const std::string& id) {
    try {
      run_to_end({"scancel", id}, "", slurm_child());
    } catch (const Error&) {
      // sbatch was there, so this is, too.
    }
  }

  EngineWishes wishes_;
  std::map<std::string, std::set<size_t>> arrays_;  // by Slurm's number: those that have not ended
  std::map<size_t, std::string> states_;
  double pause_ = kFirstPause;
  double heard_ = 0;  // when Slurm has answered last
};

}  // namespace

std::unique_ptr<JobEngine> make_slurm_engine(const EngineWishes& wishes) {
  return std::make_unique<SlurmEngine>(wishes);
}

}  // namespace backstep::cluster
