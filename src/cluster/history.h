// What is known of a distributed run before anything is replayed: the hosts that were recorded, their
// processes, the channels between these, and what went through them. All of it comes from the logs, so it is
// there at once, and it is plain data: what is made of it (the happened-before graph, cuts, views) needs
// nothing else.
//
// *Happened.* Each end of something that passed from one process to another is a `Point`: an event of a
// process's log. A cut is one position per process, and an end has happened in it if the position is behind
// the end's event: `cut.event > point.at.event`. What gives has happened as soon as its call was made (the
// first of its bytes may be there long before the call ends), what gets when its call has returned. So
// along one process the ends are ordered by at.event, and a cut is consistent if for every edge whose `to`
// has happened, `from` has happened, too.
//
// A *process* here is one log, as everywhere: after execve a process goes on in another log, and the edge
// Exec leads there. In a forked process events are numbered as the timeline does it, the ancestors' up to
// the fork counted: `at` can be given to Timeline::go_to as it is.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recording/format.h"
#include "recording/manifest.h"
#include "replay/until.h"

namespace backstep::cluster {

// Places in the vectors of a History.
using HostId = uint32_t;
using ProcessId = uint32_t;
using ChannelId = uint32_t;
inline constexpr uint32_t kNone = ~0u;

struct Host {
  std::string name;           // "A": unique in the run
  std::string recording;      // folder, absolute
  std::string machine, boot;  // ids of the machine and of its boot, as hex; empty: not known
  int64_t start_ns = 0;       // CLOCK_REALTIME there
  // To be added to a wall clock there to have that of the run's first host, as far as messages tell;
  // the truth is within [least, most].
  struct Clock {
    int64_t least = INT64_MIN, most = INT64_MAX;
    int64_t shift = 0;  // the best guess; 0 if nothing is known
    bool known() const { return least != INT64_MIN && most != INT64_MAX; }
  } clock;
};

struct Point {
  ProcessId process = kNone;
  replayer::Position at;   // in front of the event
  int thread = 1;          // virtual name
  uint64_t own_event = 0;  // the event's number in the process's own log
  uint64_t order = 0;      // in the order of the host's processes; 0: none
  uint16_t nr = 0xffff;    // system call, if it is one
  explicit operator bool() const { return process != kNone; }
  friend bool operator==(const Point&, const Point&) = default;
};

struct ProcessOfRun {
  HostId host = kNone;
  uint64_t log = 0;  // its number in the host's recording
  std::string name;  // virtual: "A/server", "A/server/worker.2"; unique in the run
  uint64_t pid = 0;  // as it was
  std::vector<std::string> argv;
  recording::Birth birth{};
  bool spawned = false;      // birth Exec in a new process (posix_spawn): the parent goes on
  ProcessId parent = kNone;  // birth Fork, Exec
  uint64_t base = 0;         // what positions call the first event of its own log: there may be ancestors'
  replayer::Position begin;  // of what is its own: in a forked process behind the fork
  replayer::Position end;    // in front of its last event
  std::optional<recording::Manifest::End> how;  // it ended; missing: the recorder was killed
  // Somebody who was not recorded has told it to end by a signal, the first one. A program that hangs ends
  // so.
  struct ToldToEnd {
    replayer::Position at;  // in front of the call that it was in, or of the signal
    std::string signal;
  };
  std::optional<ToldToEnd> told_to_end;
  bool cut_off = false;  // its log has no end, or is damaged from `end` on

