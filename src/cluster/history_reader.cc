// A history, in the order of its parts: hosts, their processes, channels and what went through them
// (session/messages.h finds that), and at last what is odd. What is no message is in history_edges.cc.
#include "cluster/history_reader.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/clocks.h"
#include "cluster/virtual_names.h"

namespace backstep::cluster {

using recording::Birth;
using recording::Recording;
using session::CallPlace;
using session::Happening;
using session::OpenFile;
using session::Side;

HistoryReader::HistoryReader(const RunFolder& run) : run_(run) {
  h_.run = run.dir();
  read_hosts();
  for (HostId host = 0; host < h_.hosts.size(); host++)
    if (channels_[host]) read_processes(host);
  if (h_.processes.empty()) throw Error(fmt::format("{} has no recording that can be read", run.dir()));
  messages_ = std::make_unique<session::Messages>(read_);
  read_channels();
  add_messages();
  find_family_edges();
  find_channel_edges();
  find_signal_edges();
  find_wait_edges();
  estimate_clocks(h_, scans_);
  find_oddities();
}

void HistoryReader::found(Finding::Weight weight, const char* kind, HostId host, ProcessId process,
                          std::string text) {
  h_.findings.push_back({weight, kind, host, process, std::move(text)});
}

void HistoryReader::read_hosts() {
  for (const RunHost& host : run_.hosts()) {
    const auto id = static_cast<HostId>(h_.hosts.size());
    Host& h = h_.hosts.emplace_back();
    h.name = host.name;
    h.recording = run_.host_dir(host);
    channels_.emplace_back();
    infos_.emplace_back();
    const Recording recording(h.recording);
    try {
      const auto manifest = recording.manifest();
      h.machine = manifest.machine, h.boot = manifest.boot, h.start_ns = manifest.start_ns;
    } catch (const Error& e) {
      found(Finding::Warning, "damaged", id, kNone, fmt::format("host {}: {}", h.name, e.what()));
    }
    try {
      infos_[id] = recording::list_processes(recording);
      if (infos_[id].empty()) throw Error("it has no logs");
      channels_[id] = std::make_unique<session::Channels>(recording);
      read_.push_back(channels_[id].get());
      read_hosts_.push_back(id);
    } catch (const std::exception& e) {
      found(Finding::Warning, "missing", id, kNone,
            fmt::format("the recording of host {} cannot be read: {}", h.name, e.what()));
    }
  }
}

void HistoryReader::read_processes(HostId host) {
  const Recording& recording = channels_[host]->recording();
  const auto& infos = infos_[host];
  const std::vector<std::string> names = virtual_names(h_.hosts[host].name, infos);
  std::map<uint64_t, std::set<uint64_t>> wanted;  // events of parents
  for (const auto& p : infos)
    if (p.birth != Birth::Start) wanted[p.parent].insert(p.parent_event);
  std::map<uint64_t, uint64_t> bases;
  for (size_t i = 0; i < infos.size(); i++) {
    const auto& info = infos[i];
    const auto id = static_cast<ProcessId>(h_.processes.size());
    ids_[{host, info.number}] = id;
    auto parent = bases.find(info.parent);
    const bool forked = info.birth == Birth::Fork && parent != bases.end();
    const uint64_t base = bases[info.number] = forked ? parent->second + info.parent_event : 0;
    ProcessOfRun& p = h_.processes.emplace_back();
    p.host = host, p.log = info.number, p.name = names[i], p.pid = info.pid, p.argv = info.argv;
    p.birth = info.birth, p.spawned = info.spawned, p.how = info.end;
    if (auto it = ids_.find({host, info.parent}); info.birth != Birth::Start && it != ids_.end())
      p.parent = it->second;
    ProcessScan scan;
    if (info.damaged)
      scan.damage = "the header of its log cannot be read";
    else
      scan = scan_process(recording, info, id, base, wanted[info.number]);
    p.base = base, p.begin = scan.begin, p.end = scan.end;
    p.cut_off = !scan.ended || scan.damage;
    h_.own_events.insert(h_.own_events.end(), scan.own_events.begin(), scan.own_events.end());
    scan.own_events.clear();
    scans_.push_back(std::move(scan));
  }
}

ProcessId HistoryReader::id(uint32_t host, uint64_t log) const {
  auto it = ids_.find({read_hosts_.at(host), log});
  return it == ids_.end() ? kNone : it->second;
}

Point HistoryReader::point(ProcessId process, Tick tick, uint64_t event, const CallPlace& call) const {
  Point p;
  if (process == kNone) return p;
  p.process = process;
  p.at = {tick, scans_[process].base + event, call.pc};
  p.thread = call.thread;
  p.own_event = event;
  p.order = call.order;
  p.nr = call.nr;
  return p;
}

Point HistoryReader::given(const CallPlace& call) const {
  return point(id(call.host, call.process), call.began, call.began_event, call);
}
Point HistoryReader::got(const CallPlace& call) const {
  return point(id(call.host, call.process), call.tick, call.event, call);
}

ChannelKind HistoryReader::kind_of(const Side& s) const {
  if (s.kind == OpenFile::Pipe) return ChannelKind::Pipe;
  if (s.kind == OpenFile::SocketPair) return ChannelKind::SocketPair;
  const int family = s.kernel.family;
  if (family == AF_UNIX) return s.datagrams ? ChannelKind::UnixDatagram : ChannelKind::UnixStream;
  if (family == AF_INET || family == AF_INET6) return s.datagrams ? ChannelKind::Udp : ChannelKind::Tcp;
  return ChannelKind::Other;
}

ChannelEnd HistoryReader::end_of(const Side& s) const {
  ChannelEnd e;
  e.host = read_hosts_.at(s.host);
  e.net = s.kernel.net;
  e.local = s.kernel.local.text(), e.peer = s.kernel.peer.text();
  e.accepted = s.accepted, e.listening = s.listening;
  e.cookie = s.kernel.cookie, e.inode = s.kernel.inode;
  for (const Happening& h : s.happenings) {
    if (h.kind == Happening::Made || h.kind == Happening::Accepted) e.made = got(h);
    if (h.kind == Happening::Closed || h.kind == Happening::Shut) e.closed.push_back(given(h));
  }
  return e;
}

// The process that connected, accepted, or made it; of what was there at the start the first that used it.
std::string HistoryReader::owner(const Side& s) const {
  const CallPlace* place = nullptr;
  for (const Happening& h : s.happenings) {
    const bool made = h.kind == Happening::Connected || h.kind == Happening::Accepted ||
                      (h.kind == Happening::Made && !s.connected);
    if (made) place = &h;
    if (made) break;
  }
  if (!place && !s.out.empty()) place = &s.out[0];
  if (!place && !s.in.empty()) place = &s.in[0];
  if (!place && !s.happenings.empty()) place = &s.happenings[0];
  const ProcessId p = place ? id(place->host, place->process) : kNone;
  return p == kNone ? h_.hosts[read_hosts_.at(s.host)].name : h_.processes[p].name;
}

void HistoryReader::add_link(const session::Link& link) {
  Channel c;
  c.kind = kind_of(*link.a);
  if (c.kind == ChannelKind::Other) c.kind = kind_of(*link.b);
  c.datagrams = link.a->datagrams;
  c.by_content = link.by_content;
  c.ends[0] = end_of(*link.a), c.ends[1] = end_of(*link.b);
  if (c.kind == ChannelKind::Pipe)
    c.name = "pipe of " + owner(*link.b);
  else if (c.kind == ChannelKind::SocketPair)
    c.name = "socketpair of " + owner(*link.a);
  else if (c.kind == ChannelKind::UnixStream || c.kind == ChannelKind::UnixDatagram)
    c.name = fmt::format("{} {} -> {}:{}", channel_kind_name(c.kind), owner(*link.a), owner(*link.b),
                         c.ends[1].local);
  else
    c.name = fmt::format("{} {} -> {}{}", channel_kind_name(c.kind), owner(*link.a), owner(*link.b),
                         place_of(*link.b));
  channel_of_[link.a] = channel_of_[link.b] = static_cast<ChannelId>(h_.channels.size());
  h_.channels.push_back(std::move(c));
}

// One of which the other side was not recorded, or a socket for datagrams of whomever.
void HistoryReader::add_alone(const Side& s) {
  const bool used = !s.in.empty() || !s.out.empty();
  if (s.listening || (!used && !s.accepted && !s.connected) || (s.datagrams && s.in.empty())) return;
  Channel c;
  c.kind = kind_of(s), c.datagrams = s.datagrams;
  const std::string kind = channel_kind_name(c.kind), mine = owner(s), peer = s.kernel.peer.text();
  const bool second = s.kind == OpenFile::Pipe ? s.end == 1 : s.accepted || s.datagrams;
  c.ends[second] = end_of(s);
  if (s.kind == OpenFile::Pipe)
    c.name = fmt::format("pipe {} {}", second ? "written by" : "read by", mine);
  else if (s.datagrams)
    c.name = fmt::format("{} {}{}", kind, mine, place_of(s));
  else if (second)
    c.name = fmt::format("{} {} -> {}{}", kind,
                         s.kernel.peer.is_inet() ? peer.substr(0, peer.rfind(':')) : "?", mine, place_of(s));
  else
    c.name = fmt::format("{} {} -> {}", kind, mine, peer.empty() ? "?" : peer);
  channel_of_[&s] = static_cast<ChannelId>(h_.channels.size());
  h_.channels.push_back(std::move(c));
}

// A port that the kernel has chosen is another one in each run, so it is nobody's name.
void HistoryReader::find_chosen_ports() {
  for (const Side& s : messages_->sides().all())
    if (s.kernel.local.is_inet() && s.made_here && !s.bound && (s.datagrams || s.listening))
      chosen_ports_.insert(port_of(s));
}
HistoryReader::Port HistoryReader::port_of(const Side& s) const {
  return {h_.hosts[read_hosts_.at(s.host)].boot, s.kernel.net, s.datagrams, s.kernel.local.port};
}
std::string HistoryReader::place_of(const Side& s) const {
  if (!s.kernel.local.is_inet()) return ":" + s.kernel.local.text();
  return chosen_ports_.count(port_of(s)) ? "" : ":" + std::to_string(s.kernel.local.port);
}

void HistoryReader::read_channels() {
  find_chosen_ports();
  // In the order in which the accepting side has them: so the third one is the third.
  auto first = [](const Side& s) {
    for (const Happening& h : s.happenings)
      if (h.kind == Happening::Accepted || h.kind == Happening::Made) return std::pair(h.order, h.event);
    return std::pair(uint64_t{0}, uint64_t{0});
  };
  std::vector<const session::Link*> links;
  for (const auto& link : messages_->sides().links()) links.push_back(&link);
  std::stable_sort(links.begin(), links.end(), [&](const auto* x, const auto* y) {
    return std::pair(x->b->host, first(*x->b)) < std::pair(y->b->host, first(*y->b));
  });
  for (const auto* link : links) add_link(*link);
  for (const Side& s : messages_->sides().all())
    if (!channel_of_.count(&s)) add_alone(s);
  std::map<std::string, unsigned> count;
  for (Channel& c : h_.channels) c.name += fmt::format(" #{}", ++count[c.name]);
}

void HistoryReader::add_messages() {
  for (const session::Message& m : messages_->all()) {
    auto channel = channel_of_.find(m.to);
    if (channel == channel_of_.end()) continue;
    Transfer t;
    t.channel = channel->second;
    const auto& links = messages_->sides().links();
    const bool linked = m.to->link < links.size();
    t.from_end = linked && links[m.to->link].a != m.from ? 1 : 0;
    t.sent = given(*m.write), t.received = got(*m.read);
    if (!t.sent || !t.received) continue;
    t.offset = m.to->datagrams ? m.read->offset : m.write->offset + m.write_byte;
    t.bytes = m.bytes;
    t.sent_byte = m.write->part + m.write_byte, t.received_byte = m.read->part + m.read_byte;
    t.peeked = m.read->peek, t.duplicate = m.duplicate, t.checked = m.checked;
    h_.transfers.push_back(t);
  }
  std::stable_sort(h_.transfers.begin(), h_.transfers.end(), [](const Transfer& a, const Transfer& b) {
    return std::tuple(a.channel, a.from_end, a.offset) < std::tuple(b.channel, b.from_end, b.offset);
  });
  for (const session::Unmatched& u : messages_->unmatched()) {
    Unmatched x;
    auto channel = channel_of_.find(u.side);
    if (channel != channel_of_.end()) {
      x.channel = channel->second;
      x.end = h_.channels[x.channel].ends[1].cookie == u.side->kernel.cookie &&
                      h_.channels[x.channel].ends[1].host == read_hosts_.at(u.side->host)
                  ? 1
                  : 0;
      if (u.side->kind == OpenFile::Pipe) x.end = u.sent;
    }
    x.sent = u.sent;
    x.point = u.sent ? given(*u.transfer) : got(*u.transfer);
    x.bytes = u.bytes;
    x.peer = u.transfer->name ? u.transfer->name.text() : u.side->kernel.peer.text();
    x.why = u.why;
    h_.unmatched.push_back(std::move(x));
  }
}

History read_history(const std::string& run) {
  const RunFolder folder = RunFolder::open(run);
  return HistoryReader(folder).take();
}

std::map<int, ChannelPlace> descriptors_at(const History& history, ProcessId process, uint64_t own_event) {
  const ProcessOfRun& p = history.processes.at(process);
  session::Channels channels{Recording(history.hosts[p.host].recording)};
  std::map<int, ChannelPlace> places;
  for (const auto& [fd, d] : channels.table_at(p.log, own_event)) {
    const session::OpenFile& f = *d.file;
    if (!f.kernel) continue;
    for (ChannelId c = 0; c < history.channels.size(); c++)
      for (uint8_t e = 0; e < 2; e++) {
        const ChannelEnd& end = history.channels[c].ends[e];
        if (end.host == kNone || history.hosts[end.host].boot != history.hosts[p.host].boot) continue;
        const bool pipe = f.kernel.inode && end.inode == f.kernel.inode && f.end == e;
        if (pipe || (f.kernel.cookie && end.cookie == f.kernel.cookie)) places[fd] = {c, e};
      }
  }
  return places;
}

}  // namespace backstep::cluster
