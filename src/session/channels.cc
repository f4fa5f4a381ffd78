// Descriptors, followed through the log.
//
// The log has every call with its arguments and results, so what a descriptor stands for at any event follows
// from the calls before it: open, dup, pipe, close, and what a process has from its parent. Offsets follow
// from reads and seeks. Nothing is replayed for it.
#include "session/channels.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "guest/syscall_print.h"

namespace backstep::session {
namespace {

using recording::Event;
using recording::EventKind;
using recording::PieceKind;

std::string text_argument(const Event& e, int argument) {
  for (const auto& p : e.pieces)
    if (p.kind == PieceKind::Text && p.arg == argument)
      return {reinterpret_cast<const char*>(p.bytes.data()), p.bytes.size()};
  return "";
}

bool out_numbers(const Event& e, int argument, int numbers[2]) {
  for (const auto& p : e.pieces)
    if (p.kind == PieceKind::OutAtArg && p.arg == argument && p.bytes.size() >= 8) {
      std::memcpy(numbers, p.bytes.data(), 8);
      return true;
    }
  return false;
}

// Of one process (or of a child of vfork, which has its own while it borrows the memory).
class TableOfOne {
 public:
  TableOfOne(DescriptorTable& table, uint64_t process) : table_(table), process_(process) {}

  void apply(const Event& e) {
    const auto fd = static_cast<int>(e.args[0]);
    switch (e.nr) {
      case SYS_open:
        return open(e, text_argument(e, 0), e.args[1]);
      case SYS_openat:
        return open(e, text_argument(e, 1), e.args[2]);
      case SYS_openat2:
        return open(e, text_argument(e, 1), 0);
      case SYS_creat:
        return open(e, text_argument(e, 0), 0);
      case SYS_pipe:
      case SYS_pipe2:
        return pair(e, 0, OpenFile::Pipe, e.nr == SYS_pipe2 && (e.args[1] & O_CLOEXEC), false);
      case SYS_socketpair:
        return pair(e, 3, OpenFile::SocketPair, e.args[1] & SOCK_CLOEXEC, !is_stream(e.args[1]));
      case SYS_socket:
        return socket(e, "a socket", e.args[1] & SOCK_CLOEXEC, !is_stream(e.args[1]), false);
      case SYS_accept:
      case SYS_accept4: {
        auto listening = table_.find(fd);
        const bool datagrams = listening != table_.end() && listening->second.file->datagrams;
        return socket(e, "a connection that was accepted", e.nr == SYS_accept4 && (e.args[3] & SOCK_CLOEXEC),
                      datagrams, true);
      }
      case SYS_eventfd:
      case SYS_eventfd2:
        add(e.result, OpenFile::Events, "an eventfd", e.nr == SYS_eventfd2 && (e.args[1] & O_CLOEXEC));
        return name_made(e);
      case SYS_memfd_create:
        return add(e.result, OpenFile::File, "memory file " + text_argument(e, 0), e.args[1] & 1);
      case SYS_close:
        table_.erase(fd);
        return;
      case SYS_close_range:
        if (e.args[2] == 0)
          std::erase_if(table_, [&](const auto& entry) {
            const auto n = static_cast<uint64_t>(entry.first);
            return n >= static_cast<uint32_t>(e.args[0]) && n <= static_cast<uint32_t>(e.args[1]);
          });
        return;
      case SYS_dup:
        return duplicate(fd, static_cast<int>(e.result), false);
      case SYS_dup2:
        return duplicate(fd, static_cast<int>(e.result), false);
      case SYS_dup3:
        return duplicate(fd, static_cast<int>(e.result), e.args[2] & O_CLOEXEC);
      case SYS_fcntl:
        if (e.args[1] == F_DUPFD || e.args[1] == F_DUPFD_CLOEXEC)
          return duplicate(fd, static_cast<int>(e.result), e.args[1] == F_DUPFD_CLOEXEC);
        if (e.args[1] == F_SETFD && table_.count(fd)) table_[fd].close_on_exec = e.args[2] & FD_CLOEXEC;
        return;
      case SYS_lseek:
        if (auto it = table_.find(fd); it != table_.end()) {
          it->second.file->offset = static_cast<uint64_t>(e.result);
          it->second.file->sure = true;
        }
        return;
      case SYS_read:
      case SYS_readv:
      case SYS_write:
      case SYS_writev:
      case SYS_getdents64:
        if (auto it = table_.find(fd); it != table_.end() && it->second.file->kind == OpenFile::File)
          it->second.file->offset += e.nr == SYS_getdents64 ? 0 : static_cast<uint64_t>(e.result);
        return;
      case SYS_listen:
        if (auto it = table_.find(fd); it != table_.end()) it->second.file->listening = true;
        return;
      case SYS_connect: {
        auto it = table_.find(fd);
        // The kernel says who it is when there is a connection (or not even then); the program has said it.
        if (it != table_.end())
          for (const auto& p : e.pieces)
            if (p.kind == PieceKind::Text && p.arg == 1)
              it->second.file->kernel.peer = guest::socket_address(p.bytes);
        return;
      }
      default:
        return;
    }
  }

