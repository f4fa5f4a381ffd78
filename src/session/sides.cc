// Sides are collected by going through each log once (this file), then put together (sides_linked.cc).
#include "session/sides.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <map>
#include <set>

#include "guest/syscall_print.h"

namespace backstep::session {
namespace {

using recording::Event;
using recording::EventKind;

constexpr uint64_t kMostKeptBytes = 1ull << 30;  // of what was read: more is not compared

bool is_channel(const OpenFile& f) {
  return f.kind == OpenFile::Pipe || f.kind == OpenFile::SocketPair || f.kind == OpenFile::Socket;
}

}  // namespace

// One process's log, as what happens to sides.
class SideReader {
 public:
  SideReader(Sides& sides, uint32_t host, uint64_t process) : sides_(sides), host_(host), process_(process) {}

  void read(Channels& channels) {
    Channels::Visitor visitor;
    visitor.call = [&](const ChannelCall& call) { see_call(call); };
    visitor.failed = [&](const ChannelCall& call) { see_failure(call); };
    visitor.named = [&](const ChannelCall& call) { see_name(call); };
    visitor.other = [&](const Event& e, const DescriptorTable& table) {
      if (e.kind == EventKind::End) see_end(e, table);
    };
    channels.each(process_, visitor);
  }

 private:
  OpenFile* file_of(const ChannelCall& call, uint64_t fd) const {
    auto it = call.table.find(static_cast<int>(fd));
    return it == call.table.end() || !is_channel(*it->second.file) ? nullptr : it->second.file.get();
  }
  CallPlace here(const ChannelCall& call, bool gives) const {
    CallPlace p = call_place(call, gives);
    p.host = host_, p.process = process_;
    return p;
  }
  void happen(Side* side, Happening::Kind kind, const CallPlace& place, int error = 0) {
    if (!side) return;
    Happening h;
    static_cast<CallPlace&>(h) = place;
    h.kind = kind, h.error = error;
    side->happenings.push_back(h);
  }

