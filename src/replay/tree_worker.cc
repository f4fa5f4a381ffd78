// A worker replays one log. Where the recorded process forked, so does the worker: its copy stands where the
// child began and goes on with the child's log, so nothing is replayed twice. The copy has a socket of its
// own, whose other end goes to the controller through the parent's. Both then wait until the controller lets
// them go on: it decides how many run at a time.
#include "replay/tree_worker.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "engine/engine.h"
#include "replay/confinement.h"
#include "replay/replayer.h"

namespace backstep::replayer {

namespace {

// Of no use without a controller.
[[noreturn]] void give_up() {
  _exit(kExitFailure);
}

void send(int channel, const Message& message, const void* bytes, int fd = -1) {
  std::string data(reinterpret_cast<const char*>(&message), sizeof message);
  data.append(static_cast<const char*>(bytes), message.size);
  for (size_t at = 0; at < data.size();) {
    iovec part{data.data() + at, data.size() - at};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr m{};
    m.msg_iov = &part;
    m.msg_iovlen = 1;
    if (fd >= 0 && at == 0) {
      m.msg_control = control;
      m.msg_controllen = sizeof control;
      cmsghdr* c = CMSG_FIRSTHDR(&m);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(sizeof fd);
      std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    const ssize_t n = sendmsg(channel, &m, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) give_up();
    at += static_cast<size_t>(n);
  }
}

// False: nobody is there.
bool await_byte(int channel) {
  char byte;
  ssize_t n;
  while ((n = read(channel, &byte, 1)) < 0 && errno == EINTR) {
  }
  return n == 1;
}

void await_permission(int channel) {
  if (!await_byte(channel)) give_up();
}

// Progress is looked after twice a second (Replayer::check_progress), and whether the controller is still
// there.
void start_timer() {
  engine::install_handler(SIGALRM, SA_RESTART);
  const itimerval timer{{0, 500'000}, {1, 0}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

std::string pack(const Replayed& r) {
  const Outcome& o = r.outcome;
  const nlohmann::json j{{"process", r.process}, {"complete", o.complete}, {"kind", static_cast<int>(o.kind)},
                         {"status", o.status},   {"ticks", o.ticks},       {"events", o.events},
                         {"damaged", o.damaged}, {"code", r.code}};
  // Sentences may have bytes of the program in them.
  return fmt::format("{}\n{}\n{}{}", j.dump(), o.incomplete.size(), o.incomplete, r.error);
}

Replayed unpack(const std::string& text) {
  const size_t first = text.find('\n'), second = text.find('\n', first + 1);
  const auto j = nlohmann::json::parse(text.substr(0, first));
  const size_t incomplete = std::stoul(text.substr(first + 1, second - first - 1));
  Replayed r;
  r.process = j["process"];
  r.outcome.complete = j["complete"];
  r.outcome.kind = static_cast<recording::EndKind>(j["kind"].get<int>());
  r.outcome.status = j["status"];
  r.outcome.ticks = j["ticks"];
  r.outcome.events = j["events"];
  r.outcome.damaged = j["damaged"];
  r.code = j["code"];
  r.outcome.incomplete = text.substr(second + 1, incomplete);
  r.error = text.substr(second + 1 + incomplete);
  return r;
}

void work(int channel, const ReplayOptions& options, const recording::Library& library,
          const recording::Recording& recording, const ChildAt& child_at) {
  Replayed result;
  result.process = options.process;
  bs_replay.channel = channel;
  std::unique_ptr<Replayer> replayer;
  try {
    confine(library, recording, options.store_on_autopilot);
    replayer = std::make_unique<Replayer>(options, library, recording);
    replayer->child_at = child_at;
    replayer->fork_off = [&](uint64_t child) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        throw Error(
            fmt::format("cannot make a process for the replay of process #{}: {}", child, errno_text(errno)));
      const pid_t pid = fork();
      if (pid < 0)
        throw Error(
            fmt::format("cannot make a process for the replay of process #{}: {}", child, errno_text(errno)));
      if (pid == 0) {
        close(bs_replay.channel);
        close(pair[1]);
        bs_replay.channel = pair[0];
        result.process = child;
        // The parent may go on when we have our own copy of what is mapped shared.
        const auto let_parent_go = [&] { (void)!::write(pair[0], "", 1); };
        try {
          replayer->after_fork();
        } catch (const Error&) {
          let_parent_go();
          throw;
        }
        let_parent_go();
        await_permission(pair[0]);
        start_timer();
        return true;
      }
      close(pair[0]);
      await_byte(pair[1]);  // if it has died the controller will see that
      send(bs_replay.channel, {Message::Forked, 0, child}, nullptr, pair[1]);
      close(pair[1]);
      await_permission(bs_replay.channel);
      return false;
    };
    start_timer();
    result.outcome = replayer->run();
    replayer->save_translations();
  } catch (const Error& e) {
    result.error = e.what();
    result.code = e.exit_code;
  } catch (const std::exception& e) {
    result.error = e.what();
    result.code = kExitFailure;
  }
  const itimerval off{};
  setitimer(ITIMER_REAL, &off, nullptr);
  const std::string text = pack(result);
  send(bs_replay.channel, {Message::Finished, static_cast<uint32_t>(text.size()), result.process},
       text.data());
  _exit(0);
}

}  // namespace backstep::replayer