  // The number that an event of a position has in the process's own log.
  uint64_t own_event(uint64_t event) const { return event > base ? event - base : 0; }
};

enum class ChannelKind : uint8_t { Pipe, SocketPair, UnixStream, UnixDatagram, Tcp, Udp, Other };
const char* channel_kind_name(ChannelKind kind);

// One side of a channel: what a descriptor stands for, in whichever processes have it.
struct ChannelEnd {
  HostId host = kNone;      // kNone: not recorded
  uint64_t net = 0;         // network namespace, by its cookie (or inode); 0: not known
  std::string local, peer;  // addresses as this side sees them: "10.0.0.1:80", "/run/x.sock"; may be empty
  Point made;               // the call that made it (socket, accept, pipe, …); none: inherited at the start
  std::vector<Point> closed;  // shutdown for writing, the last close in each process that had it, its end
  bool accepted = false, listening = false;
  uint64_t cookie = 0, inode = 0;  // the kernel's names: of a socket, of a pipe
};

struct Channel {
  ChannelKind kind = ChannelKind::Other;
  bool datagrams = false;  // what is sent at once is received at once
  std::string name;        // virtual: "tcp A/client -> B/server:80 #3"; unique in the run
  // Pipe: ends[0] is what is read, ends[1] what is written. Connection: ends[0] has connected, ends[1] was
  // accepted. Datagram sockets have no connection: a channel is one receiving socket (ends[1]), and
  // ends[0] is empty.
  ChannelEnd ends[2];
  bool by_content = false;  // the ends were found to belong together by what went through (NAT, old logs)
};

// Bytes that one call gave and another one got.
struct Transfer {
  ChannelId channel = kNone;
  uint8_t from_end = 0;  // which of the channel's ends it was sent from
  Point sent, received;
  uint64_t offset = 0;  // stream: of the first byte in this direction; datagrams: which one, from 0
  uint64_t bytes = 0;
  uint64_t sent_byte = 0, received_byte = 0;  // where these bytes begin in what each call moved
  bool peeked = false;                        // MSG_PEEK or tee: they stay there and are received again
  bool duplicate = false;                     // a datagram that the network has doubled
  bool checked = false;  // checksum of what was sent = of what was received; else by order alone
};

// Bytes that only one side tells of.
struct Unmatched {
  ChannelId channel = kNone;  // kNone: not even that is known
  uint8_t end = 0;            // the one that tells
  bool sent = false;          // else received
  Point point;
  uint64_t bytes = 0;
  std::string peer;  // the other side's address, as far as known
  std::string why;   // a sentence
};

// One thing after another that is no message.
struct Edge {
  enum Kind : uint8_t {
    Fork,     // fork, vfork, clone -> first event of the child's log
    Exec,     // the end of a log -> the first event of the next program's
    Wait,     // the end of a process -> wait4 & co. in its parent
    Signal,   // kill & co. -> the signal's delivery in another process
    Connect,  // connect -> accept
    Listen,   // listen -> connect
    Close,    // close, shutdown or the end of a process -> the read that returned 0 or failed because of it
    Shared,   // memory that processes share, locks, eventfds, files: what one did -> who saw it
  } kind = Fork;
  Point from, to;
  ChannelId channel = kNone;  // Connect, Listen, Close
  std::string what;           // Signal: "SIGTERM"; Shared: what it is; may be empty
};
const char* edge_kind_name(Edge::Kind kind);

// What concerns nobody else, but is asked for.
struct OwnEvent {
  Point point;
  const char* kind = "";  // "thread-begins", "thread-done", "set-creation", "set-adds", "set-removes"
  std::string what;       // descriptors; the new thread
};

// What is odd about the run: said, and the rest works.
struct Finding {
  enum Weight : uint8_t { Note, Warning } weight = Note;
  std::string kind;  // one word for programs: "not-recorded", "same-name", "cut-off", "clock", …
  HostId host = kNone;
  ProcessId process = kNone;
  std::string text;  // a sentence
};

struct History {
  std::string run;  // folder
  std::vector<Host> hosts;
  std::vector<ProcessOfRun> processes;
  std::vector<Channel> channels;
  std::vector<Transfer> transfers;  // by channel, direction, and offset
  std::vector<Unmatched> unmatched;
  std::vector<Edge> edges;
  std::vector<OwnEvent> own_events;
  std::vector<Finding> findings;

  // "A/server", "A/server#2" or, with one host, a mere "server"; kNone: there is none.
  ProcessId find(const std::string& name) const;
};

// Reads all logs of a run (`cluster gather` made it), or of one recording, which is a run of one host.
// Throws Error: `run` is neither.
History read_history(const std::string& run);

// Which end of which channel the descriptors of a process stand for, in front of event `own_event` of its
// log.
struct ChannelPlace {
  ChannelId channel = kNone;
  uint8_t end = 0;
};
std::map<int, ChannelPlace> descriptors_at(const History& history, ProcessId process, uint64_t own_event);

}  // namespace backstep::cluster
