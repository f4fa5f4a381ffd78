// Both ends of the talk between controller and workers.
//
// The controller never loads the guest itself: its address space is its own, and what a replay does to a
// process (fixed mappings, signal handlers) stays in the workers. All workers descend from the first one by
// fork(), which is what makes them the same in every bit. They end when their socket is closed, so none
// survives the controller, however that ends.
#include "timeline/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hot.h"
#include "engine/entry.h"
#include "recording/checkpoint_series.h"
#include "replay/confinement.h"
#include "replay/replayer.h"
#include "timeline/worker_messages.h"

namespace backstep::timeline {
namespace {

constexpr int kLookAgain = 250;  // ms, whether somebody wants to stop

// --- the worker's end ---

class Service {
 public:
  Service(replayer::Replayer& replayer, Fd socket) : replayer_(replayer), socket_(std::move(socket)) {
    replayer_.interrupted = [this] { return message_waits(); };
  }

  [[noreturn]] void serve() {
    for (;;) {
      Fd fd;
      std::vector<uint8_t> message = receive_message(socket_.get(), &fd);
      if (message.empty()) _exit(0);
      Unpacker u(std::move(message));
      auto command = u.get<Command>();
      interrupted_ = false;
      if (command == Command::Interrupt) continue;
      if (command == Command::Exit) _exit(0);
      Packer answer;
      answer.put(Answer::Ok);
      try {
        if (command == Command::Fork) {
          fork_to(std::move(fd));
        } else if (command == Command::LogTo) {
          replayer_.log_to(std::move(fd));
        } else if (command == Command::AdmitDebug) {
          admit_debug(std::move(fd), u);
        } else if (command == Command::DebugState) {
          debug_state_ = std::move(fd);
        } else if (command == Command::SaveDebug) {
          replayer_.save_debug(fd);
        } else if (command == Command::Steps) {
          write_steps(fd, u, answer);
        } else if (command == Command::Words) {
          write_words(fd, answer);
        } else {
          answer_to(command, u, answer);
        }
      } catch (const Error& e) {
        answer = Packer();
        answer.put(Answer::Failed).put(e.exit_code).put_bytes(e.what(), std::strlen(e.what()));
      } catch (const std::exception& e) {
        answer = Packer();
        answer.put(Answer::Failed)
            .put(static_cast<int>(kExitFailure))
            .put_bytes(e.what(), std::strlen(e.what()));
      }
      if (!send_message(socket_.get(), answer.bytes())) _exit(0);
    }
  }

 private:
  // In the middle of a command. The controller may be about to say that it wants a stop.
  replayer::DebugAnswer ask(const replayer::DebugQuestion& question) {
    Packer p;
    p.put(Answer::Asks).put(question.kind).put(question.at);
    p.put_bytes(question.event.data(), question.event.size());
    p.put_bytes(question.stack.data(), question.stack.size());
    if (!send_message(socket_.get(), p.bytes())) _exit(0);
    std::vector<uint8_t> all;
    for (bool last = false; !last;) {
      std::vector<uint8_t> message = receive_message(socket_.get());
      if (message.empty()) _exit(0);
      Unpacker u(std::move(message));
      const auto command = u.get<Command>();
      if (command == Command::Interrupt) interrupted_ = true;
      if (command == Command::Exit) _exit(0);
      if (command != Command::Answered) continue;
      last = u.get<bool>();
      const std::vector<uint8_t> part = u.get_bytes();
      all.insert(all.end(), part.begin(), part.end());
    }
    Unpacker u(std::move(all));
    return unpack_answer(u);
  }

  bool message_waits() const {
    if (interrupted_) return true;
    pollfd p{socket_.get(), POLLIN, 0};
    return poll(&p, 1, 0) > 0;
  }

  // The child goes on here with the other socket; its answer there says that it is ready.
  void fork_to(Fd fd) {
    pid_t pid = ::fork();
    if (pid < 0) throw Error("cannot make a checkpoint: " + errno_text(errno));
    if (pid > 0) return;
    socket_ = std::move(fd);
    replayer_.after_fork();
  }

