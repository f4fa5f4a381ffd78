// The Python is the user's own, and has the package `backstep` if that is installed; else it is looked for
// beside this program, as in the source folder.
#include "cli/probe_python.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "recording/tree.h"

namespace backstep::cli {

int run_python(const Asking& asking, const probe::CompanionCode& code, bool tag) {
  namespace fs = std::filesystem;
  if (!code.sources.empty() || code.snippets.empty())
    throw Error("--python is for snippets: backstep probe --python --at PLACE CODE", kExitUsage);
  const auto recording = recording::Library::standard().resolve(asking.dir);
  std::vector<std::string> words{"python3", "-m", "backstep.probe"};
  if (!asking.process.empty()) {
    const uint64_t number = recording::find_process(recording, asking.process);
    words.insert(words.end(), {"--process", fmt::format("#{}", number)});
  }
  if (!asking.from.empty()) words.insert(words.end(), {"--from", asking.from});
  if (!asking.to.empty()) words.insert(words.end(), {"--to", asking.to});
  if (tag) words.emplace_back("--tag");
  if (asking.json) words.emplace_back("--json");
  words.insert(words.end(), {"--", recording.dir()});
  for (const probe::Snippet& snippet : code.snippets)
    words.insert(words.end(), {snippet.place, snippet.code});

  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  setenv("BACKSTEP", program.c_str(), 1);
  const fs::path beside = program.parent_path().parent_path() / "python";
  if (fs::is_regular_file(beside / "backstep" / "probe.py", failed)) {
    const char* const before = std::getenv("PYTHONPATH");
    const std::string path =
        before && *before ? fmt::format("{}:{}", beside.string(), before) : beside.string();
    setenv("PYTHONPATH", path.c_str(), 1);
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  fflush(nullptr);
  execvp("python3", argv.data());
  throw Error(fmt::format("cannot start python3: {}", errno_text(errno)));
}

}  // namespace backstep::cli
