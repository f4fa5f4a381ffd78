// How sessions of libbackstep end, and what the program that has them notices of it.
//
//   cpp_sessions_end RECORDING           all of it
//   cpp_sessions_end RECORDING break     searches that are broken off, alone
//
// $BACKSTEP is a script that writes its process id into the file `pid` and becomes the program. The recording
// has kHits calls of `step`: far more than the socket between the two holds.
#undef NDEBUG
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include <backstep/session.h>

using backstep::Session;

namespace {

constexpr uint64_t kHits = 20'000;

std::string sentence_of(const auto& wrong) {
  try {
    wrong();
  } catch (const backstep::Error& e) {
    assert(e.code() == 0);
    return e.what();
  }
  assert(!"no error");
}

pid_t pid() {
  pid_t pid = 0;
  std::ifstream("pid") >> pid;
  assert(pid > 0);
  return pid;
}

void kill_session() {
  const pid_t child = pid();
  assert(kill(child, SIGKILL) == 0);
  siginfo_t info;
  assert(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
}

bool no_children() {
  return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

// What is left of a search that nobody wants any more neither comes nor keeps others waiting.
void broken_off(const char* recording) {
  auto s = Session::open(recording);
  for (const backstep::Hit& hit : s.log("call step", {"$arg0"})) {
    assert(hit.values["$arg0"] == 0);
    break;
  }
  assert(s.count("call main") == 1);
  for (int i = 0; i < 3; i++) assert(s.calls("step").next()->args[0].value == 0);
  assert(s.count("call step") == kHits);
  const auto left = s.log("call step");  // when the session goes
}

void cancelled(const char* recording) {
  auto s = Session::open(recording);
  s.cancel();  // nothing
  auto stream = s.log("call step", {"$arg0"});
  assert(stream.next());
  std::thread([&] { s.cancel(); }).join();
  uint64_t came = 1;
  try {
    while (stream.next()) came++;
    assert(!"not cancelled");
  } catch (const backstep::Cancelled& e) {
    assert(e.code() == backstep::Cancelled::kCode);
  }
  std::cerr << came << " came before the cancellation\n";
  assert(came < kHits && !stream.next() && s.count("call step") == kHits);
}

// A callback that throws leaves the session as it should be.
void callbacks(const char* recording) {
  auto s = Session::open(recording);
  double done = -1;
  s.on_progress([&](double d) { throw done = d; });
  try {
    for (auto& hit : s.log("call step")) assert(hit.thread == 1);
  } catch (double) {
    assert(done >= 0 && done <= 1);
  }
  assert(done >= 0);
  s.on_progress({});
  assert(s.count("call step") == kHits);
}

void killed(const char* recording) {
  auto s = Session::open(recording);
  kill_session();
  for (int i = 0; i < 2; i++)
    assert(sentence_of([&] { s.count("call step"); }) == "the session was ended by SIGKILL");
  s = Session::open(recording);
  auto stream = s.log("call step");
  assert(stream.next());
  kill_session();
  sentence_of([&] {
    while (stream.next()) continue;
  });
  auto t = Session::open(recording);
  kill_session();
  s = std::move(t);
}

// The session has no descriptors of ours, and Ctrl-C is for us alone.
void undisturbed(const char* recording) {
  int ends[2];
  assert(pipe(ends) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  signal(SIGINT, SIG_IGN);
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  auto s = Session::open(recording);
  close(ends[1]);
  char byte;
  assert(read(ends[0], &byte, 1) == 0);
  assert(kill(0, SIGINT) == 0);
  assert(s.count("call main") == 1);

  // A forked process that leaves has nothing to say in this.
  if (const pid_t fork_of_us = fork(); fork_of_us == 0) {
    { const Session copy = std::move(s); }
    _exit(0);
  } else {
    assert(waitpid(fork_of_us, nullptr, 0) == fork_of_us);
  }
  assert(s.count("call main") == 1);

  // Whoever prints without having a stdout does not print into the conversation.
  close(0), close(1);
  auto t = Session::open(recording);
  assert(write(0, "0", 1) == -1 && write(1, "1", 1) == -1 && t.count("call main") == 1);
}

// Programs that are no session.
void others() {
  const auto sentence = [](const char* program) {
    return sentence_of([=] { Session::open("", {.program = program}); });
  };
  assert(sentence("/not/there") ==
         "there is no program '/not/there': install Backstep, or set BACKSTEP to its path");
  assert(sentence("/dev/null") == "cannot start '/dev/null': Permission denied");
  assert(sentence("true") == "the session has ended");
  assert(sentence("echo") == "what was started is no session of Backstep; it says: session");
  assert(sentence("./parrot").starts_with("what was started is no session of Backstep; it says: {"));
}

}  // namespace

int main(int, char** argv) {
  signal(SIGPIPE, SIG_DFL);
  if (argv[2]) return broken_off(argv[1]), 0;
  for (const auto behaviour : {broken_off, cancelled, callbacks, killed, undisturbed}) {
    behaviour(argv[1]);
    assert(no_children());
  }
  others();
  assert(no_children());
}