  void answer_to(Command command, Unpacker& u, Packer& answer) {
    switch (command) {
      case Command::State: {
        answer.put(replayer_.position()).put(replayer_.id_of(process().current()));
        answer.put(static_cast<uint32_t>(process().threads().size()));
        for (auto& [name, t] : process().threads()) {
          ThreadState s{replayer_.id_of(*t), name, t->in_call, 0, t->fs_base};
          if (t.get() == &process().current()) s.in_call = false, s.fs_base = context().fs_base;
          if (s.in_call) s.call = t->gpr[RAX];
          answer.put(s);
        }
        break;
      }
      case Command::Registers:
        answer.put(registers(u.get<int>()));
        break;
      case Command::SetRegisters: {
        int tid = u.get<int>();
        set_registers(tid, u.get<Registers>());
        break;
      }
      case Command::Read: {
        auto address = u.get<Address>();
        auto bytes = read(address, u.get<uint64_t>());
        answer.put_bytes(bytes.data(), bytes.size());
        break;
      }
      case Command::Write: {
        auto address = u.get<Address>();
        answer.put(write(address, u.get_bytes()));
        break;
      }
      case Command::Stage:
        stage(u.get_bytes());
        break;
      case Command::Install: {
        stage(u.get_bytes());
        Unpacker all(std::exchange(staged_, {}));
        replayer_.install(unpack_taps(all));
        break;
      }
      case Command::Run: {
        auto until = u.get<Until>();
        replayer::bs_replay.output = u.get<bool>();
        const double start = recording::thread_cpu_seconds();
        answer.put(replayer_.run_until(until));
        answer.put(recording::thread_cpu_seconds() - start);
        break;
      }
      case Command::Step: {
        auto tid = u.get<int>();
        auto start = u.get<Address>(), end = u.get<Address>();
        auto until = u.get<Until>();
        replayer::bs_replay.output = u.get<bool>();
        Arrival halt;
        do {
          halt = replayer_.step(tid, until);
        } while (halt.why == Arrival::Stepped && halt.at.pc >= start && halt.at.pc < end &&
                 !replayer_.breakpoint_here());
        answer.put(halt);
        break;
      }
      case Command::Collect:
        if (u.get<bool>()) replayer_.log_window();
        answer.put(replayer_.flush_log());
        break;
      case Command::Counts: {
        const auto& counts = replayer_.tap_counts();
        for (size_t i = u.get<uint64_t>(), end = i + kCountsInMessage; i < end && i < counts.size(); i++)
          answer.put(counts[i]);
        break;
      }
      case Command::Search:
        replayer::bs_replay.output = false;
        replayer_.backward = true;
        search(u.get<Until>(), answer);
        replayer_.backward = false;
        break;
      case Command::LastStep: {
        replayer::bs_replay.output = false;
        int tid = u.get<int>();
        auto last = replayer_.last_step_before(tid, u.get<Position>());
        answer.put(last.has_value()).put(last.value_or(Position{}));
        break;
      }
      case Command::Divert:
        replayer_.divert();
        replayer_.divert_to(u.get<int>());
        break;
      case Command::BreakHere:
        answer.put(replayer_.breakpoint_here());
        break;
      case Command::LeaveDebug:
        replayer_.leave_debug();
        break;
      case Command::Siginfo: {
        auto info = replayer_.probe_fault();
        answer.put_bytes(info ? &*info : nullptr, info ? sizeof *info : 0);
        break;
      }
      case Command::Maps: {
        std::string text = process().map.proc_maps();
        if (text.size() > kMaxRead) text.resize(kMaxRead);
        answer.put_bytes(text.data(), text.size());
        break;
      }
      case Command::Store:
        answer.put(store(u));
        break;
      case Command::Restore: {
        const recording::Recording recording(u.get_text());
        const auto process = u.get<uint64_t>();
        recording::CheckpointFolder folder(recording, process);
        replayer_.restore(folder, u.get<uint64_t>());
        break;
      }
      case Command::Written:
        pack(answer, replayer_.written_since_last());
        break;
      case Command::Checksum: {
        uint32_t sum = process().memory_checksum();
        for (auto& [name, t] : process().threads()) {
          Registers r = registers(replayer_.id_of(*t));
          sum = hot::crc32c(sum, r.gpr, sizeof r.gpr);
          sum = hot::crc32c(sum, &r.rip, 4 * sizeof(uint64_t));
          for (int i = 0; i < 16; i++) sum = hot::crc32c(sum, r.xsave + 160 + 16 * i, 16);
          const auto& signals = t.get() == &process().current() ? process().signals : t->signals;
          sum = hot::crc32c(sum, &signals.mask, sizeof signals.mask);
          sum = hot::crc32c(sum, &signals.alt.sp, sizeof signals.alt.sp);
          const bool in_call = t->in_call && t.get() != &process().current();
          sum = hot::crc32c(sum, &in_call, sizeof in_call);
        }
        sum = hot::crc32c(sum, process().actions, sizeof process().actions);
        const std::string maps = process().map.proc_maps();
        sum = hot::crc32c(sum, maps.data(), maps.size());
        answer.put(sum);
        break;
      }
      default:
        throw Error("internal error: unknown command to a worker");
    }
  }

