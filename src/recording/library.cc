// The library is nothing but a folder: there is no index that could be wrong. A recording is a folder with a
// manifest.json; numbers are given out by mkdir, which fails if another recorder was faster; `latest` is a
// symlink replaced by rename. The one thing that needs care is the shared store: contents may go only when no
// recording refers to them, and recordings can lie outside the library (`record -o`). Those are entered in
// `elsewhere/`, so that removing one recording does not take another one's libraries away. One that is moved
// afterwards without `pack` loses that protection.
#include "recording/library.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/hot.h"
#include "base/nearest.h"
#include "recording/log_packer.h"
#include "recording/made_here.h"
#include "recording/shared_folder.h"

namespace backstep::recording {
namespace {

namespace fs = std::filesystem;

bool is_recording(const fs::path& dir) {
  std::error_code ec;
  return fs::is_regular_file(dir / "manifest.json", ec) || fs::is_regular_file(dir / "process-1.log", ec);
}

// A folder name from a program's name: no surprises for shells, no hidden folders.
std::string plain_name(const std::string& program) {
  std::string name = fs::path(program).filename().string();
  for (char& c : name)
    if (!isalnum(static_cast<unsigned char>(c)) && !strchr("._+-", c)) c = '_';
  if (name.empty() || name[0] == '.' || name[0] == '-') name.insert(name.begin(), '_');
  return name.substr(0, 100);
}

// N of "PROGRAM-N"; 0: no such name.
uint64_t number_of(const std::string& name, const std::string& program) {
  if (name.size() <= program.size() + 1 || !name.starts_with(program) || name[program.size()] != '-')
    return 0;
  uint64_t n = 0;
  const char* first = name.data() + program.size() + 1;
  const char* last = name.data() + name.size();
  auto [end, err] = std::from_chars(first, last, n);
  return err == std::errc() && end == last ? n : 0;
}

std::string key_line(const std::string& key) {
  return fmt::format("{} {:08x}", key, hot::crc32c(0, key.data(), key.size()));
}

int64_t made_at(const fs::path& dir) {
  struct stat st;
  try {
    return Manifest::load(dir / "manifest.json").start_ns;
  } catch (const Error&) {
    return stat(dir.c_str(), &st) == 0 ? st.st_mtim.tv_sec * 1'000'000'000LL : 0;
  }
}

}  // namespace

std::string Recording::name() const {
  fs::path path = fs::path(dir_).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::vector<uint64_t> Recording::processes() const {
  std::vector<uint64_t> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(dir_, ec)) {
    std::string file = entry.path().filename().string();
    if (!file.ends_with(".log")) continue;
    if (uint64_t n = number_of(file.substr(0, file.size() - 4), "process")) found.push_back(n);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Each recorder has a lock on its log, which the kernel takes back when the last process that has it open is
// gone, however that ended.
bool Recording::is_being_made() const {
  const std::vector<uint64_t> all = processes();
  return std::any_of(all.begin(), all.end(),
                     [&](uint64_t process) { return is_log_open(log_path(process)); });
}

uint64_t Recording::size() const {
  return size_with_folders(dir_);
}

uint64_t size_with_folders(const std::string& dir) {
  uint64_t bytes = 0;
  std::error_code ec;
  for (const auto& entry : fs::recursive_directory_iterator(dir, ec)) {
    struct stat st;
    if (lstat(entry.path().c_str(), &st) == 0 && S_ISREG(st.st_mode))
      bytes += kept_bytes(entry.path().filename(), st);
  }
  return bytes;
}

std::set<std::string> Recording::keys() const {
  std::set<std::string> keys;
  std::ifstream in(keys_path());
  for (std::string line; std::getline(in, line);)
    if (std::string key = line.substr(0, line.find(' ')); is_key(key) && line == key_line(key))
      keys.insert(key);
  return keys;
}

std::optional<uint64_t> Recording::damaged_key() const {
  std::ifstream in(keys_path());
  uint64_t number = 1;
  for (std::string line; std::getline(in, line); number++)
    if (in.eof() || line != key_line(line.substr(0, line.find(' ')))) return number;
  return std::nullopt;
}

void Recording::add_key(const std::string& key) const {
  Fd fd(make_shared_file(keys_path(), O_WRONLY | O_APPEND | O_CLOEXEC));
  const std::string line = key_line(key) + "\n";
  if (!fd || write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw Error(fmt::format("cannot write {}: {}", keys_path(), errno_text(errno)));
}

Library::Library(const std::string& dir) : dir_(fs::absolute(dir)) {}

Library Library::standard() {
  auto variable = [](const char* name) -> std::string {
    const char* value = getenv(name);
    return value ? value : "";
  };
  if (auto dir = variable("BACKSTEP_DIR"); !dir.empty()) return Library(dir);
  // The XDG rules: a relative path is to be ignored.
  if (auto data = variable("XDG_DATA_HOME"); data.starts_with('/')) return Library(data + "/backstep");
  if (auto home = variable("HOME"); !home.empty()) return Library(home + "/.local/share/backstep");
  throw Error("cannot tell where recordings go: set HOME or BACKSTEP_DIR");
}

Recording Library::create(const std::string& program, const std::string& output) const {
  std::error_code ec;
  if (!output.empty()) {
    std::string path = fs::absolute(output).lexically_normal();
    if (path.ends_with('/')) path.pop_back();
    if (mkdir(path.c_str(), 0700) != 0) {
      if (errno == EEXIST)
        throw Error(
            fmt::format("{} exists already: choose another folder, or remove it with 'backstep rm'", output));
      throw Error(fmt::format("cannot make the recording folder {}: {}", output, errno_text(errno)));
    }
    fs::create_directories(dir_, ec);
    if (fs::path(path).parent_path() == fs::path(dir_)) {
      set_latest(fs::path(path).filename());
    } else {
      register_elsewhere(path);
      set_latest(path);
    }
    note_made_here(path);
    return Recording(path);
  }

  fs::create_directories(dir_, ec);
  if (ec)
    throw Error(fmt::format("cannot make the folder for recordings {}: {}", dir_, errno_text(ec.value())));
  std::string base = plain_name(program);
  uint64_t number = 0;
  for (const auto& entry : fs::directory_iterator(dir_, ec))
    number = std::max(number, number_of(entry.path().filename(), base));
  for (;;) {
    std::string name = fmt::format("{}-{}", base, ++number);
    if (mkdir((dir_ + "/" + name).c_str(), 0700) == 0) {
      set_latest(name);
      note_made_here(dir_ + "/" + name);
      return Recording(dir_ + "/" + name);
    }
    if (errno != EEXIST)
      throw Error(fmt::format("cannot make the recording folder {}/{}: {}", dir_, name, errno_text(errno)));
  }
}

namespace {

// A recording has files and folders. A stranger's that has links would have us read, or write, elsewhere;
// pipes and devices would have us wait. (In the index of kept contents there are links, whose text alone
// matters.)
void check_plain(const fs::path& dir, const std::string& shown) {
  std::error_code ec;
  auto entry = fs::recursive_directory_iterator(dir, ec);
  for (; !ec && entry != fs::recursive_directory_iterator(); entry.increment(ec)) {
    const fs::file_type type = entry->symlink_status(ec).type();
    if (entry.depth() == 1 && entry->path().filename() == "by-id" && type == fs::file_type::directory) {
      entry.disable_recursion_pending();
    } else if (type == fs::file_type::symlink || type == fs::file_type::fifo ||
               type == fs::file_type::character || type == fs::file_type::block) {
      throw Error(fmt::format(
          "{} is not opened: {} in it is a {}, which no recording has. If it came from elsewhere, do not "
          "trust it (rm -r removes it); if you have made that yourself, put the file in its place",
          shown, entry->path().lexically_relative(dir).string(),
          type == fs::file_type::symlink ? "link" : "pipe or device"));
    }
  }
}

}  // namespace

Recording Library::resolve(const std::string& argument) const {
  auto found = [](const fs::path& dir) {
    check_plain(dir, dir.string());
    return Recording(dir.string());
  };
  if (argument.empty()) {
    std::error_code ec;
    fs::path target = fs::read_symlink(dir_ + "/latest", ec);
    if (ec)
      throw Error(
          fmt::format("there is no recording in {} yet: make one with 'backstep record PROGRAM'", dir_));
    fs::path dir = fs::path(dir_) / target;
    if (!is_recording(dir))
      throw Error(fmt::format("the latest recording, {}, is gone: see 'backstep ls'", dir.string()));
    return found(dir);
  }
  // A name in the library wins over a path, because that is what `ls` and `record` print.
  if (argument.find('/') == std::string::npos && argument != "." && argument != "..") {
    if (argument == "latest") return resolve("");
    fs::path dir = fs::path(dir_) / argument;
    if (is_recording(dir)) return found(dir);
  }
  fs::path path = fs::absolute(argument).lexically_normal();
  if (is_recording(path)) {
    std::string plain = path.string();
    if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
    return found(plain);
  }
  std::error_code ec;
  if (fs::exists(path, ec))
    throw Error(
        fmt::format("{} is not a recording: it has no manifest.json{}", argument, near_recording(argument)));
  const std::string near = near_recording(argument);
  throw Error(fmt::format("there is no recording '{}', neither in {} nor as a path{}", argument, dir_,
                          near.empty() ? ": see 'backstep ls'" : near));
}

// A program's name means its newest recording, most likely.
std::string Library::near_recording(const std::string& argument) const {
  std::vector<std::string> names;
  uint64_t newest = 0;
  for (const Recording& recording : list()) {
    names.push_back(recording.name());
    newest = std::max(newest, number_of(recording.name(), argument));
  }
  if (newest) return fmt::format("; did you mean '{}-{}'?", argument, newest);
  return did_you_mean(argument, names);
}

std::vector<Recording> Library::list() const {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(dir_, ec))
    if (!entry.is_symlink() && is_recording(entry.path()))
      found.emplace_back(made_at(entry.path()), entry.path());
  for (const auto& entry : fs::directory_iterator(dir_ + "/elsewhere", ec)) {
    fs::path target = fs::read_symlink(entry.path(), ec);
    if (!ec && is_recording(target)) found.emplace_back(made_at(target), target);
  }
  std::sort(found.begin(), found.end());
  std::vector<Recording> recordings;
  recordings.reserve(found.size());
  for (const auto& [when, path] : found) recordings.emplace_back(path);
  return recordings;
}

void Library::remove(const Recording& recording) const {
  if (!is_recording(recording.dir()))
    throw Error(fmt::format("{} is not a recording: it has no manifest.json", recording.dir()));
  discard(recording);
}

void Library::discard(const Recording& recording) const {
  std::error_code ec;
  fs::path latest = fs::path(dir_) / fs::read_symlink(dir_ + "/latest", ec);
  bool was_latest = !ec && fs::equivalent(latest, recording.dir(), ec);

  forget_made_here(recording.dir());
  // Who packs its logs may make a file there at that moment, and then finds the folder gone.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; i++) {
    fs::remove_all(recording.dir(), ec);
    if (ec != std::errc::directory_not_empty) break;
  }
  if (ec) throw Error(fmt::format("cannot remove {}: {}", recording.dir(), errno_text(ec.value())));
  if (!was_latest) return;
  auto rest = list();
  if (rest.empty()) {
    unlink((dir_ + "/latest").c_str());
  } else {
    fs::path newest = rest.back().dir();
    set_latest(newest.parent_path() == fs::path(dir_) ? newest.filename() : newest);
  }
}

uint64_t Library::collect_garbage(std::chrono::seconds grace) const {
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(dir_ + "/elsewhere", ec)) {
    fs::path target = fs::read_symlink(entry.path(), ec);
    if (ec || !is_recording(target)) unlink(entry.path().c_str());
  }
  // Folders without a manifest count too: their recorder may have just begun.
  std::set<std::string> used;
  bool known = true;
  auto use = [&](const fs::path& dir) {
    used.merge(Recording(dir).keys());
    known = known && !Recording(dir).damaged_key();
  };
  for (const auto& entry : fs::directory_iterator(dir_, ec)) use(entry.path());
  for (const auto& entry : fs::directory_iterator(dir_ + "/elsewhere", ec)) use(entry.path());
  // With a damaged list nobody knows what its recording needs.
  return known ? store().collect_garbage(used, grace) : 0;
}

std::string Library::contents_path(const Recording& recording, const std::string& key) const {
  Store packed(recording.files_path());
  if (packed.has(key)) return packed.path(key);
  return store().has(key) ? store().path(key) : "";
}

int Library::open_contents(const Recording& recording, const std::string& key) const {
  Store packed(recording.files_path());
  if (packed.has(key)) return packed.open(key);
  if (!store().has(key))
    throw Error(
        fmt::format("the contents of a mapped file ({}) are neither in {} nor in {}: was the recording moved "
                    "without 'backstep pack'?",
                    key, recording.files_path(), store().dir()),
        kExitDivergence);
  return store().open(key);
}

uint64_t Library::pack(const Recording& recording) const {
  Store packed(recording.files_path());
  uint64_t before = recording.size();
  if (auto line = recording.damaged_key())
    throw Error(fmt::format("{} is damaged in line {}: not all that the recording needs is known",
                            recording.keys_path(), *line),
                kExitDivergence);
  for (const auto& key : recording.keys()) {
    if (packed.has(key)) continue;
    Fd fd(open_contents(recording, key));
    if (packed.insert_kept(fd.get(), key) != key)
      throw Error(fmt::format("the stored file contents {} are damaged", store().path(key)), kExitDivergence);
  }
  std::error_code ec;
  for (const char* own : {"by-id", "tmp", "lock"}) fs::remove_all(packed.dir() + "/" + own, ec);
  return recording.size() - before;
}

void Library::set_latest(const std::string& target) const {
  // Best effort: a recording is worth more than the symlink.
  std::string temporary = fmt::format("{}/.latest-{}", dir_, getpid());
  unlink(temporary.c_str());
  if (symlink(target.c_str(), temporary.c_str()) != 0) return;
  if (rename(temporary.c_str(), (dir_ + "/latest").c_str()) != 0) unlink(temporary.c_str());
}

void Library::register_elsewhere(const std::string& absolute) const {
  std::error_code ec;
  fs::create_directories(dir_ + "/elsewhere", ec);
  std::string name = absolute.substr(1);
  std::replace(name.begin(), name.end(), '/', '!');
  if (name.size() > 200)
    name = fmt::format("{:016x}-{}", std::hash<std::string>()(absolute), name.substr(name.size() - 200));
  (void)!symlink(absolute.c_str(), (dir_ + "/elsewhere/" + name).c_str());
}

}  // namespace backstep::recording
