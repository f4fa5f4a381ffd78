// Is a source file still the one that the recorded program was built from? Lines tell of functions that were
// taken apart or put together otherwise; a change within a line shows in the machine code only. So the source
// is compiled once more as the recorded program's debug information says that it was, without its regions,
// and each function compared.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "probe/compile_commands.h"
#include "probe/object_check.h"
#include "probe/regions_unit.h"

namespace backstep::probe {

// Why the code could not be compared; empty: it was, and those in `differ` do.
std::string Regions::compare_code(const Unit& unit, std::map<std::string, std::string>& differ) const {
  const std::string path = absolute("", unit.path);
  const Producer producer = producer_of(session_.program(), path);
  if (!producer.compiler.starts_with("GNU "))
    return producer.compiler.empty()
               ? "the recorded program does not say how it was compiled"
               : fmt::format("the recorded program was compiled by {}", producer.compiler);
  auto version = tools_.run(unit.command.c, {"-dumpfullversion"}).output;
  while (!version.empty() && version.back() == '\n') version.pop_back();
  if (version != producer.version)
    return fmt::format("the recorded program was compiled by gcc {}, this one is {}", producer.version,
                       version);
  std::vector<std::string> all = words_of(producer.flags);
  std::erase_if(all, [](const std::string& f) { return f.starts_with("-flto") || f == "-ffat-lto-objects"; });
  all.insert(all.end(), unit.command.flags.begin(), unit.command.flags.end());
  const std::string object = unit.stem + ".check.o";
  for (const std::string& s : {"-I" + tools_.include_folder(), std::string("-w"), std::string("-g0"),
                               std::string("-c"), path, std::string("-o"), object})
    all.push_back(s);
  const auto outcome = tools_.run(unit.command.c, all, unit.command.folder);
  if (!outcome.ok) return "it does not compile with the flags of the recorded program";
  differ = differing_symbols(object, unit.path, session_.program(), program_symbols_);
  return "";
}

SourceCheck Regions::check(const SourceFile& source) {
  const Unit unit = begin(source);
  SourceCheck check;
  check.path = source.path;
  check.regions = unit.code->regions().size();
  std::map<std::string, std::string> differ;
  if (!unit.recorded.empty()) check.code = compare_code(unit, differ);
  // Then what lines suggest does not matter. (Inlined functions are in the code of others.)
  const bool exact = check.code.empty() && differ.empty();
  const std::string own = absolute(unit.command.folder, absolute("", unit.path));
  for (const auto& [name, symbol] : unit.outline->defined()) {
    const auto found = differ.find(name);
    const std::string file = absolute(unit.command.folder, symbol.first_file);
    if ((!symbol.function || file != own) && found == differ.end()) continue;
    FunctionCheck f;
    f.name = symbols::demangle(name);
    f.line = symbol.first_line;
    const auto recorded = unit.recorded.find(name);
    if (recorded != unit.recorded.end()) f.recorded = recorded->second.lines.first;
    if (found != differ.end()) {
      f.state = FunctionCheck::Changed, f.why = found->second;
    } else if (recorded == unit.recorded.end()) {
      f.state = FunctionCheck::NoCode;
    } else if (const auto lines = symbol.lines.find(symbol.first_file);
               !exact && lines != symbol.lines.end() &&
               !move_of(unit, {name, {symbol.first_line, lines->second}}, recorded->second, file)) {
      f.state = FunctionCheck::Changed, f.why = "its lines are others";
    }
    if (found != differ.end()) differ.erase(found);
    check.functions.push_back(std::move(f));
  }
  // Parts of functions that the optimiser has split off, and variables.
  for (const auto& [name, how] : differ)
    check.functions.push_back({symbols::demangle(name), FunctionCheck::Changed, 0, 0, how});
  std::stable_sort(check.functions.begin(), check.functions.end(),
                   [](const auto& a, const auto& b) { return a.line < b.line; });
  return check;
}

}  // namespace backstep::probe
