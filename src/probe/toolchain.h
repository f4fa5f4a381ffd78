// The compiler of debug code: g++ and gcc, with a C and a C++ library that can be linked statically.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace backstep::probe {

// One complaint of the compiler.
struct Complaint {
  std::string file, kind, text;  // kind: "error", "fatal error", "note", …
  int line = 0, column = 0;
};

class Toolchain {
 public:
  // `folder`: our own, for intermediate files.
  explicit Toolchain(std::string folder);

  const std::string& folder() const { return folder_; }
  // Where <backstep/debug.h> is: for -I.
  const std::string& include_folder() const { return include_; }

  struct Outcome {
    bool ok = false;
    std::string output;  // stdout
    std::string errors;
    std::vector<Complaint> complaints() const;
  };
  // Runs gcc (of C) or g++ with these arguments. Throws Error: there is none.
  Outcome run(bool c, const std::vector<std::string>& arguments, const std::string& cwd = "") const;

  // What every module has besides the user's code, compiled once and kept.
  std::string runtime_object() const;
  // Names that the usual headers declare (system_headers.h), likewise kept.
  std::set<std::string, std::less<>> usual_names() const;

  // What the C and the C++ library that modules are linked with define; likewise.
  std::set<std::string, std::less<>> library_names() const;

  // One static program. `symbols`: names that are numbers; `needed`: functions that must be in it.
  void link(const std::vector<std::string>& objects, const std::map<std::string, uint64_t>& symbols,
            const std::vector<std::string>& needed, uint64_t base, const std::string& to) const;

  // Flags that all debug code is compiled with.
  static const std::vector<std::string>& common_flags();

 private:
  std::string kept(const std::string& name) const;
  std::set<std::string, std::less<>> kept_names(const std::string& name) const;
  void keep_names(const std::string& name, const std::set<std::string, std::less<>>& names) const;

  std::string folder_, include_, cache_, key_;
};

void write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);  // empty if it cannot be read

// A folder of our own that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace backstep::probe