  void see_call(const ChannelCall& call) {
    const Event& e = call.event;
    last_given_ = here(call, true), last_got_ = here(call, false);
    switch (e.nr) {
      case SYS_connect:
        return connect(call, 0);
      case SYS_close:
        return close(call, e.args[0]);
      case SYS_dup2:
      case SYS_dup3:
        if (e.args[0] != e.args[1]) close(call, e.args[1]);
        return;
      case SYS_shutdown:
        if (OpenFile* f = file_of(call, e.args[0]); f && e.args[1] != SHUT_RD)
          happen(sides_.side_of(host_, *f, true), Happening::Shut, here(call, true));
        return;
      case SYS_bind:
        return bind(call);
      case SYS_poll:
      case SYS_ppoll:
        return polled(call);
      case SYS_epoll_ctl:
        if (e.args[1] == EPOLL_CTL_ADD)
          sets_[static_cast<int>(e.args[0])].insert(static_cast<int>(e.args[2]));
        if (e.args[1] == EPOLL_CTL_DEL) sets_[static_cast<int>(e.args[0])].erase(static_cast<int>(e.args[2]));
        return;
      case SYS_epoll_wait:
      case SYS_epoll_pwait:
        return found_in_set(call);
      case SYS_listen:
        if (OpenFile* f = file_of(call, e.args[0]))
          if (Side* side = sides_.side_of(host_, *f, true)) {
            side->listening = true;
            happen(side, Happening::Listened, here(call, true));
          }
        return;
      default:
        for (Movement& m : movements_of(call)) move(call, m);
    }
  }
  void move(const ChannelCall& call, Movement& m) {
    OpenFile* f = file_of(call, static_cast<uint64_t>(m.fd));
    Side* side = f ? sides_.side_of(host_, *f, m.gives) : nullptr;
    if (!side) return;
    if (!m.gives && m.transfer.bytes == 0 && !side->datagrams) {
      const bool asked = call.event.nr != SYS_read || call.event.args[2] > 0;
      if (asked) happen(side, Happening::SawEnd, here(call, false));
      return;
    }
    m.transfer.host = host_, m.transfer.process = process_;
    if (!m.gives && sides_.kept_ < kMostKeptBytes) {
      m.transfer.data = data_of(call.event, m);
      sides_.kept_ += m.transfer.data.size();
    }
    if (m.gives && side->datagrams && !m.transfer.name) m.transfer.name = f->kernel.peer;
    (m.gives ? side->out : side->in).push_back(std::move(m.transfer));
  }
  void see_failure(const ChannelCall& call) {
    const Event& e = call.event;
    const int error = static_cast<int>(-e.result);
    if (e.nr == SYS_connect) return connect(call, error);
    const bool gives = e.nr == SYS_write || e.nr == SYS_writev || e.nr == SYS_sendto || e.nr == SYS_sendmsg;
    const bool gets = e.nr == SYS_read || e.nr == SYS_readv || e.nr == SYS_recvfrom || e.nr == SYS_recvmsg;
    if ((gives || gets) && (error == ECONNRESET || error == EPIPE || error == ECONNREFUSED))
      if (OpenFile* f = file_of(call, e.args[0]))
        happen(sides_.side_of(host_, *f, gives), Happening::Failed, here(call, false), error);
  }
  void connect(const ChannelCall& call, int error) {
    if (error == EINTR || error == EALREADY || error == EISCONN || error == EAGAIN) return;
    if (call.event.result == guest::kNotMade) return;
    OpenFile* f = file_of(call, call.event.args[0]);
    Side* side = f ? sides_.side_of(host_, *f, true) : nullptr;
    if (!side) return;
    const bool refused = error && error != EINPROGRESS;
    if (!refused) side->connected = true;
    for (const auto& p : call.event.pieces)
      if (p.kind == recording::PieceKind::Text && p.arg == 1)
        side->kernel.peer = guest::socket_address(p.bytes);
    happen(side, refused ? Happening::Refused : Happening::Connected, here(call, true), error);
  }
  void bind(const ChannelCall& call) {
    OpenFile* f = file_of(call, call.event.args[0]);
    Side* side = f ? sides_.side_of(host_, *f, true) : nullptr;
    if (!side) return;
    for (const auto& p : call.event.pieces)
      if (p.kind == recording::PieceKind::Text && p.arg == 1) {
        const guest::SocketAddress address = guest::socket_address(p.bytes);
        side->bound = !address.is_inet() || address.port != 0;
      }
  }
  // Who is told that the other side is gone has seen the end, although nothing was read.
  void polled(const ChannelCall& call) {
    for (const auto& p : call.event.pieces)
      if (p.kind == recording::PieceKind::OutAtArg && p.arg == 0)
        for (size_t i = 0; i + sizeof(pollfd) <= p.bytes.size(); i += sizeof(pollfd)) {
          pollfd entry;
          std::memcpy(&entry, p.bytes.data() + i, sizeof entry);
          if (entry.revents & (POLLHUP | POLLRDHUP)) hung_up(call, entry.fd);
        }
  }
  // An epoll set answers with what the program has given it, mostly the descriptor; a set of one has no
  // choice.
  void found_in_set(const ChannelCall& call) {
    const auto set = sets_.find(static_cast<int>(call.event.args[0]));
    if (set == sets_.end()) return;
    for (const auto& p : call.event.pieces)
      if (p.kind == recording::PieceKind::OutAtArg && p.arg == 1)
        for (size_t i = 0; i + sizeof(epoll_event) <= p.bytes.size(); i += sizeof(epoll_event)) {
          epoll_event entry;
          std::memcpy(&entry, p.bytes.data() + i, sizeof entry);
          if (!(entry.events & (EPOLLHUP | EPOLLRDHUP))) continue;
          const uint64_t data = entry.data.u64;
          if (set->second.size() == 1)
            hung_up(call, *set->second.begin());
          else if (data <= INT_MAX && set->second.count(static_cast<int>(data)))
            hung_up(call, static_cast<int>(data));
        }
  }
  void hung_up(const ChannelCall& call, int fd) {
    OpenFile* f = file_of(call, static_cast<uint64_t>(fd));
    Side* side = f ? sides_.find_mutable(host_, *f, false) : nullptr;
    // A socket that was never connected says so, too.
    if (!side || (f->kind == OpenFile::Socket && !side->connected && !side->accepted)) return;
    if (told_.insert(side).second) happen(side, Happening::SawEnd, here(call, false));
  }
  // Is it the last descriptor of this process?
  void close(const ChannelCall& call, uint64_t fd) {
    auto it = call.table.find(static_cast<int>(fd));
    if (it == call.table.end() || !is_channel(*it->second.file) || it->second.file.use_count() > 1) return;
    closed(*it->second.file, here(call, true));
  }
  void closed(const OpenFile& f, const CallPlace& place) {
    if (f.kind != OpenFile::Pipe || f.end == 0)
      happen(sides_.find_mutable(host_, f, false), Happening::Closed, place);
    if (f.kind == OpenFile::Pipe && f.end == 1)
      happen(sides_.find_mutable(host_, f, true), Happening::Closed, place);
  }
  void see_end(const Event& e, const DescriptorTable& table) {
    CallPlace p;
    p.host = host_, p.process = process_, p.event = p.began_event = e.number, p.order = e.order.given;
    p.tick = p.began = e.tick, p.pc = e.pc, p.thread = e.thread, p.nr = 0xffff;
    std::set<const OpenFile*> seen;
    for (const auto& [fd, d] : table)
      if (is_channel(*d.file) && (e.end != recording::EndKind::Exec || d.close_on_exec) &&
          seen.insert(d.file.get()).second)
        closed(*d.file, p);
  }
  // Behind the call that has made it, or given it an address.
  void see_name(const ChannelCall& call) {
    OpenFile* f = file_of(call, static_cast<uint64_t>(call.event.channel.fd));
    if (!f) return;
    const bool made = call.event.channel.reason == recording::ChannelReason::Made;
    Side* side = sides_.side_of(host_, *f, made || f->end == 1);
    if (f->kind == OpenFile::Pipe && made) sides_.side_of(host_, *f, false);
    if (!made) return;
    happen(side, f->accepted ? Happening::Accepted : Happening::Made, f->accepted ? last_got_ : last_given_);
  }

