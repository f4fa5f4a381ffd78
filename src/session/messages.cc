// Bytes of a stream have no name, but an order: what comes out is what went in, one write after the other.
// The recording numbers the calls of all processes (recording::Order), so the n-th byte that was read is the
// n-th byte that was written, and the write's checksum, where reads have taken all of it, says whether that
// is right. Two processes that write at once may have numbers in another order than their bytes: then the
// checksum also says whose turn it was. Peeked bytes are read again.
//
// Datagrams without a connection may be lost, doubled, or overtake each other. Which one was received is
// known by whom it was sent to, its length and its checksum; of several that are the same it is the first
// that was not received yet. That may be too early a one: then it has been said that less happened before,
// never that something did which did not.
#include "session/messages.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/hot.h"

namespace backstep::session {
namespace {

constexpr const char* kNoOtherSide =
    "its other end was not recorded, or several recorded sockets could be it";
constexpr const char* kNotReceived = "nobody who was recorded has received it";
constexpr const char* kNobodyWrote = "no recorded process wrote them";
constexpr const char* kDiffers =
    "what was written and what was read there differ, so their order is not known";

// What was read, as one piece of data.
class ReadStream {
 public:
  explicit ReadStream(const std::vector<Transfer*>& reads) {
    for (Transfer* r : reads) {
      r->offset = end_;
      if (r->peek) {
        peeks_.push_back(r);
      } else {
        reads_.push_back(r);
        end_ += r->bytes;
      }
    }
  }
  uint64_t end() const { return end_; }
  const std::vector<Transfer*>& peeks() const { return peeks_; }

  // Calls piece(read, its byte, count) for [from, to).
  template <class F>
  void each(uint64_t from, uint64_t to, F&& piece) const {
    auto r = std::upper_bound(reads_.begin(), reads_.end(), from,
                              [](uint64_t at, const Transfer* t) { return at < t->offset + t->bytes; });
    for (; r != reads_.end() && (*r)->offset < to; ++r) {
      const uint64_t first = std::max(from, (*r)->offset), last = std::min(to, (*r)->offset + (*r)->bytes);
      if (first < last) piece(**r, first - (*r)->offset, last - first);
    }
  }
  // Its checksum, if the logs have all of it.
  std::optional<uint32_t> sum(uint64_t from, uint64_t to) const {
    if (to > end_) return std::nullopt;
    uint32_t crc = 0;
    bool known = true;
    each(from, to, [&](const Transfer& r, uint64_t byte, uint64_t count) {
      known = known && r.data.size() >= byte + count;
      if (known) crc = hot::crc32c(crc, r.data.data() + byte, count);
    });
    return known ? std::optional(crc) : std::nullopt;
  }

 private:
  std::vector<Transfer*> reads_, peeks_;
  uint64_t end_ = 0;
};

// The order in which the writes and the reads of a stream really happened. A number says when a write began
// and when a read had ended; processes that are at it at once may have got their turns in another order. So
// wherever several could be next, the numbers are only the first guess, and a write whose checksum is not
// that of what was read there takes the last guess back. Some content fits in several ways (a write that
// begins as another one does); the search has an end, and what it has not explained by then stays as the
// numbers have it.
class StreamOrder {
 public:
  StreamOrder(std::vector<Transfer>& writes, std::vector<Transfer>& reads) {
    for (auto [from, to] : {std::pair(&writes, &writers_), std::pair(&reads, &readers_)}) {
      std::map<std::pair<uint32_t, uint64_t>, Lane> lanes;
      for (Transfer& t : *from) lanes[{t.host, t.process}].all.push_back(&t);
      for (auto& [process, lane] : lanes) to->push_back(std::move(lane));
    }
    search();
    // What is left over goes behind, by number.
    for (auto [lanes, out] : {std::pair(&writers_, &written_), std::pair(&readers_, &read_)})
      while (!heads(*lanes).empty()) take(*lanes, heads(*lanes)[0], *out);
  }
  std::vector<Transfer*> writes() const { return transfers(written_); }
  std::vector<Transfer*> reads() const { return transfers(read_); }

