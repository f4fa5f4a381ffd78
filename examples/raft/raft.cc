// A small Raft (Ongaro, Ousterhout, 2014): nodes elect a leader and agree on the values that a variable x
// gets, one after the other. It speaks UDP, so every message may be lost, and whoever needs an answer asks
// again. Nothing is kept on a disk.
//
//   raft node NET ME PATIENCE [DEAF-TO]    node ME of 1, 2, 3, at NET.ME:7000; it stands for election when it
//   has heard of no leader
//                                          for PATIENCE milliseconds; DEAF-TO: nothing of that node arrives
//                                          (a broken link)
//   raft client NET WORD…    leader:NODE waits until it is one, set:NODE:VALUE sets x by it, get:NODE asks it
//   what x is
//
// There is a mistake in it, and docs/distributed.md shows how it is found. With -DMENDED there is none.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <backstep/mark.h>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kNodes = 3, kMajority = kNodes / 2 + 1;
constexpr int kPort = 7000;
constexpr milliseconds kAgain{20};  // until something is asked once more

struct Message {
  enum Kind : int {
    Hello,
    Here,
    AskVote,
    Vote,
    Append,
    Appended,
    Set,
    Get,
    Lead,
    Done,
    IsValue,
    AskLeader
  } kind;
  int from;  // a node; 0: a client
  int term;
  int last, last_term;  // AskVote: of the log; Append: of what is before the entry
  int has_entry, entry_term, value, id;
  int commit;  // Append: all up to here is committed
  int yes;     // Vote, Appended
  int index;   // Appended: the log agrees up to here
  int leader;  // AskLeader
};

struct Entry {
  int term, value, id;
};

sockaddr_in address_of(const std::string& net, int node) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(kPort);
  if (inet_pton(AF_INET, (net + "." + std::to_string(node)).c_str(), &a.sin_addr) != 1) {
    std::fprintf(stderr, "raft: '%s' is not the beginning of an address\n", net.c_str());
    std::exit(2);
  }
  return a;
}

