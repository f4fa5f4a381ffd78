// The manifest is JSON, because people and scripts read it too. Arguments and environment are bytes in Linux,
// not text, while JSON is UTF-8 only; a string that is not UTF-8 is written as {"hex": "…"}, so that
// everything comes back exactly as it was. Times are nanoseconds as integers (they fit in 63 bits until the
// year 2262).
#include "recording/manifest.h"

#include <cpuid.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fd.h"
#include "base/hot.h"
#include "base/version.h"
#include "recording/shared_folder.h"

namespace backstep::recording {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEndNames[] = {"exit", "signal", "exec", "stopped"};

bool is_utf8(const std::string& s) {
  try {
    (void)Json(s).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

Json from_bytes(const std::string& s) {
  if (is_utf8(s)) return s;
  std::string hex;
  for (unsigned char c : s) hex += fmt::format("{:02x}", c);
  return Json{{"hex", hex}};
}

std::string to_bytes(const Json& j) {
  if (j.is_string()) return j.get<std::string>();
  std::string hex = j.at("hex").get<std::string>();
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

Json from_list(const std::vector<std::string>& list) {
  Json j = Json::array();
  for (const auto& s : list) j.push_back(from_bytes(s));
  return j;
}

std::vector<std::string> to_list(const Json& j) {
  std::vector<std::string> list;
  for (const auto& item : j) list.push_back(to_bytes(item));
  return list;
}

Json from_end(const Manifest::End& end) {
  Json j;
  j["kind"] = kEndNames[static_cast<size_t>(end.kind)];
  j["status"] = end.status;
  j["duration_ns"] = end.duration_ns;
  j["ticks"] = end.ticks;
  j["events"] = end.events;
  if (end.cpu_ns >= 0) j["cpu_ns"] = end.cpu_ns;
  if (end.crash) j["crash"] = {{"tick", end.crash->tick}, {"pc", end.crash->pc}};
  return j;
}

Manifest::End to_end(const Json& j) {
  Manifest::End end;
  auto kind = j.at("kind").get<std::string>();
  size_t i = 0;
  while (i < std::size(kEndNames) && kind != kEndNames[i]) i++;
  if (i == std::size(kEndNames)) throw Error("unknown kind of end '" + kind + "'");
  end.kind = static_cast<EndKind>(i);
  end.status = j.at("status").get<int64_t>();
  end.duration_ns = j.at("duration_ns").get<int64_t>();
  end.ticks = j.at("ticks").get<Tick>();
  end.events = j.at("events").get<uint64_t>();
  end.cpu_ns = j.value("cpu_ns", int64_t{-1});
  if (j.contains("crash"))
    end.crash = ControlPoint{j["crash"].at("tick").get<Tick>(), j["crash"].at("pc").get<Address>()};
  return end;
}

Json to_json(const Manifest& m) {
  Json j;
  j["version"] = m.version;
  j["backstep"] = m.backstep;
  j["argv"] = from_list(m.argv);
  j["cwd"] = from_bytes(m.cwd);
  j["exe"] = from_bytes(m.exe);
  j["env"] = from_list(m.env);
  j["uid"] = m.uid;
  j["gid"] = m.gid;
  j["hostname"] = from_bytes(m.hostname);
  j["kernel"] = from_bytes(m.kernel);
  if (!m.host.empty()) j["host"] = from_bytes(m.host);
  if (!m.machine.empty()) j["machine"] = m.machine;
  if (!m.boot.empty()) j["boot"] = m.boot;
  j["cpu"] = {
      {"vendor", m.cpu.vendor}, {"model", m.cpu.model}, {"level", m.cpu.level}, {"shown", m.cpu.shown}};
  j["start_ns"] = m.start_ns;
  j["start_monotonic_ns"] = m.start_monotonic_ns;
  j["chaos"] = m.chaos ? Json(*m.chaos) : Json();
  j["end"] = m.end ? from_end(*m.end) : Json();
  j["notes"] = from_list(m.notes);
  if (!m.checkpoints_note.empty()) j["checkpoints_note"] = from_bytes(m.checkpoints_note);
  return j;
}

Manifest from_json(const Json& j) {
  Manifest m;
  m.version = j.at("version").get<int>();
  m.backstep = j.at("backstep").get<std::string>();
  m.argv = to_list(j.at("argv"));
  m.cwd = to_bytes(j.at("cwd"));
  m.exe = to_bytes(j.at("exe"));
  m.env = to_list(j.at("env"));
  m.uid = j.at("uid").get<uint32_t>();
  m.gid = j.at("gid").get<uint32_t>();
  m.hostname = to_bytes(j.at("hostname"));
  m.kernel = to_bytes(j.at("kernel"));
  if (j.contains("host")) m.host = to_bytes(j["host"]);
  m.machine = j.value("machine", "");
  m.boot = j.value("boot", "");
  const Json& cpu = j.at("cpu");
  m.cpu = {cpu.at("vendor").get<std::string>(), cpu.at("model").get<std::string>(),
           cpu.at("level").get<std::string>(), cpu.at("shown").get<std::map<std::string, uint64_t>>()};
  m.start_ns = j.at("start_ns").get<int64_t>();
  m.start_monotonic_ns = j.value("start_monotonic_ns", int64_t{0});
  if (j.contains("chaos") && !j["chaos"].is_null()) m.chaos = j["chaos"].get<uint64_t>();
  if (!j.at("end").is_null()) m.end = to_end(j.at("end"));
  m.notes = to_list(j.at("notes"));
  if (j.contains("checkpoints_note")) m.checkpoints_note = to_bytes(j["checkpoints_note"]);
  return m;
}

// The last field: CRC-32C of the whole file, as if its digits were zeroes.
constexpr std::string_view kCheckField = "\"check\": \"", kNoCheck = "00000000";

std::string check_of(const std::string& text) {
  return fmt::format("{:08x}", hot::crc32c(0, text.data(), text.size()));
}

std::string cpu_vendor() {
  unsigned eax = 0, word[3] = {};
  __get_cpuid(0, &eax, &word[0], &word[2], &word[1]);
  return {reinterpret_cast<const char*>(word), sizeof word};
}

std::string cpu_model() {
  unsigned word[12] = {};
  for (size_t i = 0; i < 3; i++)
    if (!__get_cpuid(0x80000002 + static_cast<unsigned>(i), &word[4 * i], &word[4 * i + 1], &word[4 * i + 2],
                     &word[4 * i + 3]))
      return "";
  std::string brand(reinterpret_cast<const char*>(word), sizeof word);
  brand.resize(strnlen(brand.data(), brand.size()));
  auto first = brand.find_first_not_of(' '), last = brand.find_last_not_of(' ');
  return first == std::string::npos ? "" : brand.substr(first, last - first + 1);
}

}  // namespace

bool Manifest::is_intact(std::string text) {
  size_t at = text.rfind(kCheckField);
  if (at == std::string::npos || text.size() - at < kCheckField.size() + kNoCheck.size()) return false;
  at += kCheckField.size();
  const std::string check = text.substr(at, kNoCheck.size());
  text.replace(at, kNoCheck.size(), kNoCheck);
  return check == check_of(text);
}

Manifest Manifest::load(const std::string& path) {
  // 'ls' looks at all there are: a link or a pipe among them must not lead it astray.
  std::error_code ec;
  const auto type = std::filesystem::symlink_status(path, ec).type();
  if (type != std::filesystem::file_type::regular && type != std::filesystem::file_type::not_found)
    throw Error(fmt::format("{} is no ordinary file, so it is not read", path), kExitDivergence);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(fmt::format("cannot read {}: {}", path, errno_text(errno)));
  std::stringstream text;
  text << in.rdbuf();
  try {
    Json j = Json::parse(text.str());
    int version = j.at("version").get<int>();
    if (version > kManifestVersion)
      throw Error(
          fmt::format("{} has format version {}, made by backstep {}; this is backstep {}, which reads up to "
                      "version {}: use a newer backstep",
                      path, version, j.value("backstep", "?"), kVersion, kManifestVersion));
    if (!is_intact(text.str()))
      throw Error(fmt::format("{} is damaged: its checksum is wrong", path), kExitDivergence);
    return from_json(j);
  } catch (const Json::exception& e) {
    throw Error(fmt::format("{} is damaged or not a manifest: {}", path, e.what()), kExitDivergence);
  } catch (const std::logic_error&) {  // std::stoi
    throw Error(fmt::format("{} is damaged: it has a string with bad hex digits", path), kExitDivergence);
  }
}

void Manifest::save(const std::string& path, bool in_place) const {
  Json j = to_json(*this);
  j["check"] = kNoCheck;
  std::string text = j.dump(2) + "\n";
  text.replace(text.rfind(kCheckField) + kCheckField.size(), kNoCheck.size(), check_of(text));
  std::string temporary = in_place ? path : fmt::format("{}.{}.tmp", path, getpid());
  Fd fd(make_file(temporary, O_WRONLY | (in_place ? 0 : O_TRUNC) | O_CLOEXEC));
  bool good = static_cast<bool>(fd);
  for (size_t done = 0; good && done < text.size();) {
    ssize_t n = write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) done += static_cast<size_t>(n);
  }
  good = good &&
         (in_place ? ftruncate(fd.get(), static_cast<off_t>(text.size())) : move_file(temporary, path)) == 0;
  if (!good) {
    int err = errno;
    if (!in_place) remove_file(temporary);
    throw Error(fmt::format("cannot write {}: {}", path, errno_text(err)));
  }
}

Manifest describe_start(const std::vector<std::string>& argv) {
  Manifest m;
  m.backstep = kVersion;
  m.argv = argv;
  for (char** e = environ; e && *e; e++) m.env.emplace_back(*e);
  std::error_code ec;
  m.cwd = std::filesystem::current_path(ec).string();
  m.uid = geteuid();
  m.gid = getegid();
  utsname name{};
  uname(&name);
  m.hostname = name.nodename;
  m.kernel = fmt::format("{} {}", name.sysname, name.release);
  m.cpu.vendor = cpu_vendor();
  m.cpu.model = cpu_model();
  m.start_now();
  return m;
}

namespace {

// The id is said to be confidential, so it is not written down as it is.
std::string machine_hash() {
  std::ifstream in("/etc/machine-id");
  std::string id;
  in >> id;
  return id.empty() ? "" : fmt::format("{:016x}", XXH3_64bits(id.data(), id.size()));
}

}  // namespace

void Manifest::describe_host(const std::string& name) {
  host = name.empty() ? hostname : name;
  machine = machine_hash();
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  in >> boot;
}

namespace {

int64_t now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

}  // namespace

void Manifest::start_now() {
  start_ns = now(CLOCK_REALTIME);
  start_monotonic_ns = now(CLOCK_MONOTONIC);
  start_cpu_ns = now(CLOCK_PROCESS_CPUTIME_ID);
}

void Manifest::end_now(EndKind kind, int64_t status, Tick ticks, uint64_t events) {
  end = End{kind, status, now(CLOCK_MONOTONIC) - start_monotonic_ns, ticks, events, {}, 0};
  end->cpu_ns = now(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns;
}

std::string end_text(const std::optional<Manifest::End>& end) {
  if (!end) return "not ended (still recording, or the recorder was killed)";
  switch (end->kind) {
    case EndKind::Exit:
      return fmt::format("exited with status {}", end->status);
    case EndKind::Signal: {
      const char* name = sigabbrev_np(static_cast<int>(end->status));
      return name ? fmt::format("died of SIG{}", name) : fmt::format("died of signal {}", end->status);
    }
    case EndKind::Exec:
      return "became another program (execve), which is not in this log";
    case EndKind::Stopped:
      return "recording stopped while the program ran on";
  }
  return "unknown";
}

}  // namespace backstep::recording
