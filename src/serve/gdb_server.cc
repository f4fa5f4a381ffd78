// The remote protocol. gdb sees a process that can run both ways: `bc` and `bs` are as ordinary as `vCont`.
//
// History cannot be changed. Writing registers or memory makes a copy of the present (a diversion) in which
// the change is; it is gone with the next movement in time. A function that gdb calls (`print f(x)`) runs
// there: gdb sets the registers for the call, and as long as the program counter is not the recorded one, a
// `continue` is about that call and not about time.
#include "serve/gdb_server.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "guest/syscall_names.h"
#include "guest/syscall_table.h"
#include "replay/agent_expression.h"

namespace backstep::serve {

using timeline::Arrival;
using timeline::Registers;

namespace {

// gdb numbers signals in its own way (gdb/signals.def).
constexpr int kGdbSignals[32] = {0,  1,  2,  3,  4,  5,  6,  10, 8,  9,  30, 11, 31, 13, 14, 15,
                                 78, 20, 19, 17, 18, 21, 22, 16, 24, 25, 26, 27, 28, 23, 32, 12};

int to_gdb_signal(int signo) {
  if (signo == 16) return 143;  // SIGSTKFLT: gdb knows it only as unknown
  if (signo < 32) return kGdbSignals[signo];
  if (signo == 32) return 77;
  if (signo < 64) return signo + 12;
  return 78;
}

int from_gdb_signal(int number) {
  for (int signo = 1; signo <= 64; signo++)
    if (to_gdb_signal(signo) == number) return signo;
  return 0;
}

// `;X length,code…` behind a breakpoint or watchpoint. One that is not for us leaves none: then it stops
// always, and gdb looks itself.
std::optional<std::vector<std::vector<uint8_t>>> take_conditions(std::string_view packet) {
  std::vector<std::vector<uint8_t>> conditions;
  while (packet.starts_with(";X")) {
    packet.remove_prefix(2);
    auto length = take_hex(packet);
    if (!length || !packet.starts_with(',') || packet.size() < 1 + 2 * *length) return std::nullopt;
    auto code = from_hex(packet.substr(1, 2 * *length));
    packet.remove_prefix(1 + 2 * *length);
    if (!code || !replayer::valid(*code)) return std::vector<std::vector<uint8_t>>();
    conditions.push_back(std::move(*code));
  }
  return conditions;
}

}  // namespace

GdbServer::GdbServer(ReplayOptions options, recording::Library library, recording::Recording recording,
                     probe::CompanionCode code, bool scripted)
    : options_(std::move(options)),
      library_(std::move(library)),
      recording_(std::move(recording)),
      scripted_(scripted),
      code_(std::move(code)),
      last_log_(options_.process),
      files_(library_, recording_) {
  files_.made_up = [this](const std::string& path) { return proc_file(path); };
  files_.made_up_link = [this](const std::string& path) { return proc_link(path); };
  attach(last_log_);
}

GdbServer::Left GdbServer::serve(Fd socket) {
  PacketStream stream(std::move(socket));
  stream_ = &stream;
  ear_.fd = stream.fd();
  ear_.stop_wanted = [&] { return stream.interrupted(); };
  ear_.output = [&](const std::string& text) { tell(text); };
  caught_ = {};
  general_ = continue_pid_ = continue_tid_ = steps_back_ = 0;
  multiprocess_ = swbreak_ = hwbreak_ = exec_events_ = extended_ = false;
  told_diverted_ = false;
  interrupted_.reset();
  attach_to_ = 0;
  attached_.clear();
  attach(last_log_);
  timeline().end_diversion();
  at().forget();
  last_stop_ = stop_reply("T05");
  Left left = Left::Gone;
  while (auto packet = stream.receive()) {
    if (*packet == "\x03") {  // nothing runs
      interrupted_ = std::chrono::steady_clock::now();
      continue;
    }
    std::optional<std::string> reply;
    try {
      reply = answer(*packet);
    } catch (const Error& e) {
      // Also a divergence: gdb is told, and the present stays what it was as far as it can.
      if (!attached_.empty()) fmt::print(stderr, "backstep: {}\n", e.what());
      reply = error_text(e.what());
      std::replace(reply->begin(), reply->end(), '\n', ' ');
    }
    if (!reply) {
      left = (*packet)[0] == 'D' ? Left::Detached : Left::Killed;
      if (left == Left::Detached) stream.send("OK");
      break;
    }
    if (!stream.send(*reply)) break;
    if (*packet == "QStartNoAckMode") stream.set_acknowledge(false);
  }
  ear_ = {};
  for (auto& [log, debuggee] : held_) debuggee->timeline.attention = {};
  files_.close_all();
  stream_ = nullptr;
  return left;
}

void GdbServer::tell(const std::string& text) {
  constexpr size_t kPart = 2000;
  for (size_t at = 0; at < text.size(); at += kPart) {
    std::string part = text.substr(at, kPart);
    stream_->send("O" + to_hex(part));
  }
}

std::string GdbServer::thread_id(int pid, int tid) const {
  return multiprocess_ ? fmt::format("p{:x}.{:x}", pid, tid) : fmt::format("{:x}", tid);
}

std::optional<int> GdbServer::parse_thread(std::string_view text) const {
  if (text.starts_with('p')) {
    text.remove_prefix(1);
    if (text.starts_with("-1")) return -1;
    if (!take_hex(text)) return std::nullopt;
    if (text.empty()) return -1;
    text.remove_prefix(1);
  }
  if (text.starts_with("-1")) return -1;
  auto id = take_hex(text);
  return id ? std::optional(static_cast<int>(*id)) : std::nullopt;
}

int GdbServer::general_thread() {
  for (const auto& t : at().state().threads)
    if (t.tid == general_) return general_;
  return at().state().tid;
}

std::string GdbServer::stop_reply(std::string_view head) {
  return stop_of(at().state().tid, head);
}

std::string GdbServer::stop_of(int tid, std::string_view head) {
  general_ = tid;
  return stop_of(tid, at().registers_of(tid), head);
}

std::string GdbServer::stop_of(int tid, const Registers& r, std::string_view head) {
  std::string reply(head);
  for (size_t n : {RegisterLayout::kRbp, RegisterLayout::kRsp, RegisterLayout::kRip}) {
    auto bytes = at().layout.get(r, n);
    reply += fmt::format("{:x}:{};", n, to_hex(bytes.data(), bytes.size()));
  }
  return reply + "thread:" + thread_id(tid) + ";";
}

std::string GdbServer::stop_reply(const Arrival& arrival) {
  at().forget();
  at().siginfo.clear();
  at().signal_thread = 0;
  std::string head = "T05";
  switch (arrival.why) {
    case Arrival::Stepped:
      break;
    case Arrival::Break:
      if (selected().points.breaks.count({'1', timeline().now().pc}) && hwbreak_) {
        head += "hwbreak:;";
      } else if (swbreak_) {
        head += "swbreak:;";
      }
      break;
    case Arrival::Watch: {
      static constexpr const char* kKinds[] = {"watch", "rwatch", "awatch", "watch"};
      head += fmt::format("{}:{:x};", kKinds[arrival.watch_kind - timeline::Tap::Write], arrival.address);
      break;
    }
    case Arrival::Signal:
      head = fmt::format("T{:02x}", to_gdb_signal(arrival.signo));
      at().signal_thread = at().state().tid;
      for (const auto& s : timeline().log().signals())
        if (s.moment.tick == timeline().now().tick && s.moment.pc == timeline().now().pc &&
            s.signo == arrival.signo)
          at().siginfo = s.siginfo;
      break;
    case Arrival::CallEntry:
      head += fmt::format("syscall_entry:{:x};", arrival.nr);
      break;
    case Arrival::CallReturn:
      head += fmt::format("syscall_return:{:x};", arrival.nr);
      break;
    case Arrival::Fork:
      head += fork_head(arrival);
      break;
    case Arrival::Begin:
      tell(before_the_beginning());
      head += "replaylog:begin;";
      break;
    case Arrival::End:
      tell(fmt::format("backstep: {}; this is the end of the recording.\n", timeline().log().end_text()));
      head += "replaylog:end;";
      break;
    case Arrival::Interrupted:
      head = "T02";
      break;
    default:
      head = "T00";
      break;
  }
  last_stop_ = stop_reply(head);
  return last_stop_;
}

timeline::Taps GdbServer::stops(int thread) {
  const Points& points = selected().points;
  timeline::Taps taps;
  taps.thread = thread;
  for (auto& [key, conditions] : points.breaks) taps.stop_at(key.second, conditions);
  for (auto& [key, watch] : points.watches) taps.list.push_back(watch);
  using timeline::Tap;
  std::set<uint64_t> signals;
  for (uint64_t signo = 1; signo < NSIG; signo++)
    if (!caught_.passed_signals.count(static_cast<int>(signo))) signals.insert(signo);
  if (!signals.empty()) taps.stop_at(Tap::Signal, false, std::move(signals));
  for (bool after : {false, true})
    if (caught_.calls) taps.stop_at(Tap::Call, after, caught_.call_numbers);
  // To a debugger that does not tell them apart all are forks.
  if (caught_.forks) taps.stop_at(Tap::Fork, true);
  if (caught_.vforks) taps.stop_at(Tap::Fork, true, {1});
  return taps;
}

// Ctrl-C may come while gdb deals with a stop that the user never sees (a library was loaded): it is meant
// for the movement that follows. Our script in gdb says when the user has seen a stop; without it only the
// time can tell, and gdb may have to read a library's symbols, on a busy machine.
bool GdbServer::was_interrupted() {
  constexpr std::chrono::seconds kAtOnce(10);
  auto when = std::exchange(interrupted_, std::nullopt);
  return when && (scripted_ || std::chrono::steady_clock::now() - *when < kAtOnce);
}

// gdb steps over a breakpoint without it, and with nothing but that thread (so does any step with
// scheduler-locking). gdb 13 hangs unless that step ends as one.
bool GdbServer::steps_over_breakpoint(const Resumed& resumed) {
  if (!resumed.step || !resumed.thread) return false;
  const Points& points = selected().points;
  const Address pc = at().registers_of(resumed.thread).rip;
  return !points.breaks.count({'0', pc}) && !points.breaks.count({'1', pc});
}

// So what happens on the way is told later; a call in front of which it stands, in words.
std::optional<std::string> GdbServer::step_over(const timeline::Position& from,
                                                const std::function<Arrival()>& movement, Arrival& arrival,
                                                int thread) {
  for (;;) {
    if (arrival.why == Arrival::CallEntry) {
      const char* name = guest::syscall_row(arrival.nr).name;
      tell(fmt::format("backstep: call to syscall {}\n", name ? name : std::to_string(arrival.nr)));
      at().forget();
      return last_stop_ = stop_of(thread, "T00");
    }
    if (arrival.why != Arrival::CallReturn && arrival.why != Arrival::Fork) return std::nullopt;
    selected().deferred.push_back({arrival, {}});
    if (timeline().now() != from) break;
    arrival = movement();
  }
  arrival.why = Arrival::Stepped;
  return std::nullopt;
}

std::optional<std::string> GdbServer::tell_deferred(const Resumed& resumed) {
  auto& deferred = selected().deferred;
  std::erase_if(deferred, [&](const auto& d) { return d.place && *d.place != timeline().now(); });
  if (deferred.empty() || steps_over_breakpoint(resumed)) return std::nullopt;
  if (resumed.thread && resumed.thread != at().state().tid) return std::nullopt;
  const Arrival arrival = deferred.front().arrival;
  deferred.pop_front();
  return stop_reply(arrival);
}

// A Ctrl-C that a movement has heard when it was about to stop for something else is meant for the next one,
// as gdb may go on from there without a word.
Arrival GdbServer::heard(const std::function<Arrival()>& movement) {
  Arrival arrival = movement();
  const bool over = arrival.why == Arrival::End || arrival.why == Arrival::Begin;
  if (timeline().attention.stop_asked && !over && arrival.why != Arrival::Interrupted)
    interrupted_ = std::chrono::steady_clock::now();
  return arrival;
}

std::string GdbServer::move(const std::function<Arrival()>& wanted, const Resumed& resumed) {
  const bool backward = resumed.way == Backwards;
  auto movement = [&] { return heard(wanted); };
  // From what gdb is not told of; or the user wants it to stop there.
  auto goes_on = [&](Arrival& arrival) {
    if (!was_interrupted()) return true;
    arrival.why = Arrival::Interrupted;
    return false;
  };
  if (was_interrupted()) {
    Arrival here;
    here.why = Arrival::Interrupted;
    return stop_reply(here);
  }
  const bool over = steps_over_breakpoint(resumed);
  const timeline::Position from = timeline().now();
  std::optional<Registers> before;
  if (over && resumed.way == Forwards) before = at().registers_of(resumed.thread);
  Arrival arrival;
  bool alive = false;  // the only one that gdb has resumed is not the one that stopped
  for (;;) {
    arrival = with_old_value(movement(), backward);
    at().forget();
    const bool forks = arrival.why == Arrival::Fork;
    // A child that gdb has as an inferior of its own already cannot be born again.
    if (forks && attached_.count(arrival.pid) && goes_on(arrival)) continue;
    alive = false;
    if (resumed.thread && at().state().tid != resumed.thread)
      for (const auto& t : at().state().threads) alive |= t.tid == resumed.thread;
    const bool elsewhere = forks || arrival.why == Arrival::Signal || arrival.why == Arrival::CallEntry ||
                           arrival.why == Arrival::CallReturn;
    if (alive && !resumed.step && elsewhere && !timeline().at_end() && goes_on(arrival)) continue;
    break;
  }
  if (over && !alive)
    if (auto reply = step_over(from, movement, arrival, resumed.thread)) return *reply;
  if (before && !alive && at().state().tid != resumed.thread && arrival.why == Arrival::Stepped) {
    // It has ended with this step. gdb hears of that last step of it; it looks for its threads afterwards.
    constexpr unsigned kSyscallLength = 2;
    before->rip += kSyscallLength;
    return last_stop_ = stop_of(resumed.thread, *before, "T05");
  }
  if (auto reply = beyond(arrival, resumed.way)) return *reply;
  if (backward && !alive) tell(undone_text(arrival));
  const bool end = arrival.why == Arrival::End || arrival.why == Arrival::Begin;
  if (!alive && !(over && end)) return stop_reply(arrival);
  // Else it is that thread's stop.
  if (resumed.step && !end && arrival.why != Arrival::Interrupted) {
    if (arrival.why != Arrival::Stepped) selected().deferred.push_back({arrival, timeline().now()});
    return last_stop_ = stop_of(resumed.thread, "T05");
  }
  std::string head = stop_reply(arrival);
  head.erase(head.find(fmt::format("{:x}:", RegisterLayout::kRbp)));
  return last_stop_ = stop_of(resumed.thread, over && end ? "T00" : head);
}

// On the way back a watchpoint stops in front of what wrote there, and gdb's "old" value is the later one.
std::string GdbServer::undone_text(const Arrival& arrival) {
  using timeline::Tap;
  if (arrival.why != Arrival::Watch || (arrival.watch_kind != Tap::Write && arrival.watch_kind != Tap::Store))
    return "";
  const timeline::Position& now = timeline().now();
  const int tid = at().state().tid;
  const bool call = timeline().present().read(now.pc, 2) == std::vector<uint8_t>{0x0f, 0x05};
  std::string writer = "store";
  if (call) {
    const uint64_t nr = at().registers_of(tid).gpr[RAX];
    const char* name = guest::syscall_row(nr).name;
    writer = fmt::format("system call {}", name ? name : std::to_string(nr));
  }
  return fmt::format("backstep: in front of the {} that changed it (thread {}, {}); stepi makes it again\n",
                     writer, tid, timeline::point_text(now.tick, now.pc));
}

namespace {

// As long as it lives nothing interrupts movements: the present would be another place than the one that gdb
// is told of. A Ctrl-C is heard when gdb has its answer.
struct Deaf {
  explicit Deaf(timeline::Timeline& moved) : timeline(moved), ear(moved.attention) {
    timeline.attention.fd = -1;
    timeline.attention.stop_wanted = nullptr;
  }
  ~Deaf() { timeline.attention = ear; }
  Deaf(const Deaf&) = delete;
  Deaf& operator=(const Deaf&) = delete;