  Sides& sides_;
  uint32_t host_;
  uint64_t process_;
  CallPlace last_given_, last_got_;
  std::map<int, std::set<int>> sets_;  // epoll descriptor -> those in it
  std::set<const Side*> told_;         // of the end: once is enough
};

Sides::Sides(const std::vector<Channels*>& hosts) {
  for (size_t i = 0; i < hosts.size(); i++) {
    std::string boot;
    try {
      boot = hosts[i]->recording().manifest().boot;
    } catch (const std::exception&) {  // damaged: it is said elsewhere
    }
    boot_.push_back(boot.empty() ? "host " + std::to_string(i) : boot);
  }
  for (size_t i = 0; i < hosts.size(); i++) collect(static_cast<uint32_t>(i), *hosts[i]);
  auto by_order = [](const Transfer& a, const Transfer& b) {
    return a.host != b.host ? a.host < b.host : a.order < b.order;
  };
  for (Side& s : sides_) {
    // Calls of one log are in its order already. Those without a number are of the time of one process.
    std::stable_sort(s.in.begin(), s.in.end(), by_order);
    std::stable_sort(s.out.begin(), s.out.end(), by_order);
    std::stable_sort(s.happenings.begin(), s.happenings.end(), [](const Happening& a, const Happening& b) {
      return a.host != b.host ? a.host < b.host : a.order < b.order;
    });
    const std::string& host = s.kernel.local.host;
    if (!host.empty() && !s.kernel.local.is_any() && !s.kernel.local.is_loopback())
      known_[host].insert({boot_[s.host], s.kernel.net});
  }
  link_up();
}

void Sides::collect(uint32_t host, Channels& channels) {
  for (const auto& p : channels.processes()) pids_[{host, p.number}] = p.pid;
  for (const auto& p : channels.processes())
    if (!p.empty && !p.damaged) SideReader(*this, host, p.number).read(channels);
}

bool Sides::has_address(const Side& of, const std::string& host) const {
  auto it = known_.find(host);
  return it != known_.end() && it->second.count({boot_[of.host], of.kernel.net});
}

Sides::Key Sides::key_of(uint32_t host, const OpenFile& f, bool gives) const {
  const KernelName& k = f.kernel;
  // A pipe's end is the one that the bytes go in or come out of: the log does not say of one that was there.
  const int end = f.kind == OpenFile::Pipe ? gives : f.end;
  if (k.cookie) return {boot_[host], 's', k.cookie, 0, 0};
  if (k.inode) return {boot_[host], 'p', k.device, k.inode, end};
  return {std::to_string(host), 'm', f.process, f.event, end};
}

Side* Sides::find_mutable(uint32_t host, const OpenFile& f, bool gives) {
  auto it = by_key_.find(key_of(host, f, gives));
  return it == by_key_.end() ? nullptr : &sides_[it->second];
}
const Side* Sides::find(uint32_t host, const OpenFile& f, bool gives) const {
  return const_cast<Sides*>(this)->find_mutable(host, f, gives);
}

Side* Sides::side_of(uint32_t host, const OpenFile& f, bool gives) {
  auto [it, fresh] = by_key_.try_emplace(key_of(host, f, gives), sides_.size());
  if (fresh) {
    Side& s = sides_.emplace_back();
    s.host = host;
    s.kind = f.kind;
    s.end = f.kind == OpenFile::Pipe ? gives : f.end;
  }
  Side& s = sides_[it->second];
  s.datagrams |= f.datagrams;
  s.accepted |= f.accepted;
  s.listening |= f.listening;
  s.made_here |= f.made_here;
  if (f.kind == OpenFile::SocketPair) s.kind = f.kind, s.end = f.end;
  // Old recordings name nothing: there the call that made it does.
  const bool made = f.made_here || !f.kernel;
  if (made && !s.pair_event) s.host = host, s.pair_process = f.process, s.pair_event = f.event;
  KernelName& k = s.kernel;
  if (f.kernel.inode) k.device = f.kernel.device, k.inode = f.kernel.inode;
  if (f.kernel.cookie) k.cookie = f.kernel.cookie;
  if (f.kernel.net) k.net = f.kernel.net;
  if (f.kernel.family) k.family = f.kernel.family;
  if (f.kernel.peer_pid) k.peer_pid = f.kernel.peer_pid;
  if (f.kernel.local) k.local = f.kernel.local;
  if (f.kernel.peer) k.peer = f.kernel.peer;
  return &s;
}

}  // namespace backstep::session
