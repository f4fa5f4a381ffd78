// Debug code is compiled by the compiler that the machine has anyway, started as a program: it is the one
// whose errors people know, and ours does not grow by a compiler. What does not depend on the debug code is
// made once for each version of the compiler and kept in the cache folder.
#include "probe/toolchain.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <xxhash.h>

#include "base/child.h"
#include "base/error.h"
#include "engine/translations.h"
#include "probe/system_headers.h"

extern "C" {
extern const char backstep_embedded_debug_h[], backstep_embedded_debug_h_end[];
extern const char backstep_embedded_abi_h[], backstep_embedded_abi_h_end[];
extern const char backstep_embedded_runtime_cc[], backstep_embedded_runtime_cc_end[];
}

namespace backstep::probe {
namespace {

namespace fs = std::filesystem;

std::string between(const char* from, const char* to) {
  return {from, static_cast<size_t>(to - from)};
}

const char* const kAdvice =
    "debug code is compiled by gcc and g++, with static libraries: on Debian 'apt-get install g++' has all "
    "of it";

// Does it look like "file:12:3: error: text"?
bool read_complaint(const std::string& line, Complaint& c) {
  for (const char* kind :
       {": fatal error: ", ": error: ", ": warning: ", ": note: ", ": sorry, unimplemented: "}) {
    const size_t at = line.find(kind);
    if (at == std::string::npos) continue;
    c.kind = std::string(kind).substr(2);
    c.kind.resize(c.kind.size() - 2);
    c.text = line.substr(at + std::string(kind).size());
    c.file = line.substr(0, at);
    c.line = c.column = 0;
    for (int* number : {&c.column, &c.line}) {
      const size_t colon = c.file.rfind(':');
      if (colon == std::string::npos || colon + 1 == c.file.size() ||
          c.file.find_first_not_of("0123456789", colon + 1) != std::string::npos)
        break;
      *number = std::atoi(c.file.c_str() + colon + 1);
      c.file.resize(colon);
    }
    if (c.line == 0) std::swap(c.line, c.column);
    return true;
  }
  return false;
}

}  // namespace

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw Error(fmt::format("cannot write '{}': {}", path, errno_text(errno)));
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TemporaryFolder::TemporaryFolder() {
  const char* tmp = std::getenv("TMPDIR");
  path_ = std::string(tmp && *tmp == '/' ? tmp : "/tmp") + "/backstep-probe-XXXXXX";
  if (!mkdtemp(path_.data()))
    throw Error(fmt::format("cannot make a folder '{}': {}", path_, errno_text(errno)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::vector<Complaint> Toolchain::Outcome::complaints() const {
  std::vector<Complaint> out;
  std::istringstream lines(errors);
  Complaint c;
  for (std::string line; std::getline(lines, line);)
    if (read_complaint(line, c)) out.push_back(c);
  return out;
}

Toolchain::Toolchain(std::string folder) : folder_(std::move(folder)), include_(folder_ + "/include") {
  const std::string debug = between(backstep_embedded_debug_h, backstep_embedded_debug_h_end),
                    abi = between(backstep_embedded_abi_h, backstep_embedded_abi_h_end);
  fs::create_directories(include_ + "/backstep");
  write_file(include_ + "/backstep/debug.h", debug);
  write_file(include_ + "/backstep/probe_abi.h", abi);
  const Outcome version = run(false, {"--version"});
  std::string all =
      version.output + debug + abi + between(backstep_embedded_runtime_cc, backstep_embedded_runtime_cc_end);
  for (const std::string& flag : common_flags()) all += flag;
  all += usual_headers();
  key_ = fmt::format("{:016x}", XXH3_64bits(all.data(), all.size()));
  cache_ = engine::translations_folder();
  if (!cache_.empty()) {
    cache_ += "/debug-code";
    mkdir(cache_.c_str(), 0700);
  }
}

const std::vector<std::string>& Toolchain::common_flags() {
  static const std::vector<std::string> kFlags{"-DBACKSTEP_PROBE=1",
                                               "-O1",
                                               "-g",
                                               "-fno-pie",
                                               "-fno-stack-protector",
                                               "-fcf-protection=none",
                                               "-fno-strict-aliasing",
                                               "-fno-lto",
                                               "-fno-diagnostics-show-caret",
                                               "-fdiagnostics-color=never",
                                               "-fno-diagnostics-show-option"};
  return kFlags;
}

Toolchain::Outcome Toolchain::run(bool c, const std::vector<std::string>& arguments,
                                  const std::string& cwd) const {
  std::vector<std::string> command{c ? "gcc" : "g++"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const Finished f = run_to_end(command, "", {.folder = cwd, .own_session = false, .advice = kAdvice});
  return {f.ok(), f.output, f.errors};
}

// Where something that is kept is, or is to be.
std::string Toolchain::kept(const std::string& name) const {
  return (cache_.empty() ? folder_ : cache_) + "/" + key_ + "-" + name;
}

std::string Toolchain::runtime_object() const {
  const std::string object = kept("runtime.o");
  if (access(object.c_str(), R_OK) == 0) return object;
  const std::string source = folder_ + "/runtime.cc", fresh = fmt::format("{}.{}", object, getpid());
  write_file(source, between(backstep_embedded_runtime_cc, backstep_embedded_runtime_cc_end));
  std::vector<std::string> arguments = common_flags();
  for (const std::string& s :
       {std::string("-std=gnu++17"), "-I" + include_, std::string("-c"), source, std::string("-o"), fresh})
    arguments.push_back(s);
  const Outcome outcome = run(false, arguments);
  if (!outcome.ok)
    throw Error(fmt::format("g++ does not compile our own part of debug code: {}", outcome.errors));
  fs::rename(fresh, object);
  return object;
}

std::set<std::string, std::less<>> Toolchain::kept_names(const std::string& name) const {
  std::set<std::string, std::less<>> names;
  std::ifstream file(kept(name));
  for (std::string line; std::getline(file, line);) names.insert(line);
  return names;
}

void Toolchain::keep_names(const std::string& name, const std::set<std::string, std::less<>>& names) const {
  const std::string path = kept(name), fresh = fmt::format("{}.{}", path, getpid());
  std::string text;
  for (const std::string& n : names) text += n + "\n";
  write_file(fresh, text);
  fs::rename(fresh, path);
}

std::set<std::string, std::less<>> Toolchain::usual_names() const {
  auto names = kept_names("names");
  if (!names.empty()) return names;
  const std::string source = folder_ + "/usual.cc";
  write_file(source, usual_headers());
  const Outcome outcome = run(false, {"-std=gnu++20", "-E", "-P", source});
  if (!outcome.ok)
    throw Error(fmt::format("g++ cannot read the usual headers ({}): {}", kAdvice,
                            outcome.errors.substr(0, outcome.errors.find('\n'))));
  names = declared_names(outcome.output);
  keep_names("names", names);
  return names;
}

std::set<std::string, std::less<>> Toolchain::library_names() const {
  auto names = kept_names("libraries");
  if (!names.empty()) return names;
  for (const char* library : {"libc.a", "libm.a", "libstdc++.a", "libgcc.a", "libgcc_eh.a"}) {
    std::string path = run(false, {std::string("-print-file-name=") + library}).output;
    while (!path.empty() && path.back() == '\n') path.pop_back();
    ChildOptions options;
    options.advice = kAdvice;
    const Finished index = run_to_end({"nm", "--print-armap", path}, "", options);
    std::istringstream lines(index.output);
    bool in_index = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("Archive index")) in_index = true;
      const size_t at = line.find(" in ");
      if (in_index && line.empty()) break;
      if (in_index && at != std::string::npos) names.insert(line.substr(0, at));
    }
  }
  if (names.empty()) throw Error(fmt::format("the static libraries are missing: {}", kAdvice));
  keep_names("libraries", names);
  return names;
}

void Toolchain::link(const std::vector<std::string>& objects, const std::map<std::string, uint64_t>& symbols,
                     const std::vector<std::string>& needed, uint64_t base, const std::string& to) const {
  // A text among the objects is a piece of a linker script.
  const std::string script = folder_ + "/symbols.ld";
  std::string text = "/* */\n";
  for (const auto& [name, address] : symbols) text += fmt::format("\"{}\" = {:#x};\n", name, address);
  for (const std::string& name : needed) text += fmt::format("EXTERN(\"{}\");\n", name);
  write_file(script, text);
  std::vector<std::string> arguments{"-static",
                                     "-no-pie",
                                     "-o",
                                     to,
                                     fmt::format("-Wl,-Ttext-segment={:#x}", base),
                                     "-Wl,--build-id=none",
                                     "-Wl,-z,norelro",
                                     "-Wl,--gc-sections"};
  arguments.insert(arguments.end(), objects.begin(), objects.end());
  arguments.push_back(script);
  const Outcome outcome = run(false, arguments);
  if (outcome.ok) return;
  std::string missing;
  std::set<std::string> told;
  std::istringstream lines(outcome.errors);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("undefined reference to ");
    if (at == std::string::npos) continue;
    std::string name = line.substr(at + 24);
    while (!name.empty() && (name.back() == '\'' || name.back() == '\n')) name.pop_back();
    if (told.insert(name).second) missing += fmt::format("{}'{}'", missing.empty() ? "" : ", ", name);
  }
  if (!missing.empty())
    throw Error(fmt::format("debug code uses {}, which neither the recorded program nor the libraries have",
                            missing));
  if (outcome.errors.find("cannot find -l") != std::string::npos)
    throw Error(fmt::format("the static libraries are missing: {}", kAdvice));
  throw Error(fmt::format("cannot link the debug code:\n{}", outcome.errors));
}

}  // namespace backstep::probe
