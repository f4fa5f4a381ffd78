// `backstep probe`: one's own code, run inside of a recorded run.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cli/probe_check.h"
#include "cli/probe_output.h"
#include "cli/probe_python.h"
#include "engine/layout.h"
#include "probe/build.h"
#include "probe/check.h"
#include "probe/companion.h"
#include "probe/run.h"
#include "probe/toolchain.h"
#include "recording/tree.h"
#include "session/several.h"

namespace backstep::cli {
namespace {

Json report_json(const probe::Built& built) {
  Json places = Json::array();
  for (size_t i = 0; i < built.places.size(); i++) {
    const probe::BoundPlace& p = built.places[i];
    if (built.module.places[i].region == probe::Place::kNobodys) continue;
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
    if (built.module.places[i].region == probe::Place::kNobodys) continue;
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
  const auto places = std::count_if(built.module.places.begin(), built.module.places.end(),
                                    [](const auto& p) { return p.region != probe::Place::kNobodys; });
  const bool one = places == 1;
  put_line(fmt::format("{} place{}, a module of {} at 0x{:x}", places, one ? "" : "s",
                       format_size(built.module.size), built.module.base));
}

// Places that no process came to.
void tell_unreached(const std::vector<std::pair<const probe::Region*, uint64_t>>& calls) {
  for (const auto& [region, count] : calls)
    if (count == 0) fmt::print(stderr, "backstep: {}: the run does not come here\n", region->shown());
}

std::optional<std::vector<uint64_t>> several_processes(const Asking& asking) {
  if (asking.process.empty()) return std::nullopt;
  return session::find_several(recording::Library::standard().resolve(asking.dir), asking.process);
}

struct EachOptions {
  bool parallel = false, tag = false;
};

// One process after the other, in the order of their births; each with debug code of its own, which begins
// anew. Those whose programs do not have what the code names are left out.
int probe_each(const Asking& asking, const std::vector<uint64_t>& numbers, const probe::CompanionCode& code,
               const EachOptions& options) {
  const auto library = recording::Library::standard();
  const auto recording = library.resolve(asking.dir);
  std::map<uint64_t, std::unique_ptr<probe::Companion>> built;  // by program; null: it cannot be
  std::map<std::string, uint64_t> calls;                        // by place, of all processes
  std::exception_ptr why_not;
  bool any = false, failed = false, complete = true;
  ProgressBar bar("probing");
  for (const auto& info : recording::list_processes(recording)) {
    if (std::find(numbers.begin(), numbers.end(), info.number) == numbers.end() ||
        recording::is_without_events(recording, info.number))
      continue;
    ReplayOptions replay = asking.replay;
    replay.recording = recording.dir();
    replay.quiet = true;
    replay.process = info.number;
    session::Session session(replay, library, recording);
    auto& of_program = built[session.timeline().log().image()];
    if (!of_program) {
      try {
        of_program = std::make_unique<probe::Companion>(session, code);
      } catch (const Error&) {
        if (!why_not) why_not = std::current_exception();
        continue;
      }
      for (const std::string& note : of_program->built().notes) fmt::print(stderr, "backstep: {}\n", note);
    }
    any = true;
    const std::string program = info.argv.empty() ? "" : info.argv.front();
    const session::AskedProcess process{info.number, static_cast<uint64_t>(info.pid),
                                        program.substr(program.rfind('/') + 1)};
    const probe::Module& module = of_program->built().module;
    ProbeOutput out({asking.json, options.tag, process}, session, recording, bar);
    const probe::RunResult result = probe::run(
        session, module, {asking.stretch(session), options.parallel},
        [&](const probe::Note& note) { return out.tell(note); }, bar.watcher());
    bar.clear();
    out.sum_up();
    failed |= out.failed();
    complete &= result.complete;
    for (const auto& [region, count] : probe::calls_of_regions(module, result))
      calls[region->shown()] += count;
  }
  if (!any && why_not) std::rethrow_exception(why_not);
  for (const auto& [place, count] : calls)
    if (count == 0 && complete) fmt::print(stderr, "backstep: {}: no process comes here\n", place);
  return failed ? kExitFailure : 0;
}

}  // namespace

int probe_command(const Args& args) {
  Asking asking;
  std::vector<std::string> places, arguments, flags;
  std::string output, program;
  bool only_compile = false, tag = false, parallel = false, check = false, python = false;
  CommandLine line(
      "probe",
      "[options] --at PLACE CODE [DIR]\n       backstep probe [options] SOURCE... [DIR] [-- "
      "COMPILER-FLAGS]\n       "
      "backstep probe --check [SOURCE...] [DIR] [-- COMPILER-FLAGS]",
      "Runs C or C++ code of yours inside of a recorded run, whenever the run comes to a place. The code "
      "sees\n"
      "what can be seen there (parameters, local and global variables, 'this', types and functions of the\n"
      "program) and has a C and C++ library of its own. It cannot change the run.\n"
      "CODE: C++ statements; @FILE: they are in a file. PLACE: FILE:LINE, a function, 'call FUNCTION',\n"
      "0xADDRESS. SOURCE: a source file of the program with statements between BACKSTEP_BEGIN and\n"
      "BACKSTEP_END in it (#include <backstep/debug.h>), or a file with debug code only. Flags of the "
      "compiler\n"
      "are those in compile_commands.json, if there is one, or stand behind '--'.\n"
      "DIR: a name or path; the latest recording if left out.",
      "Examples:\n"
      "  backstep probe --at parse.c:42 'if (n > 10) printf(\"%s\\n\", s->name);'\n"
      "  backstep probe --at enter 'static int calls; printf(\"%d %s\\n\", ++calls, name);' inventory-1\n"
      "  backstep probe --at a.c:10 @first.cc --at b.c:20 @second.cc\n"
      "  backstep probe parse.c -- -Iinclude -DNDEBUG             # its debug regions\n"
      "  backstep probe -p all --at handle 'puts(request->path);' server-2        # in all processes\n"
      "  backstep probe --python --at parse.c:42 'print(n, value(\"s->name\"))'\n"
      "  backstep probe --compile --at parse.c:42 'puts(s->name);'      # what is where, only\n"
      "  backstep probe --check parse.c                           # is it still what was recorded?");
  asking.add_options(line);
  line.add_option("--at", places, "where the code is to run; may be given several times, each with a CODE")
      .type_name("PLACE")
      .one_value_each();
  line.add_flag("--tag", tag, "the control point and the thread in front of each line of output");
  line.add_flag("--parallel", parallel,
                "on all processors; the code begins anew in each part of the run, so this is\n"
                "for code that keeps nothing from one time to the next");
  line.add_flag("--python", python,
                "CODE is Python, run in a process of its own, which reads the state through a session:\n"
                "variables by their names, value(\"s->name\") for expressions, s (the session)");
  line.add_flag("--compile", only_compile, "only build the code, and say where its variables are");
  line.add_flag("--check", check,
                "only say whether the program's files are those that were recorded, section by section, and\n"
                "whether the SOURCEs still compile to it; what differs, and which lines have moved");
  line.add_option("--program", program, "with --check: the program's file is this one now").type_name("FILE");
  line.add_option("--output", output, "keep the module that the code was built to as FILE").type_name("FILE");
  line.add_option("CODE", arguments);
  Args ours = args;
  if (const auto dashes = std::find(ours.begin(), ours.end(), "--"); dashes != ours.end()) {
    flags.assign(dashes + 1, ours.end());
    ours.erase(dashes, ours.end());
  }
  if (auto status = line.parse_args(ours)) return *status;
  if (arguments.size() < places.size())
    throw Error(
        fmt::format("what is to run at '{}'? Each --at needs its code: backstep probe --at PLACE CODE",
                    places[arguments.size()]),
        kExitUsage);
  if (check && !places.empty())
    throw Error("--check compares sources and the program with the recording; it takes no --at", kExitUsage);
  if (arguments.empty() && !check)
    throw Error(
        "what is to run, and where? For example: backstep probe --at parse.c:42 'printf(\"%d\\n\", n);', or "
        "backstep probe parse.c with debug regions in it",
        kExitUsage);
  // "SOURCE... -- FLAGS DIR" is understood, too.
  if (!flags.empty() && !flags.back().starts_with('-')) asking.take_dir(flags, 0);
  if (asking.dir.empty() && !arguments.empty() && !probe::is_source_file(arguments.back()))
    asking.take_dir(arguments, check ? 0 : std::max<size_t>(places.size(), 1));
  for (size_t i = places.size(); i < arguments.size(); i++)
    if (!probe::is_source_file(arguments[i]))
      throw Error(fmt::format("'{}' is neither a C or C++ source nor a recording; 'backstep ls' lists these",
                              arguments[i]),
                  kExitUsage);

  asking.replay.check_deep = true;  // where the recording has checksums: anybody's code is run here
  probe::CompanionCode code;
  for (size_t i = 0; i < places.size(); i++) code.snippets.push_back(probe::snippet(places[i], arguments[i]));
  for (size_t i = places.size(); i < arguments.size(); i++) code.sources.push_back({arguments[i], flags});
  if (python) return run_python(asking, code, tag);
  if (!check && !only_compile && output.empty())
    if (const auto several = several_processes(asking))
      return probe_each(asking, *several, code, {parallel, tag});
  auto session = asking.open();
  const probe::TemporaryFolder folder;
  if (check) {
    std::vector<probe::SourceFile> sources;
    for (const std::string& path : arguments) sources.push_back({path, flags});
    const probe::Check found = probe::check(*session, program, sources, folder.path());
    print_check(found, asking.json);
    return found.same() ? 0 : kExitFailure;
  }
  const probe::Built built =
      probe::build(*session, {code.snippets, code.sources, layout::kProbe, folder.path()});
  for (const std::string& note : built.notes) fmt::print(stderr, "backstep: {}\n", note);
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
  ProgressBar bar("probing");
  ProbeOutput out({asking.json, tag, {}}, *session, recording::Library::standard().resolve(asking.dir), bar);
  const probe::RunResult result = probe::run(
      *session, built.module, {asking.stretch(*session), parallel},
      [&](const probe::Note& note) { return out.tell(note); }, bar.watcher());
  bar.clear();
  out.sum_up();
  if (result.complete) tell_unreached(probe::calls_of_regions(built.module, result));
  return out.failed() ? kExitFailure : 0;
}

}  // namespace backstep::cli
