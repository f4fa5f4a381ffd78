// A run on disk: the folder into which the recordings of all hosts were gathered.
//
//   run.json          which hosts there are, and what was copied from where
//   hosts/NAME/       the recording of each, with all that its replay needs
//   cuts/             named cuts
//
// One recording is a run, too: of one host.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recording/library.h"

namespace backstep::cluster {

inline constexpr int kRunVersion = 1;

struct RunFile {
  uint64_t size = 0;
  std::string sum;  // XXH3-128, as hex
  friend bool operator==(const RunFile&, const RunFile&) = default;
};
struct RunHost {
  std::string name, from;                // unique here; where it was copied from
  std::string said;                      // the name that the recording gives itself
  std::map<std::string, RunFile> files;  // by path in the recording's folder
};

class RunFolder {
 public:
  // An existing one, or a recording (by path or by name). Throws Error: neither.
  static RunFolder open(const std::string& name);
  // To be made, or to be added to. Throws Error: there is something else.
  static RunFolder make(const std::string& dir);

  const std::string& dir() const { return dir_; }
  bool is_recording() const { return single_; }
  std::vector<RunHost>& hosts() { return hosts_; }
  const std::vector<RunHost>& hosts() const { return hosts_; }
  std::string host_dir(const RunHost& host) const { return single_ ? dir_ : dir_ + "/hosts/" + host.name; }
  void save() const;  // throws Error

 private:
  std::string dir_;
  bool single_ = false;
  std::vector<RunHost> hosts_;
};

}  // namespace backstep::cluster
