// One question to several processes of a recording.
//
// Processes have nothing of each other's but the log, so each is asked by a process of its own, which has a
// session with it; as many at a time as there are processors, which share the windows that are replayed
// (timeline/windows.h). Answers come in the order in which the processes were born, those of one process in
// its order of time: there is no common time that could tell in which order two processes came to two
// instructions.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "session/answers.h"

namespace backstep::session {

struct AskedProcess {
  uint64_t number = 0, pid = 0;
  std::string program;  // its name, without the folder
};

// A stretch of each: moments that each of them has. Empty: from where it began, to its end.
struct StretchOfEach {
  std::string from, to;
};

// What one event came to.
struct CountOfEach {
  Count sum;
  std::vector<std::pair<AskedProcess, Count>> shares;  // of those in which it makes sense
};

// What became of an assertion in all of them; `first` is of `process`.
struct VerdictOfEach {
  Verdict sum;
  std::optional<AskedProcess> process;
};

struct ProfileOfEach {
  Profile all;  // the outermost function of each stack is the program
  std::vector<std::pair<AskedProcess, uint64_t>> samples;
};

// The processes that a user names: all of them ("all"), or a list (`2,5`, each as recording::find_process has
// it). nullopt: that is one process. Throws Error.
std::optional<std::vector<uint64_t>> find_several(const recording::Recording& recording,
                                                  const std::string& names);

class Several {
 public:
  // `numbers`: of logs. Those that have no events are left out.
  Several(const ReplayOptions& options, const recording::Library& library,
          const recording::Recording& recording, std::vector<uint64_t> numbers);

  timeline::Attention attention;  // listened to while others work

  // In all of these, a process whose program does not know what is asked for is left out. It is an Error if
  // none of them does.
  std::vector<CountOfEach> count(const std::vector<std::string>& specs, const StretchOfEach& stretch,
                                 const Watcher& watcher);
  // The first `limit` matches, or the `last` ones (0: all), of each process. False from `hit`: enough.
  Count log(const LogRequest& request, const StretchOfEach& stretch, uint64_t limit, uint64_t last,
            const std::function<bool(const AskedProcess&, const Hit&)>& hit, const Watcher& watcher);
  // The first `request.limit` calls of each; `tree`: with what they called.
  void calls(const TreeRequest& request, const StretchOfEach& stretch, bool tree,
             const std::function<bool(const AskedProcess&, const CallWithTree&)>& call,
             const Watcher& watcher);
  ProfileOfEach profile(const ProfileRequest& request, const StretchOfEach& stretch, const Watcher& watcher);
  std::vector<VerdictOfEach> check(const std::vector<events::Assertion>& assertions,
                                   const StretchOfEach& stretch, const Watcher& watcher);
  Coverage coverage(const StretchOfEach& stretch, bool system, const Watcher& watcher);

 private:
  struct Asker;
  // What the process that asks has: it tells of each part of the answer; false: nobody listens any more.
  using Say = std::function<bool(const AnswerJson&)>;
  using Question = std::function<void(Session&, const Stretch&, const Say&, const Watcher&)>;
  using Heard = std::function<bool(const AskedProcess&, const AnswerJson&)>;

  void ask(const StretchOfEach& stretch, const Question& question, const Heard& heard,
           const Watcher& watcher);
  void start(Asker& asker, const StretchOfEach& stretch, const Question& question) const;
  [[noreturn]] void answer(pid_t controller, uint64_t number, int to, const StretchOfEach& stretch,
                           const Question& question) const;
  void check(const StretchOfEach& stretch) const;

  ReplayOptions options_;
  recording::Library library_;
  recording::Recording recording_;
  std::vector<AskedProcess> processes_;
};

}  // namespace backstep::session
