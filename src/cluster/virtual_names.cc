// Virtual names: a walk over the tree of processes, children in the order of the events that made them.
#include "cluster/virtual_names.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

namespace backstep::cluster {
namespace {

using recording::Birth;
using recording::ProcessInfo;

std::string program_of(const ProcessInfo& p) {
  const std::string path = p.argv.empty() ? "" : p.argv[0];
  std::string name = path.substr(path.rfind('/') + 1);
  for (char& c : name)
    if (static_cast<unsigned char>(c) <= ' ' || c == '#') c = '_';
  return name.empty() ? fmt::format("process-{}", p.number) : name;
}

class Namer {
 public:
  Namer(const std::vector<ProcessInfo>& processes) : all_(processes), names_(processes.size()) {
    std::map<uint64_t, size_t> by_number;
    for (size_t i = 0; i < all_.size(); i++) by_number[all_[i].number] = i;
    for (size_t i = 0; i < all_.size(); i++) {
      const ProcessInfo& p = all_[i];
      auto parent = by_number.find(p.parent);
      // A stranger's file may say that something is its own ancestor.
      const bool child = p.birth != Birth::Start && parent != by_number.end() && p.parent < p.number;
      (child ? children_[parent->second] : roots_).push_back(i);
    }
    for (auto& [parent, list] : children_)
      std::stable_sort(list.begin(), list.end(),
                       [&](size_t a, size_t b) { return all_[a].parent_event < all_[b].parent_event; });
  }

  std::vector<std::string> walk(const std::string& host) {
    for (size_t root : roots_) name(root, host, unique(host + "/" + program_of(all_[root])));
    return names_;
  }

 private:
  // `owner`: the name of the process that has made it.
  void name(size_t i, const std::string& owner, const std::string& its) {
    names_[i] = its;
    unsigned forks = 0;
    for (size_t c : children_[i]) {
      const ProcessInfo& child = all_[c];
      if (child.birth == Birth::Fork)
        name(c, its, unique(fmt::format("{}.{}", its, ++forks)));
      else if (child.spawned)
        name(c, its, unique(its + "/" + program_of(child)));
      else  // the same process
        name(c, owner, unique(owner + "/" + program_of(child)));
    }
  }
  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (unsigned k = 2; !taken_.insert(name).second; k++) name = fmt::format("{}#{}", wanted, k);
    return name;
  }

  const std::vector<ProcessInfo>& all_;
  std::vector<std::string> names_;
  std::vector<size_t> roots_;
  std::map<size_t, std::vector<size_t>> children_;
  std::set<std::string> taken_;
};

}  // namespace

std::vector<std::string> virtual_names(const std::string& host, const std::vector<ProcessInfo>& processes) {
  return Namer(processes).walk(host);
}

}  // namespace backstep::cluster
