// The controller forks one asker for each process, oldest first. An asker has a session with its process and
// says everything over a pipe: parts of the answer, how far it is, remarks, why it cannot answer. What the
// oldest one says is handed on at once, what others say waits for its turn; who has said too much meanwhile
// is not read from, and so has to wait.
//
// Nothing is shared by askers but the number of windows that are being replayed in all of them: each may
// always have one, more while there are processors left. So a long process among short ones is replayed on
// all processors once it is alone.
#include "session/several.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <list>
#include <set>

#include <fmt/format.h>

#include "recording/tree.h"
#include "session/kind.h"
#include "timeline/moments.h"
#include "timeline/wall_clock.h"
#include "timeline/windows.h"

namespace backstep::session {

// What an asker says: a word, and what belongs to it.
enum class Word : uint8_t { Part, Progress, Note, Refused, Failed, End };

namespace {

using timeline::MomentName;

constexpr size_t kMostSaid = 256 << 20;  // bytes of answers whose turn has not come
constexpr size_t kPart = 1 << 16;        // bytes that are read at once

bool put(int fd, Word word, const AnswerJson& json) {
  std::vector<uint8_t> message(sizeof(uint32_t) + 1);
  message.back() = static_cast<uint8_t>(word);
  AnswerJson::to_cbor(json, message);
  const auto size = static_cast<uint32_t>(message.size());
  std::memcpy(message.data(), &size, sizeof size);
  for (size_t done = 0; done < message.size();) {
    const ssize_t n = ::write(fd, message.data() + done, message.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// The moments of one process. Empty: nothing of it is within.
std::optional<Stretch> stretch_in(const Session& session, const StretchOfEach& of_each) {
  const timeline::LogIndex& log = session.timeline().log();
  Stretch stretch;
  auto moment = [&](const std::string& text, bool is_end) -> std::optional<Position> {
    const MomentName name = timeline::parse_moment(text, session.recording());
    if (name.kind != MomentName::Time) return session.moment(text);
    const timeline::WallClock clock(log, session.recording().manifest(),
                                    timeline::end_ns(session.recording(), log.process()));
    if (name.ns > clock.last_ns()) return is_end ? std::optional<Position>() : log.last().position();
    return Position{clock.at_time(name.ns).tick, 0, 0};
  };
  if (!of_each.from.empty() && of_each.from != "start") stretch.from = moment(of_each.from, false);
  if (!of_each.to.empty() && of_each.to != "end") stretch.to = moment(of_each.to, true);
  // What was before the fork is the parent's.
  const Position birth = log.birth().value_or(Position{});
  if (stretch.from && *stretch.from < birth) stretch.from.reset();
  if (stretch.to && *stretch.to <= stretch.from.value_or(birth)) return std::nullopt;
  return stretch;
}

}  // namespace

std::optional<std::vector<uint64_t>> find_several(const recording::Recording& recording,
                                                  const std::string& names) {
  if (names == "all") return recording.processes();
  if (names.find(',') == std::string::npos) return std::nullopt;
  std::set<uint64_t> numbers;
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    numbers.insert(recording::find_process(recording, names.substr(at, end - at)));
    at = end + 1;
  }
  return std::vector<uint64_t>(numbers.begin(), numbers.end());
}

// Gone with the object, in whatever it is doing.
struct Several::Asker {
  struct Message {
    Word word;
    std::vector<uint8_t> cbor;
    AnswerJson json() const { return AnswerJson::from_cbor(cbor); }
  };
  AskedProcess process;
  pid_t pid = -1;
  Fd pipe;
  std::vector<uint8_t> bytes;    // the beginning of a message
  std::deque<Message> messages;  // not handed on
  size_t waiting = 0;            // bytes of them
  double done = 0;
  bool ended = false;

  Asker() = default;
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;
  ~Asker() {
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  // Takes what it has said.
  void listen() {
    const size_t before = bytes.size();
    bytes.resize(before + kPart);
    ssize_t n;
    do n = read(pipe.get(), bytes.data() + before, kPart);
    while (n < 0 && errno == EINTR);
    bytes.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    size_t at = 0;
    uint32_t size = 0;
    while (bytes.size() - at >= sizeof size) {
      std::memcpy(&size, bytes.data() + at, sizeof size);
      if (bytes.size() - at < size) break;
      const uint8_t* message = bytes.data() + at;
      take({static_cast<Word>(message[sizeof size]), {message + sizeof size + 1, message + size}});
      at += size;
    }
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(at));
    if (n <= 0 && !ended)
      throw Error(
          fmt::format("the process that asked process #{} ended unexpectedly: this is a bug in "
                      "backstep, or memory ran out",
                      process.number));
  }
  void take(Message message) {
    if (message.word == Word::Progress) {
      done = message.json().get<double>();
      return;
    }
    ended |= message.word >= Word::Refused;
    waiting += message.cbor.size();
    messages.push_back(std::move(message));
  }
};

Several::Several(const ReplayOptions& options, const recording::Library& library,
                 const recording::Recording& recording, std::vector<uint64_t> numbers)
    : options_(options), library_(library), recording_(recording) {
  for (const recording::ProcessInfo& info : recording::list_processes(recording))
    if (!info.empty && std::find(numbers.begin(), numbers.end(), info.number) != numbers.end())
      processes_.push_back({info.number, info.pid, info.argv.empty() ? "?" : base_name(info.argv[0])});
  if (processes_.empty())
    throw Error("these processes were killed before their first event: there is nothing to ask");
}

// A tick, a control point and an event's number mean something in one process only.
void Several::check(const StretchOfEach& stretch) const {
  for (const std::string& text : {stretch.from, stretch.to}) {
    if (text.empty()) continue;
    const auto kind = timeline::parse_moment(text, recording_).kind;
    if (kind == MomentName::Point || kind == MomentName::Event)
      throw Error(fmt::format("'{}' is a moment of one process: of several, a stretch is from and to a time "
                              "of the day (14:03:22, +1.5s), or a part of each one's run (50%)",
                              text),
                  kExitUsage);
  }
}

void Several::answer(pid_t controller, uint64_t number, int to, const StretchOfEach& stretch,
                     const Question& question) const {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != controller) _exit(0);  // it was gone before
  signal(SIGPIPE, SIG_IGN);
  timeline::Worker::forget_output_pipe();
  Watcher watcher;
  watcher.progress = [to](double done) { put(to, Word::Progress, done); };
  watcher.note = [to](const std::string& sentence) { put(to, Word::Note, sentence); };
  try {
    ReplayOptions options = options_;
    options.process = number;
    options.chosen = true;
    Session session(options, library_, recording_);
    if (const auto within = stretch_in(session, stretch))
      question(
          session, *within, [to](const AnswerJson& part) { return put(to, Word::Part, part); }, watcher);
    put(to, Word::End, nullptr);
  } catch (const Error& e) {
    // What is wrong with the question where it is asked here may be right elsewhere.
    put(to, e.exit_code == kExitUsage ? Word::Refused : Word::Failed,
        AnswerJson::array({e.what(), e.exit_code}));
  } catch (const std::exception& e) {
    put(to, Word::Failed, AnswerJson::array({e.what(), static_cast<int>(kExitFailure)}));
  }
  _exit(0);
}

void Several::start(Asker& asker, const StretchOfEach& stretch, const Question& question) const {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("cannot make a pipe: " + errno_text(errno));
  asker.pipe = Fd(ends[0]);
  const Fd theirs(ends[1]);
  fflush(nullptr);  // what we have not printed yet is not for the asker to print
  const pid_t controller = getpid();
  asker.pid = fork();
  if (asker.pid < 0) throw Error("cannot make a process: " + errno_text(errno));
  if (asker.pid == 0) answer(controller, asker.process.number, theirs.get(), stretch, question);
}

void Several::ask(const StretchOfEach& stretch, const Question& question, const Heard& heard,
                  const Watcher& watcher) {
  check(stretch);
  attention.stop_asked = false;
  const timeline::SharedWindows shared;
  const auto most = sysconf(_SC_NPROCESSORS_ONLN);
  std::list<Asker> askers;  // oldest first
  size_t begun = 0, refused = 0;
  std::string why;              // of the first that was refused
  std::set<std::string> noted;  // processes of the same program have the same remarks

  // False: enough.
  auto tell = [&](Asker& asker) {
    for (; !asker.messages.empty(); asker.messages.pop_front()) {
      const Asker::Message& message = asker.messages.front();
      asker.waiting -= message.cbor.size();
      const AnswerJson json = message.json();
      auto sentence = [&] {
        return fmt::format("process #{} ({}): {}", asker.process.number, asker.process.program,
                           json.at(0).get<std::string>());
      };
      if (message.word == Word::Part && !heard(asker.process, json)) return false;
      if (message.word == Word::Note && watcher.note && noted.insert(json.get<std::string>()).second)
        watcher.note(json.get<std::string>());
      if (message.word == Word::Refused && refused++ == 0) why = sentence();
      if (message.word == Word::Failed) throw Error(sentence(), json.at(1).get<int>());
    }
    return true;
  };
  auto progress = [&] {
    double done = 0;
    for (const Asker& a : askers) done += a.ended ? 1 : a.done;
    done += static_cast<double>(begun - askers.size());
    if (watcher.progress) watcher.progress(done / static_cast<double>(processes_.size()));
  };
  auto is_running = [](const Asker& a) { return !a.ended; };

  for (;;) {
    size_t waiting = 0;
    for (const Asker& a : askers) waiting += a.waiting;
    while (begun < processes_.size() && waiting < kMostSaid &&
           std::count_if(askers.begin(), askers.end(), is_running) < most) {
      askers.emplace_back().process = processes_[begun++];
      start(askers.back(), stretch, question);
    }
    while (!askers.empty()) {
      if (!tell(askers.front())) return;
      if (!askers.front().ended) break;
      askers.pop_front();
    }
    progress();
    if (askers.empty() && begun == processes_.size()) break;
    if (askers.empty()) continue;

    std::vector<pollfd> fds{{attention.fd, POLLIN, 0}};
    std::vector<Asker*> heard_now;
    for (Asker& a : askers) {
      if (a.ended || (waiting >= kMostSaid && &a != &askers.front())) continue;
      fds.push_back({a.pipe.get(), POLLIN, 0});
      heard_now.push_back(&a);
    }
    if (poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR)
      throw Error("cannot wait: " + errno_text(errno));
    if (fds[0].revents && attention.stop_wanted && attention.stop_wanted()) {
      attention.stop_asked = true;
      return;
    }
    for (size_t i = 0; i < heard_now.size(); i++)
      if (fds[i + 1].revents) heard_now[i]->listen();
  }
  if (refused == processes_.size())
    throw Error(refused == 1 ? why : fmt::format("none of {} processes can answer that; {}", refused, why),
                kExitUsage);
}

std::vector<CountOfEach> Several::count(const std::vector<std::string>& specs, const StretchOfEach& stretch,
                                        const Watcher& watcher) {
  std::vector<CountOfEach> counts;
  std::vector<bool> composed;
  for (const std::string& spec : specs) {
    counts.emplace_back().sum.spec = spec;
    composed.push_back(parse_event(spec).op != events::Event::Op::One);  // what cannot be read is told once
  }
  ask(
      stretch,
      [&](Session& session, const Stretch& within, const Say& say, const Watcher& w) {
        say(session.count(specs, within, w, true));
      },
      [&](const AskedProcess& process, const AnswerJson& json) {
        const auto of_process = json.get<std::vector<Count>>();
        for (size_t i = 0; i < counts.size(); i++) {
          const Count& c = of_process.at(i);
          if (!c.unknown.empty()) {
            if (counts[i].sum.unknown.empty())
              counts[i].sum.unknown =
                  fmt::format("process #{} ({}): {}", process.number, process.program, c.unknown);
            continue;
          }
          counts[i].sum.matches += c.matches, counts[i].sum.failures += c.failures;
          counts[i].shares.push_back({process, c});
        }
        return true;
      },
      watcher);
  for (size_t i = 0; i < counts.size(); i++)
    if (CountOfEach& c = counts[i]; c.shares.empty() && !c.sum.unknown.empty())
      throw Error(
          fmt::format("no process knows what '{}' is{}; {}", c.sum.spec,
                      composed[i] ? " as a whole (parts of an event are looked for within each process "
                                    "by itself)"
                                  : "",
                      c.sum.unknown),
          kExitUsage);
  return counts;
}

std::vector<VerdictOfEach> Several::check(const std::vector<events::Assertion>& assertions,
                                          const StretchOfEach& stretch, const Watcher& watcher) {
  std::vector<VerdictOfEach> verdicts(assertions.size());
  std::vector<bool> known(assertions.size());
  for (size_t i = 0; i < assertions.size(); i++)
    verdicts[i].sum.assertion = assertions[i].text, verdicts[i].sum.line = assertions[i].line;
  ask(
      stretch,
      [&](Session& session, const Stretch& within, const Say& say, const Watcher& w) {
        say(session::check(session, assertions, within, w, true).list);
      },
      [&](const AskedProcess& process, const AnswerJson& json) {
        const auto of_process = json.get<std::vector<Verdict>>();
        for (size_t i = 0; i < verdicts.size(); i++) {
          const Verdict& v = of_process.at(i);
          Verdict& sum = verdicts[i].sum;
          known[i] = known[i] || v.unknown.empty();
          if (!v.unknown.empty() && sum.unknown.empty())
            sum.unknown = fmt::format("process #{} ({}): {}", process.number, process.program, v.unknown);
          sum.checks += v.checks, sum.violations += v.violations, sum.failures += v.failures;
          if (v.first && !sum.first) sum.first = v.first, verdicts[i].process = process;
        }
        return true;
      },
      watcher);
  for (size_t i = 0; i < verdicts.size(); i++) {
    Verdict& sum = verdicts[i].sum;
    if (!known[i] && !sum.unknown.empty())
      throw Error(fmt::format("no process knows what '{}' is about; {}", sum.assertion, sum.unknown),
                  kExitUsage);
    sum.unknown.clear();
  }
  return verdicts;
}

Count Several::log(const LogRequest& request, const StretchOfEach& stretch, uint64_t limit, uint64_t last,
                   const std::function<bool(const AskedProcess&, const Hit&)>& hit, const Watcher& watcher) {
  parse_event(request.spec);
  Count sum{request.spec, 0, 0, ""};
  if (limit == 0) return sum;
  ask(
      stretch,
      [&](Session& session, const Stretch& within, const Say& say, const Watcher& w) {
        LogRequest here = request;
        here.stretch = within;
        if (last) {
          for (const Hit& h : session.log_last(here, last, w)) say(AnswerJson::array({h}));
          return;
        }
        uint64_t told = 0;
        const Count count = session.log(
            here, [&](const Hit& h) { return say(AnswerJson::array({h})) && ++told < limit; }, w);
        say(count.failures);
      },
      [&](const AskedProcess& process, const AnswerJson& json) {
        if (json.is_number()) {
          sum.failures += json.get<uint64_t>();
          return true;
        }
        sum.matches++;
        return hit(process, json.at(0).get<Hit>());
      },
      watcher);
  return sum;
}

void Several::calls(const TreeRequest& request, const StretchOfEach& stretch, bool tree,
                    const std::function<bool(const AskedProcess&, const CallWithTree&)>& call,
                    const Watcher& watcher) {
  if (request.limit == 0) return;
  ask(
      stretch,
      [&](Session& session, const Stretch& within, const Say& say, const Watcher& w) {
        TreeRequest here = request;
        here.stretch = within;
        if (tree) {
          for (const CallWithTree& t : call_trees(session, here, w)) say(t);
          return;
        }
        uint64_t told = 0;
        session::calls(
            session, request.function, within,
            [&](const Call& c) {
              CallWithTree alone;
              alone.call = c;
              return say(alone) && ++told < request.limit;
            },
            w);
      },
      [&](const AskedProcess& process, const AnswerJson& json) {
        CallWithTree both;
        json.get_to(both);
        return call(process, both);
      },
      watcher);
}

ProfileOfEach Several::profile(const ProfileRequest& request, const StretchOfEach& stretch,
                               const Watcher& watcher) {
  ProfileOfEach result;
  result.all.period = request.instructions ? 1 : request.period;
  ask(
      stretch,
      [&](Session& session, const Stretch& within, const Say& say, const Watcher& w) {
        ProfileRequest here = request;
        here.stretch = within;
        say(session::profile(session, here, w));
      },
      [&](const AskedProcess& process, const AnswerJson& json) {
        const auto profile = json.get<Profile>();
        for (const auto& [stack, n] : profile.stacks) {
          std::vector<std::string> whole{process.program};
          whole.insert(whole.end(), stack.begin(), stack.end());
          result.all.stacks[whole] += n;
        }
        result.all.samples += profile.samples, result.all.cut += profile.cut;
        result.samples.push_back({process, profile.samples});
        return true;
      },
      watcher);
  return result;
}

Coverage Several::coverage(const StretchOfEach& stretch, bool system, const Watcher& watcher) {
  Coverage all;
  ask(
      stretch,
      [&](Session& session, const Stretch& within, const Say& say, const Watcher& w) {
        say(session::coverage(session, within, system, w));
      },
      [&](const AskedProcess&, const AnswerJson& json) {
        all.add(json.get<Coverage>());
        return true;
      },
      watcher);
  return all;
}

}  // namespace backstep::session
