// Parsing of a command's arguments, on top of CLI11.
#pragma once
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "engine/options.h"

namespace backstep::cli {

// An App with our manners: the name, a usage line, a description and a closing text with examples.
// `usage` is what stands behind "usage: backstep NAME".
class CommandLine : public CLI::App {
 public:
  CommandLine(const std::string& name, const std::string& usage, const std::string& description,
              const std::string& examples);

  // Nothing: go on. Otherwise help was asked for and printed, and this is the exit status.
  // Throws Error with kExitUsage.
  std::optional<int> parse_args(const Args& args);

  // Number of leading arguments that are options of this command with their values. Stops at the first other
  // argument: a positional one, "--", or an option that is not ours.
  size_t leading_options(const Args& args) const;

 private:
  std::string usage_;
};

// Settings of the translator that tests vary. They are not shown in the help.
void add_engine_options(CLI::App& app, EngineOptions& engine);

}  // namespace backstep::cli