  void admit_debug(Fd file, Unpacker& u) {
    const std::string name = u.get_text();
    replayer_.debug_answers = [this](const auto& question) { return ask(question); };
    const auto mode = u.get<replayer::DebugMode>();
    const bool goes_on = u.get<bool>();
    const Fd state = goes_on ? std::move(debug_state_) : Fd();
    replayer_.admit_debug(std::move(file), name, mode, state);
  }

  // Beside the replay, and less important than it.
  Worker::Storage store(Unpacker& u) {
    timespec start{}, end{};
    clock_gettime(CLOCK_MONOTONIC, &start);
    const recording::Recording recording(u.get_text());
    const auto process = u.get<uint64_t>(), earlier = u.get<uint64_t>();
    const bool patient = u.get<bool>();
    const auto written = unpack_written(u);
    setpriority(PRIO_PROCESS, 0, 10);
    recording::CheckpointFolder folder(recording, process);
    const auto lock = folder.lock(patient);
    if (!lock) throw Error("checkpoints are being written by somebody else", kBusy);
    Worker::Storage done;
    done.number = folder.free_number();
    recording::CheckpointWriter writer(folder, done.number, earlier);
    done.size = replayer_.store(writer, written);
    clock_gettime(CLOCK_MONOTONIC, &end);
    done.seconds = static_cast<double>(end.tv_sec - start.tv_sec) +
                   static_cast<double>(end.tv_nsec - start.tv_nsec) / 1e9;
    return done;
  }

  void search(Until until, Packer& answer) {
    Found found;
    const double start = recording::thread_cpu_seconds();
    const Position end = until.point.value_or(Position{~0ull, ~0ull, ~0ull});
    for (;;) {
      Arrival h = replayer_.run_until(until);
      const bool match = h.why == Arrival::Break || h.why == Arrival::Watch;
      if (!match || (h.why == Arrival::Break ? h.at : h.before) >= end) {
        found.end = h;
        break;
      }
      found.last = h;
      found.count++;
      until.fresh = h.why == Arrival::Watch;
    }
    answer.put(found.end).put(found.last).put(found.count).put(recording::thread_cpu_seconds() - start);
  }

  void write_steps(const Fd& file, Unpacker& u, Packer& answer) {
    replayer::bs_replay.output = false;
    const auto end = u.get<Position>();
    uint64_t dropped = 0;
    const auto steps = replayer_.steps_until(end, u.get<uint64_t>(), &dropped);
    hand_over(file, steps.data(), steps.size() * sizeof steps[0]);
    answer.put<uint64_t>(steps.size()).put(dropped).put(replayer_.position());
  }

