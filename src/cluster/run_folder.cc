// run.json: read as a stranger's, written by renaming.
#include "cluster/run_folder.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace backstep::cluster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string index_path(const std::string& dir) {
  return dir + "/run.json";
}

// A name becomes that of a folder.
bool is_plain(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

std::vector<RunHost> load(const std::string& dir) {
  std::ifstream in(index_path(dir), std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  try {
    const Json j = Json::parse(text.str());
    const int version = j.at("version").get<int>();
    if (version > kRunVersion)
      throw Error(
          fmt::format("{} has format version {}; this Backstep knows versions up to {}: use a newer one",
                      index_path(dir), version, kRunVersion));
    std::vector<RunHost> hosts;
    for (const Json& h : j.at("hosts")) {
      RunHost& host = hosts.emplace_back();
      host.name = h.at("name").get<std::string>();
      host.from = h.value("from", "");
      host.said = h.value("said", host.name);
      if (!is_plain(host.name))
        throw Error(fmt::format("{} is damaged: '{}' is no name of a host", index_path(dir), host.name));
      if (h.contains("files"))
        for (const auto& [path, file] : h["files"].items())
          host.files[path] = {file.at("size").get<uint64_t>(), file.at("sum").get<std::string>()};
    }
    return hosts;
  } catch (const Json::exception& e) {
    throw Error(fmt::format("{} is damaged: {}", index_path(dir), e.what()), kExitDivergence);
  }
}

}  // namespace

RunFolder RunFolder::open(const std::string& name) {
  RunFolder run;
  std::error_code ignored;
  if (fs::exists(index_path(name), ignored)) {
    run.dir_ = fs::absolute(name).lexically_normal().string();
    while (run.dir_.size() > 1 && run.dir_.back() == '/') run.dir_.pop_back();
    run.hosts_ = load(run.dir_);
    if (run.hosts_.empty()) throw Error(fmt::format("{} has no hosts", name));
    return run;
  }
  if (fs::is_directory(name, ignored) && !fs::exists(name + "/manifest.json", ignored))
    throw Error(
        fmt::format("{} is neither a run (it has no run.json) nor a recording; 'backstep cluster gather' "
                    "makes a run of recordings",
                    name));
  const recording::Recording recording = recording::Library::standard().resolve(name);
  run.dir_ = recording.dir();
  run.single_ = true;
  std::string host;
  try {
    const auto manifest = recording.manifest();
    host = manifest.host.empty() ? manifest.hostname : manifest.host;
  } catch (const Error&) {  // damaged, which others say
  }
  if (!is_plain(host)) host = "host";
  run.hosts_.push_back({host, recording.dir(), host, {}});
  return run;
}

RunFolder RunFolder::make(const std::string& dir) {
  std::error_code error;
  if (fs::exists(index_path(dir), error)) return open(dir);
  if (fs::exists(dir, error) && !fs::is_empty(dir, error))
    throw Error(fmt::format("{} is there already and is no run: choose another folder", dir));
  fs::create_directories(dir + "/hosts", error);
  if (error) throw Error(fmt::format("cannot make the folder {}: {}", dir, error.message()));
  RunFolder run;
  run.dir_ = fs::absolute(dir).lexically_normal().string();
  return run;
}

void RunFolder::save() const {
  Json j{{"version", kRunVersion}, {"hosts", Json::array()}};
  for (const RunHost& host : hosts_) {
    Json files = Json::object();
    for (const auto& [path, file] : host.files) files[path] = {{"size", file.size}, {"sum", file.sum}};
    j["hosts"].push_back({{"name", host.name}, {"said", host.said}, {"from", host.from}, {"files", files}});
  }
  const std::string fresh = fmt::format("{}.{}", index_path(dir_), getpid());
  std::ofstream out(fresh, std::ios::binary);
  out << j.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  out.close();
  std::error_code error;
  if (out) fs::rename(fresh, index_path(dir_), error);
  if (!out || error) throw Error(fmt::format("cannot write {}", index_path(dir_)));
}

}  // namespace backstep::cluster
