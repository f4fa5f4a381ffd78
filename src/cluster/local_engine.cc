// Jobs as processes on this machine, and what all engines have in common.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>

#include <fmt/format.h>

#include "base/child.h"
#include "base/error.h"
#include "cluster/job_engine.h"
#include "recording/shared_folder.h"

namespace backstep::cluster {
namespace {

class LocalEngine : public JobEngine {
 public:
  explicit LocalEngine(const EngineWishes& wishes) : wishes_(wishes) {
    if (!wishes_.at_once) wishes_.at_once = static_cast<size_t>(std::max(1l, sysconf(_SC_NPROCESSORS_ONLN)));
  }

  void start(const std::vector<size_t>& numbers) override {
    waiting_.insert(waiting_.end(), numbers.begin(), numbers.end());
    begin_some();
  }

  std::vector<size_t> ended(const timeline::Attention& ear) override {
    constexpr double kPause = 0.02;
    std::vector<size_t> over = reap();
    if (over.empty()) {
      listen_for(ear, kPause);
      over = reap();
    }
    begin_some();
    return over;
  }

  std::string end_of(size_t number) const override {
    auto end = ends_.find(number);
    return end == ends_.end() ? "" : end_text(end->second);
  }

 private:
  std::vector<size_t> reap() {
    std::vector<size_t> over;
    for (auto& [number, child] : running_)
      if (const auto status = child.ended()) {
        ends_[number] = *status;
        over.push_back(number);
      }
    for (size_t number : over) running_.erase(number);
    return over;
  }

  void begin_some() {
    while (!waiting_.empty() && running_.size() < wishes_.at_once) {
      const size_t number = waiting_.front();
      waiting_.pop_front();
      const std::string log = output_path(wishes_.folder, number);
      const Fd output(recording::make_file(log, O_WRONLY | O_TRUNC | O_CLOEXEC));
      if (!output) throw Error(fmt::format("cannot write {}: {}", log, errno_text(errno)));
      ChildOptions options;
      options.errors = output.get();
      running_.emplace(number,
                       Child({wishes_.program, "trace", "--job", job_path(wishes_.folder, number)}, options));
    }
  }

  EngineWishes wishes_;
  std::deque<size_t> waiting_;
  std::map<size_t, Child> running_;
  std::map<size_t, int> ends_;
};

}  // namespace

std::string job_path(const std::string& folder, size_t number) {
  return fmt::format("{}/job-{}", folder, number);
}
std::string result_path(const std::string& folder, size_t number) {
  return job_path(folder, number) + ".tables";
}
std::string output_path(const std::string& folder, size_t number) {
  return job_path(folder, number) + ".log";
}

void listen_for(const timeline::Attention& ear, double seconds) {
  pollfd p{ear.fd, POLLIN, 0};
  poll(&p, ear.fd >= 0 ? 1 : 0, static_cast<int>(seconds * 1000));
}

std::string shell_word(const std::string& text) {
  std::string word = "'";
  for (char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::unique_ptr<JobEngine> make_local_engine(const EngineWishes& wishes) {
  if (!wishes.options.empty())
    throw Error("--job-options are for ssh and slurm: processes here take none", kExitUsage);
  return std::make_unique<LocalEngine>(wishes);
}

std::unique_ptr<JobEngine> make_engine(const std::string& kind, const EngineWishes& wishes) {
  if (kind != "ssh" && !wishes.hosts.empty()) throw Error("--hosts is for --jobs ssh", kExitUsage);
  if (kind == "local") return make_local_engine(wishes);
  if (kind == "ssh") return make_ssh_engine(wishes);
  if (kind == "slurm") return make_slurm_engine(wishes);
  throw Error(fmt::format("there is no engine '{}' for jobs; there are local, ssh and slurm", kind),
              kExitUsage);
}

}  // namespace backstep::cluster