 private:
  struct Lane {
    std::vector<Transfer*> all;
    size_t next = 0;
  };
  struct Taken {
    size_t lane;
    Transfer* transfer;
  };
  // Where there was a choice: what could be next, which of it was tried, and how far everything was.
  struct Choice {
    bool write;
    std::vector<size_t> options;
    size_t tried, written, read, checked;
  };

  static std::vector<size_t> heads(const std::vector<Lane>& lanes) {
    std::vector<size_t> list;
    for (size_t i = 0; i < lanes.size(); i++)
      if (lanes[i].next < lanes[i].all.size()) list.push_back(i);
    auto key = [&](size_t i) {
      const Transfer& t = *lanes[i].all[lanes[i].next];
      return std::pair(t.host, t.order);
    };
    std::sort(list.begin(), list.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    return list;
  }
  static void take(std::vector<Lane>& lanes, size_t lane, std::vector<Taken>& out) {
    out.push_back({lane, lanes[lane].all[lanes[lane].next++]});
  }
  static void give_back(std::vector<Lane>& lanes, size_t size, std::vector<Taken>& out, uint64_t& bytes) {
    for (; out.size() > size; out.pop_back()) {
      lanes[out.back().lane].next--;
      if (!out.back().transfer->peek) bytes -= out.back().transfer->bytes;
    }
  }
  static std::vector<Transfer*> transfers(const std::vector<Taken>& list) {
    std::vector<Transfer*> all;
    for (const Taken& t : list) all.push_back(t.transfer);
    return all;
  }
  // One more write, or read. False: there is none.
  bool go_on(bool write) {
    auto& lanes = write ? writers_ : readers_;
    const auto options = heads(lanes);
    if (options.empty()) return false;
    if (options.size() > 1) choices_.push_back({write, options, 0, written_.size(), read_.size(), checked_});
    choose(write, options[0]);
    return true;
  }
  void choose(bool write, size_t lane) {
    auto& out = write ? written_ : read_;
    take(write ? writers_ : readers_, lane, out);
    if (!out.back().transfer->peek) (write ? write_end_ : read_end_) += out.back().transfer->bytes;
  }
  // The last choice that can be made in another way. False: there is none any more.
  bool take_back() {
    while (!choices_.empty()) {
      Choice& c = choices_.back();
      give_back(writers_, c.written, written_, write_end_);
      give_back(readers_, c.read, read_, read_end_);
      checked_ = c.checked;
      if (++c.tried < c.options.size()) {
        choose(c.write, c.options[c.tried]);
        return true;
      }
      choices_.pop_back();
    }
    return false;
  }
  // Is what was read there what the last write wrote? Not known is good.
  bool fits() const {
    const Transfer& w = *written_.back().transfer;
    if (!w.crc) return true;
    const uint64_t from = write_end_ - w.bytes;
    uint64_t end = read_end_;
    size_t first = read_.size();
    while (first > 0 && end > from) {
      const Transfer& r = *read_[--first].transfer;
      if (!r.peek) end -= r.bytes;
    }
    uint32_t crc = 0;
    uint64_t left = w.bytes, skip = from - end;
    for (; first < read_.size() && left > 0; first++) {
      const Transfer& r = *read_[first].transfer;
      if (r.peek) continue;
      const uint64_t n = std::min(left, r.bytes - skip);
      if (r.data.size() < skip + n) return true;
      crc = hot::crc32c(crc, r.data.data() + skip, n);
      left -= n, skip = 0;
    }
    return crc == *w.crc;
  }
  void search() {
    constexpr size_t kMostTries = 100'000;
    if (writers_.size() < 2 && readers_.size() < 2) return;
    struct Best {
      std::vector<Taken> written, read;
    } best;
    for (size_t tries = 0; tries < kMostTries;) {
      if (checked_ == written_.size() && !go_on(true)) return;
      bool covered = true;
      while (covered && read_end_ < write_end_) covered = go_on(false);
      if (!covered || fits()) {
        checked_ = written_.size();
        continue;
      }
      tries++;
      if (checked_ > best.written.size()) {
        best = {written_, read_};
        best.written.resize(checked_);
      }
      if (!take_back()) break;
    }
    // As far as it was right.
    give_back(writers_, 0, written_, write_end_);
    give_back(readers_, 0, read_, read_end_);
    for (const Taken& t : best.written) choose(true, t.lane);
    for (const Taken& t : best.read) choose(false, t.lane);
  }

  std::vector<Lane> writers_, readers_;
  std::vector<Taken> written_, read_;
  std::vector<Choice> choices_;
  uint64_t write_end_ = 0, read_end_ = 0;
  size_t checked_ = 0;  // so many writes are known to be right
};

Message::Kind kind_of(const Side& s) {
  return s.kind == OpenFile::Pipe         ? Message::Pipe
         : s.kind == OpenFile::SocketPair ? Message::SocketPair
                                          : Message::Socket;
}

// Datagrams of one address are looked for there; the rest of the address is compared afterwards.
std::string meeting_place(const guest::SocketAddress& a) {
  return a.is_inet() ? "port " + std::to_string(a.port) : a.path;
}

bool is_multicast(const std::string& host) {
  constexpr unsigned char kFirst = 224, kLast = 240, kInet6 = 255;
  if (host.empty()) return false;
  const auto first = static_cast<unsigned char>(host[0]);
  return host.size() == 4 ? (first >= kFirst && first < kLast) || first == kInet6 : first == kInet6;
}

// May what `from` has sent to `address` come to `to`, which says that it is from `source`?
bool may_reach(const Sides& sides, const Side& from, const guest::SocketAddress& address, const Side& to,
               const guest::SocketAddress& source) {
  const auto& here = to.kernel.local;
  if (address.family == AF_UNIX || here.family == AF_UNIX)
    return sides.same_boot(from, to) && address.path == here.path;
  if (address.is_loopback() && !sides.same_net(from, to)) return false;
  if (!here.is_any() && !is_multicast(address.host) && here.host != address.host) return false;
  // A socket for any address: is that one known to be another host's?
  if (here.is_any() && !address.is_loopback() && !is_multicast(address.host) &&
      sides.is_known_address(address.host) && !sides.has_address(to, address.host))
    return false;
  auto is_from = [&](const guest::SocketAddress& a) {
    const auto& its = from.kernel.local;
    if (!a.is_inet() || !its.is_inet()) return true;
    return a.port == its.port && (its.is_any() || its.host == a.host);
  };
  return is_from(source) && (!to.connected || is_from(to.kernel.peer));
}

}  // namespace

const char* message_kind_name(Message::Kind kind) {
  static const char* const kNames[] = {"pipe", "socket pair", "socket"};
  return kNames[static_cast<size_t>(kind)];
}

Messages::Messages(const std::vector<Channels*>& hosts) : sides_(hosts) {
  for (const Link& l : sides_.links()) {
    auto match = [&](Side& from, Side& to) {
      if (from.datagrams || to.datagrams)
        match_linked_datagrams(from, to);
      else
        match_stream(from, to);
    };
    if (l.a->kind != OpenFile::Pipe) match(*l.a, *l.b);
    if (l.a != l.b) match(*l.b, *l.a);
  }
  for (Side& s : sides_.all())
    if (s.link == ~size_t{0} && s.datagrams)
      for (size_t i = 0; i < s.out.size(); i++) sent_to_[meeting_place(s.out[i].name)].push_back({&s, i});
  for (auto& [place, list] : sent_to_)
    std::stable_sort(list.begin(), list.end(), [](const Sent& a, const Sent& b) {
      const Transfer &x = a.side->out[a.index], &y = b.side->out[b.index];
      return std::pair(x.host, x.order) < std::pair(y.host, y.order);
    });
  for (Side& s : sides_.all()) {
    if (s.link != ~size_t{0}) continue;
    if (s.datagrams) {
      match_datagrams(s);
      continue;
    }
    for (const Transfer& r : s.in) tell(s, r, false, 0, r.bytes, kNoOtherSide);
    for (const Transfer& w : s.out) tell(s, w, true, 0, w.bytes, kNoOtherSide);
  }
  for (const auto& [place, list] : sent_to_)
    for (const Sent& sent : list)
      if (const Transfer& w = sent.side->out[sent.index]; !sent.arrived)
        tell(*sent.side, w, true, 0, w.bytes, kNotReceived);
  for (size_t i = 0; i < messages_.size(); i++)
    of_reads_[{messages_[i].read->host, messages_[i].read->process, messages_[i].read->event}].push_back(i);
}

void Messages::tell(const Side& side, const Transfer& t, bool sent, uint64_t byte, uint64_t bytes,
                    const char* why) {
  if (!sent) unknown_.try_emplace({t.host, t.process, t.event}, why);
  if (bytes) unmatched_.push_back({&side, &t, sent, byte, bytes, why});
}

void Messages::match_stream(Side& from, Side& to) {
  const StreamOrder order(from.out, to.in);
  const ReadStream reads(order.reads());
  const Message::Kind kind = kind_of(from);
  struct Written {
    Transfer* write;
    bool checked;
  };
  std::vector<Written> written;  // those that are known to be there
  uint64_t offset = 0;
  for (Transfer* w : order.writes()) {
    w->offset = offset;
    offset += w->bytes;
    const auto sum = w->crc ? reads.sum(w->offset, offset) : std::nullopt;
    if (!sum || *sum == *w->crc) {
      written.push_back({w, sum.has_value()});
      continue;
    }
    tell(from, *w, true, 0, w->bytes, kDiffers);
    reads.each(w->offset, offset, [&](const Transfer& r, uint64_t byte, uint64_t count) {
      tell(to, r, false, byte, count, kDiffers);
    });
  }
  auto add = [&](const Written& w, const Transfer& r, uint64_t read_byte, uint64_t count) {
    messages_.push_back({kind, w.write, &r, r.offset + read_byte - w.write->offset, read_byte, count,
                         w.checked, &from, &to, false});
  };
  for (const Written& w : written) {
    const uint64_t end = w.write->offset + w.write->bytes;
    reads.each(w.write->offset, end,
               [&](const Transfer& r, uint64_t byte, uint64_t count) { add(w, r, byte, count); });
    if (const uint64_t there = std::max(w.write->offset, std::min(end, reads.end())); there < end)
      tell(from, *w.write, true, there - w.write->offset, end - there, kNotReceived);
  }
  for (const Transfer* r : reads.peeks()) {
    auto w = std::upper_bound(written.begin(), written.end(), r->offset, [](uint64_t at, const Written& x) {
      return at < x.write->offset + x.write->bytes;
    });
    for (; w != written.end() && w->write->offset < r->offset + r->bytes; ++w) {
      const uint64_t first = std::max(w->write->offset, r->offset);
      const uint64_t last = std::min(w->write->offset + w->write->bytes, r->offset + r->bytes);
      if (first < last) add(*w, *r, first - r->offset, last - first);
    }
  }
  reads.each(offset, ~0ull, [&](const Transfer& r, uint64_t byte, uint64_t count) {
    tell(to, r, false, byte, count, kNobodyWrote);
  });
}

namespace {

// Is it what was sent there? `sure`: the checksum says so.
bool is_same(const Transfer& sent, const Transfer& got, bool* sure) {
  *sure = false;
  if (got.bytes == sent.bytes) {
    const bool known = sent.crc && got.data.size() == got.bytes && got.bytes;
    *sure = known && hot::crc32c(0, got.data.data(), got.data.size()) == *sent.crc;
    return !known || *sure;
  }
  return got.cut && got.bytes < sent.bytes;
}

}  // namespace

// In order and without loss.
void Messages::match_linked_datagrams(Side& from, Side& to) {
  uint64_t number = 0;
  std::deque<Transfer*> waiting;
  for (Transfer& w : from.out) w.offset = number++, waiting.push_back(&w);
  for (Transfer& r : to.in) {
    bool sure = false;
    auto w = waiting.begin();
    // Two processes may have sent at once; otherwise it is the first.
    while (w != waiting.end() && !is_same(**w, r, &sure)) ++w;
    if (w == waiting.end()) {
      tell(to, r, false, 0, r.bytes, kNobodyWrote);
      continue;
    }
    r.offset = (*w)->offset;
    messages_.push_back({kind_of(from), *w, &r, 0, 0, r.bytes, sure, &from, &to, false});
    if (!r.peek) waiting.erase(w);
  }
  for (Transfer* w : waiting) tell(from, *w, true, 0, w->bytes, kNotReceived);
}

void Messages::match_datagrams(Side& to) {
  if (to.in.empty()) return;
  auto list = sent_to_.find(meeting_place(to.kernel.local));
  // By length and checksum, in the order in which they were sent; across hosts there is no such order.
  struct Alike {
    std::vector<Sent*> all;
    size_t first = 0;  // before it all are used
  };
  std::map<std::pair<uint64_t, std::optional<uint32_t>>, Alike> alike;
  if (list != sent_to_.end())
    for (Sent& s : list->second) {
      const Transfer& w = s.side->out[s.index];
      alike[{w.bytes, w.crc}].all.push_back(&s);
    }
  std::set<const Sent*> used;
  uint64_t number = 0;
  for (Transfer& r : to.in) {
    r.offset = number++;
    Sent *found = nullptr, *again = nullptr;
    bool sure = false, again_sure = false;
    auto look = [&](Alike& some) {
      while (some.first < some.all.size() && used.count(some.all[some.first])) again = some.all[some.first++];
      if (again) again_sure = is_same(again->side->out[again->index], r, &sure) && sure;
      for (size_t i = some.first; i < some.all.size() && !found; i++) {
        Sent* s = some.all[i];
        const Transfer& w = s->side->out[s->index];
        const bool later = w.host == r.host && w.order && r.order && w.order > r.order;
        if (later || used.count(s) || !may_reach(sides_, *s->side, w.name, to, r.name)) continue;
        if (is_same(w, r, &sure)) found = s;
      }
    };
    const bool whole = r.data.size() == r.bytes;
    const auto crc = whole ? std::optional(hot::crc32c(0, r.data.data(), r.data.size())) : std::nullopt;
    auto look_at = [&](std::optional<uint32_t> sum) {
      auto some = alike.find({r.bytes, sum});
      if (!found && some != alike.end()) look(some->second);
    };
    if (crc) look_at(crc);
    look_at(std::nullopt);
    if (!found && (r.cut || !crc))
      for (auto some = alike.lower_bound({r.bytes, std::nullopt}); some != alike.end() && !found; ++some)
        if (r.cut || some->first.first == r.bytes) look(some->second);
    const bool duplicate = !found && again && again_sure;
    if (duplicate) found = again, sure = true;
    if (!found) {
      tell(to, r, false, 0, r.bytes, kNobodyWrote);
      continue;
    }
    const Transfer& w = found->side->out[found->index];
    messages_.push_back({Message::Socket, &w, &r, 0, 0, r.bytes, sure, found->side, &to, duplicate});
    found->arrived = true;
    if (!r.peek) used.insert(found);
  }
}

const Message* Messages::of_read(uint64_t process, uint64_t event, uint64_t byte, std::string& why,
                                 uint32_t host) const {
  if (auto list = of_reads_.find({host, process, event}); list != of_reads_.end())
    for (size_t i : list->second) {
      const Message& m = messages_[i];
      const uint64_t first = m.read->part + m.read_byte;
      if (byte >= first && byte - first < m.bytes) return &m;
    }
  auto reason = unknown_.find({host, process, event});
  why = reason != unknown_.end() ? reason->second : kNobodyWrote;
  return nullptr;
}

}  // namespace backstep::session
