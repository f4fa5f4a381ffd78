// Reading cluster.toml, and the words that come of it. (The one file that sees toml++, which is a long
// header.)
#define TOML_HEADER_ONLY 1
#include "cluster/cluster_file.h"

#include <set>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/error.h"

namespace backstep::cluster {
namespace {

constexpr const char* kSsh = "ssh {host} {quoted}";

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

class FileReader {
 public:
  explicit FileReader(const std::string& path) : path_(path) {}

  [[noreturn]] void refuse(const toml::node& at, const std::string& why) const {
    throw Error(fmt::format("{}, line {}: {}", path_, at.source().begin.line, why), kExitUsage);
  }
  std::string text(const toml::table& t, const char* key, const std::string& otherwise = "") const {
    const toml::node* node = t.get(key);
    if (!node) return otherwise;
    if (!node->is_string()) refuse(*node, fmt::format("{} is a text: {} = \"…\"", key, key));
    return node->as_string()->get();
  }
  std::vector<std::string> words(const toml::table& t, const char* key) const {
    std::vector<std::string> list;
    const toml::node* node = t.get(key);
    if (!node) return list;
    if (node->is_string()) return {"sh", "-c", node->as_string()->get()};
    if (!node->is_array()) refuse(*node, fmt::format("{} is a text or a list of words", key));
    for (const auto& item : *node->as_array()) {
      if (!item.is_string()) refuse(item, fmt::format("{} is a list of words, each in quotes", key));
      list.push_back(item.as_string()->get());
    }
    return list;
  }
  bool flag(const toml::table& t, const char* key) const {
    const toml::node* node = t.get(key);
    if (node && !node->is_boolean()) refuse(*node, fmt::format("{} is true or false", key));
    return node && node->as_boolean()->get();
  }
  void know(const toml::table& t, const std::set<std::string_view>& keys) const {
    for (const auto& [key, node] : t)
      if (!keys.count(key.str())) {
        std::string list;
        for (auto k : keys) list += fmt::format("{}{}", list.empty() ? "" : ", ", k);
        refuse(node, fmt::format("there is no '{}' here; there are {}", key.str(), list));
      }
  }

 private:
  std::string path_;
};

}  // namespace

ClusterFile ClusterFile::read(const std::string& path) {
  toml::table top;
  try {
    top = toml::parse_file(path);
  } catch (const toml::parse_error& e) {
    throw Error(fmt::format("{}, line {}: {}", path, e.source().begin.line, e.description()), kExitUsage);
  }
  const FileReader r(path);
  r.know(top, {"output", "launch", "host"});
  ClusterFile file;
  file.output = r.text(top, "output");
  const std::string launch = r.text(top, "launch", kSsh);
  const toml::node* list = top.get("host");
  if (!list || !list->is_array_of_tables())
    throw Error(fmt::format("{} has no hosts: each is a [[host]] with a name and a command", path),
                kExitUsage);
  std::set<std::string> names;
  for (const auto& node : *list->as_array()) {
    const toml::table& t = *node.as_table();
    r.know(t, {"name", "command", "folder", "launch", "fetch", "record", "backstep", "daemon"});
    ClusterHost& h = file.hosts.emplace_back();
    h.name = r.text(t, "name");
    h.command = r.words(t, "command");
    h.folder = r.text(t, "folder", "/tmp/backstep-" + h.name);
    h.launch = r.text(t, "launch", launch);
    h.fetch = r.text(t, "fetch", t.get("launch") || top.get("launch") ? h.folder : h.name + ":" + h.folder);
    if (t.get("record") && !t.get("record")->is_array())
      r.refuse(*t.get("record"), "record is a list of options");
    h.record = r.words(t, "record");
    h.backstep = r.text(t, "backstep", "backstep");
    h.daemon = r.flag(t, "daemon");
    if (h.name.empty() || h.command.empty()) r.refuse(node, "a host has a name and a command");
    if (!names.insert(h.name).second) r.refuse(node, fmt::format("there are two hosts {}", h.name));
  }
  return file;
}

std::vector<std::string> launch_words(const ClusterHost& host) {
  std::vector<std::string> command = {host.backstep, "record", "-q", "--host", host.name, "-o", host.folder};
  command.insert(command.end(), host.record.begin(), host.record.end());
  command.emplace_back("--");
  command.insert(command.end(), host.command.begin(), host.command.end());
  std::string all;
  for (const std::string& word : command) all += (all.empty() ? "" : " ") + quoted(word);
  std::vector<std::string> words;
  for (size_t at = 0; at < host.launch.size();) {
    const size_t end = std::min(host.launch.find(' ', at), host.launch.size());
    const std::string word = host.launch.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (word == "{command}")
      words.insert(words.end(), command.begin(), command.end());
    else if (word == "{quoted}")
      words.push_back(all);
    else if (const size_t name = word.find("{host}"); name != std::string::npos)
      words.push_back(word.substr(0, name) + host.name + word.substr(name + 6));
    else
      words.push_back(word);
  }
  return words;
}

}  // namespace backstep::cluster
