// Parsing of a command's arguments. CLI11 does it, but only options.cc sees that: its headers would take more
// of each command's compilation than all the rest.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "engine/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace backstep::cli {

// One option of a command; what it says of itself is chained behind CommandLine::add_option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option type_name(const char* name) const;  // of its value, in the help
  Option among(const std::vector<std::string>& values) const;
  Option between(double least, double most) const;
  Option one_value_each() const;  // of a list: given several times, with one value each time
  bool given() const;             // on the command line, once it was parsed

 private:
  CLI::Option* option_;  // the CommandLine's
};

// A command line with our manners: the name, a usage line, a description and a closing text with examples.
// `usage` is what stands behind "usage: backstep NAME".
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& usage, const std::string& description,
              const std::string& examples);
  ~CommandLine();

  // `names`: "-q,--quiet"; "DIR" for arguments by position. The variable keeps its value if it is not given.
  Option add_flag(const char* names, bool& variable, const char* text);
  // A flag that may have a value: "--chaos{random}" is "random" without one.
  Option add_flag(const char* names, std::string& variable, const char* text);
  Option add_option(const char* names, std::string& variable, const char* text = "");
  Option add_option(const char* names, std::vector<std::string>& variable, const char* text = "");
  Option add_option(const char* names, uint64_t& variable, const char* text = "");
  Option add_option(const char* names, double& variable, const char* text = "");
  // Settings of the translator, all but one for tests, which the help does not show.
  void add_engine_options(EngineOptions& engine);

  // Nothing: go on. Otherwise help was asked for and printed, and this is the exit status.
  // Throws Error with kExitUsage.
  std::optional<int> parse_args(const Args& args);

  // Number of leading arguments that are options of this command with their values. Stops at the first other
  // argument: a positional one, "--", or an option that is not ours.
  size_t leading_options(const Args& args) const;

 private:
  std::unique_ptr<CLI::App> app_;
  std::string usage_;
};

}  // namespace backstep::cli