class Wire {
 public:
  Wire() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  void listen(const sockaddr_in& at) {
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return;
    std::perror("raft: bind");
    std::exit(1);
  }
  void send(const Message& m, const sockaddr_in& to) {
    sendto(fd_, &m, sizeof m, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  // False: nothing came for so long.
  bool receive(Message& m, sockaddr_in& from, milliseconds patience) {
    pollfd p{fd_, POLLIN, 0};
    if (poll(&p, 1, static_cast<int>(std::max(patience, milliseconds(0)).count())) <= 0) return false;
    socklen_t size = sizeof from;
    return recvfrom(fd_, &m, sizeof m, 0, reinterpret_cast<sockaddr*>(&from), &size) == sizeof m;
  }

 private:
  int fd_;
};

enum class Role { Follower, Candidate, Leader };

struct Node {
  int me = 0, deaf_to = 0;
  milliseconds patience{0};
  std::string net;
  Wire wire;

  Role role = Role::Follower;
  int term = 0;
  int voted_for = 0;  // in this term; 0: for nobody yet
  int leader = 0;     // as far as known
  std::vector<Entry> log{{0, 0, 0}};
  int committed = 0, applied = 0;
  int x = 0;
  bool answered[kNodes + 1] = {}, for_me[kNodes + 1] = {};  // of a candidate
  int agrees[kNodes + 1] = {};                              // of a leader: up to which entry
  Clock::time_point deadline, again;

  int last() const { return static_cast<int>(log.size()) - 1; }
  template <typename Do>
  void each_peer(Do&& act) {
    for (int n = 1; n <= kNodes; n++)
      if (n != me) act(n);
  }
  Message message(Message::Kind kind) const {
    Message m{};
    m.kind = kind, m.from = me, m.term = term;
    return m;
  }
  void send(const Message& m, int to) { wire.send(m, address_of(net, to)); }

  void meet_all();
  void run();
  void handle(const Message& m, const sockaddr_in& from);
  void enter_term(int number);
  void campaign();
  void ask_votes();
  void on_ask_vote(const Message& m);
  void on_vote(const Message& m);
  void become_leader();
  void send_entries();
  void on_append(const Message& m);
  void on_appended(const Message& m);
  void on_set(const Message& m, const sockaddr_in& from);
  void answer_done(const Message& m, const sockaddr_in& to);
  void commit(int up_to);
  void apply(int value);
};

Node self;

// Nobody begins before all are there. What else comes waits until then.
void Node::meet_all() {
  bool here[kNodes + 1] = {};
  while (std::count(here, here + kNodes + 1, true) < kNodes - 1) {
    each_peer([&](int n) {
      if (!here[n]) send(message(Message::Hello), n);
    });
    Message m;
    sockaddr_in from;
    while (wire.receive(m, from, kAgain)) {
      if (m.kind == Message::Hello) send(message(Message::Here), m.from);
      if (m.kind == Message::Here) here[m.from] = true;
    }
  }
}

void Node::run() {
  meet_all();
  deadline = Clock::now() + patience;
  for (;;) {
    const auto next = role == Role::Follower ? deadline : again;
    Message m;
    sockaddr_in from;
    if (wire.receive(m, from, std::chrono::ceil<milliseconds>(next - Clock::now()))) {
      if (m.kind == Message::Hello || !m.from || m.from != deaf_to) handle(m, from);
      continue;
    }
    if (Clock::now() < next) continue;
    again = Clock::now() + kAgain;
    if (role == Role::Leader)
      send_entries();
    else if (role == Role::Candidate && Clock::now() < deadline)
      ask_votes();
    else
      campaign();
  }
}

void Node::handle(const Message& m, const sockaddr_in& from) {
  switch (m.kind) {
    case Message::Hello:
      return send(message(Message::Here), m.from);
    case Message::AskVote:
      return on_ask_vote(m);
    case Message::Vote:
      return on_vote(m);
    case Message::Append:
      return on_append(m);
    case Message::Appended:
      return on_appended(m);
    case Message::Set:
      return on_set(m, from);
    case Message::Lead:
      if (role == Role::Leader) answer_done(m, from);
      return;
    case Message::Get: {
      Message answer = message(Message::IsValue);
      answer.value = x, answer.id = m.id;
      if (applied) wire.send(answer, from);
      return;
    }
    default:
      return;
  }
}

// A new term: who was leader or candidate in an older one is not any more, and the vote is free.
void Node::enter_term(int number) {
  term = number;
  voted_for = 0;
  if (role != Role::Follower) role = Role::Follower, deadline = Clock::now() + patience;
}

void Node::campaign() {
  enter_term(term + 1);
  role = Role::Candidate;
  voted_for = me;
  std::fill(std::begin(answered), std::end(answered), false);
  std::fill(std::begin(for_me), std::end(for_me), false);
  for_me[me] = true;
  // Who gets no answers has lost nothing yet, and goes on asking in this term.
  deadline = Clock::time_point::max();
  again = Clock::now() + kAgain;
  ask_votes();
}

void Node::ask_votes() {
  Message m = message(Message::AskVote);
  m.last = last(), m.last_term = log.back().term;
  each_peer([&](int n) {
    if (!answered[n]) send(m, n);
  });
}

void Node::on_ask_vote(const Message& m) {
#ifdef MENDED
  if (m.term > term) enter_term(m.term);
#else
  if (m.term >= term) enter_term(m.term);
#endif
  const bool is_up_to_date =
      m.last_term > log.back().term || (m.last_term == log.back().term && m.last >= last());
  const bool is_free = voted_for == 0 || voted_for == m.from;
  Message answer = message(Message::Vote);
  answer.yes = m.term == term && is_free && is_up_to_date;
  if (answer.yes) {
    voted_for = m.from;
    deadline = Clock::now() + patience;
  }
  send(answer, m.from);
}

void Node::on_vote(const Message& m) {
  if (m.term > term) enter_term(m.term);
  if (role != Role::Candidate || m.term != term) return;
  answered[m.from] = true;
  for_me[m.from] = m.yes;
  if (std::count(for_me, for_me + kNodes + 1, true) >= kMajority) become_leader();
  // Too many have said no.
  else if (std::count(answered, answered + kNodes + 1, true) >= kMajority)
    deadline = Clock::now() + patience;
}

[[gnu::noinline]] void Node::become_leader() {
  BACKSTEP_MARK_VALUE(leader, term);
  role = Role::Leader;
  leader = me;
  std::fill(std::begin(agrees), std::end(agrees), 0);
  send_entries();
}

// To each the first entry that it does not have, or none: then it only hears that there is a leader.
void Node::send_entries() {
  each_peer([&](int n) {
    Message m = message(Message::Append);
    m.last = agrees[n], m.last_term = log[agrees[n]].term, m.commit = committed;
    m.has_entry = agrees[n] < last();
    if (m.has_entry) {
      const Entry& e = log[agrees[n] + 1];
      m.entry_term = e.term, m.value = e.value, m.id = e.id;
    }
    send(m, n);
  });
}

void Node::on_append(const Message& m) {
  if (m.term > term) enter_term(m.term);
  Message answer = message(Message::Appended);
  answer.index = m.last;
  if (m.term == term) {
    role = Role::Follower;
    leader = m.from;
    deadline = Clock::now() + patience;
    answer.yes = m.last <= last() && log[m.last].term == m.last_term;
  }
  if (answer.yes && m.has_entry) {
    // Entries of one term at one place are the same one, since a term has one leader.
    const bool is_there = m.last < last() && log[m.last + 1].term == m.entry_term;
    if (!is_there) {
      log.resize(m.last + 1);
      log.push_back({m.entry_term, m.value, m.id});
    }
    answer.index = m.last + 1;
  }
  if (answer.yes) commit(std::min(m.commit, answer.index));
  send(answer, m.from);
}

void Node::on_appended(const Message& m) {
  if (m.term > term) enter_term(m.term);
  if (role != Role::Leader || m.term != term) return;
  if (m.yes)
    agrees[m.from] = std::max(agrees[m.from], std::min(m.index, last()));
  else if (agrees[m.from] == m.index && m.index > 0)
    agrees[m.from]--;
  for (int index = last(); index > committed; index--) {
    int have = 1;
    each_peer([&](int n) { have += agrees[n] >= index; });
    if (have < kMajority || log[index].term != term) continue;
    commit(index);
    break;
  }
}

void Node::on_set(const Message& m, const sockaddr_in& from) {
  if (role != Role::Leader) {
    Message answer = message(Message::AskLeader);
    answer.leader = leader, answer.id = m.id;
    if (leader && leader != me) wire.send(answer, from);
    return;
  }
  const auto known = std::find_if(log.begin(), log.end(), [&](const Entry& e) { return e.id == m.id; });
  if (known == log.end()) {
    log.push_back({term, m.value, m.id});
    send_entries();
  } else if (known - log.begin() <= applied) {
    answer_done(m, from);
  }
}

void Node::answer_done(const Message& m, const sockaddr_in& to) {
  Message answer = message(Message::Done);
  answer.id = m.id;
  wire.send(answer, to);
}

void Node::commit(int up_to) {
  committed = std::max(committed, up_to);
  while (applied < committed) apply(log[++applied].value);
}

// What was agreed on happens.
[[gnu::noinline]] void Node::apply(int value) {
  x = value;
}

// --- clients ---

struct Wish {
  Message::Kind kind = Message::Get;
  int node = 0, value = 0;
};

Wish wish_of(const std::string& word) {
  Wish w;
  if (std::sscanf(word.c_str(), "set:%d:%d", &w.node, &w.value) == 2)
    w.kind = Message::Set;
  else if (std::sscanf(word.c_str(), "leader:%d", &w.node) == 1)
    w.kind = Message::Lead;
  else if (std::sscanf(word.c_str(), "get:%d", &w.node) != 1)
    std::exit(2);
  return w;
}

void ask(Wire& wire, const std::string& net, const Wish& wish, int id) {
  Message m{};
  m.kind = wish.kind, m.value = wish.value, m.id = id;
  for (int to = wish.node;;) {
    wire.send(m, address_of(net, to));
    Message answer;
    sockaddr_in from;
    if (!wire.receive(answer, from, kAgain) || answer.id != id) continue;
    if (answer.kind == Message::AskLeader) {
      to = answer.leader;
      continue;
    }
    if (wish.kind == Message::Set) std::printf("x = %d, says node %d\n", wish.value, to);
    if (wish.kind == Message::Get) std::printf("x is %d at node %d\n", answer.value, to);
    return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() >= 4 && words[0] == "node") {
    self.net = words[1];
    self.me = std::atoi(words[2].c_str());
    self.patience = milliseconds(std::atoi(words[3].c_str()));
    self.deaf_to = words.size() > 4 ? std::atoi(words[4].c_str()) : 0;
    self.wire.listen(address_of(self.net, self.me));
    self.run();
  }
  if (words.size() < 3 || words[0] != "client") return 2;
  Wire wire;
  for (size_t i = 2; i < words.size(); i++)
    ask(wire, words[1], wish_of(words[i]), getpid() * 100 + static_cast<int>(i));
}
