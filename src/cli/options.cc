// CLI11 does the work; this file gives it our manners and one thing it lacks: `record` and `replay` are
// prefixes of somebody else's command line, and where ours ends must not depend on what the other one looks
// like
// (`backstep record -q ls -q --help`). So the leading options are counted first, with the knowledge of which
// of them take a value, and only they are parsed.
#include "cli/options.h"

#include <iostream>
#include <map>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "engine/translations.h"

namespace backstep::cli {
namespace {

class Manners : public CLI::Formatter {
 public:
  explicit Manners(std::string usage) : usage_(std::move(usage)) {
    column_width(28);
    label("REQUIRED", "");
  }
  std::string make_usage(const CLI::App*, std::string) const override { return "usage: " + usage_ + "\n"; }
  std::string make_description(const CLI::App* app) const override { return app->get_description() + "\n\n"; }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> opts) const override {
    // Positional arguments are explained in the text.
    return is_positional ? "" : CLI::Formatter::make_group(std::move(group), is_positional, std::move(opts));
  }
  // Without the value that a flag has when none is given: "--chaos{random}".
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    return name.substr(0, name.find('{'));
  }
  // Usage first, then what it is for.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    std::string groups = make_groups(app, mode);
    groups = groups.substr(groups.find_first_not_of('\n'), groups.find_last_not_of('\n'));
    return make_usage(app, std::move(name)) + "\n" + make_description(app) + groups + "\n\n" +
           app->get_footer() + "\n";
  }

 private:
  std::string usage_;
};

// What was too much: an option that there is not, mostly.
std::string unexpected(const CLI::App& app, const CLI::ExtrasError& error) {
  for (const std::string& extra : app.remaining()) {
    if (extra.size() < 2 || extra[0] != '-') continue;
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
      if (!option->get_group().empty())
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const std::string asked = extra.substr(0, extra.find('='));
    return fmt::format("there is no option '{}'{}", asked, did_you_mean(asked, names));
  }
  return error.what();
}

}  // namespace

Option Option::type_name(const char* name) const {
  option_->type_name(name);
  return *this;
}

Option Option::among(const std::vector<std::string>& values) const {
  option_->check(CLI::IsMember(values).description(""));
  return *this;
}

Option Option::between(double least, double most) const {
  option_->check(CLI::Range(least, most).description(""));
  return *this;
}

Option Option::one_value_each() const {
  option_->allow_extra_args(false);
  return *this;
}

bool Option::given() const {
  return option_->count() > 0;
}

CommandLine::CommandLine(const std::string& name, const std::string& usage, const std::string& description,
                         const std::string& examples)
    : app_(std::make_unique<CLI::App>(description, name)),
      usage_(fmt::format("backstep {} {}", name, usage)) {
  app_->formatter(std::make_shared<Manners>(usage_));
  app_->footer(examples);
  app_->set_help_flag("-h,--help", "this text");
}

CommandLine::~CommandLine() = default;

Option CommandLine::add_flag(const char* names, bool& variable, const char* text) {
  return Option(app_->add_flag(names, variable, text));
}

Option CommandLine::add_flag(const char* names, std::string& variable, const char* text) {
  return Option(app_->add_flag(names, variable, text));
}

Option CommandLine::add_option(const char* names, std::string& variable, const char* text) {
  return Option(app_->add_option(names, variable, text));
}

Option CommandLine::add_option(const char* names, std::vector<std::string>& variable, const char* text) {
  return Option(app_->add_option(names, variable, text));
}

// CLI11 would take -1 for the largest number.
Option CommandLine::add_option(const char* names, uint64_t& variable, const char* text) {
  auto* const option = app_->add_option(names, variable, text);
  option->check([](const std::string& number) {
    return number.starts_with('-') ? "'" + number + "' is negative" : std::string();
  });
  return Option(option);
}

Option CommandLine::add_option(const char* names, double& variable, const char* text) {
  return Option(app_->add_option(names, variable, text));
}

std::optional<int> CommandLine::parse_args(const Args& args) {
  Args reversed(args.rbegin(), args.rend());  // what CLI11 wants
  try {
    app_->parse(std::move(reversed));
    return {};
  } catch (const CLI::CallForHelp&) {
    std::cout << app_->help();
    return 0;
  } catch (const CLI::ExtrasError& e) {
    throw Error(fmt::format("{}\nusage: {}\nSee 'backstep {} --help'.", unexpected(*app_, e), usage_,
                            app_->get_name()),
                kExitUsage);
  } catch (const CLI::ParseError& e) {
    throw Error(fmt::format("{}\nusage: {}\nSee 'backstep {} --help'.", e.what(), usage_, app_->get_name()),
                kExitUsage);
  }
}

size_t CommandLine::leading_options(const Args& args) const {
  auto takes_value = [](const CLI::Option* option) { return option->get_items_expected_max() > 0; };
  size_t i = 0;
  while (i < args.size()) {
    const std::string& arg = args[i];
    if (arg.size() < 2 || arg[0] != '-' || arg == "--") return i;
    bool value_follows = false;
    if (arg[1] == '-') {
      const CLI::Option* option = app_->get_option_no_throw(arg.substr(0, arg.find('=')));
      if (!option) return i;
      value_follows = takes_value(option) && arg.find('=') == std::string::npos;
    } else {
      for (size_t k = 1; k < arg.size(); k++) {  // -q, -qo DIR, -qoDIR
        const CLI::Option* option = app_->get_option_no_throw(std::string("-") + arg[k]);
        if (!option) return i;
        if (!takes_value(option)) continue;
        value_follows = k + 1 == arg.size();
        break;
      }
    }
    i += value_follows ? 2 : 1;
  }
  return args.size();
}

void CommandLine::add_engine_options(EngineOptions& engine) {
  using Counter = EngineOptions::Counter;
  static const std::map<std::string, Counter> counters = {
      {"auto", Counter::Auto}, {"vector", Counter::Vector}, {"memory", Counter::Memory}};
  // An empty group name hides an option from the help.
  app_->add_option("--engine-cache", engine.cache_size)->transform(CLI::AsSizeValue(false))->group("");
  app_->add_flag("!--engine-no-links", engine.links)->group("");
  app_->add_option("--engine-max-block", engine.max_block)->check(CLI::Range(1, 1024))->group("");
  app_->add_option("--engine-counter", engine.counter)
      ->transform(CLI::CheckedTransformer(counters))
      ->group("");
  app_->add_flag("--engine-check-ticks", engine.check_ticks)->group("");
  app_->add_flag("--engine-statistics", engine.statistics)->group("");
  engine.translations = engine::translations_folder();
  app_->add_flag_callback(
      "--no-cache", [&engine] { engine.translations.clear(); },
      "do not keep translations of the program's code for the next run\n"
      "(in $XDG_CACHE_HOME/backstep, else ~/.cache/backstep)");
}

}  // namespace backstep::cli
