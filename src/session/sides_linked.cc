// Which sides belong together (sides.h).
//
// In this order, so that what is certain leaves less to be guessed: the ends that one call has made;
// addresses that are each other's, the other way round; connections to a path, whose listener hands them out
// in the order in which they came, and knows from which process; and what went through.
#include <algorithm>
#include <cstring>

#include "base/hot.h"
#include "session/sides.h"

namespace backstep::session {
namespace {

constexpr size_t kMostGuessed = 4'000;  // sides of which the other one is looked for by content
// Addresses that have nothing in common: so much has to agree.
constexpr uint64_t kMuch = 64;

uint64_t sum_of(const std::vector<Transfer>& transfers) {
  uint64_t sum = 0;
  for (const Transfer& t : transfers)
    if (!t.peek) sum += t.bytes;
  return sum;
}

uint64_t first_order(const Side& s) {
  uint64_t first = ~0ull;
  for (const Happening& h : s.happenings)
    if (h.kind == Happening::Connected || h.kind == Happening::Accepted) first = std::min(first, h.order);
  return first;
}

const Happening* first_of(const Side& s, Happening::Kind kind) {
  for (const Happening& h : s.happenings)
    if (h.kind == kind) return &h;
  return nullptr;
}

}  // namespace

bool fits(const std::vector<Transfer>& written, const std::vector<Transfer>& read, uint64_t* checked) {
  if (sum_of(read) > sum_of(written)) return false;
  size_t at = 0;
  uint64_t byte = 0;
  for (const Transfer& w : written) {
    uint32_t crc = 0;
    bool known = true;
    uint64_t left = w.bytes;
    while (left > 0 && at < read.size()) {
      const Transfer& r = read[at];
      const uint64_t n = r.peek ? 0 : std::min(left, r.bytes - byte);
      known = known && (n == 0 || r.data.size() >= byte + n);
      if (known && n) crc = hot::crc32c(crc, r.data.data() + byte, n);
      left -= n, byte += n;
      if (r.peek || byte == r.bytes) at++, byte = 0;
    }
    if (left > 0) break;
    if (!w.crc || !known || w.bytes == 0) continue;
    if (crc != *w.crc) return false;
    *checked += w.bytes;
  }
  return true;
}

void Sides::link(Side& a, Side& b, bool by_content) {
  a.link = b.link = links_.size();
  links_.push_back({&a, &b, by_content});
}

void Sides::link_up() {
  link_made_together();
  link_by_address();
  link_unix();
  link_by_content();
}

// Pipes, whose ends have one name; pairs of sockets, which one call has made.
void Sides::link_made_together() {
  std::map<std::tuple<std::string, uint64_t, uint64_t, uint64_t>, std::vector<Side*>> groups;
  for (Side& s : sides_) {
    if (s.kind == OpenFile::Pipe && s.kernel.inode)
      groups[{boot_[s.host], 0, s.kernel.device, s.kernel.inode}].push_back(&s);
    else if ((s.kind == OpenFile::Pipe || s.kind == OpenFile::SocketPair) && (s.pair_process || s.pair_event))
      groups[{std::to_string(s.host), 1, s.pair_process, s.pair_event}].push_back(&s);
  }
  for (auto& [key, group] : groups)
    if (group.size() == 2 && group[0]->end != group[1]->end)
      link(*group[group[0]->end], *group[1 - group[0]->end]);
}

void Sides::link_by_address() {
  using guest::SocketAddress;
  std::map<std::pair<SocketAddress, SocketAddress>, std::vector<Side*>> by_addresses;
  auto is_connection = [](const Side& s) {
    return s.kind == OpenFile::Socket && !s.datagrams && !s.listening && s.link == ~size_t{0} &&
           s.kernel.local.is_inet() && s.kernel.peer.is_inet();
  };
  for (Side& s : sides_) {
    // Nobody has the address 0.0.0.0: who connects to it is connected to itself.
    if (s.kernel.peer.is_any()) s.kernel.peer.host = s.kernel.local.host;
    if (is_connection(s)) by_addresses[{s.kernel.local, s.kernel.peer}].push_back(&s);
  }
  // One address may have been used again: first to first.
  for (auto& [key, list] : by_addresses)
    std::stable_sort(list.begin(), list.end(),
                     [](const Side* a, const Side* b) { return first_order(*a) < first_order(*b); });
  for (auto& [key, list] : by_addresses)
    for (Side* s : list) {
      if (s->link != ~size_t{0} || s->accepted) continue;
      if (key.first == key.second) {
        link(*s, *s);
        continue;
      }
      auto others = by_addresses.find({key.second, key.first});
      if (others == by_addresses.end()) continue;
      const bool local = key.first.is_loopback() || key.second.is_loopback();
      for (Side* o : others->second) {
        if (o->link != ~size_t{0} || o == s || (local && !same_net(*s, *o))) continue;
        uint64_t checked = 0;
        if (others->second.size() > 1 && (!fits(s->out, o->in, &checked) || !fits(o->out, s->in, &checked)))
          continue;
        link(*s, *o);
        break;
      }
    }
}

// A listener hands out connections in the order in which they were made.
void Sides::link_unix() {
  std::map<std::pair<std::string, std::string>, std::vector<Side*>> connected, accepted;  // by boot and path
  for (Side& s : sides_) {
    if (s.kind != OpenFile::Socket || s.link != ~size_t{0} || s.listening) continue;
    if (s.accepted && s.kernel.local.family == AF_UNIX && s.kernel.local)
      accepted[{boot_[s.host], s.kernel.local.path}].push_back(&s);
    else if (s.connected && s.kernel.peer.family == AF_UNIX && first_of(s, Happening::Connected))
      connected[{boot_[s.host], s.kernel.peer.path}].push_back(&s);
  }
  auto pid_of = [this](const Side& s) -> uint64_t {
    const Happening* h = first_of(s, Happening::Connected);
    auto it = h ? pids_.find({h->host, h->process}) : pids_.end();
    return it == pids_.end() ? 0 : it->second;
  };
  auto earlier = [](const Side* a, const Side* b) { return first_order(*a) < first_order(*b); };
  for (auto& [path, list] : accepted) {
    auto& clients = connected[path];
    std::stable_sort(list.begin(), list.end(), earlier);
    std::stable_sort(clients.begin(), clients.end(), earlier);
    for (Side* a : list)
      for (Side* c : clients) {
        if (c->link != ~size_t{0}) continue;
        if (a->kernel.peer_pid && pid_of(*c) != static_cast<uint64_t>(a->kernel.peer_pid)) continue;
        link(*c, *a);
        break;
      }
  }
}

// May an address have been changed on the way from one to the other?
static bool may_be_one(const Sides& sides, const Side& a, const Side& o, uint64_t checked) {
  const auto &x = a.kernel, &y = o.kernel;
  if (!x.cookie || !y.cookie) return true;  // nothing is known
  if (x.family && y.family && (x.family == AF_UNIX) != (y.family == AF_UNIX)) return false;
  if (!x.local.is_inet() || !y.local.is_inet()) return sides.same_boot(a, o);
  if (sides.same_net(a, o)) return false;  // then the addresses would agree
  const bool some = x.peer == y.local || y.peer == x.local;
  return some || checked >= kMuch;
}

void Sides::link_by_content() {
  std::vector<Side*> accepted, others;
  for (Side& s : sides_)
    if ((s.kind == OpenFile::Socket || s.kind == OpenFile::SocketPair) && s.link == ~size_t{0} &&
        !s.datagrams && !(s.in.empty() && s.out.empty()))
      (s.accepted ? accepted : others).push_back(&s);
  if (accepted.size() > kMostGuessed || others.size() > kMostGuessed) return;
  std::map<Side*, std::vector<Side*>> candidates, of_others;
  for (Side* a : accepted)
    for (Side* o : others) {
      uint64_t checked = 0;
      if (!fits(o->out, a->in, &checked) || !fits(a->out, o->in, &checked)) continue;
      if (!checked || !may_be_one(*this, *a, *o, checked)) continue;
      candidates[a].push_back(o);
      of_others[o].push_back(a);
    }
  for (const auto& [a, list] : candidates)
    if (list.size() == 1 && of_others[list[0]].size() == 1) link(*list[0], *a, true);
}

}  // namespace backstep::session
