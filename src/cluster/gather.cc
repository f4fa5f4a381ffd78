// Gathering is copying: a run is complete in itself, so it can be moved, and the recordings it was made of
// may be removed. File by file, each under another name until it is complete, with a checksum that is of what
// was read and is compared with what was written. A second call does what the first one did not come to.
#include "cluster/gather.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "base/child.h"
#include "base/error.h"
#include "base/fd.h"

namespace backstep::cluster {
namespace {

namespace fs = std::filesystem;
using recording::Library;
using recording::Recording;

constexpr size_t kPiece = 1 << 20;

std::string hex_of(XXH128_hash_t h) {
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

// Reads a file to its end; each piece goes to `piece`, too.
template <class F>
RunFile read_file(const std::string& path, F&& piece) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw Error(fmt::format("cannot read {}: {}", path, errno_text(errno)));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(kPiece);
  RunFile file;
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(fmt::format("cannot read {}: {}", path, errno_text(errno)));
    if (n == 0) break;
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<size_t>(n));
    piece(buffer.data(), static_cast<size_t>(n));
    file.size += static_cast<uint64_t>(n);
  }
  file.sum = hex_of(XXH3_128bits_digest(state.get()));
  return file;
}

RunFile sum_of_file(const std::string& path) {
  return read_file(path, [](const char*, size_t) {});
}

RunFile copy_file(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_directories(fs::path(to).parent_path(), error);
  const std::string fresh = to + ".part";
  constexpr mode_t kOurs = 0600;
  Fd out(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kOurs));
  if (!out) throw Error(fmt::format("cannot write {}: {}", fresh, errno_text(errno)));
  const RunFile file = read_file(from, [&](const char* p, size_t n) {
    while (n > 0) {
      const ssize_t done = write(out.get(), p, n);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) throw Error(fmt::format("cannot write {}: {}", fresh, errno_text(errno)));
      p += done, n -= static_cast<size_t>(done);
    }
  });
  if (sum_of_file(fresh) != file)
    throw Error(fmt::format("{} is not what was written to it: a bad disk?", fresh));
  fs::rename(fresh, to, error);
  if (error) throw Error(fmt::format("cannot write {}: {}", to, error.message()));
  return file;
}

// What belongs to a recording and is no cache, nor of the time while it was made.
bool is_wanted(const std::string& path) {
  for (const char* other : {"checkpoints/", "contents/", "jobs/", "shared-", "shown", "changed-"})
    if (path.starts_with(other)) return false;
  return !path.ends_with(".tmp");
}

std::set<std::string> files_of(const std::string& dir) {
  std::set<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator it(dir, error), end;
  for (; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const std::string path = fs::path(it->path()).lexically_relative(dir).string();
    if (it->is_regular_file(ignored) && !it->is_symlink(ignored) && is_wanted(path)) files.insert(path);
  }
  if (error) throw Error(fmt::format("cannot read {}: {}", dir, error.message()));
  return files;
}

int64_t modified(const std::string& path) {
  struct stat st {};
  constexpr int64_t kNs = 1'000'000'000;
  return stat(path.c_str(), &st) == 0 ? st.st_mtim.tv_sec * kNs + st.st_mtim.tv_nsec : 0;
}

// HOST:PATH, but not ./a:b.
bool is_remote(const std::string& source) {
  const size_t colon = source.find(':');
  return colon != std::string::npos && colon > 0 && source.find('/') > colon && !fs::exists(source);
}

void fetch(const std::string& source, const std::string& to, const GatherOptions& options) {
  std::error_code error;
  fs::create_directories(to, error);
  std::vector<std::string> words = {
      "rsync", "-a", "--partial", "--exclude=checkpoints", "--exclude=contents", "--exclude=jobs"};
  if (!options.rsh.empty()) words.insert(words.end(), {"-e", options.rsh});
  words.insert(words.end(), {"--", source.ends_with('/') ? source : source + "/", to + "/"});
  ChildOptions child;
  child.advice = "recordings of other machines are fetched by rsync (apt-get install rsync)";
  const Finished done = run_to_end(words, "", child);
  if (!done.ok())
    throw Error(fmt::format("cannot fetch {}: rsync: {}\n{}The same command goes on where this one was.",
                            source, end_text(done.status), done.errors));
}

