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

using timeline::Halt;
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

// What is known about the program of a process; a forked child runs its ancestor's.
recording::Manifest manifest_of(const recording::Recording& recording, const timeline::LogIndex& log) {
  try {
    return recording::Manifest::load(recording.manifest_path(log.image()));
  } catch (const Error&) {
    // A process that was killed has none: the first file that was mapped is the program.
    recording::Manifest manifest = recording.manifest();
    if (!log.files().empty()) manifest.exe = log.files().front().path;
    return manifest;
  }
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

GdbServer::GdbServer(timeline::Timeline& timeline, const recording::Library& library,
                     const recording::Recording& recording)
    : timeline_(timeline),
      manifest_(manifest_of(recording, timeline.log())),
      files_(library, recording, timeline.log(), manifest_.exe),
      layout_(manifest_.cpu.shown.count("xcr0") ? manifest_.cpu.shown.at("xcr0") : 7),
      monitor_(timeline, recording) {
  pid_ = timeline.log().pid() ? timeline.log().pid() : state().tid;
  files_.made_up = [this](const std::string& path) { return proc_file(path); };
  files_.made_up_link = [this](const std::string& path) { return proc_link(path); };
  // The auxiliary vector stands behind the environment on the first stack; the program may overwrite it
  // later.
  Address at = timeline_.log().start_stack();
  auto word = [&](Address a) {
    auto bytes = timeline_.present().read(a, 8);
    uint64_t value = 0;
    if (bytes.size() == 8) std::memcpy(&value, bytes.data(), 8);
    return value;
  };
  at += 8 * (word(at) + 2);
  while (word(at)) at += 8;
  at += 8;
  for (int i = 0; i < 64; i++, at += 16) {
    auto pair = timeline_.present().read(at, 16);
    auxv_.insert(auxv_.end(), pair.begin(), pair.end());
    if (word(at) == 0) break;
  }
}

GdbServer::Left GdbServer::serve(Fd socket) {
  PacketStream stream(std::move(socket));
  stream_ = &stream;
  timeline_.attention.fd = stream.fd();
  timeline_.attention.stop_wanted = [&] { return stream.interrupted(); };
  timeline_.attention.output = [&](const std::string& text) { tell(text); };
  breaks_.clear();
  watches_.clear();
  watch_conditions_.clear();
  wanted_ = {};
  general_ = continue_ = 0;
  about_child_ = false;
  multiprocess_ = swbreak_ = hwbreak_ = false;
  told_diverted_ = false;
  interrupted_.reset();
  timeline_.end_diversion();
  forget();
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
      fmt::print(stderr, "backstep: {}\n", e.what());
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
  timeline_.attention = {};
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

void GdbServer::forget() {
  state_.reset();
  registers_.clear();
}

const timeline::WorkerState& GdbServer::state() {
  if (!state_) state_ = timeline_.present().state();
  return *state_;
}

const Registers& GdbServer::registers_of(int tid) {
  auto found = registers_.find(tid);
  if (found == registers_.end()) found = registers_.emplace(tid, timeline_.present().registers(tid)).first;
  return found->second;
}

std::string GdbServer::thread_id(int tid) const {
  return multiprocess_ ? fmt::format("p{:x}.{:x}", pid_, tid) : fmt::format("{:x}", tid);
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

bool GdbServer::is_child(std::string_view thread) const {
  if (!thread.starts_with('p')) return false;
  thread.remove_prefix(1);
  auto pid = take_hex(thread);
  return pid && *pid != 0 && static_cast<int>(*pid) != pid_;
}

int GdbServer::general_thread() {
  for (const auto& t : state().threads)
    if (t.tid == general_) return general_;
  return state().tid;
}

std::string GdbServer::stop_reply(std::string_view head) {
  const int tid = state().tid;
  general_ = tid;
  std::string reply(head);
  const Registers& r = registers_of(tid);
  for (size_t n : {RegisterLayout::kRbp, RegisterLayout::kRsp, RegisterLayout::kRip}) {
    auto bytes = layout_.get(r, n);
    reply += fmt::format("{:x}:{};", n, to_hex(bytes.data(), bytes.size()));
  }
  return reply + "thread:" + thread_id(tid) + ";";
}

std::string GdbServer::stop_reply(const Arrival& arrival) {
  forget();
  siginfo_.clear();
  std::string head = "T05";
  switch (arrival.why) {
    case Arrival::Stepped:
      break;
    case Arrival::Break:
      if (breaks_.count({'1', timeline_.now().pc}) && hwbreak_) {
        head += "hwbreak:;";
      } else if (swbreak_) {
        head += "swbreak:;";
      }
      break;
    case Arrival::Watch: {
      static constexpr const char* kKinds[] = {"watch", "rwatch", "awatch"};
      head += fmt::format("{}:{:x};", kKinds[arrival.watch_kind], arrival.address);
      break;
    }
    case Arrival::Signal:
      head = fmt::format("T{:02x}", to_gdb_signal(arrival.signo));
      for (const auto& s : timeline_.log().signals())
        if (s.moment.tick == timeline_.now().tick && s.moment.pc == timeline_.now().pc &&
            s.signo == arrival.signo)
          siginfo_ = s.siginfo;
      break;
    case Arrival::CallEntry:
      head += fmt::format("syscall_entry:{:x};", arrival.nr);
      break;
    case Arrival::CallReturn:
      head += fmt::format("syscall_return:{:x};", arrival.nr);
      break;
    case Arrival::Fork:
      head += fmt::format("fork:{};", multiprocess_ ? fmt::format("p{0:x}.{0:x}", arrival.pid)
                                                    : fmt::format("{:x}", arrival.pid));
      break;
    case Arrival::Begin:
      head += "replaylog:begin;";
      break;
    case Arrival::End:
      tell(fmt::format("backstep: {}; this is the end of the recording.\n", timeline_.log().end_text()));
      head += "replaylog:end;";
      break;
    case Arrival::Interrupted:
      head = "T02";
      break;
    case Arrival::Sought:
    case Arrival::Missing:
      head = "T00";
      break;
  }
  last_stop_ = stop_reply(head);
  return last_stop_;
}

timeline::Stops GdbServer::stops() const {
  timeline::Stops stops;
  for (auto& [key, conditions] : breaks_) {
    auto same = std::find_if(stops.breaks.begin(), stops.breaks.end(),
                             [pc = key.second](const replayer::Breakpoint& b) { return b.pc == pc; });
    if (same == stops.breaks.end()) {
      stops.breaks.push_back({key.second, conditions});
    } else if (same->conditions.empty() || conditions.empty()) {
      same->conditions.clear();
    } else {
      same->conditions.insert(same->conditions.end(), conditions.begin(), conditions.end());
    }
  }
  for (auto& [key, watch] : watches_) stops.watches.push_back(watch);
  return stops;
}

// Ctrl-C may come while gdb deals with a stop that the user never sees (a library was loaded): it is meant
// for the movement that follows at once.
bool GdbServer::was_interrupted() {
  constexpr std::chrono::seconds kAtOnce(1);
  auto when = std::exchange(interrupted_, std::nullopt);
  return when && std::chrono::steady_clock::now() - *when < kAtOnce;
}

std::string GdbServer::move(const std::function<Arrival()>& movement, bool backward) {
  if (gone_to_) {
    Arrival there = *gone_to_;
    gone_to_.reset();
    return stop_reply(there);
  }
  if (was_interrupted()) {
    Arrival here;
    here.why = Arrival::Interrupted;
    return stop_reply(here);
  }
  return stop_reply(with_old_value(movement(), backward));
}

// gdb has not seen the changes that a condition of ours passed over: what it would print as the old value is
// from long ago. So it is shown the other side of the change first, where its own condition does not hold and
// it goes on.
GdbServer::Arrival GdbServer::with_old_value(const Arrival& arrival, bool backward) {
  const auto shown = std::exchange(shown_, std::nullopt);
  if (arrival.why != Arrival::Watch || shown == timeline_.now()) return arrival;
  auto conditions = std::find_if(watch_conditions_.begin(), watch_conditions_.end(),
                                 [&](const auto& entry) { return entry.first.first == arrival.address; });
  if (conditions == watch_conditions_.end()) return arrival;
  forget();
  const timeline::Position place = timeline_.now();
  const int tid = state().tid;
  const Arrival other =
      backward ? timeline_.step(tid, 0, 0, {}, timeline::Wanted::nothing()) : timeline_.step_back(tid);
  auto read = [](uint64_t address, uint64_t* to, unsigned size, const void* server) {
    auto bytes = static_cast<const GdbServer*>(server)->timeline_.present().read(address, size);
    if (bytes.size() != size) return false;
    *to = 0;
    std::memcpy(to, bytes.data(), size);
    return true;
  };
  bool holds = other.why != Arrival::Stepped;
  const Context none{};  // these conditions use no registers
  for (const auto& code : conditions->second) {
    const replayer::Value v = replayer::evaluate(code.data(), code.size(), none, read, this);
    holds = holds || !v.known || v.value;
  }
  if (holds) {
    timeline_.go_to(place);
  } else {
    shown_ = place;
  }
  return arrival;
}

// Is the diversion in the middle of a call that gdb makes?
bool GdbServer::pc_changed() {
  return timeline_.diverted() && registers_of(state().tid).rip != timeline_.now().pc;
}

std::string GdbServer::run_diverted(std::optional<int> step_tid) {
  Halt halt = timeline_.run_diverted(stops(), step_tid);
  forget();
  std::string head = "T05";
  if (halt.why == Halt::Break && swbreak_) head += "swbreak:;";
  if (halt.why == Halt::Fault) head = fmt::format("T{:02x}", to_gdb_signal(halt.signo));
  if (halt.why == Halt::Interrupted) head = "T02";
  if (halt.why == Halt::Watch) head += fmt::format("watch:{:x};", halt.address);
  if (halt.why == Halt::Ended) {
    tell("backstep: the changed copy of the program has ended; back in the recorded run.\n");
    timeline_.end_diversion();
    forget();
    head = "T00";
  }
  last_stop_ = stop_reply(head);
  return last_stop_;
}

std::string GdbServer::resume(std::string_view actions) {
  // One action with a thread may be a step; the others run on as they did.
  std::optional<int> step;
  Address range_start = 0, range_end = 0;
  while (!actions.empty()) {
    if (actions.starts_with(';')) actions.remove_prefix(1);
    size_t end = actions.find(';');
    std::string_view action = actions.substr(0, end);
    actions = end == std::string_view::npos ? "" : actions.substr(end);
    if (action.empty()) return "E01";
    size_t colon = action.find(':');
    int tid = 0;
    if (colon != std::string_view::npos) tid = parse_thread(action.substr(colon + 1)).value_or(0);
    const char kind = action[0];
    if (kind == 't') return "OK";
    if ((kind == 's' || kind == 'S' || kind == 'r') && !step) {
      step = tid > 0 ? tid : state().tid;
      if (kind == 'r') {
        action.remove_prefix(1);
        range_start = take_hex(action).value_or(0);
        if (action.starts_with(',')) action.remove_prefix(1);
        range_end = take_hex(action).value_or(0);
      }
    }
  }
  if (pc_changed()) return run_diverted(step);
  if (step) {
    bool alive = false;
    for (const auto& t : state().threads) alive |= t.tid == *step;
    if (!alive) step = state().tid;
    return move([&] { return timeline_.step(*step, range_start, range_end, stops(), wanted_); });
  }
  return move([&] { return timeline_.forward(stops(), wanted_); });
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
  if (type == '0' || type == '1') {
    if (!add) {
      breaks_.erase({type, *address});
      return "OK";
    }
    auto conditions = take_conditions(packet);
    if (!conditions) return "E01";
    breaks_[{type, *address}] = std::move(*conditions);
    return "OK";
  }
  static constexpr replayer::Watchpoint::Kind kKinds[] = {
      replayer::Watchpoint::Write, replayer::Watchpoint::Read, replayer::Watchpoint::Access};
  if (type < '2' || type > '4') return "";
  const auto key = std::make_tuple(type, *address, *kind);
  if (add) {
    auto conditions = take_conditions(packet);
    if (!conditions) return "E01";
    if (auto more = watch_conditions_.find({*address, *kind}); more != watch_conditions_.end())
      conditions = more->second;
    watches_[key] = {kKinds[type - '2'], *address, *kind, std::move(*conditions)};
  } else {
    watches_.erase(key);
  }
  return "OK";
}

std::string GdbServer::registers(std::string_view packet) {
  const int tid = general_thread();
  const char what = packet[0];
  packet.remove_prefix(1);
  if (what == 'g') {
    std::string text;
    for (size_t n = 0; n < layout_.count(); n++) {
      auto bytes = layout_.get(registers_of(tid), n);
      text += to_hex(bytes.data(), bytes.size());
    }
    return text;
  }
  if (what == 'p') {
    auto n = take_hex(packet);
    if (!n || *n >= layout_.count()) return "E01";
    auto bytes = layout_.get(registers_of(tid), *n);
    return to_hex(bytes.data(), bytes.size());
  }
  Registers r = registers_of(tid);
  const Registers before = r;
  if (what == 'P') {
    auto n = take_hex(packet);
    if (!n || !packet.starts_with('=')) return "E01";
    auto bytes = from_hex(packet.substr(1));
    if (!bytes || !layout_.set(r, *n, *bytes)) return "E01";
  } else {
    auto bytes = from_hex(packet);
    if (!bytes) return "E01";
    size_t at = 0;
    for (size_t n = 0; n < layout_.count() && at + layout_.size(n) <= bytes->size(); n++) {
      layout_.set(r, n,
                  {bytes->begin() + static_cast<ptrdiff_t>(at),
                   bytes->begin() + static_cast<ptrdiff_t>(at + layout_.size(n))});
      at += layout_.size(n);
    }
  }
  if (std::memcmp(&before, &r, sizeof r) == 0) return "OK";
  timeline_.divert().set_registers(tid, r);
  registers_[tid] = r;
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
    auto bytes = timeline_.present().read(*address, std::min<uint64_t>(*length, 60'000));
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
  if (timeline_.present().read(*address, bytes.size()) == bytes) return "OK";
  return timeline_.divert().write(*address, bytes) ? "OK" : "E14";
}

void GdbServer::tell_diverted() {
  if (told_diverted_ || !timeline_.diverted()) return;
  told_diverted_ = true;
  tell(
      "backstep: history cannot be changed. Your change is in a copy of the program, which is dropped with "
      "the "
      "next step in time.\n");
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
  for (auto& [key, watch] : watches_)
    if (std::get<1>(key) == address && std::get<2>(key) == length) watch.conditions = conditions;
  if (conditions.empty()) {
    watch_conditions_.erase({address, length});
  } else {
    watch_conditions_[{address, length}] = std::move(conditions);
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
  if (line.starts_with("watch-condition ")) return watch_condition(line);
  Monitor::Answer a = monitor_.run(line);
  if (a.moved) {
    forget();
    if (next) {
      gone_to_ = a.moved;
    } else {
      last_stop_ = stop_reply(*a.moved);
    }
  } else if (next) {
    gone_to_ = Arrival{};  // the step that follows must not move
  }
  tell(a.text);
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
    wanted_.forks = multiprocess_ && packet.find("fork-events+") != std::string_view::npos;
    return "PacketSize=1f000;QStartNoAckMode+;ReverseStep+;ReverseContinue+;vContSupported+;multiprocess+;"
           "swbreak+;hwbreak+;ConditionalBreakpoints+;QPassSignals+;QCatchSyscalls+;qXfer:features:read+;"
           "qXfer:auxv:read+;qXfer:exec-file:read+;qXfer:threads:read+;qXfer:siginfo:read+;"
           "qXfer:siginfo:write+;qXfer:libraries-svr4:read+;qXfer:memory-map:read+;qGetTLSAddr+;"
           "fork-events+;"
           "error-message+";
  }
  if (takes("qXfer:")) return transfer(packet);
  if (takes("qRcmd,")) return rcmd(packet);
  if (packet == "qC") return "QC" + thread_id(state().tid);
  if (packet.starts_with("qAttached")) return "1";
  if (packet == "qfThreadInfo") {
    std::string list = "m";
    for (const auto& t : state().threads) list += (list.size() > 1 ? "," : "") + thread_id(t.tid);
    return list;
  }
  if (packet == "qsThreadInfo") return "l";
  if (takes("qThreadExtraInfo,")) {
    auto tid = parse_thread(packet);
    for (const auto& t : state().threads)
      if (t.tid == tid) return to_hex(t.tid == state().tid ? "has the turn" : "waits for its turn");
    return "E01";
  }
  if (packet.starts_with("qSymbol")) return "OK";
  if (takes("QPassSignals:")) {
    wanted_.passed_signals.clear();
    while (auto n = take_hex(packet)) {
      if (int signo = from_gdb_signal(static_cast<int>(*n))) wanted_.passed_signals.insert(signo);
      if (!packet.starts_with(';')) break;
      packet.remove_prefix(1);
    }
    return "OK";
  }
  if (takes("QCatchSyscalls:")) {
    wanted_.calls = packet.starts_with('1');
    wanted_.call_numbers.clear();
    packet.remove_prefix(1);
    while (packet.starts_with(';')) {
      packet.remove_prefix(1);
      if (auto n = take_hex(packet)) wanted_.call_numbers.insert(static_cast<int>(*n));
    }
    return "OK";
  }
  if (packet == "QStartNoAckMode") return "OK";
  if (takes("qGetTLSAddr:")) return thread_local_variable(packet);
  // What lldb asks for in addition.
  if (takes("qMemoryRegionInfo:")) return region_info(packet);
  if (packet == "qShlibInfoAddr") {
    const Address pointer = debug_pointer(auxv_, guest_memory());
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
      forget();
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
      return about_child_ ? "OK" : set_point(p);
    case 'H': {
      if (p.size() < 3) return "E01";
      auto tid = parse_thread(p.substr(2));
      if (!tid) return "E01";
      // gdb takes leave of a forked child, which has a recording of its own: not our breakpoints are meant.
      if (p[1] == 'g') about_child_ = is_child(p.substr(2));
      (p[1] == 'g' ? general_ : continue_) = *tid;
      return "OK";
    }
    case 'T': {
      auto tid = parse_thread(p.substr(1));
      for (const auto& t : state().threads)
        if (t.tid == tid) return "OK";
      return "E01";
    }
    case 'c':
      tell_diverted();
      return resume("c");
    case 's':
      tell_diverted();
      return resume("s");
    case 'b': {
      if (p == "bc") {
        tell_diverted();
        return move([&] { return timeline_.backward(stops(), wanted_); }, true);
      }
      if (p == "bs") {
        tell_diverted();
        const int tid = state().tid;
        return move([&] { return timeline_.step_back(tid); });
      }
      return "";
    }
    case 'v':
      if (p == "vCont?") return "vCont;c;C;s;S;t;r";
      if (p.starts_with("vCont")) {
        if (!pc_changed()) tell_diverted();
        return resume(p.substr(5));
      }
      if (p.starts_with("vFile:")) return files_.answer(p.substr(6));
      if (p.starts_with("vKill")) return "OK";
      if (p.starts_with("vRun")) {
        timeline_.go_to_start();
        forget();
        return last_stop_ = stop_reply("T05");
      }
      return "";
    case 'D':
      if (p.starts_with("D;") && is_child("p" + packet.substr(2))) {
        about_child_ = false;
        return "OK";
      }
      return std::nullopt;
    case 'k':
      return std::nullopt;
    case '!':
      return "OK";
    default:
      return "";
  }
}

}  // namespace backstep::serve