  void write_words(const Fd& file, Packer& answer) {
    const double start = recording::thread_cpu_seconds();
    std::vector<uint8_t> packed;
    if (const auto contents = replayer_.take_words()) packed = contents->pack();
    hand_over(file, packed.data(), packed.size());
    answer.put<uint64_t>(packed.size()).put(recording::thread_cpu_seconds() - start);
  }

  void stage(const std::vector<uint8_t>& bytes) { staged_.insert(staged_.end(), bytes.begin(), bytes.end()); }

  guest::Process& process() { return replayer_.process(); }
  guest::Thread& thread(int tid) {
    for (auto& [name, t] : process().threads())
      if (replayer_.id_of(*t) == tid) return *t;
    throw Error("there is no such thread at this moment");
  }

  Registers registers(int tid) {
    Registers r;
    guest::Thread& t = thread(tid);
    r.hi16_offset = engine::bs_cache.hi16_offset;
    if (&t == &process().current()) {
      const Context& ctx = context();
      std::memcpy(r.gpr, ctx.gpr, sizeof r.gpr);
      r.rip = replayer_.position().pc;
      r.rflags = ctx.rflags, r.fs_base = ctx.fs_base, r.gs_base = ctx.gs_base;
      std::memcpy(r.xsave, ctx.xsave, sizeof r.xsave);
    } else {
      std::memcpy(r.gpr, t.gpr, sizeof r.gpr);
      r.rip = t.rip, r.rflags = t.rflags, r.fs_base = t.fs_base, r.gs_base = t.gs_base;
      std::memcpy(r.xsave, t.xsave, sizeof r.xsave);
    }
    // The engine's own registers (the tick counter) are not the guest's.
    if (!engine::bs_cache.evex_seen) {
      uint64_t bits;
      std::memcpy(&bits, r.xsave + 512, 8);
      bits &= 7;
      std::memcpy(r.xsave + 512, &bits, 8);
    }
    return r;
  }

  void set_registers(int tid, const Registers& r) {
    if (!replayer_.diverted()) throw Error("internal error: history cannot be changed");
    guest::Thread& t = thread(tid);
    if (&t == &process().current()) {
      Context& ctx = context();
      std::memcpy(ctx.gpr, r.gpr, sizeof r.gpr);
      ctx.rip = r.rip, ctx.fs_base = r.fs_base, ctx.gs_base = r.gs_base;
      constexpr uint64_t kUserFlags = 0x44dd5 | 0x200000;
      ctx.rflags = (ctx.rflags & ~kUserFlags) | (r.rflags & kUserFlags);
      std::memcpy(ctx.xsave, r.xsave, sizeof r.xsave);
    } else {
      std::memcpy(t.gpr, r.gpr, sizeof r.gpr);
      t.rip = r.rip, t.rflags = r.rflags, t.fs_base = r.fs_base, t.gs_base = r.gs_base;
      std::memcpy(t.xsave, r.xsave, sizeof r.xsave);
    }
  }

  // Page by page; memory without permission to read is opened for the moment, as a debugger may look there.
  std::vector<uint8_t> read(Address address, uint64_t length) {
    std::vector<uint8_t> bytes;
    length = std::min<uint64_t>(length, kMaxRead);
    while (length > 0) {
      const guest::Region* r = process().map.find(address);
      if (!r) break;
      uint64_t n = std::min({length, layout::kPage - address % layout::kPage, r->end - address});
      const size_t at = bytes.size();
      bytes.resize(at + n);
      const Address page = address & ~(layout::kPage - 1);
      const bool closed = process().page_protection(page) == 0;
      if (closed) hot::syscall6(10, static_cast<long>(page), layout::kPage, 1, 0, 0, 0);
      bool ok = bs_guarded_copy(bytes.data() + at, reinterpret_cast<const void*>(address), n);
      if (closed) hot::syscall6(10, static_cast<long>(page), layout::kPage, 0, 0, 0, 0);
      if (!ok) {
        bytes.resize(at);
        break;
      }
      address += n;
      length -= n;
    }
    return bytes;
  }