  // How the kernel names what that descriptor stands for. If no call of the program's has made it, it is new.
  void name(const Event& e) {
    const recording::ChannelName& n = e.channel;
    using recording::ChannelReason;
    const bool pipe = n.object == recording::ChannelObject::Pipe;
    if (n.reason == ChannelReason::There || n.reason == ChannelReason::Received) {
      const bool standard = n.reason == ChannelReason::There && table_.count(n.fd);
      const std::string was = standard ? table_[n.fd].file->name : "";
      add(n.fd, pipe ? OpenFile::Pipe : OpenFile::Socket, "", false);
      OpenFile& f = *table_[n.fd].file;
      f.process = process_, f.event = e.number;
      f.writable = !pipe || n.type != 1;
      if (pipe) f.end = n.type == 1 ? 0 : 1;
      f.datagrams = !pipe && n.type != SOCK_STREAM;
      f.name = !was.empty() ? was : pipe ? "a pipe" : "a socket";
    }
    auto it = table_.find(n.fd);
    if (it == table_.end()) return;
    OpenFile& f = *it->second.file;
    f.made_here = n.reason == ChannelReason::Made || f.made_here;
    name(f.kernel, n);
    // Both ends of a pipe have one name.
    for (auto& [fd, other] : table_)
      if (pipe && other.file->kind == f.kind && other.file->event == f.event &&
          other.file->process == f.process)
        name(other.file->kernel, n), other.file->made_here = f.made_here;
  }

 private:
  static void name(KernelName& k, const recording::ChannelName& n) {
    if (n.inode) k.device = n.device, k.inode = n.inode;
    if (n.cookie) k.cookie = n.cookie;
    if (n.net) k.net = n.net;
    if (n.family) k.family = n.family;
    if (n.peer_pid) k.peer_pid = n.peer_pid;
    if (const auto a = guest::socket_address(n.local); a) k.local = a;
    if (const auto a = guest::socket_address(n.peer); a) k.peer = a;
  }

  void add(int64_t fd, OpenFile::Kind kind, const std::string& name, bool close_on_exec) {
    auto file = std::make_shared<OpenFile>();
    file->kind = kind;
    file->name = name;
    table_[static_cast<int>(fd)] = {file, close_on_exec};
  }
  static bool is_stream(uint64_t type) {
    constexpr uint64_t kTypes = 0xf;
    return (type & kTypes) == SOCK_STREAM;
  }
  // That descriptor is a new channel.
  void name_made(const Event& e) {
    OpenFile& f = *table_[static_cast<int>(e.result)].file;
    f.process = process_, f.event = e.number, f.writable = true;
  }
  void socket(const Event& e, const std::string& name, bool close_on_exec, bool datagrams, bool accepted) {
    add(e.result, OpenFile::Socket, name, close_on_exec);
    name_made(e);
    OpenFile& f = *table_[static_cast<int>(e.result)].file;
    f.datagrams = datagrams, f.accepted = accepted;
  }
  void open(const Event& e, const std::string& path, uint64_t flags) {
    add(e.result, OpenFile::File, path.empty() ? "a file" : path, flags & O_CLOEXEC);
    if (flags & O_APPEND) table_[static_cast<int>(e.result)].file->sure = false;
  }
  void pair(const Event& e, int argument, OpenFile::Kind kind, bool close_on_exec, bool datagrams) {
    int numbers[2];
    if (!out_numbers(e, argument, numbers)) return;
    for (int end = 0; end < 2; end++) {
      add(numbers[end], kind, kind == OpenFile::Pipe ? "a pipe" : "a pair of sockets", close_on_exec);
      OpenFile& f = *table_[numbers[end]].file;
      f.process = process_, f.event = e.number, f.end = end, f.datagrams = datagrams;
      f.writable = kind == OpenFile::SocketPair || end == 1;
    }
  }
  void duplicate(int from, int to, bool close_on_exec) {
    auto it = table_.find(from);
    if (it == table_.end()) {
      table_.erase(to);
      return;
    }
    if (from != to) table_[to] = {it->second.file, close_on_exec};
  }

