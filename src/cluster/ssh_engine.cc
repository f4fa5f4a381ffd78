// Jobs on other machines over ssh, by GNU parallel: it knows how many processors each of them has, keeps them
// busy, takes the job's file there and brings its result back. So nothing but the recording (and our program)
// has to be reachable there, at the same path as here.
//
//   parallel --sshlogin a,b --workdir … --transferfile job-7 --return job-7.tables   backstep trace --job
//   job-7
//
// Which jobs have ended it writes into a log, a line for each; when it ends itself, all have.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "base/child.h"
#include "base/error.h"
#include "cluster/job_engine.h"
#include "recording/shared_folder.h"

namespace backstep::cluster {
namespace {

struct RemoteEnd {
  int status = 0, signal = 0;
  std::string host;
};

// One run of parallel.
struct Batch {
  Child parallel;
  std::vector<size_t> numbers;  // by parallel's own number, which counts from 1
  std::string log, errors;      // its files
  std::set<size_t> under_way;
};

class SshEngine : public JobEngine {
 public:
  explicit SshEngine(const EngineWishes& wishes) : wishes_(wishes) {
    if (wishes_.hosts.empty())
      throw Error("which machines? --hosts a,b or --hosts FILE with one in each line", kExitUsage);
    read_hosts();
  }

  void start(const std::vector<size_t>& numbers) override {
    const std::string base = fmt::format("{}/parallel-{}", wishes_.folder, ++batches_begun_);
    Batch batch;
    batch.numbers = numbers;
    batch.under_way = {numbers.begin(), numbers.end()};
    batch.log = base + ".joblog";
    batch.errors = base + ".errors";
    {
      std::ofstream list(base), hosts(base + ".hosts");
      for (size_t n : numbers) list << n << '\n';
      for (const std::string& host : reachable_hosts()) hosts << host << '\n';
      if (!list.flush() || !hosts.flush()) throw Error(fmt::format("cannot write {}", base));
    }
    const Fd errors(recording::make_file(batch.errors, O_WRONLY | O_TRUNC | O_CLOEXEC));
    if (!errors) throw Error(fmt::format("cannot write {}: {}", batch.errors, errno_text(errno)));
    ChildOptions options;
    options.folder = wishes_.folder;
    options.errors = errors.get();
    options.advice = "'--jobs ssh' needs GNU parallel (apt-get install parallel)";
    batch.parallel = Child(command(base), options);
    batches_.push_back(std::move(batch));
  }

  std::vector<size_t> ended(const timeline::Attention& ear) override {
    constexpr double kPause = 0.1;
    std::vector<size_t> over = look();
    if (over.empty()) {
      listen_for(ear, kPause);
      over = look();
    }
    return over;
  }

  std::string end_of(size_t number) const override {
    auto end = ends_.find(number);
    if (end == ends_.end()) return engine_said_;
    const RemoteEnd& e = end->second;
    return fmt::format(
        "{} on {}{}",
        e.signal ? fmt::format("killed by signal {}", e.signal) : fmt::format("exit status {}", e.status),
        e.host, e.status == kSshFailed ? " (255: ssh itself has failed)" : "");
  }

 private:
  static constexpr int kSshFailed = 255;

  void read_hosts() {
    std::error_code ec;
    std::string text = wishes_.hosts;
    if (std::filesystem::is_regular_file(text, ec)) {
      std::ifstream in(text);
      text.assign(std::istreambuf_iterator<char>(in), {});
    } else {
      std::replace(text.begin(), text.end(), ',', '\n');
    }
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (!line.empty() && line[0] != '#') hosts_.push_back(line);
    if (hosts_.empty()) throw Error(fmt::format("{} names no machines", wishes_.hosts), kExitUsage);
  }

  // A job that has failed because its host cannot be reached should not go there again.
  std::vector<std::string> reachable_hosts() const {
    std::vector<std::string> some;
    for (const std::string& host : hosts_)
      if (!lost_.contains(host.substr(host.find('/') + 1))) some.push_back(host);  // 8/host: eight at a time
    return some.empty() ? hosts_ : some;
  }

  std::vector<std::string> command(const std::string& list) const {
    std::vector<std::string> words = {"parallel", "--will-cite", "--arg-file",
                                      list,       "--joblog",    list + ".joblog"};
    for (const char* word : {"--workdir", "...", "--cleanup", "--transferfile", "job-{}", "--return",
                             "job-{}.tables", "--results", "job-{}.log"})
      words.emplace_back(word);
    words.insert(words.end(), {"--sshloginfile", list + ".hosts"});
    if (wishes_.at_once) words.insert(words.end(), {"--jobs", std::to_string(wishes_.at_once)});
    words.insert(words.end(), wishes_.options.begin(), wishes_.options.end());
    words.push_back(fmt::format("{} trace --job job-{{}} 2>&1", shell_word(wishes_.program)));
    return words;
  }

  std::vector<size_t> look() {
    std::vector<size_t> over;
    for (auto batch = batches_.begin(); batch != batches_.end();) {
      const auto status = batch->parallel.ended();  // before its log is read: that is complete then
      read_log(*batch, over);
      if (!status) {
        ++batch;
        continue;
      }
      engine_said_ = fmt::format("parallel ended with {}: {}", end_text(*status), last_lines(batch->errors));
      if (batch->under_way.size() == batch->numbers.size())
        throw Error("no job could be run over ssh: " + engine_said_);
      over.insert(over.end(), batch->under_way.begin(), batch->under_way.end());
      batch = batches_.erase(batch);
    }
    return over;
  }

  // Seq, Host, Starttime, JobRuntime, Send, Receive, Exitval, Signal, Command: with tabulators between them.
  void read_log(Batch& batch, std::vector<size_t>& over) {
    std::ifstream in(batch.log);
    std::string line;
    while (std::getline(in, line) && !in.eof()) {  // the last one may be half of one
      std::istringstream fields(line);
      RemoteEnd end;
      size_t number = 0;
      std::string unused;
      if (!(fields >> number >> end.host >> unused >> unused >> unused >> unused >> end.status >> end.signal))
        continue;  // the heading
      if (number < 1 || number > batch.numbers.size()) continue;
      const size_t job = batch.numbers[number - 1];
      if (!batch.under_way.erase(job)) continue;
      ends_[job] = end;
      if (end.status == kSshFailed) lost_.insert(end.host);
      over.push_back(job);
    }
  }

  static std::string last_lines(const std::string& path) {
    std::ifstream in(path);
    std::string line, text;
    while (std::getline(in, line))
      if (!line.empty())
        text = text.empty() ? line : text.substr(text.size() > 500 ? text.size() - 500 : 0) + "\n" + line;
    return text;
  }

  EngineWishes wishes_;
  std::vector<std::string> hosts_;  // as parallel takes them
  std::set<std::string> lost_;      // those that ssh could not reach
  std::list<Batch> batches_;
  size_t batches_begun_ = 0;
  std::map<size_t, RemoteEnd> ends_;
  std::string engine_said_;
};

}  // namespace

std::unique_ptr<JobEngine> make_ssh_engine(const EngineWishes& wishes) {
  return std::make_unique<SshEngine>(wishes);
}

}  // namespace backstep::cluster