  timeline::Timeline& timeline;
  const timeline::Attention ear;
};

}  // namespace

// gdb has not seen the changes that a condition of ours passed over: what it would print as the old value is
// from long ago. So it is shown the other side of the change first, where its own condition does not hold and
// it goes on.
GdbServer::Arrival GdbServer::with_old_value(const Arrival& arrival, bool backward) {
  const auto shown = std::exchange(selected().shown, std::nullopt);
  if (arrival.why != Arrival::Watch || shown == timeline().now()) return arrival;
  const auto& watched = selected().points.watch_conditions;
  auto conditions = std::find_if(watched.begin(), watched.end(),
                                 [&](const auto& entry) { return entry.first.first == arrival.address; });
  if (conditions == watched.end()) return arrival;
  at().forget();
  const Deaf unheard(timeline());
  const timeline::Position place = timeline().now();
  const int tid = at().state().tid;
  const Arrival other = backward ? timeline().step(tid, 0, 0, {}) : timeline().step_back(tid);
  auto read = [](uint64_t address, uint64_t* to, unsigned size, const void* server) {
    auto bytes = static_cast<timeline::Timeline*>(const_cast<void*>(server))->present().read(address, size);
    if (bytes.size() != size) return false;
    *to = 0;
    std::memcpy(to, bytes.data(), size);
    return true;
  };
  bool holds = other.why != Arrival::Stepped;
  const Context none{};  // these conditions use no registers
  const replayer::Surroundings around{.ctx = none, .read = read, .argument = &timeline()};
  for (const auto& code : conditions->second) {
    const replayer::Value v = replayer::evaluate(code.data(), code.size(), around);
    holds = holds || !v.known || v.value;
  }
  if (holds) {
    timeline().go_to(place);
  } else {
    selected().shown = place;
  }
  return arrival;
}

std::string GdbServer::run_diverted(std::optional<int> step_tid) {
  Arrival halt = timeline().run_diverted(stops(), step_tid);
  at().forget();
  std::string head = "T05";
  if (halt.why == Arrival::Break && swbreak_) head += "swbreak:;";
  if (halt.why == Arrival::Fault) head = fmt::format("T{:02x}", to_gdb_signal(halt.signo));
  if (halt.why == Arrival::Interrupted) head = "T02";
  if (halt.why == Arrival::Watch) head += fmt::format("watch:{:x};", halt.address);
  if (halt.why == Arrival::End) {
    tell("backstep: the changed copy of the program has ended; back in the recorded run.\n");
    timeline().end_diversion();
    at().forget();
    head = "T00";
  }
  last_stop_ = stop_reply(head);
  return last_stop_;
}

// Before a called function runs, gdb gets another thread off its breakpoint. That one is to stay where it is:
// the step is made in a copy of the copy, and gdb sees where it led to until it goes on.
std::string GdbServer::step_aside(int thread) {
  timeline::Worker aside = timeline().present().fork();
  aside.divert(thread);
  aside.install({});
  aside.step(thread, 0, 0, {}, false, nullptr);
  at().forget();
  at().pretend(thread, aside.registers(thread));
  return last_stop_ = stop_of(thread, "T05");
}

std::string GdbServer::resume(std::string_view actions) {
  // One action with a thread may be a step; the others run on as they did.
  std::optional<int> step;
  int lone = 0;  // -1: all, or several
  Address range_start = 0, range_end = 0;
  while (!actions.empty()) {
    if (actions.starts_with(';')) actions.remove_prefix(1);
    size_t end = actions.find(';');
    std::string_view action = actions.substr(0, end);
    actions = end == std::string_view::npos ? "" : actions.substr(end);
    if (action.empty()) return "E01";
    size_t colon = action.find(':');
    int tid = 0;
    if (colon != std::string_view::npos) {
      if (!select(action.substr(colon + 1))) return "E01";
      tid = parse_thread(action.substr(colon + 1)).value_or(0);
    }
    const char kind = action[0];
    if (kind == 't') return "OK";
    lone = tid > 0 && (lone == 0 || lone == tid) ? tid : -1;
    if ((kind == 's' || kind == 'S' || kind == 'r') && !step) {
      step = tid;
      if (kind == 'r') {
        action.remove_prefix(1);
        range_start = take_hex(action).value_or(0);
        if (action.starts_with(',')) action.remove_prefix(1);
        range_end = take_hex(action).value_or(0);
      }
    }
  }
  steps_back_ = 0;
  if (auto reply = pending_reply()) return *reply;
  if (step && *step <= 0) step = at().state().tid;
  if (const auto tid = at().sent_thread()) {  // in the middle of a call that gdb makes
    if (step && lone > 0 && lone != *tid) return step_aside(lone);
    timeline().divert_to(step.value_or(*tid));
    at().forget();
    return run_diverted(step);
  }
  tell(diverted_text(false));
  bool alive = false, lone_alive = false;
  for (const auto& t : at().state().threads) {
    alive |= t.tid == step;
    lone_alive |= t.tid == lone;
  }
  Resumed resumed{Forwards, lone_alive ? lone : 0, step.has_value()};
  if (auto reply = tell_deferred(resumed)) return *reply;
  if (step) {
    if (!alive) step = at().state().tid;
    return move([&] { return timeline().step(*step, range_start, range_end, stops()); }, resumed);
  }
  return move([&] { return timeline().forward(stops(resumed.thread)); }, resumed);
}

std::string GdbServer::resume_back(bool step) {
  select_to_continue();
  if (auto reply = pending_reply()) return *reply;
  tell(diverted_text(false));
  selected().deferred.clear();
  Resumed resumed{step ? StepBack : Backwards, 0, step};
  // `bs` of a process does not say which thread is to step; a script does.
  const int chosen = step ? steps_back_ : std::exchange(steps_back_, 0);
  int tid = at().state().tid;
  for (const auto& t : at().state().threads) {
    if (t.tid == continue_tid_) resumed.thread = t.tid;
    if (t.tid == chosen) tid = chosen;
  }
  if (!step) return move([&] { return timeline().backward(stops(resumed.thread)); }, resumed);
  if (resumed.thread) tid = resumed.thread;
  return move([&] { return timeline().step_back(tid); }, resumed);
}

std::string GdbServer::set_point(std::string_view packet) {
  const bool add = packet[0] == 'Z';
  if (packet.size() < 3) return "E01";
  const char type = packet[1];
  packet.remove_prefix(3);
  auto address = take_hex(packet);
  if (!address || !packet.starts_with(',')) return "E01";
  packet.remove_prefix(1);
  auto kind = take_hex(packet);
  if (!kind) return "E01";
  Points& points = selected().points;
  if (type == '0' || type == '1') {
    if (!add) {
      points.breaks.erase({type, *address});
      return "OK";
    }
    auto conditions = take_conditions(packet);
    if (!conditions) return "E01";
    points.breaks[{type, *address}] = std::move(*conditions);
    return "OK";
  }
  using timeline::Tap;
  static constexpr Tap::Kind kKinds[] = {Tap::Write, Tap::Read, Tap::Access};
  if (type < '2' || type > '4') return "";
  const auto key = std::make_tuple(type, *address, *kind);
  if (add) {
    auto conditions = take_conditions(packet);
    if (!conditions) return "E01";
    if (auto more = points.watch_conditions.find({*address, *kind}); more != points.watch_conditions.end())
      conditions = more->second;
    points.watches[key] = {kKinds[type - '2'], Tap::Stop, *address, *kind, std::move(*conditions)};
  } else {
    points.watches.erase(key);
  }
  return "OK";
}

std::string GdbServer::registers(std::string_view packet) {
  const int tid = general_thread();
  const char what = packet[0];
  packet.remove_prefix(1);
  if (what == 'g') {
    std::string text;
    for (size_t n = 0; n < at().layout.count(); n++) {
      auto bytes = at().layout.get(at().registers_of(tid), n);
      text += to_hex(bytes.data(), bytes.size());
    }
    return text;
  }
  if (what == 'p') {
    auto n = take_hex(packet);
    if (!n || *n >= at().layout.count()) return "E01";
    auto bytes = at().layout.get(at().registers_of(tid), *n);
    return to_hex(bytes.data(), bytes.size());
  }
  Registers r = at().registers_of(tid);
  const Registers before = r;
  if (what == 'P') {
    auto n = take_hex(packet);
    if (!n || !packet.starts_with('=')) return "E01";
    auto bytes = from_hex(packet.substr(1));
    if (!bytes || !at().layout.set(r, *n, *bytes)) return "E01";
  } else {
    auto bytes = from_hex(packet);
    if (!bytes) return "E01";
    size_t place = 0;
    for (size_t n = 0; n < at().layout.count() && place + at().layout.size(n) <= bytes->size(); n++) {
      at().layout.set(r, n,
                      {bytes->begin() + static_cast<ptrdiff_t>(place),
                       bytes->begin() + static_cast<ptrdiff_t>(place + at().layout.size(n))});
      place += at().layout.size(n);
    }
  }
  if (std::memcmp(&before, &r, sizeof r) == 0) return "OK";
  at().set_registers(tid, r);
  return "OK";
}

std::string GdbServer::memory(std::string_view packet) {
  const char what = packet[0];
  packet.remove_prefix(1);
  auto address = take_hex(packet);
  if (!address || !packet.starts_with(',')) return "E01";
  packet.remove_prefix(1);
  auto length = take_hex(packet);
  if (!length) return "E01";
  if (what == 'm' || what == 'x') {
    if (what == 'x' && *length == 0) return "OK";  // lldb's question whether we know it
    auto bytes = timeline().present().read(*address, std::min<uint64_t>(*length, 60'000));
    if (bytes.empty() && *length) return "E14";
    return what == 'm' ? to_hex(bytes.data(), bytes.size()) : std::string(bytes.begin(), bytes.end());
  }
  if (!packet.starts_with(':')) return "E01";
  packet.remove_prefix(1);
  std::vector<uint8_t> bytes;
  if (what == 'X') {
    bytes = unescape(packet);
  } else {
    auto decoded = from_hex(packet);
    if (!decoded) return "E01";
    bytes = *decoded;
  }
  if (bytes.size() != *length) return "E01";
  if (bytes.empty()) return "OK";
  if (timeline().present().read(*address, bytes.size()) == bytes) return "OK";
  return timeline().divert().write(*address, bytes) ? "OK" : "E14";
}

// Once. A script of ours in gdb asks for it at the change: the protocol has no room for a word there. Others
// hear of it when the change is dropped.
std::string GdbServer::diverted_text(bool asked) {
  if (told_diverted_ || !timeline().diverted() || asked != scripted_) return "";
  told_diverted_ = true;
  return asked ? "backstep: history cannot be changed. Your change is in a copy of the program, which is "
                 "dropped "
                 "with the next step in time.\n"
               : "backstep: history cannot be changed. Your change was in a copy of the program, which is "
                 "dropped "
                 "now.\n";
}

// `watch-condition ADDRESS LENGTH [CODE...]`, from the script that we give to gdb: the protocol has no
// conditions for watchpoints. gdb evaluates its own all the same, at the hits that are left.
std::string GdbServer::watch_condition(const std::string& line) {
  std::istringstream words(line);
  std::string word;
  Address address = 0;
  uint64_t length = 0;
  words >> word >> std::hex >> address >> length;
  if (!words) return "E01";
  std::vector<std::vector<uint8_t>> conditions;
  while (words >> word) {
    auto code = from_hex(word);
    if (!code || !replayer::valid(*code)) return "E01";
    conditions.push_back(std::move(*code));
  }
  Points& points = selected().points;
  for (auto& [key, watch] : points.watches)
    if (std::get<1>(key) == address && std::get<2>(key) == length) watch.conditions = conditions;
  if (conditions.empty()) {
    points.watch_conditions.erase({address, length});
  } else {
    points.watch_conditions[{address, length}] = std::move(conditions);
  }
  return "OK";
}

std::string GdbServer::rcmd(std::string_view hex) {
  auto bytes = from_hex(hex);
  if (!bytes) return "E01";
  std::string line(bytes->begin(), bytes->end());
  // `goto --next` is what the gdb command goto uses: gdb learns about it by the step that follows.
  constexpr std::string_view kNext = "--next ";
  const bool next = line.starts_with(kNext);
  if (next) line.erase(0, kNext.size());
  // … a script that asks afterwards whether it has moved, and takes that step only then.
  constexpr std::string_view kTry = "--try ";
  const bool tried = line.starts_with(kTry);
  if (tried) line.erase(0, kTry.size());
  try {
    if (line.starts_with("watch-condition ")) return watch_condition(line);
    if (line == "stopped") {  // … when the user sees a stop
      interrupted_.reset();
      return "OK";
    }
    if (line == "moved?") {
      tell(moved_ ? "yes\n" : "no\n");
      return "OK";
    }
    if (line == "settled") {  // from the script, when gdb has shown where it is
      selected().gone_to.reset();
      return "OK";
    }
    if (line.starts_with("steps-back ")) {  // … in front of a step back
      std::istringstream(line.substr(line.find(' '))) >> steps_back_;
      return "OK";
    }
    if (line == "changed") {  // … when the user has changed something
      tell(diverted_text(true));
      return "OK";
    }
    Monitor::Answer a;
    if (const std::vector<std::string> words = words_of(line); !words.empty() && words[0] == "process") {
      a.text = process_command(words);
    } else {
      a = at().monitor.run(line);
    }
    if (tried) moved_ = a.moved.has_value();
    if (a.moved) {
      at().forget();
      selected().deferred.clear();
      if (next || tried) {
        selected().gone_to = a.moved;
      } else {
        last_stop_ = stop_reply(*a.moved);
      }
    } else if (next && !selected().gone_to) {
      selected().gone_to = Arrival{};  // the step that follows must not move
    }
    tell(a.text);
  } catch (const Error& e) {
    // gdb takes any other answer for text in hexadecimal.
    tell(fmt::format("{}\n", e.what()));
  }
  return "OK";
}

std::string GdbServer::query(std::string_view packet) {
  auto takes = [&](std::string_view name) {
    if (!packet.starts_with(name)) return false;
    packet.remove_prefix(name.size());
    return true;
  };
  if (takes("qSupported")) {
    multiprocess_ = packet.find("multiprocess+") != std::string_view::npos;
    swbreak_ = packet.find("swbreak+") != std::string_view::npos;
    hwbreak_ = packet.find("hwbreak+") != std::string_view::npos;
    caught_.forks = multiprocess_ && packet.find(";fork-events+") != std::string_view::npos;
    caught_.vforks = multiprocess_ && packet.find("vfork-events+") != std::string_view::npos;
    exec_events_ = packet.find("exec-events+") != std::string_view::npos;
    return "PacketSize=1f000;QStartNoAckMode+;ReverseStep+;ReverseContinue+;vContSupported+;multiprocess+;"
           "swbreak+;hwbreak+;ConditionalBreakpoints+;QPassSignals+;QCatchSyscalls+;qXfer:features:read+;"
           "qXfer:auxv:read+;qXfer:exec-file:read+;qXfer:threads:read+;qXfer:siginfo:read+;"
           "qXfer:siginfo:write+;qXfer:libraries-svr4:read+;qXfer:memory-map:read+;qGetTLSAddr+;"
           "fork-events+;vfork-events+;exec-events+;"
           "error-message+";
  }
  if (takes("qXfer:")) return transfer(packet);
  if (takes("qRcmd,")) return rcmd(packet);
  if (packet == "qC") return "QC" + thread_id(at().state().tid);
  if (packet.starts_with("qAttached")) return "1";
  if (packet == "qfThreadInfo") {
    std::string list = "m";
    for (const std::string& id : thread_ids()) list += (list.size() > 1 ? "," : "") + id;
    return attached_.empty() ? "l" : list;
  }
  if (packet == "qsThreadInfo") return "l";
  if (takes("qThreadExtraInfo,")) {
    auto tid = parse_thread(packet);
    for (const auto& t : at().state().threads)
      if (t.tid == tid) return to_hex(t.tid == at().state().tid ? "has the turn" : "waits for its turn");
    return "E01";
  }
  if (packet.starts_with("qSymbol")) return "OK";
  if (takes("QPassSignals:")) {
    caught_.passed_signals.clear();
    while (auto n = take_hex(packet)) {
      if (int signo = from_gdb_signal(static_cast<int>(*n))) caught_.passed_signals.insert(signo);
      if (!packet.starts_with(';')) break;
      packet.remove_prefix(1);
    }
    return "OK";
  }
  if (takes("QCatchSyscalls:")) {
    caught_.calls = packet.starts_with('1');
    caught_.call_numbers.clear();
    packet.remove_prefix(1);
    while (packet.starts_with(';')) {
      packet.remove_prefix(1);
      if (auto n = take_hex(packet)) caught_.call_numbers.insert(*n);
    }
    return "OK";
  }
  if (packet == "QStartNoAckMode") return "OK";
  if (takes("qGetTLSAddr:")) return thread_local_variable(packet);
  // What lldb asks for in addition.
  if (takes("qMemoryRegionInfo:")) return region_info(packet);
  if (packet == "qShlibInfoAddr") {
    const Address pointer = debug_pointer(at().auxv(), at().memory());
    return pointer ? fmt::format("{:x}", pointer) : "E01";
  }
  if (packet == "qHostInfo" || packet == "qProcessInfo")
    return fmt::format("{}triple:{};ostype:linux;endian:little;ptrsize:8;",
                       packet == "qProcessInfo" ? fmt::format("pid:{:x};", pid_) : "",
                       to_hex("x86_64-unknown-linux-gnu"));
  return "";
}

std::optional<std::string> GdbServer::answer(const std::string& packet) {
  if (packet.empty()) return "";
  std::string_view p = packet;
  switch (p[0]) {
    case '?':
      if (attached_.empty()) return "W00";
      at().forget();
      return last_stop_ = stop_reply("T05");
    case 'q':
    case 'Q':
      return query(p);
    case 'g':
    case 'G':
    case 'p':
    case 'P':
      return registers(p);
    case 'm':
    case 'x':
    case 'M':
    case 'X':
      return memory(p);
    case 'Z':
    case 'z':
      return set_point(p);
    case 'H': {
      if (p.size() < 3) return "E01";
      auto tid = parse_thread(p.substr(2));
      if (!tid) return "E01";
      if (p[1] == 'g') {
        if (!select(p.substr(2))) return "E01";
        general_ = *tid;
      } else {
        continue_pid_ = process_of(p.substr(2)).value_or(0);
        continue_tid_ = std::max(0, *tid);
      }
      return "OK";
    }
    case 'T': {
      const std::vector<std::string> all = thread_ids();
      return std::find(all.begin(), all.end(), p.substr(1)) != all.end() ? "OK" : "E01";
    }
    case 'c':
      select_to_continue();
      return resume("c");
    case 's':
      select_to_continue();
      return resume("s");
    case 'b': {
      if (p != "bc" && p != "bs") return "";
      return resume_back(p == "bs");
    }
    case 'v':
      if (p == "vCont?") return "vCont;c;C;s;S;t;r";
      if (p.starts_with("vCont")) return resume(p.substr(5));
      if (p.starts_with("vFile:")) return files_.answer(p.substr(6));
      if (p.starts_with("vAttach;")) return attach_packet(p.substr(8));
      if (p.starts_with("vKill;")) {
        p.remove_prefix(6);
        if (auto pid = take_hex(p)) attached_.erase(static_cast<int>(*pid));
        return "OK";
      }
      if (p.starts_with("vRun")) return run_again();
      return "";
    case 'D':
      if (!p.starts_with("D;")) return std::nullopt;
      p.remove_prefix(2);
      return detach(static_cast<int>(take_hex(p).value_or(0)));
    case 'k':
      return std::nullopt;
    case '!':
      extended_ = true;
      return "OK";
    default:
      return "";
  }
}

}  // namespace backstep::serve