std::string name_for(const RunFolder& run, const std::string& said) {
  auto taken = [&](const std::string& name) {
    return std::any_of(run.hosts().begin(), run.hosts().end(),
                       [&](const RunHost& h) { return h.name == name; });
  };
  std::string base = said.empty() ? "host" : said;
  std::replace(base.begin(), base.end(), '/', '_');
  if (base[0] == '.') base[0] = '_';
  std::string name = base;
  for (int k = 2; taken(name); k++) name = fmt::format("{}.{}", base, k);
  return name;
}

class Gathering {
 public:
  Gathering(RunFolder& run, const GatherOptions& options) : run_(run), options_(options) {}

  void add(const std::string& source) {
    const bool remote = is_remote(source);
    if (!remote) {
      const Library library = Library::standard();
      const Recording from = library.resolve(source);
      return take(from, from.dir(), &library);
    }
    // By where it is, so that the next time goes on with it.
    const std::string incoming =
        run_.dir() + "/incoming-" + hex_of(XXH3_128bits(source.data(), source.size())).substr(0, 16);
    if (options_.progress) options_.progress("fetching " + source, 0);
    fetch(source, incoming, options_);
    take(Recording(incoming), source, nullptr);
    std::error_code ignored;
    fs::remove_all(incoming, ignored);
  }

 private:
  RunHost& host_of(const Recording& from, const std::string& source) {
    for (RunHost& h : run_.hosts())
      if (h.from == source) return h;
    std::string said;
    try {
      const auto manifest = from.manifest();
      said = manifest.host.empty() ? manifest.hostname : manifest.host;
    } catch (const Error&) {  // a damaged one is gathered, too: its logs may be good
    }
    const std::string name = name_for(run_, said);
    return run_.hosts().emplace_back(RunHost{name, source, said.empty() ? name : said, {}});
  }

  void take(const Recording& from, const std::string& source, const Library* library) {
    if (from.is_being_made())
      throw Error(fmt::format("{} is still being recorded: gather it when its program has ended", source));
    RunHost& host = host_of(from, source);
    const std::string to = run_.host_dir(host);
    const std::set<std::string> files = files_of(from.dir());
    size_t done = 0;
    for (const std::string& path : files) {
      if (options_.progress)
        options_.progress(host.name, static_cast<double>(done++) / static_cast<double>(files.size()));
      const std::string old = from.dir() + "/" + path, fresh = to + "/" + path;
      auto known = host.files.find(path);
      std::error_code error;
      if (known != host.files.end() && fs::file_size(fresh, error) == known->second.size && !error &&
          fs::file_size(old, error) == known->second.size && modified(fresh) >= modified(old))
        continue;
      host.files[path] = copy_file(old, fresh);
      if (done % 64 == 0) run_.save();
    }
    // A replay needs the contents of the files that were mapped, which are in the library's store.
    if (library) {
      const Recording there(to);
      library->pack(there);
      for (const std::string& path : files_of(to))
        if (!host.files.count(path)) host.files[path] = sum_of_file(to + "/" + path);
    }
    run_.save();
  }

  RunFolder& run_;
  const GatherOptions& options_;
};

}  // namespace

void gather(RunFolder& run, const std::vector<std::string>& sources, const GatherOptions& options) {
  Gathering gathering(run, options);
  for (const std::string& source : sources) gathering.add(source);
}

std::vector<std::string> check_files(const RunFolder& run) {
  std::vector<std::string> wrong;
  for (const RunHost& host : run.hosts())
    for (const auto& [path, file] : host.files) {
      const std::string at = run.host_dir(host) + "/" + path;
      try {
        if (sum_of_file(at) != file) wrong.push_back(fmt::format("{} is not what was gathered", at));
      } catch (const Error& e) {
        wrong.emplace_back(e.what());
      }
    }
  return wrong;
}

}  // namespace backstep::cluster
