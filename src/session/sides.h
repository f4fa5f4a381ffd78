// The sides of all pipes and connections of one or several recordings, and which belong together.
//
// A side is what a descriptor stands for, in whichever processes have it: what they gave it and got from it,
// in order. Where the log names it (Channel events) two descriptors with one name of the kernel's are one
// side, however the second process has come to it, and the other side is the one whose addresses are these
// the other way round. Recordings of one boot of a machine share the kernel's names.
//
// What has no such names is found by content: a pair of sockets belongs together if everything that one wrote
// is what the other read, both ways, and no other socket could have been it. That is so for recordings of
// older versions, and where addresses are changed on the way (NAT).
#pragma once
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "session/transfers.h"

namespace backstep::session {

// Something that befell a side, but for the bytes.
struct Happening : CallPlace {
  enum Kind : uint8_t {
    Made,  // socket, pipe, socketpair
    Listened,
    Connected,  // or began to
    Refused,    // … and could not: `error`
    Accepted,
    Shut,    // for writing
    Closed,  // the last descriptor of a process
    SawEnd,  // a read of nothing
    Failed,  // a read or write that failed because of the other side: `error`
  } kind = Made;
  int error = 0;
};

struct Side {
  uint32_t host = 0;
  OpenFile::Kind kind{};  // Pipe, SocketPair, Socket
  int end = 0;            // Pipe: 0 is what is read; SocketPair: which one
  bool datagrams = false, accepted = false, listening = false, connected = false, made_here = false;
  bool bound = false;  // the program has chosen its port, or a path
  KernelName kernel;
  // SocketPair: the call that made both, if that was recorded.
  uint64_t pair_process = 0, pair_event = 0;
  std::vector<Transfer> out, in;  // what processes gave it, what they got
  std::vector<Happening> happenings;
  size_t link = ~size_t{0};  // of Sides::links()
  bool odd = false;          // bytes of it are not known
};

// Two sides that belong together. Pipe: a is read, b is written. Connection: a has connected, b was accepted.
struct Link {
  Side *a = nullptr, *b = nullptr;  // the same: connected to itself
  bool by_content = false;
};

class Sides {
 public:
  // Reads all logs. Of each recording: Channels.
  explicit Sides(const std::vector<Channels*>& hosts);
  std::deque<Side>& all() { return sides_; }
  const std::deque<Side>& all() const { return sides_; }
  const std::vector<Link>& links() const { return links_; }
  // Do both have to do with the same kernel, and there with the same network?
  bool same_boot(const Side& a, const Side& b) const { return boot_[a.host] == boot_[b.host]; }
  bool same_net(const Side& a, const Side& b) const {
    return same_boot(a, b) && a.kernel.net == b.kernel.net;
  }
  // An address that a host is known to have.
  bool has_address(const Side& of, const std::string& host) const;
  bool is_known_address(const std::string& host) const { return known_.count(host) > 0; }
  // The side that a descriptor stands for; null: none that anything happened to.
  const Side* find(uint32_t host, const OpenFile& file, bool gives) const;

 private:
  using Key = std::tuple<std::string, char, uint64_t, uint64_t, int>;  // boot or host, sort, …, end
  Key key_of(uint32_t host, const OpenFile& file, bool gives) const;
  Side* side_of(uint32_t host, const OpenFile& file, bool gives);
  Side* find_mutable(uint32_t host, const OpenFile& file, bool gives);
  void collect(uint32_t host, Channels& channels);
  void link_up();
  void link_made_together();
  void link_by_address();
  void link_unix();
  void link_by_content();
  void link(Side& a, Side& b, bool by_content = false);

  friend class SideReader;
  std::vector<std::string> boot_;
  std::deque<Side> sides_;
  std::map<Key, size_t> by_key_;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> pids_;  // by host and log
  std::vector<Link> links_;
  std::map<std::string, std::set<std::pair<std::string, uint64_t>>> known_;  // addresses: whose (boot, net)
  uint64_t kept_ = 0;                                                        // bytes of reads
};

// Could what was read be what was written? `checked`: so many bytes are, by their checksums.
bool fits(const std::vector<Transfer>& written, const std::vector<Transfer>& read, uint64_t* checked);

}  // namespace backstep::session
