// What gdb and lldb ask about the recorded process besides registers and memory: documents (qXfer),
// libraries, thread-local variables, files of /proc. All of it is about the present moment.
#include <link.h>
#include <sys/syscall.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>

#include <fmt/format.h>

#include "guest/syscall_table.h"
#include "replay/bytecode.h"
#include "serve/gdb_server.h"
#include "symbols/elf_facts.h"
#include "symbols/thread_locals.h"

namespace backstep::serve {
namespace {

// A piece of a document for qXfer: `offset,length`.
std::string part_of(const std::string& document, std::string_view range) {
  auto offset = take_hex(range);
  if (!offset || !range.starts_with(',')) return "E01";
  range.remove_prefix(1);
  auto length = take_hex(range);
  if (!length) return "E01";
  if (*offset >= document.size()) return "l";
  std::string piece = document.substr(*offset, std::min<uint64_t>(*length, 100'000));
  return (*offset + piece.size() < document.size() ? "m" : "l") + piece;
}

// Of the signal that ended the program: its siginfo is not in the log, but who sent it may be.
std::vector<uint8_t> sent_signal(const timeline::LogIndex& log) {
  siginfo_t info{};
  info.si_signo = log.end_signal();
  info.si_code = SI_USER;
  if (auto before = log.previous_moment(log.last().event, [](const timeline::Moment&) { return true; });
      before && before->kind == recording::EventKind::Syscall && before->tick == log.last().tick &&
      (before->nr == SYS_kill || before->nr == SYS_tkill || before->nr == SYS_tgkill)) {
    if (before->nr != SYS_kill) info.si_code = SI_TKILL;
    info.si_pid = log.pid();
  }
  std::vector<uint8_t> bytes(sizeof info);
  std::memcpy(bytes.data(), &info, sizeof info);
  return bytes;
}

std::optional<uint64_t> word_at(Address at, const ReadGuest& read) {
  const auto bytes = read(at, sizeof(uint64_t));
  if (bytes.size() != sizeof(uint64_t)) return std::nullopt;
  uint64_t word;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

// The modules that a struct link_map may be about: one may have come where another one was before. 0: the
// program itself, statically linked.
std::vector<const symbols::Module*> linked_modules(const symbols::Program& program, Address link_map,
                                                   const ReadGuest& read) {
  const uint64_t bias = link_map ? word_at(link_map, read).value_or(~0ull) : 0;
  const Address dynamic = link_map ? word_at(link_map + offsetof(::link_map, l_ld), read).value_or(0) : 0;
  std::vector<const symbols::Module*> modules;
  for (const symbols::Module& module : program.modules()) {
    try {
      if (link_map ? module.bias == bias && dynamic >= module.start && dynamic < module.end
                   : symbols::is_executable(module.elf().elf()))
        modules.push_back(&module);
    } catch (const Error&) {  // no ELF file
    }
  }
  return modules;
}

// A library that was opened as "./x.so" is found by gdb only in the folder that it runs in, and is another
// file there perhaps.
void name_fully(std::vector<Loaded>& libraries, const timeline::LogIndex& log) {
  auto last_part = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  for (Loaded& l : libraries) {
    if (l.name.empty() || l.name.starts_with('/')) continue;
    for (const auto& file : log.files())
      if (file.address == l.base && file.offset == 0 && last_part(file.path) == last_part(l.name))
        l.name = file.path;
  }
}

// What bytecode comes to that asks for no registers.
std::optional<uint64_t> value_of(const symbols::Code& code, const ReadGuest& memory) {
  auto read = [](uint64_t address, uint64_t* to, unsigned size, const void* from) {
    const auto bytes = (*static_cast<const ReadGuest*>(from))(address, size);
    *to = 0;
    if (bytes.size() != size) return false;
    std::memcpy(to, bytes.data(), size);
    return true;
  };
  const auto context = std::make_unique<Context>();
  const replayer::Surroundings around{.ctx = *context, .read = read, .argument = &memory};
  const auto bytes = code.bytes();
  const replayer::Value v = replayer::evaluate(bytes.data(), bytes.size(), around);
  return v.known ? std::optional(v.value) : std::nullopt;
}

}  // namespace

std::string GdbServer::transfer(std::string_view packet) {
  auto takes = [&](std::string_view name) {
    if (!packet.starts_with(name)) return false;
    packet.remove_prefix(name.size());
    return true;
  };
  if (takes("features:read:target.xml:")) return part_of(at().layout.xml(), packet);
  if (takes("auxv:read::")) return part_of(std::string(at().auxv().begin(), at().auxv().end()), packet);
  if (takes("libraries-svr4:read:")) {
    packet.remove_prefix(std::min(packet.size(), packet.find(':') + 1));
    auto has_probes = [&](const std::string& name) {
      auto [known, fresh] = has_probes_.try_emplace(name, false);
      if (fresh) known->second = has_exception_probes(files_.stored(name));
      return known->second;
    };
    auto loaded = loaded_libraries(at().auxv(), at().memory());
    name_fully(loaded, timeline().log());
    const std::vector<Loaded> list = selected().libraries.with_kept(std::move(loaded), has_probes);
    return part_of(libraries_document(list), packet);
  }
  if (takes("memory-map:read::"))
    // What is mapped changes with time, and gdb asks only once: all of it may be memory.
    return part_of(
        "<?xml version=\"1.0\"?>\n<memory-map>"
        "<memory type=\"ram\" start=\"0x0\" length=\"0xffffffffffffffff\"/></memory-map>\n",
        packet);
  if (takes("exec-file:read:")) {
    const size_t colon = packet.find(':');
    // gdb asks about a process without selecting it, and goes on with the one that is selected.
    const int selected_pid = pid_;
    if (colon > 0) select(fmt::format("p{}", packet.substr(0, colon)));
    const std::string exe = at().manifest.exe;
    pid_ = selected_pid;
    return part_of(exe, packet.substr(colon + 1));
  }
  if (takes("threads:read::")) {
    std::string xml = "<?xml version=\"1.0\"?>\n<threads>\n";
    for (auto& [pid, process] : attached_) {
      if (!process.view || process.borrowed) {
        xml += fmt::format("<thread id=\"{}\"/>\n", thread_id(pid, pid));
        continue;
      }
      const timeline::WorkerState& state = process.view->state();
      for (const auto& t : state.threads) {
        std::string extra = t.tid == state.tid ? "has the turn" : "waits for its turn";
        if (t.in_call) {
          const char* name = guest::syscall_row(t.call).name;
          extra = fmt::format("in {}", name ? name : fmt::format("system call {}", t.call));
        }
        // What pthread_self() gives; before the C library has set it up there is none.
        const uint64_t handle = t.fs_base;
        xml +=
            fmt::format("<thread id=\"{}\" name=\"{}\"{}>{}</thread>\n", thread_id(pid, t.tid),
                        escaped(process.view->thread_name(t.name)),
                        handle ? fmt::format(" handle=\"{}\"", to_hex(&handle, sizeof handle)) : "", extra);
      }
    }
    return part_of(xml + "</threads>\n", packet);
  }
  if (takes("siginfo:read::")) {
    // Of the thread that it was sent to, as long as that stands in front of it.
    if (!at().signal_thread || general_thread() != at().signal_thread) return "E01";
    const timeline::LogIndex& log = timeline().log();
    if (at().siginfo.empty() && timeline().at_end() && log.end_signal() && !timeline().diverted())
      at().siginfo = log.end_sent() ? sent_signal(log) : timeline().present().fork().siginfo();
    std::string info(at().siginfo.begin(), at().siginfo.end());
    info.resize(sizeof(siginfo_t));
    return part_of(info, packet);
  }
  if (takes("siginfo:write::")) return "OK";
  return "";
}

std::string GdbServer::thread_local_variable(std::string_view packet) {
  size_t comma = packet.find(',');
  if (comma == std::string_view::npos) return "E01";
  auto tid = parse_thread(packet.substr(0, comma));
  packet.remove_prefix(comma + 1);
  auto offset = take_hex(packet);
  if (!tid || !offset || !packet.starts_with(',')) return "E01";
  packet.remove_prefix(1);
  auto link_map = take_hex(packet);
  if (!link_map) return "E01";
  const symbols::Program& program = at().session.program();
  const Address fs_base = at().registers_of(*tid > 0 ? *tid : at().state().tid).fs_base;
  bool known = false;
  // Where a block is, is known of the one alone that is there.
  for (const symbols::Module* module : linked_modules(program, *link_map, at().memory())) {
    const symbols::Code* base = program.thread_locals().base(*module);
    known |= base != nullptr;
    if (!base) continue;
    if (auto block = value_of(symbols::Code(*base).fix(replayer::kStateFsBase, fs_base), at().memory()))
      return fmt::format("{:x}", *block + *offset);
  }
  if (!known) return error_text("where this library has thread-local variables is not known");
  return error_text("this thread has not got this thread-local variable at this moment");
}

// lldb asks this way what is mapped.
std::string GdbServer::region_info(std::string_view packet) {
  auto address = take_hex(packet);
  if (!address) return "E01";
  Address before = 0;
  std::istringstream maps(timeline().present().maps());
  for (std::string line; std::getline(maps, line);) {
    char permissions[5] = "";
    unsigned long start = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &start, &end, permissions) != 3) continue;
    if (*address < start) return fmt::format("start:{:x};size:{:x};", before, start - before);
    before = end;
    if (*address >= end) continue;
    std::string shown;
    for (char c : {'r', 'w', 'x'})
      if (std::strchr(permissions, c)) shown += c;
    size_t path = line.find('/');
    return fmt::format("start:{:x};size:{:x};permissions:{};{}", start, end - start, shown,
                       path == std::string::npos ? "" : fmt::format("name:{};", to_hex(line.substr(path))));
  }
  return fmt::format("start:{:x};size:{:x};", before, ~before + 1);
}

// `info proc` and the like read /proc on the target: here it is the recorded process's.
std::optional<std::string> GdbServer::proc_file(const std::string& path) {
  const std::string folder = fmt::format("/proc/{}/", pid_);
  if (!path.starts_with(folder)) return std::nullopt;
  const std::string name = path.substr(folder.size());
  if (name == "maps" || name.ends_with("/maps")) return timeline().present().maps();
  if (name == "cmdline") {
    std::string text;
    for (const std::string& word : at().manifest.argv) text += word + '\0';
    return text;
  }
  if (name == "auxv") return std::string(at().auxv().begin(), at().auxv().end());
  return std::nullopt;
}

std::optional<std::string> GdbServer::proc_link(const std::string& path) {
  if (path == fmt::format("/proc/{}/exe", pid_)) return at().manifest.exe;
  if (path == fmt::format("/proc/{}/cwd", pid_)) return at().manifest.cwd;
  return std::nullopt;
}

}  // namespace backstep::serve
