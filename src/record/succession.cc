// The memory file is a list of strings, each with its length in front; numbers are written as decimals.
#include "record/succession.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"

namespace backstep::recorder {
namespace {

// One walk over all fields for both directions.
template <class Text, class Number, class List>
void walk(Succession& s, Text text, Number number, List list) {
  list(s.options.command);
  number(s.options.quiet);
  number(s.options.check_deep);
  text(s.options.cpu);
  uint64_t chaos = s.options.chaos.value_or(0), chaotic = s.options.chaos.has_value();
  number(chaotic);
  number(chaos);
  if (chaotic) s.options.chaos = chaos;
  text(s.options.follow);
  auto checkpoints = static_cast<int64_t>(s.options.checkpoints * 1e9);
  number(checkpoints);
  s.options.checkpoints = static_cast<double>(checkpoints) / 1e9;
  number(s.options.limit);
  number(s.options.pack);
  number(s.options.engine.cache_size);
  number(s.options.engine.links);
  number(s.options.engine.max_block);
  number(s.options.engine.counter);
  number(s.options.engine.check_ticks);
  text(s.options.engine.translations);
  number(s.options.engine.statistics);
  text(s.library);
  text(s.recording);
  number(s.origin.process);
  number(s.origin.birth);
  number(s.origin.parent);
  number(s.origin.parent_event);
  number(s.origin.pid);
  number(s.leader);
  number(s.foreign);
  number(s.started_ns);
  text(s.path);
  number(s.program_fd);
  text(s.name);
  list(s.env);
  number(s.ignored);
  number(s.blocked);
  number(s.tsc_trapped);
  number(s.mdwe);
  for (guest::Limit* limit : {&s.limits.space, &s.limits.data, &s.limits.stack, &s.limits.files}) {
    number(limit->soft);
    number(limit->hard);
  }
  list(s.filters);
  number(s.stderr_fd);
  number(s.folder_fd);
  number(s.root.first);
  number(s.root.second);
  std::vector<std::string> kinds;
  for (auto [fd, kind] : s.fd_kinds) kinds.push_back(std::to_string(fd) + " " + std::to_string(kind));
  list(kinds);
  s.fd_kinds.clear();
  for (const std::string& k : kinds)
    s.fd_kinds.emplace_back(std::stoull(k), std::stoull(k.substr(k.find(' '))));
}

}  // namespace

int Succession::save() const {
  std::string bytes;
  auto put = [&](const std::string& t) {
    const uint64_t n = t.size();
    bytes.append(reinterpret_cast<const char*>(&n), 8);
    bytes += t;
  };
  Succession copy = *this;
  walk(
      copy, put, [&](auto& n) { put(std::to_string(static_cast<int64_t>(n))); },
      [&](std::vector<std::string>& l) {
        put(std::to_string(l.size()));
        for (const std::string& t : l) put(t);
      });
  int fd = memfd_create("backstep-exec", 0);
  for (size_t at = 0; fd >= 0 && at < bytes.size();) {
    ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (n <= 0) {
      close(fd);
      return -1;
    }
    at += static_cast<size_t>(n);
  }
  return fd;
}

Succession Succession::load(int fd) {
  const off_t size = lseek(fd, 0, SEEK_END);
  std::string bytes(size > 0 ? static_cast<size_t>(size) : 0, 0);
  if (size <= 0 || pread(fd, bytes.data(), bytes.size(), 0) != size)
    throw Error("internal error: the recorder of the program before left no message");
  close(fd);
  size_t at = 0;
  auto get = [&]() -> std::string {
    uint64_t n = 0;
    if (bytes.size() - at < 8) throw Error("internal error: the message of the recorder before is cut off");
    std::memcpy(&n, bytes.data() + at, 8);
    at += 8 + n;
    if (n > bytes.size() || at > bytes.size())
      throw Error("internal error: the message of the recorder before is cut off");
    return bytes.substr(at - n, n);
  };
  Succession s;
  walk(
      s, [&](std::string& t) { t = get(); },
      [&](auto& n) { n = static_cast<std::remove_reference_t<decltype(n)>>(std::stoll(get())); },
      [&](std::vector<std::string>& l) {
        l.resize(std::stoull(get()));
        for (std::string& t : l) t = get();
      });
  return s;
}

}  // namespace backstep::recorder
