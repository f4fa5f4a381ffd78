// Descriptors, followed through the log.
//
// The log has every call with its arguments and results, so what a descriptor stands for at any event follows
// from the calls before it: open, dup, pipe, close, and what a process has from its parent. Offsets follow
// from reads and seeks. Nothing is replayed for it.
//
// Bytes of a pipe have no name, but an order: what comes out is what went in, one write after the other. The
// recording numbers the calls of all processes (recording::Order), so the n-th byte that was read is the n-th
// byte that was written, and the write's checksum, where a read has taken all of it, says whether that is
// right.
#include "session/flow_channels.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/hot.h"
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
        return pair(e, 0, OpenFile::Pipe, e.nr == SYS_pipe2 && (e.args[1] & O_CLOEXEC));
      case SYS_socketpair:
        return pair(e, 3, OpenFile::SocketPair, e.args[1] & SOCK_CLOEXEC);
      case SYS_socket:
        return add(e.result, OpenFile::Socket, "a socket", e.args[1] & SOCK_CLOEXEC);
      case SYS_accept:
      case SYS_accept4:
        return add(e.result, OpenFile::Socket, "a connection that was accepted",
                   e.nr == SYS_accept4 && (e.args[3] & SOCK_CLOEXEC));
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
      default:
        return;
    }
  }

 private:
  void add(int64_t fd, OpenFile::Kind kind, const std::string& name, bool close_on_exec) {
    auto file = std::make_shared<OpenFile>();
    file->kind = kind;
    file->name = name;
    table_[static_cast<int>(fd)] = {file, close_on_exec};
  }
  void open(const Event& e, const std::string& path, uint64_t flags) {
    add(e.result, OpenFile::File, path.empty() ? "a file" : path, flags & O_CLOEXEC);
    if (flags & O_APPEND) table_[static_cast<int>(e.result)].file->sure = false;
  }
  void pair(const Event& e, int argument, OpenFile::Kind kind, bool close_on_exec) {
    int numbers[2];
    if (!out_numbers(e, argument, numbers)) return;
    for (int end = 0; end < 2; end++) {
      add(numbers[end], kind, kind == OpenFile::Pipe ? "a pipe" : "a pair of sockets", close_on_exec);
      OpenFile& f = *table_[numbers[end]].file;
      f.process = process_, f.event = e.number, f.end = end;
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
  if (p.birth == recording::Birth::Start || !p.parent || !info(p.parent)) {
    DescriptorTable table;
    const char* const names[] = {"standard input", "standard output", "standard error"};
    for (int i = 0; i < 3; i++) {
      table[i].file = std::make_shared<OpenFile>();
      table[i].file->kind = OpenFile::Standard;
      table[i].file->name = names[i];
    }
    return table;
  }
  DescriptorTable table = walk(p.parent, p.parent_event, {});
  // Copies of their own: what this process does from now on is not what the parent's objects stand for.
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

DescriptorTable Channels::walk(uint64_t process, uint64_t up_to, const Visit& visit) {
  const recording::ProcessInfo* p = info(process);
  if (!p || p->empty || p->damaged) return {};
  DescriptorTable own = inherited(*p);
  std::map<int, DescriptorTable> borrowers;  // children of vfork, by thread
  recording::LogReader reader(recording_.log_path(process), recording::first_thread(recording_, process));
  Event e;
  int last_thread = 0;
  while (reader.next(e) && e.number < up_to) {
    auto borrower = borrowers.find(e.thread);
    DescriptorTable& table = borrower == borrowers.end() ? own : borrower->second;
    last_thread = e.thread;
    if (e.kind == EventKind::Turn) {
      if (static_cast<recording::TurnReason>(e.nr) == recording::TurnReason::Vforked) {
        const DescriptorTable copy = table;
        borrowers[e.next_thread] = copy;
      }
      continue;
    }
    if (e.kind != EventKind::Syscall || guest::is_error(e.result)) continue;
    if (visit) visit(e, table);
    TableOfOne(table, process).apply(e);
  }
  // A spawned program begins with what the child of vfork had made of it.
  auto borrower = borrowers.find(last_thread);
  return borrower == borrowers.end() ? own : borrower->second;
}

std::shared_ptr<OpenFile> Channels::file_at(uint64_t process, uint64_t event, int fd) {
  const DescriptorTable table = walk(process, event, {});
  auto it = table.find(fd);
  return it == table.end() ? nullptr : it->second.file;
}

std::optional<Channels::Writer> Channels::writer_of(const OpenFile& file, uint64_t process, uint64_t event,
                                                    uint64_t byte, std::string& why) {
  std::vector<Transfer> reads, writes;
  bool odd = false;  // bytes that went in or out in a way that is not followed
  for (const auto& p : processes_)
    walk(p.number, ~0ull, [&](const Event& e, const DescriptorTable& table) {
      const bool splices =
          e.nr == SYS_splice || e.nr == SYS_tee || e.nr == SYS_vmsplice || e.nr == SYS_sendfile;
      const bool gives = e.nr == SYS_write || e.nr == SYS_writev || e.nr == SYS_sendto || e.nr == SYS_sendmsg;
      const bool gets = e.nr == SYS_read || e.nr == SYS_readv || e.nr == SYS_recvfrom || e.nr == SYS_recvmsg;
      if (!splices && !gives && !gets) return;
      auto it = table.find(static_cast<int>(e.args[0]));
      if (it == table.end() || it->second.file->kind != file.kind) return;
      const OpenFile& f = *it->second.file;
      if (f.process != file.process || f.event != file.event) return;
      if (splices) odd = true;
      // A pair of sockets has two streams: what one end gives the other gets.
      if (file.kind == OpenFile::SocketPair && gives == (f.end == file.end)) return;
      Transfer t{p.number, e.number, e.order.number(),
                 e.tick,   e.pc,     e.thread,
                 e.nr,     {},       static_cast<uint64_t>(e.result),
                 {},       0,        {}};
      std::memcpy(t.args, e.args, sizeof t.args);
      for (const auto& piece : e.pieces) {
        if (piece.kind == PieceKind::Sum) t.crc = piece.crc, t.summed = piece.length;
        if (gets && (piece.kind == PieceKind::OutAtArg || piece.kind == PieceKind::OutAt))
          t.data.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
      }
      (gives ? writes : reads).push_back(std::move(t));
    });
  if (odd) {
    why = "bytes went through it by splice or the like, which is not followed";
    return std::nullopt;
  }
  auto in_order = [](const Transfer& a, const Transfer& b) {
    return a.process == b.process ? a.event < b.event : a.order < b.order;
  };
  std::stable_sort(reads.begin(), reads.end(), in_order);
  std::stable_sort(writes.begin(), writes.end(), in_order);
  uint64_t position = 0;
  std::string all;
  bool found = false;
  for (const Transfer& r : reads) {
    if (r.process == process && r.event == event) position = all.size() + byte, found = true;
    all += r.data.substr(0, r.bytes);
    if (r.data.size() < r.bytes) all.append(r.bytes - r.data.size(), '\0');
  }
  uint64_t begin = 0;
  for (const Transfer& w : writes) {
    if (found && position >= begin && position < begin + w.bytes) {
      Writer writer{w, position - begin, false};
      const bool whole = begin + w.bytes <= all.size() && w.summed == w.bytes && w.crc;
      if (whole) {
        writer.checked = hot::crc32c(0, all.data() + begin, w.bytes) == *w.crc;
        if (!writer.checked) {
          why = "what was written and what was read there differ, so their order is not known";
          return std::nullopt;
        }
      }
      return writer;
    }
    begin += w.bytes;
  }
  why = "no recorded process wrote them";
  return std::nullopt;
}

}  // namespace backstep::session