  DescriptorTable& table_;
  uint64_t process_;
};

}  // namespace

Channels::Channels(const recording::Recording& recording)
    : recording_(recording), processes_(recording::list_processes(recording)) {}

const recording::ProcessInfo* Channels::info(uint64_t process) const {
  for (const auto& p : processes_)
    if (p.number == process) return &p;
  return nullptr;
}

DescriptorTable Channels::inherited(const recording::ProcessInfo& p) {
  if (p.birth == recording::Birth::Start || !p.parent || p.parent >= p.number || !info(p.parent)) {
    DescriptorTable table;
    const char* const names[] = {"standard input", "standard output", "standard error"};
    for (int i = 0; i < 3; i++) {
      table[i].file = std::make_shared<OpenFile>();
      table[i].file->kind = OpenFile::Standard;
      table[i].file->name = names[i];
    }
    return table;
  }
  if (auto known = born_with_.find(p.number); known != born_with_.end()) return known->second;
  return handed_on(p, walk(p.parent, p.parent_event, {}));
}

// Copies of their own: what this process does from now on is not what the parent's objects stand for.
DescriptorTable Channels::handed_on(const recording::ProcessInfo& p, const DescriptorTable& parents) const {
  DescriptorTable table = parents;
  std::map<OpenFile*, std::shared_ptr<OpenFile>> copies;
  for (auto& [fd, d] : table) {
    auto& copy = copies[d.file.get()];
    if (!copy) copy = std::make_shared<OpenFile>(*d.file);
    if (p.birth == recording::Birth::Fork || p.spawned) copy->sure = false;
    d.file = copy;
  }
  if (p.birth == recording::Birth::Exec)
    std::erase_if(table, [](const auto& entry) { return entry.second.close_on_exec; });
  return table;
}

DescriptorTable Channels::walk(uint64_t process, uint64_t up_to, const Visitor& visitor) {
  const recording::ProcessInfo* p = info(process);
  if (!p || p->empty || p->damaged) return {};
  DescriptorTable own = inherited(*p);
  std::map<int, DescriptorTable> borrowers;  // children of vfork, by thread
  int last_thread = 0;
  // A spawned program begins with what the child of vfork had made of it.
  auto present = [&]() -> const DescriptorTable& {
    auto borrower = borrowers.find(last_thread);
    return borrower == borrowers.end() ? own : borrower->second;
  };
  std::multimap<uint64_t, const recording::ProcessInfo*> children;  // that come, by the parent's event
  if (up_to == ~0ull)
    for (const auto& child : processes_)
      if (child.parent == process && child.birth != recording::Birth::Start && child.number != process)
        children.emplace(child.parent_event, &child);
  auto bear = [&](uint64_t number) {
    for (; !children.empty() && children.begin()->first <= number; children.erase(children.begin()))
      born_with_[children.begin()->second->number] = handed_on(*children.begin()->second, present());
  };
  struct Waiting {
    Tick tick;
    uint64_t event, given;
  };
  std::map<int, Waiting> waiting;  // by thread: in a call
  recording::LogReader reader(recording_.log_path(process), recording::first_thread(recording_, process));
  Event e;
  while (reader.next(e) && e.number < up_to) {
    bear(e.number);
    auto borrower = borrowers.find(e.thread);
    DescriptorTable& table = borrower == borrowers.end() ? own : borrower->second;
    last_thread = e.thread;
    if (e.kind != EventKind::Syscall && e.kind != EventKind::Channel && visitor.other)
      visitor.other(e, table);
    if (e.kind == EventKind::Turn) {
      const auto reason = static_cast<recording::TurnReason>(e.nr);
      if (reason == recording::TurnReason::Blocked) waiting[e.thread] = {e.tick, e.number, e.order.given};
      if (reason == recording::TurnReason::Vforked) {
        const DescriptorTable copy = table;
        borrowers[e.next_thread] = copy;
      }
      continue;
    }
    if (e.kind == EventKind::Channel) {
      TableOfOne(table, process).name(e);
      if (visitor.named) visitor.named({e, table, e.tick, e.number, 0});
      continue;
    }
    if (e.kind != EventKind::Syscall) continue;
    const auto waited = waiting.extract(e.thread);
    const bool failed = guest::is_error(e.result);
    if (const Visit& visit = failed ? visitor.failed : visitor.call)
      visit(waited ? ChannelCall{e, table, waited.mapped().tick, waited.mapped().event, waited.mapped().given}
                   : ChannelCall{e, table, e.tick, e.number, e.order.given});
    constexpr int64_t kInProgress = -115;
    if (!failed || (e.nr == SYS_connect && e.result == kInProgress)) TableOfOne(table, process).apply(e);
  }
  bear(~0ull);
  return present();
}

std::shared_ptr<OpenFile> Channels::file_at(uint64_t process, uint64_t event, int fd) {
  const DescriptorTable table = walk(process, event, {});
  auto it = table.find(fd);
  return it == table.end() ? nullptr : it->second.file;
}

}  // namespace backstep::session
