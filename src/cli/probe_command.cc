// `backstep probe`: one's own code, run inside of a recorded run.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "probe/build.h"
#include "probe/toolchain.h"

namespace backstep::cli {
namespace {

// "@FILE": the code is in a file.
probe::Snippet snippet(const std::string& place, const std::string& code) {
  if (!code.starts_with('@')) return {place, code, ""};
  const std::string path = code.substr(1);
  if (!std::filesystem::is_regular_file(path))
    throw Error(fmt::format("cannot read the code for '{}': there is no file '{}'", place, path), kExitUsage);
  return {place, probe::read_file(path), path};
}

Json report_json(const probe::Built& built) {
  Json places = Json::array();
  for (size_t i = 0; i < built.places.size(); i++) {
    const probe::BoundPlace& p = built.places[i];
    const probe::Region& region = built.module.regions[built.module.places[i].region];
    Json variables = Json::array();
    for (const auto& v : p.variables) {
      Json one{{"name", v.name}, {"where", v.where}};
      if (!v.type.empty()) one["type"] = v.type;
      variables.push_back(std::move(one));
    }
    places.push_back({{"code", region.file},
                      {"code_line", region.line},
                      {"pc", fmt::format("{:#x}", p.pc)},
                      {"function", p.function},
                      {"file", p.file},
                      {"line", p.line},
                      {"calls", fmt::format("{:#x}", built.module.places[i].function)},
                      {"variables", std::move(variables)}});
  }
  return {{"base", fmt::format("{:#x}", built.module.base)},
          {"size", built.module.size},
          {"entry", fmt::format("{:#x}", built.module.ready_entry)},
          {"places", std::move(places)}};
}

void print_report(const probe::Built& built) {
  for (size_t i = 0; i < built.places.size(); i++) {
    const probe::BoundPlace& p = built.places[i];
    const probe::Region& region = built.module.regions[built.module.places[i].region];
    put_line(fmt::format("{}{}", region.file,
                         region.file.starts_with("--at ") ? "" : fmt::format(":{}", region.line)));
    put_line(fmt::format("  at 0x{:x}  {}{}", p.pc, p.function,
                         p.line ? fmt::format(" ({}:{})", p.file, p.line) : ""));
    size_t width = 0;
    for (const auto& v : p.variables) width = std::max(width, v.name.size());
    for (const auto& v : p.variables)
      put_line(fmt::format("    {:{}}  {}{}", v.name, width, v.where,
                           v.type.empty() ? "" : fmt::format("  {}", v.type)));
  }
  const bool one = built.places.size() == 1;
  put_line(fmt::format("{} place{}, a module of {} at 0x{:x}", built.places.size(), one ? "" : "s",
                       format_size(built.module.size), built.module.base));
}

}  // namespace

int probe_command(const Args& args) {
  Asking asking;
  std::vector<std::string> places, arguments;
  std::string output;
  bool only_compile = false;
  CommandLine line(
      "probe", "[options] --at PLACE CODE [DIR]",
      "Runs C++ code of yours inside of a recorded run, whenever the run comes to a place. The code sees\n"
      "what can be seen there (parameters, local and global variables, 'this', types and functions of\n"
      "the program) and has a C and C++ library of its own. It cannot change the run.\n"
      "CODE: statements; @FILE: they are in a file. PLACE: FILE:LINE, a function, 'call FUNCTION', "
      "0xADDRESS.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep probe --at parse.c:42 'if (n > 10) printf(\"%s\\n\", s->name);'\n"
      "  backstep probe --at enter 'static int calls; printf(\"%d %s\\n\", ++calls, name);' inventory-1\n"
      "  backstep probe --at a.c:10 @first.cc --at b.c:20 @second.cc\n"
      "  backstep probe --compile --at parse.c:42 'puts(s->name);'      # what is where, only");
  asking.add_options(line);
  line.add_option("--at", places, "where the code is to run; may be given several times, each with a CODE")
      .type_name("PLACE")
      .one_value_each();
  line.add_flag("--compile", only_compile, "only build the code, and say where its variables are");
  line.add_option("--output", output, "keep the module that the code was built to as FILE").type_name("FILE");
  line.add_option("CODE", arguments);
  if (auto status = line.parse_args(args)) return *status;
  if (places.empty())
    throw Error("where is code to run? For example: backstep probe --at parse.c:42 'printf(\"%d\\n\", n);'",
                kExitUsage);
  if (arguments.size() < places.size())
    throw Error(
        fmt::format("what is to run at '{}'? Each --at needs its code: backstep probe --at PLACE CODE",
                    places[arguments.size()]),
        kExitUsage);
  asking.take_dir(arguments, places.size());
  if (arguments.size() > places.size())
    throw Error(fmt::format("there is no recording '{}'; 'backstep ls' lists them", arguments[places.size()]),
                kExitUsage);

  auto session = asking.open();
  const probe::TemporaryFolder folder;
  probe::BuildRequest request{.snippets = {}, .base = probe::kModuleBase, .folder = folder.path()};
  for (size_t i = 0; i < places.size(); i++) request.snippets.push_back(snippet(places[i], arguments[i]));
  const probe::Built built = probe::build(*session, request);
  if (!output.empty()) {
    std::error_code failed;
    std::filesystem::copy_file(built.module.elf_path, output,
                               std::filesystem::copy_options::overwrite_existing, failed);
    if (failed) throw Error(fmt::format("cannot write '{}': {}", output, failed.message()));
  }
  if (only_compile) {
    if (asking.json)
      put_line(report_json(built).dump());
    else
      print_report(built);
    return 0;
  }
  throw Error("this build of backstep cannot run debug code, only compile it (--compile)");
}

}  // namespace backstep::cli