  bool write(Address address, const std::vector<uint8_t>& bytes) {
    if (!replayer_.diverted()) throw Error("internal error: history cannot be changed");
    for (size_t done = 0; done < bytes.size();) {
      const Address at = address + done;
      if (!process().map.find(at)) return false;
      const uint64_t n = std::min<uint64_t>(bytes.size() - done, layout::kPage - at % layout::kPage);
      const Address page = at & ~(layout::kPage - 1);
      process().engine().forget(at, at + n);
      process().prepare_write(at, at + n);
      const int prot = process().page_protection(page);
      hot::syscall6(10, static_cast<long>(page), layout::kPage, 3, 0, 0, 0);
      bool ok = bs_guarded_copy(reinterpret_cast<void*>(at), bytes.data() + done, n);
      hot::syscall6(10, static_cast<long>(page), layout::kPage, prot, 0, 0, 0);
      if (!ok) return false;
      done += n;
    }
    return true;
  }

  replayer::Replayer& replayer_;
  Fd socket_;
  bool interrupted_ = false;  // while an answer was waited for
  Fd debug_state_;            // that the next debug code goes on with
  std::vector<uint8_t> staged_;
};

// One pipe for the output of all guests. The controller keeps both ends: it may start several first workers,
// and notices by their sockets when one is gone.
int output_read_end = -1, output_write_end = -1;

void make_output_pipe() {
  if (output_read_end >= 0) return;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("cannot make a pipe: " + errno_text(errno));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  output_read_end = ends[0];
  output_write_end = ends[1];
}

std::pair<Fd, Fd> socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error("cannot make a socket pair: " + errno_text(errno));
  for (int end : ends) {
    int size = 2 * kMaxMessage;
    setsockopt(end, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
  return {Fd(ends[0]), Fd(ends[1])};
}

}  // namespace

// --- the controller's end ---

int Worker::output_pipe() {
  return output_read_end;
}

void Worker::forget_output_pipe() {
  for (int* end : {&output_read_end, &output_write_end}) Fd(std::exchange(*end, -1)).reset();
}

Worker Worker::start(const ReplayOptions& options, const recording::Library& library,
                     const recording::Recording& recording, const std::vector<int>& forking_threads) {
  auto [ours, theirs] = socket_pair();
  make_output_pipe();
  fflush(nullptr);
  pid_t pid = ::fork();
  if (pid < 0) throw Error("cannot start a replaying process: " + errno_text(errno));
  if (pid == 0) {
    // Nothing of the controller's is kept open here.
    dup2(output_write_end, 1);
    dup2(output_write_end, 2);
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, 0);
    const auto own = static_cast<unsigned>(theirs.get());
    if (own > 3) close_range(3, own - 1, 0);
    close_range(own + 1, ~0u, 0);
    ours.release();
    setpgid(0, 0);             // not for the terminal's Ctrl-C
    signal(SIGCHLD, SIG_IGN);  // checkpoints that end are nobody's business
    signal(SIGPIPE, SIG_IGN);
    try {
      replayer::confine(library, recording, options.checkpoints > 0);
      ReplayOptions quiet = options;
      quiet.progress = false;
      replayer::Replayer replayer(quiet, library, recording);
      replayer::bs_replay.output = false;
      replayer.know_forking_threads(forking_threads);
      replayer.start();
      Packer ready;
      ready.put(Answer::Ok);
      send_message(theirs.get(), ready.bytes());
      Service(replayer, std::move(theirs)).serve();
    } catch (const Error& e) {
      Packer failed;
      failed.put(Answer::Failed).put(e.exit_code).put_bytes(e.what(), std::strlen(e.what()));
      send_message(theirs.get(), failed.bytes());
      _exit(1);
    }
  }
  Worker worker(std::move(ours));
  worker.receive(nullptr);
  return worker;
}

Worker& Worker::operator=(Worker&& other) noexcept {
  if (this != &other) {
    close();
    socket_ = std::move(other.socket_);
    arrived_ = std::move(other.arrived_);
    answers_ = std::move(other.answers_);
    counts_written_ = other.counts_written_;
    has_debug_ = other.has_debug_;
    took_ = other.took_;
  }
  return *this;
}

Worker::~Worker() {
  close();
}

void Worker::close() {
  counts_written_ = false;
  socket_.reset();  // the process ends when it notices
}

bool Worker::stop_if_wanted(const Attention& attention) {
  if (!attention.stop_wanted()) return false;
  attention.stop_asked = true;
  Packer p;
  p.put(Command::Interrupt);
  send_message(socket_.get(), p.bytes());
  return true;
}

bool Worker::take_message() {
  std::vector<uint8_t> message = receive_message(socket_.get());
  if (message.empty())
    throw Error("a replaying process ended unexpectedly: this is a bug in backstep, or memory ran out");
  if (static_cast<Answer>(message.front()) != Answer::Asks) {
    arrived_ = std::move(message);
    return true;
  }
  Unpacker u(std::move(message));
  u.get<Answer>();
  replayer::DebugQuestion question;
  question.kind = u.get<replayer::DebugQuestion::Kind>();
  question.at = u.get<Position>();
  question.event = u.get_text();
  question.stack = u.get_bytes();
  replayer::DebugAnswer answer;
  try {
    if (!answers_) throw Error("nobody can answer that here");
    answer = answers_(question);
  } catch (const std::exception& e) {
    answer.failure = e.what();
  }
  Packer p;
  pack(p, answer);
  const std::vector<uint8_t>& bytes = p.bytes();
  for (size_t at = 0; at < bytes.size(); at += kMaxRead) {
    const size_t n = std::min(kMaxRead, bytes.size() - at);
    send(Command::Answered, Packer().put(at + n == bytes.size()).put_bytes(bytes.data() + at, n));
  }
  return false;
}

Unpacker Worker::receive(const Attention* attention) {
  bool told = false;
  for (bool first = true;; first = false) {
    // It may have been asked for before we began to listen.
    if (first && attention && attention->stop_wanted) told = stop_if_wanted(*attention);
    pollfd fds[3] = {{socket_.get(), POLLIN, 0}, {output_read_end, POLLIN, 0}, {-1, POLLIN, 0}};
    if (attention && !told) fds[2].fd = attention->fd;
    const int patience = arrived_ ? 0 : attention && attention->stop_wanted && !told ? kLookAgain : -1;
    const int ready = poll(fds, 3, patience);
    if (ready < 0 && errno != EINTR) throw Error("cannot wait: " + errno_text(errno));
    if (ready == 0 && !arrived_) told = stop_if_wanted(*attention);
    if (fds[1].revents & POLLIN) {
      char text[4096];
      ssize_t n = ::read(output_read_end, text, sizeof text);
      if (n > 0 && attention && attention->output)
        attention->output(std::string(text, static_cast<size_t>(n)));
      if (n > 0) continue;  // output comes before the answer
    }
    if ((fds[2].revents & (POLLIN | POLLHUP | POLLERR)) && attention) told = stop_if_wanted(*attention);
    if (!arrived_ && (!fds[0].revents || !take_message())) continue;
    Unpacker u(std::move(*std::exchange(arrived_, std::nullopt)));
    if (u.get<Answer>() == Answer::Ok) return u;
    int code = u.get<int>();
    throw Error(u.get_text(), code);
  }
}

void Worker::send(Command command, const Packer& arguments, int send_fd) {
  std::vector<uint8_t> message{static_cast<uint8_t>(command)};
  message.insert(message.end(), arguments.bytes().begin(), arguments.bytes().end());
  if (!send_message(socket_.get(), message, send_fd))
    throw Error("a replaying process ended unexpectedly: this is a bug in backstep, or memory ran out");
}

Unpacker Worker::ask(Command command, const Packer& arguments, const Attention* attention, int send_fd) {
  send(command, arguments, send_fd);
  return receive(attention);
}

Worker Worker::fork() {
  auto [ours, theirs] = socket_pair();
  Worker child(std::move(ours));
  child.answers_ = answers_;
  child.has_debug_ = has_debug_;
  ask(Command::Fork, Packer(), nullptr, theirs.get());
  theirs.reset();
  child.receive(nullptr);
  return child;
}

WorkerState Worker::state() {
  Unpacker u = ask(Command::State, Packer());
  WorkerState s;
  s.at = u.get<Position>();
  s.tid = u.get<int>();
  s.threads.resize(u.get<uint32_t>());
  for (ThreadState& t : s.threads) t = u.get<ThreadState>();
  return s;
}

Registers Worker::registers(int tid) {
  return ask(Command::Registers, Packer().put(tid)).get<Registers>();
}

void Worker::set_registers(int tid, const Registers& registers) {
  ask(Command::SetRegisters, Packer().put(tid).put(registers));
}

std::vector<uint8_t> Worker::read(Address address, uint64_t length) {
  return ask(Command::Read, Packer().put(address).put(length)).get_bytes();
}

bool Worker::write(Address address, const std::vector<uint8_t>& bytes) {
  return ask(Command::Write, Packer().put(address).put_bytes(bytes.data(), bytes.size())).get<bool>();
}

void Worker::install(const Taps& taps) {
  Packer p;
  pack(p, taps);
  const std::vector<uint8_t>& bytes = p.bytes();
  size_t at = 0;
  for (; bytes.size() - at > kMaxRead; at += kMaxRead)
    ask(Command::Stage, Packer().put_bytes(bytes.data() + at, kMaxRead));
  ask(Command::Install, Packer().put_bytes(bytes.data() + at, bytes.size() - at));
}

void Worker::admit_debug(const std::string& elf, replayer::DebugAnswers answers, replayer::DebugMode mode,
                         int state) {
  answers_ = std::move(answers);
  const Fd file(open(elf.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw Error(fmt::format("cannot read the debug module '{}': {}", elf, errno_text(errno)));
  if (state >= 0) ask(Command::DebugState, Packer(), nullptr, state);
  ask(Command::AdmitDebug, Packer().put_bytes(elf.data(), elf.size()).put(mode).put(state >= 0), nullptr,
      file.get());
  has_debug_ = true;
}

Fd Worker::debug_state() {
  Fd file = new_file();
  ask(Command::SaveDebug, Packer(), nullptr, file.get());
  return file;
}

void Worker::leave_debug() {
  if (!std::exchange(has_debug_, false)) return;
  answers_ = {};
  ask(Command::LeaveDebug, Packer());
}

void Worker::log_to(int file) {
  ask(Command::LogTo, Packer(), nullptr, file);
}

void Worker::begin_run(const Until& until) {
  send(Command::Run, Packer().put(until).put(false));
}

Arrival Worker::end_run() {
  return halted(receive(nullptr));
}

Worker::Collected Worker::collect(size_t taps, bool end, const Attention* attention) {
  Unpacker u = ask(Command::Collect, Packer().put(end), attention);
  Collected result;
  result.logged = u.get<uint64_t>();
  if (!end) return result;
  result.counts.resize(taps);
  for (uint64_t first = 0; first < taps; first += kCountsInMessage) {
    Unpacker part = ask(Command::Counts, Packer().put(first));
    for (uint64_t i = first; i < std::min<uint64_t>(taps, first + kCountsInMessage); i++)
      result.counts[i] = part.get<replayer::TapCount>();
  }
  return result;
}

Arrival Worker::run(const Until& until, bool output, const Attention* attention) {
  return halted(ask(Command::Run, Packer().put(until).put(output), attention));
}

Arrival Worker::halted(Unpacker answer) {
  const auto halt = answer.get<Arrival>();
  took_ = answer.get<double>();
  return halt;
}

Arrival Worker::step(int tid, Address range_start, Address range_end, const Until& until, bool output,
                     const Attention* attention) {
  return ask(Command::Step, Packer().put(tid).put(range_start).put(range_end).put(until).put(output),
             attention)
      .get<Arrival>();
}

void Worker::begin_search(const Until& until) {
  send(Command::Search, Packer().put(until));
}

// Whoever wants to stop may have said so before we began to listen, and a client that has gone away without a
// word is not heard of.
Worker* Worker::wait_for(const std::vector<Worker*>& workers, const Attention* attention) {
  for (Worker* w : workers)
    if (w->arrived_) return w;
  std::vector<pollfd> fds;
  for (const Worker* w : workers) fds.push_back({w->socket_.get(), POLLIN, 0});
  fds.push_back({attention ? attention->fd : -1, POLLIN, 0});
  const bool listens = attention && attention->stop_wanted;
  for (bool look = listens;;) {
    if (look && attention->stop_wanted()) {
      attention->stop_asked = true;
      return nullptr;
    }
    if (attention) fds.back().fd = attention->fd;  // nothing more may come from there
    const int ready = poll(fds.data(), fds.size(), listens ? kLookAgain : -1);
    if (ready < 0 && errno != EINTR) throw Error("cannot wait: " + errno_text(errno));
    look = listens && (ready == 0 || (fds.back().revents & (POLLIN | POLLHUP | POLLERR)));
    for (size_t i = 0; i < workers.size(); i++)
      if (fds[i].revents && workers[i]->take_message()) return workers[i];
  }
}

Found Worker::end_search() {
  Unpacker u = receive(nullptr);
  Found f;
  f.end = u.get<Arrival>();
  f.last = u.get<Arrival>();
  f.count = u.get<uint64_t>();
  took_ = u.get<double>();
  return f;
}

std::optional<Position> Worker::last_step_before(int tid, const Position& end, const Attention* attention) {
  Unpacker u = ask(Command::LastStep, Packer().put(tid).put(end), attention);
  bool found = u.get<bool>();
  auto at = u.get<Position>();
  return found ? std::optional(at) : std::nullopt;
}

Worker::Steps Worker::steps(const Position& end, uint64_t most, const Attention* attention) {
  const Fd file = new_file();
  Unpacker u = ask(Command::Steps, Packer().put(end).put(most), attention, file.get());
  Steps result;
  result.list.resize(u.get<uint64_t>());
  result.dropped = u.get<uint64_t>();
  result.end = u.get<Position>();
  take_over(file, result.list.data(), result.list.size() * sizeof(replayer::StepRecord));
  return result;
}

std::optional<recording::Contents> Worker::written_words() {
  const Fd file = new_file();
  Unpacker u = ask(Command::Words, Packer(), nullptr, file.get());
  std::vector<uint8_t> packed(u.get<uint64_t>());
  took_ = u.get<double>();
  if (packed.empty()) return std::nullopt;
  take_over(file, packed.data(), packed.size());
  return recording::Contents::unpack(packed);
}

void Worker::divert(int tid) {
  ask(Command::Divert, Packer().put(tid));
}

bool Worker::break_here() {
  return ask(Command::BreakHere, Packer()).get<bool>();
}

std::vector<uint8_t> Worker::siginfo() {
  return ask(Command::Siginfo, Packer()).get_bytes();
}

std::string Worker::maps() {
  return ask(Command::Maps, Packer()).get_text();
}

uint32_t Worker::checksum() {
  return ask(Command::Checksum, Packer()).get<uint32_t>();
}

void Worker::begin_store(const recording::Recording& recording, uint64_t process, uint64_t earlier,
                         const std::optional<recording::Written>& written, bool patient) {
  Packer p;
  p.put_bytes(recording.dir().data(), recording.dir().size()).put(process).put(earlier).put(patient);
  pack(p, written);
  send(Command::Store, p);
}

Worker::Storage Worker::end_store() {
  return receive(nullptr).get<Storage>();
}

bool Worker::answered() const {
  pollfd p{socket_.get(), POLLIN, 0};
  return poll(&p, 1, 0) > 0;
}

void Worker::restore(const recording::Recording& recording, uint64_t process, uint64_t number) {
  ask(Command::Restore,
      Packer().put_bytes(recording.dir().data(), recording.dir().size()).put(process).put(number));
}

std::optional<recording::Written> Worker::written() {
  Unpacker u = ask(Command::Written, Packer());
  counts_written_ = true;
  return unpack_written(u);
}

}  // namespace backstep::timeline
