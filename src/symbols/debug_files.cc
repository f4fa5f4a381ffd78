// A file without debug information has a build id, under which others may know more about it. Distributions
// that have debuginfod servers set $DEBUGINFOD_URLS for their users; elsewhere nothing is ever asked over the
// network. The client is elfutils' own library, which gdb has, too (so its cache is shared with gdb, and a
// file that no server has is not asked for again and again). It needs libcurl and all that goes with it, so
// it is no part of our program, which is started for every process that is recorded: it is loaded if it is
// there, by the first who misses something.
#include "symbols/debug_files.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <type_traits>

#include <fmt/format.h>

#include "base/printable.h"

namespace backstep::symbols {
namespace {

bool is_file(const std::string& path) {
  struct stat about;
  return stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode);
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The order in which the client looks for its folder.
std::string client_folder() {
  if (std::string path = variable("DEBUGINFOD_CACHE_PATH"); !path.empty()) return path;
  const std::string home = variable("HOME"), cache = variable("XDG_CACHE_HOME");
  if (const std::string old = home + "/.debuginfod_client_cache";
      !home.empty() && access(old.c_str(), F_OK) == 0)
    return old;
  if (!cache.empty()) return cache + "/debuginfod_client";
  return home.empty() ? "" : home + "/.cache/debuginfod_client";
}

// What we use of <elfutils/debuginfod.h>, which is in a package of its own.
struct Client;
struct Interface {
  Client* (*begin)() = nullptr;
  int (*find)(Client*, const unsigned char* id, int size, char** path) = nullptr;
  void (*end)(Client*) = nullptr;
  void (*set_progress)(Client*, int (*)(Client*, long, long)) = nullptr;

  // Loaded once, and never unloaded. False: it is not there.
  bool load() {
    void* library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    auto get = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return get("debuginfod_begin", begin) && get("debuginfod_find_debuginfo", find) &&
           get("debuginfod_end", end) && get("debuginfod_set_progressfn", set_progress);
  }
};

// Who waits at a terminal sees that it goes on. The first call comes before anything has arrived.
int show_progress(Client*, long done, long of) {
  constexpr double kMegabyte = 1e6;
  if (of <= 0 || !isatty(STDERR_FILENO)) return 0;
  fmt::print(stderr, "\r  {:.1f} of {:.1f} MB", static_cast<double>(done) / kMegabyte,
             static_cast<double>(of) / kMegabyte);
  if (done >= of) fmt::print(stderr, "\r\033[K");
  return 0;
}

std::string fetch(const std::string& id, const std::string& name) {
  static Interface client;
  static const bool there = client.load();
  if (!there) {
    static const int once = std::fputs(
        "backstep: DEBUGINFOD_URLS is set, but libdebuginfod.so.1 is not installed (Debian: "
        "libdebuginfod1)\n",
        stderr);
    static_cast<void>(once);
    return {};
  }
  std::unique_ptr<Client, void (*)(Client*)> session(client.begin(), client.end);
  if (!session) return {};
  fmt::print(stderr, "backstep: looking for debug information of {} at the debuginfod servers\n",
             printable(name));
  client.set_progress(session.get(), show_progress);
  char* path = nullptr;
  // Size 0: the id is in hex.
  const int fd = client.find(session.get(), reinterpret_cast<const unsigned char*>(id.c_str()), 0, &path);
  if (fd < 0) return {};
  close(fd);
  std::string found = path;
  std::free(path);
  return found;
}

}  // namespace

std::string installed_debug_file(const std::string& id) {
  return fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", id.substr(0, 2), id.substr(2));
}

std::string fetched_debug_file(const std::string& id, const std::string& name) {
  const std::string folder = client_folder();
  if (std::string path = folder + "/" + id + "/debuginfo"; !folder.empty() && is_file(path)) return path;
  if (variable("DEBUGINFOD_URLS").empty()) return {};
  static std::map<std::string, std::string> asked;  // a program is opened more than once
  auto [known, fresh] = asked.try_emplace(id);
  if (fresh) known->second = fetch(id, name);
  return known->second;
}

}  // namespace backstep::symbols
