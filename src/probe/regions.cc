// A debug region is compiled where it stands: in a copy of its source file it becomes a function inside of
// the function around it (a lambda in C++, a nested function in C), so types, members, templates and macros
// mean there what they mean to the compiler of the program. Only variables of the running function are not
// those of the copy: they are parameters of the same names, which the function of each place fills with the
// addresses that the recorded program's debug information has.
//
// The copy's own functions and variables are not run or used. They are there so that the compiler can look at
// them; in its assembly their definitions are put aside, and what the region says of them means the recorded
// program's (assembly.h).
//
// Which addresses belong to a region is found by the line of the statement behind it. Lines may have moved
// since the program was built, if only by the regions themselves: see source_lines.h.
#include "probe/regions.h"

#include <dwarf.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "probe/complaints.h"
#include "probe/includers.h"
#include "probe/regions_unit.h"
#include "session/modules.h"
#include "symbols/program_index.h"
#include "symbols/program_unit.h"
#include "symbols/unwind_rules.h"

namespace backstep::probe {
namespace {

namespace fs = std::filesystem;
using symbols::Scope;

// The function's symbol; empty: it has none that is known.
std::string symbol_of(const Assembly& copy, const Scope& scope) {
  if (scope.linkage) return scope.linkage;
  const auto known = copy.plainly_named().find(scope.name ? scope.name : "");
  return known == copy.plainly_named().end() ? "" : known->second;
}

// Names of the C++ library, and of what the compiler makes for it: debug code has its own.
bool is_of_library(const std::string& name) {
  for (const char* prefix :
       {"_ZSt", "_ZNSt", "_ZNKSt", "_ZZNSt", "_ZZNKSt", "_ZGVNSt", "_ZGVZNSt", "_ZN9__gnu_cxx",
        "_ZNK9__gnu_cxx", "_ZTI", "_ZTV", "_ZTS", "_ZTT", "_ZdlPv", "_ZdaPv", "_Znwm", "_Znam"})
    if (name.starts_with(prefix)) return true;
  static const std::set<std::string, std::less<>> kMemory{
      "malloc", "free", "calloc", "realloc", "memalign", "posix_memalign", "aligned_alloc", "valloc"};
  return kMemory.count(name) > 0;
}

// "count.2": static in a function, which debug code gets at as a variable of that function.
bool is_numbered(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot != std::string::npos && dot + 1 < name.size() &&
         name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
}

// What the names of lambdas in this function begin with.
std::string lambda_prefix(const std::string& function) {
  if (!function.starts_with("_Z")) return fmt::format("_ZZ{}{}E", function.size(), function);
  std::string encoding = function.substr(2);
  for (const char* kind : {"C1E", "C2E"})
    if (const size_t at = encoding.find(kind); at != std::string::npos) encoding.replace(at, 3, "C4E");
  return "_ZZ" + encoding + "E";
}

bool is_declared_here(const std::vector<Token>& tokens, size_t at) {
  static const std::set<std::string_view> kNoTypes{"return", "else", "case", "sizeof", "do", "goto", "in"};
  static const std::set<std::string_view> kTypes{"char",  "int",    "long", "short", "unsigned", "signed",
                                                 "float", "double", "void", "const", "bool",     "_Bool"};
  if (at == 0) return false;
  size_t before = at - 1;
  bool pointer = false;
  while (before > 0 && (tokens[before].text == "*" || tokens[before].text == "const"))
    pointer |= tokens[before--].text == "*";
  const Token& t = tokens[before];
  if (t.kind != Token::Kind::Name || kNoTypes.count(t.text)) return false;
  if (!pointer || kTypes.count(t.text)) return true;
  if (before == 0) return true;
  const std::string_view first = tokens[before - 1].text;
  return first == ";" || first == "{" || first == "}" || first == "(" || first == "struct" ||
         first == "union" || first == "enum" || first == "const" || first == "static";
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines{""};
  for (const char c : read_file(path)) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  return lines;
}

constexpr char kKeepingInC[] =
    "extern void backstep_keep(unsigned, void *, void (*)(void *));\n"
    "extern void backstep_keep_copy(unsigned, const void *, unsigned long);\n"
    "extern void *backstep_kept(unsigned, const char *, const char *);\n";
constexpr char kKeepingInCpp[] =
    "extern \"C\" void backstep_keep(unsigned, void *, void (*)(void *));\n"
    "extern \"C\" void *backstep_kept(unsigned, const char *, const char *);\n"
    "template <class T> struct backstep_plain { typedef T type; };\n"
    "template <class T> struct backstep_plain<T &> { typedef T type; };\n"
    "template <class T> void backstep_keep_value(unsigned number, T &value) {\n"
    "  backstep_keep(number, (void *)new T(static_cast<T &&>(value)), [](void *p) { delete (T *)p; });\n"
    "}\n"
    "template <class T, unsigned long n> void backstep_keep_value(unsigned number, T (&value)[n]) {\n"
    "  struct All { T values[n]; };\n"
    "  backstep_keep(number, (void *)new All((All &&)value), [](void *p) { delete (All *)p; });\n"
    "}\n";

// What stands behind a region for later ones: what it keeps, and what the types of that are deduced from.
std::vector<const DeclaredVariable*> outlined(const auto& work) {
  std::set<std::string, std::less<>> wanted;
  for (const SharedVariable& v : work.keeps) wanted.insert(v.variable.name);
  std::vector<const DeclaredVariable*> all;
  for (auto v = work.declares.rbegin(); v != work.declares.rend(); ++v) {
    const bool of_program = std::count(work.names.begin(), work.names.end(), v->name) > 0;
    if (of_program || !wanted.erase(v->name)) continue;
    if (v->deduced) wanted.merge(names_in(tokens_of(v->outline)));
    all.insert(all.begin(), &*v);
  }
  return all;
}

// In its text, whatever the preprocessor takes away.
bool mentions_regions(const std::string& text) {
  const auto tokens = tokens_of(text);
  return std::any_of(tokens.begin(), tokens.end(), [](const Token& t) {
    return t.kind == Token::Kind::Name && (t.text == "BACKSTEP_BEGIN" || t.text == "rdb_begin");
  });
}

// A call that was inlined begins with the line of the caller, in code that is the callee's already: lines of
// other functions do not count.
void drop_strangers(std::map<std::string, RecordedFunction>& recorded) {
  std::map<std::string, std::set<int>> begins;  // by file
  for (const auto& [name, r] : recorded) begins[r.file].insert(r.lines.first);
  for (auto& [name, r] : recorded) {
    const auto& all = begins[r.file];
    const auto next = all.upper_bound(r.lines.first);
    std::erase_if(r.lines.lines,
                  [&](int line) { return line < r.lines.first || (next != all.end() && line >= *next); });
  }
}

}  // namespace

std::string absolute(const std::string& folder, const std::string& path) {
  const fs::path p(path);
  const fs::path whole = p.is_absolute() ? p : (folder.empty() ? fs::current_path() : fs::path(folder)) / p;
  return whole.lexically_normal().string();
}

std::vector<std::string> Regions::arguments(const Unit& unit, bool probing) const {
  std::vector<std::string> out = unit.command.flags;
  out.push_back("-I" + tools_.include_folder());
  if (probing) out.emplace_back("-DBACKSTEP_PROBE=1");
  for (const char* flag :
       {"-fno-diagnostics-show-caret", "-fdiagnostics-color=never", "-fno-diagnostics-show-option", "-w"})
    out.emplace_back(flag);
  return out;
}

Toolchain::Outcome Regions::run(const Unit& unit, const std::vector<std::string>& arguments) const {
  const auto outcome = tools_.run(unit.command.c, arguments, unit.command.folder);
  if (outcome.ok) return outcome;
  std::map<std::string, std::vector<std::string>> sources;
  for (const Complaint& c : outcome.complaints())
    if (!c.file.empty() && c.file[0] != '<' && !sources.count(c.file))
      sources[c.file] = lines_of(absolute(unit.command.folder, c.file));
  std::string text =
      complaints_text(outcome, sources, fmt::format("the debug code in '{}' does not compile", unit.path));
  if (const size_t at = text.find("trampoline generated"); at != std::string::npos)
    text = text.substr(0, at) +
           "the region uses a variable of the function around it of which the recorded program's debug "
           "information says nothing";
  throw Error(text);
}

// The source as the program has it. (A file that has debug code only need not be anything without that.)
void Regions::outline(Unit& unit) {
  auto all = arguments(unit, unit.code->regions().empty());
  const std::string to = unit.stem + ".outline.s";
  for (const std::string& s : {std::string("-S"), std::string("-O0"), std::string("-gdwarf-4"),
                               std::string("-g1"), std::string("-dA"), std::string("-fkeep-static-functions"),
                               absolute("", unit.path), std::string("-o"), to})
    all.push_back(s);
  run(unit, all);
  unit.outline.emplace(read_file(to));
}

void Regions::preprocess(Unit& unit) {
  auto all = arguments(unit, true);
  all.emplace_back("-E");
  all.push_back(absolute("", unit.path));
  const std::string text = run(unit, all).output;
  // Without the header these words have stayed what they are.
  for (const Token& t : tokens_of(text))
    if (t.kind == Token::Kind::Name && (t.text == "BACKSTEP_BEGIN" || t.text == "rdb_begin"))
      throw Error(
          fmt::format("'{}' has debug regions, but does not say #include <backstep/debug.h>", unit.path));
  unit.code.emplace(text);
}

Regions::Unit Regions::begin(const SourceFile& source) {
  if (!fs::is_regular_file(source.path))
    throw Error(fmt::format("there is no source file '{}'", source.path), kExitUsage);
  Unit unit;
  unit.path = source.path;
  unit.stem = fmt::format("{}/source{}", tools_.folder(), objects_.size());
  unit.command = compile_command(source.path, source.flags);
  unit.first_region = regions_.size();
  preprocess(unit);
  outline(unit);
  // Which functions of the file the recorded program has.
  for (const symbols::Module& module : session_.program().modules()) {
    if (session::is_of_the_system(module.name)) continue;
    for (const auto& code : session_.program().line_table(module)) {
      const auto site = variables_.site(code.start);
      const Scope* scope = site.unit ? site.unit->scope_at(site.address) : nullptr;
      const std::string key = scope ? symbol_of(*unit.outline, *scope) : "";
      if (!unit.outline->defined().count(key)) continue;
      RecordedFunction& r = unit.recorded[key];
      r.lines.first = site.unit->line_of(*scope);
      if (const char* declared = site.unit->file_of(*scope); declared && code.file == declared) {
        r.file = code.file;
        r.lines.lines.insert(code.line);
        r.marked |= code.statement && site.address != scope->entry;
        auto& first = r.first[code.line].try_emplace(scope->entry, code.start).first->second;
        first = std::min(first, code.start);
      }
    }
  }
  // (It may have instances of the library's templates in common with the program.)
  const fs::path name = fs::path(unit.path).filename();
  unit.only_debug_code = std::none_of(unit.recorded.begin(), unit.recorded.end(), [&](const auto& known) {
    return fs::path(known.second.file).filename() == name;
  });
  drop_strangers(unit.recorded);
  return unit;
}

// A header by itself may be nothing, and is not what the program was made of.
void Regions::add_includer(const SourceFile& header) {
  const auto includers = includers_of(session_.program(), absolute("", header.path));
  for (const std::string& source : includers) {
    if (!fs::is_regular_file(source)) continue;
    notes_.push_back(fmt::format("'{}' is compiled as part of '{}'", header.path, source));
    add({source, header.flags});
    return;
  }
  throw Error(
      fmt::format("there are debug regions in '{}', but none where it is compiled by itself: give "
                  "backstep probe the source that includes it{}",
                  header.path, includers.empty() ? "" : fmt::format(", {}", includers.front())));
}

void Regions::add(const SourceFile& source) {
  Unit unit = begin(source);
  const auto& found = unit.code->regions();
  if (found.empty() && mentions_regions(read_file(source.path))) return add_includer(source);
  if (found.empty() && !unit.only_debug_code)
    throw Error(
        fmt::format(
            "there is no debug region in '{}': write BACKSTEP_BEGIN and BACKSTEP_END around statements, and "
            "#include <backstep/debug.h>",
            unit.path),
        kExitUsage);
  for (size_t i = 0; i < found.size(); i++) {
    regions_.push_back({found[i].file, found[i].line, ""});
    unit.work.emplace_back();
    find_places(unit, i);
  }
  share_variables(unit);
  compile(unit);
}

// How a function's lines moved since the recorded program was built.
std::optional<LineMove> Regions::move_of(const Unit& unit, const SourceFunction& a,
                                         const RecordedFunction& recorded, const std::string& file) {
  std::vector<std::pair<int, int>> all;
  for (const SourceRegion& r : unit.code->regions())
    if (absolute(unit.command.folder, r.file) == file) all.emplace_back(r.line, r.last);
  // The function behind it.
  std::optional<std::pair<int, int>> next;
  for (const auto& [name, r] : unit.recorded) {
    const auto& symbol = unit.outline->defined().at(name);
    if (symbol.first_line > *a.now.lines.rbegin() && r.file == recorded.file &&
        (!next || symbol.first_line < next->first))
      next = {symbol.first_line, r.lines.first};
  }
  return LineMove::find(a.now, recorded.lines, all, next);
}

void Regions::find_places(Unit& unit, size_t number) {
  const SourceRegion& region = unit.code->regions()[number];
  Region& shown = regions_[unit.first_region + number];
  Unit::Work& work = unit.work[number];
  work.first_place = places_.size();
  const std::string where = fmt::format("{}:{}", region.file, region.line);
  // The functions around it: several, of a template.
  const std::string file = absolute(unit.command.folder, region.file);
  std::vector<SourceFunction> around;
  int least = 1 << 30;
  for (const auto& [name, symbol] : unit.outline->defined()) {
    if (!symbol.function) continue;
    for (const auto& [path, lines] : symbol.lines) {
      if (absolute(unit.command.folder, path) != file || *lines.begin() > region.line ||
          *lines.rbegin() < region.last)
        continue;
      const int span = *lines.rbegin() - *lines.begin();
      if (span < least) around.clear();
      if (span > least) continue;
      least = span;
      around.push_back({name, {symbol.first_line, lines}});
    }
  }
  static const std::set<std::string> kNotBefore{"case", "default", "else", "do"};
  if (kNotBefore.count(region.next))
    throw Error(
        fmt::format("{}: a debug region cannot stand directly in front of '{}': the program comes there in "
                    "other ways, too. Put it "
                    "behind the next statement, or in front of the one before",
                    where, region.next));
  for (const SourceFunction& a : around) {
    const auto recorded = unit.recorded.find(a.symbol);
    const std::string title = symbols::demangle(a.symbol);
    shown.name = title;
    if (recorded == unit.recorded.end() && title.find("{lambda(") != std::string::npos)
      throw Error(
          fmt::format("{}: a debug region cannot stand in a lambda: debug information does not say which "
                      "code is that lambda's. Put it in front of the lambda, or run the code by its "
                      "place: backstep probe --at {}:{} 'CODE'",
                      where, fs::path(file).filename().string(), region.next_line));
    if (recorded == unit.recorded.end()) continue;
    const int end = *a.now.lines.rbegin();
    if (region.next == "}" && region.next_line != end)
      throw Error(
          fmt::format("{}: a debug region cannot be the last in its block: nothing in the program's code "
                      "says when it is reached. Put "
                      "it in front of a statement of that block",
                      where));
    const auto move = move_of(unit, a, recorded->second, file);
    if (!move)
      throw Error(
          fmt::format("{}: '{}' was changed since the program was built, by more than debug regions: it was "
                      "at line {} of {}, and is at "
                      "line {} now",
                      where, title, recorded->second.lines.first, recorded->second.file, a.now.first));
    const int line = move->recorded(region.next_line);
    std::set<uint64_t> pcs;
    for (const auto& match : session_.program().lines(recorded->second.file, line))
      for (const uint64_t pc : match.addresses) {
        const auto site = variables_.site(pc, variables_.begin_at(pc, line));
        const Scope* scope = site.block;
        while (scope && scope->kind == Scope::kBlock) scope = site.unit->parent(scope);
        if (scope && a.symbol == symbol_of(*unit.outline, *scope)) pcs.insert(pc);
      }
    if (const auto first = recorded->second.first.find(line);
        pcs.empty() && !recorded->second.marked && first != recorded->second.first.end()) {
      for (const auto& [entry, pc] : first->second) pcs.insert(pc);
      notes_.push_back(
          fmt::format("{}: the compiler has not noted where the statements of '{}' begin: the region "
                      "runs in front of the first instruction that belongs to line {}",
                      where, title, region.next_line));
    }
    if (pcs.empty()) {
      std::vector<int> near;
      for (const int l : recorded->second.lines.lines)
        if (l > line && near.size() < 3) near.push_back(l + region.next_line - line);
      throw Error(fmt::format(
          "{}: the statement behind the region, in line {}, has no code of its own in the recorded program{}",
          where, region.next_line,
          near.empty() ? "" : fmt::format("; lines behind it that have: {}", fmt::join(near, ", "))));
    }
    for (const uint64_t pc : pcs) {
      places_.push_back({.pc = pc,
                         .outer = variables_.begin_at(pc, line),
                         .region = unit.first_region + number,
                         .names = {},
                         .symbol = {},
                         .bindings = {}});
      work.functions.push_back(a.symbol);
    }
  }
  work.places = places_.size() - work.first_place;
  if (work.places == 0)
    notes_.push_back(fmt::format("{}: no code was made of {} in the recorded program: this region never runs",
                                 where,
                                 around.empty() ? "what is around this region" : "'" + shown.name + "'"));
  choose_names(unit, number);
}

// Variables that the region mentions and that are not simply somewhere.
void Regions::choose_names(Unit& unit, size_t number) {
  const SourceRegion& region = unit.code->regions()[number];
  Unit::Work& work = unit.work[number];
  std::vector<std::pair<uint64_t, unsigned>> pcs;  // … and whose variables are meant there
  for (size_t i = work.first_place; i < places_.size(); i++)
    pcs.emplace_back(places_[i].pc, places_[i].outer);
  std::set<std::string> seen;
  for (size_t i = 0; i < region.tokens.size(); i++) {
    const Token& t = region.tokens[i];
    const std::string_view before = i ? region.tokens[i - 1].text : std::string_view();
    if (t.kind != Token::Kind::Name || before == "." || before == "->" || before == "::" || before == "goto")
      continue;
    if ((!unit.command.c && is_keyword(t.text)) || !seen.emplace(t.text).second) continue;
    const std::string name(t.text);
    for (const auto& [pc, outer] : pcs) {
      const auto site = variables_.site(pc, outer);
      auto variable = variables_.local(site, name);
      Dwarf_Die die = variable ? variable->die : Dwarf_Die{};
      if (variable && !is_null(die) && dwarf_tag(&die) == DW_TAG_enumeration_type) break;
      if (!variable) {
        try {
          variable = variables_.global(site, name, "", false);
        } catch (const Error&) {
        }
        // Thread-local ones; others have addresses that the linker knows.
        if (!variable || variable->storage.kind != symbols::Storage::Kind::Memory ||
            variable->storage.code.size() == 1)
          continue;
      }
      work.names.push_back(name);
      break;
    }
  }
  const std::string where = fmt::format("{}:{}", region.file, region.line);
  if (!pcs.empty() && !unit.command.c)
    work.self = variables_.local(variables_.site(pcs[0].first, pcs[0].second), "this").has_value();
  std::map<std::string, size_t> lost;
  for (size_t i = 0; i < pcs.size(); i++) {
    RegionPlace& place = places_[work.first_place + i];
    place.bindings = binder_.bind_addresses(pcs[i].first, pcs[i].second, work.names, work.self, where);
    if (work.self && place.bindings.self == "0")
      notes_.push_back(
          fmt::format("{}: 'this' has no value here: the compiler kept no value of it, so members of "
                      "its object cannot be used",
                      where));
    for (const BoundVariable& v : place.bindings.variables)
      if (v.where.starts_with("gone: ")) {
        lost[v.name]++;
        work.why[v.name] = v.where.substr(6);
      }
  }
  for (const auto& [name, count] : lost) {
    if (count != pcs.size())
      throw Error(fmt::format("{} (in one of the {} places that the compiler made of this line)",
                              work.why[name], pcs.size()));
    work.gone.insert(name);
  }
  std::erase_if(work.names, [&](const std::string& n) { return work.gone.count(n); });
  for (size_t i = 0; i < pcs.size(); i++) {
    auto& arguments = places_[work.first_place + i].bindings.arguments;
    std::erase_if(arguments, [&](const auto& a) { return work.gone.count(a.name); });
    places_[work.first_place + i].names = work.names;
  }
}

// Which variables of regions others in the same function use.
void Regions::share_variables(Unit& unit) {
  const auto& regions = unit.code->regions();
  for (size_t i = 0; i < regions.size(); i++)
    unit.work[i].declares = declared_variables(unit.code->text(), regions[i].tokens, unit.command.c);
  auto same_function = [&](size_t a, size_t b) {
    const auto& of_a = unit.work[a].functions;
    return std::any_of(of_a.begin(), of_a.end(), [&](const std::string& f) {
      return std::count(unit.work[b].functions.begin(), unit.work[b].functions.end(), f);
    });
  };
  for (size_t j = 0; j < regions.size(); j++) {
    Unit::Work& user = unit.work[j];
    for (const std::string& name : names_in(regions[j].tokens)) {
      const auto names_it = [&](const DeclaredVariable& v) { return v.name == name; };
      if (std::any_of(user.declares.begin(), user.declares.end(), names_it)) continue;
      // The program's own.
      if (std::count(user.names.begin(), user.names.end(), name) || user.gone.count(name) ||
          unit.outline->defined().count(name))
        continue;
      for (size_t i = 0; i < j; i++) {
        Unit::Work& owner = unit.work[i];
        const auto declared = std::find_if(owner.declares.begin(), owner.declares.end(), names_it);
        if (declared == owner.declares.end() || !same_function(i, j)) continue;
        auto keeps = std::find_if(owner.keeps.begin(), owner.keeps.end(),
                                  [&](const SharedVariable& v) { return v.variable.name == name; });
        if (keeps == owner.keeps.end())
          keeps = owner.keeps.insert(
              owner.keeps.end(),
              {*declared, shared_++, fmt::format("{}:{}", regions[i].file, regions[i].line)});
        user.kept.push_back(*keeps);
        break;
      }
    }
  }
  std::set<uint64_t> entries;
  for (Unit::Work& work : unit.work) {
    if (work.keeps.empty() && work.kept.empty()) continue;
    for (size_t p = 0; p < work.places; p++) {
      RegionPlace& place = places_[work.first_place + p];
      const auto site = variables_.site(place.pc);
      const symbols::FrameRow* row = session_.program().frame_rules().at(session_.program(), place.pc);
      // DWARF's numbers of the first registers are not the hardware's.
      static constexpr int kHardware[] = {0, 2, 1, 3, 6, 7, 5, 4};
      if (!row || !row->cfa_expression.empty() || row->cfa_register < 0 || row->cfa_register > 15 ||
          !site.function)
        throw Error(fmt::format(
            "{}: nothing says where the function's frame is here, so regions cannot share variables",
            regions_[place.region].shown()));
      const int number = row->cfa_register < 8 ? kHardware[row->cfa_register] : row->cfa_register;
      place.frame = fmt::format("r->gpr[{}] + {}", number, row->cfa_offset);
      entries.insert(site.function->entry + site.module->bias);
    }
  }
  for (const uint64_t entry : entries) {
    RegionPlace place{.pc = entry, .region = 0, .names = {}, .symbol = {}, .bindings = {}};
    place.entry = true;
    places_.push_back(std::move(place));
  }
}

// The region as a function inside of the function around it.
std::string Regions::function_for(const Unit& unit, const SourceRegion& region, size_t number) const {
  const Unit::Work& work = unit.work[number];
  const size_t n = unit.first_region + number;
  std::string parameters, poison;
  for (const std::string& name : work.names) {
    if (unit.command.c)
      parameters +=
          fmt::format("{}__typeof__({}) *backstep_p_{}", parameters.empty() ? "" : ", ", name, name);
    else
      parameters += fmt::format(", decltype({}) &{}", name, name);
  }
  for (const std::string& name : work.gone)
    poison += fmt::format("__attribute__((unavailable({}))) {} {};\n", literal(work.why.at(name)),
                          unit.command.c ? "__typeof__(" + name + ")" : "int", name);
  std::string code = unit.code->text().substr(region.code_begin, region.code_end - region.code_begin);
  std::string before, after, outlines;
  for (const SharedVariable& v : work.kept) {
    const std::string call =
        fmt::format("backstep_kept({}, {}, {})", v.number, literal(v.variable.name), literal(v.where));
    before +=
        unit.command.c
            ? fmt::format("__typeof__({0}) *backstep_p_{0} = {1};", v.variable.name, call)
            : fmt::format(
                  "backstep_plain<decltype({0})>::type &{0} = *(backstep_plain<decltype({0})>::type *){1};",
                  v.variable.name, call);
  }
  for (const DeclaredVariable* v : outlined(work)) outlines += " " + v->outline;
  for (const SharedVariable& v : work.keeps) {
    after += v.variable.stays ? fmt::format(" backstep_keep({}, (void *)&{}, 0);", v.number, v.variable.name)
             : unit.command.c
                 ? fmt::format(" backstep_keep_copy({0}, &{1}, sizeof({1}));", v.number, v.variable.name)
                 : fmt::format(" backstep_keep_value({}, {});", v.number, v.variable.name);
  }
  if (unit.command.c) {
    // C has no references.
    std::string out;
    size_t from = 0;
    std::set<std::string, std::less<>> declared;
    for (size_t i = 0; i < region.tokens.size(); i++) {
      const Token& t = region.tokens[i];
      const std::string_view before = i ? region.tokens[i - 1].text : std::string_view();
      if (t.kind != Token::Kind::Name || before == "." || before == "->" || before == "struct" ||
          before == "union" || before == "enum")
        continue;
      const bool kept = std::any_of(work.kept.begin(), work.kept.end(),
                                    [&](const SharedVariable& v) { return v.variable.name == t.text; });
      if (!kept && std::find(work.names.begin(), work.names.end(), t.text) == work.names.end()) continue;
      if (is_declared_here(region.tokens, i)) declared.emplace(t.text);
      if (declared.count(t.text)) continue;
      const size_t at = t.offset - region.code_begin;
      out += code.substr(from, at - from) + fmt::format("(*backstep_p_{})", t.text);
      from = at + t.text.size();
    }
    code = out + code.substr(from);
  }
  const std::string marked =
      fmt::format("{}\n# {} \"{}\"\n{}\n# {} \"{}\"\n{}{}", before, region.line, region.file, code,
                  region.last, region.file, after.empty() ? "" : ";", after);
  std::string out;
  if (unit.command.c)
    out = fmt::format(
        "{{ auto void backstep_region_{0}({1}); void backstep_region_{0}({1}) {{ {2}{{{3};}} }} "
        "__asm__ volatile(\"\" : : \"r\"(&backstep_region_{0})); }}",
        n, parameters.empty() ? "void" : parameters, poison, marked);
  else
    out = fmt::format(
        "{{ auto backstep_l = [&](backstep_tag<{}> *{}) -> backstep_none {{ {}{{{};}} return "
        "backstep_none(); }}; "
        "auto backstep_p = &decltype(backstep_l)::operator(); __asm__ volatile(\"\" : : \"m\"(backstep_p)); "
        "}}",
        n, parameters, poison, marked);
  return out + outlines + fmt::format("\n# {} \"{}\"\n", region.last, region.file);
}

void Regions::compile(Unit& unit) {
  const std::string source = unit.stem + (unit.command.c ? ".i" : ".ii"), to = unit.stem + ".all.s";
  std::string text =
      unit.code->with_regions([&](const SourceRegion& r, size_t n) { return function_for(unit, r, n); });
  const bool shares =
      std::any_of(unit.work.begin(), unit.work.end(), [](const auto& w) { return !w.keeps.empty(); });
  if (!unit.command.c)
    text = std::string("# 1 \"<backstep>\"\ntemplate <int> struct backstep_tag; struct backstep_none {};\n") +
           (shares ? kKeepingInCpp : "") + text;
  else if (shares)
    text = std::string("# 1 \"<backstep>\"\n") + kKeepingInC + text;
  write_file(source, text);
  std::vector<std::string> all = Toolchain::common_flags();
  for (size_t i = 0; i < unit.command.flags.size(); i++) {
    const std::string& flag = unit.command.flags[i];
    const bool old = flag.find("++98") != std::string::npos || flag.find("++03") != std::string::npos;
    if (flag.starts_with("-std") && old) continue;
    if (flag.starts_with("-std") || flag.starts_with("-f") || flag.starts_with("-m")) all.push_back(flag);
  }
  for (const char* flag : {"-w", "-S", "-fpreprocessed", "-ffunction-sections", "-fdata-sections",
                           "-fkeep-static-functions", "-fno-toplevel-reorder", "-fno-ipa-cp", "-fno-ipa-sra",
                           "-fno-ipa-reference", "-fno-ipa-pure-const", "-fno-ipa-icf"})
    all.emplace_back(flag);
  if (unit.command.c) all.emplace_back("-Werror=trampolines");
  // Jumps over what regions declare do not matter where nothing is run.
  if (!unit.command.c && shares) all.emplace_back("-fpermissive");
  all.insert(all.end(), {source, "-o", to});
  run(unit, all);
  redirect(unit, Assembly(read_file(to)));
}

// The program's own names mean the program.
void Regions::redirect(Unit& unit, const Assembly& assembly) {
  std::set<std::string> aside;
  const auto& before = unit.outline->defined();
  for (const auto& [name, symbol] : assembly.defined()) {
    if (name == "main") aside.insert(name);
    const auto was = before.find(name);
    if (was == before.end() || unit.only_debug_code || is_of_library(name) || is_numbered(name) ||
        name == "main")
      continue;
    if (symbol.function ? was->second.weak : symbol.thread_specific) continue;
    const auto address = program_symbols_.address(name, unit.path);
    if (address) symbols_[name] = *address;
    // A variable that the program's compiler made away with must not seem to have a value.
    if (address || (!symbol.function && !symbol.read_only)) aside.insert(name);
  }
  const auto libraries = tools_.library_names();
  for (const std::string& name : assembly.mentioned()) {
    if (assembly.defined().count(name) || is_of_library(name) || name.starts_with("backstep_")) continue;
    const auto address = program_symbols_.shared(name);
    if (!address) continue;
    if (libraries.count(name) && variables_.functions_named({}, name).empty()) continue;
    symbols_[name] = *address;
  }
  std::string text = assembly.without_definitions(aside);
  // Constructors of the program's variables have run in the program. Those of debug code's have not.
  if (!unit.only_debug_code && assembly.has_constructors()) {
    auto own = [](std::set<std::string> called) {
      std::erase_if(called, [](const std::string& n) {
        return n.find("ios_base4Init") != std::string::npos || n.starts_with("__cxa_") ||
               n.find("static_initialization") != std::string::npos;
      });
      return called;
    };
    const auto program = own(unit.outline->called_at_start()), together = own(assembly.called_at_start());
    if (!program.empty() && together.size() > program.size())
      throw Error(
          fmt::format("{}: variables of debug code and of the program in one file both have constructors, "
                      "which cannot be told apart: put "
                      "those of the debug code into a file of its own, and give it to backstep probe, too",
                      unit.path));
    if (!program.empty()) text = Assembly::without_constructors(text);
  }
  for (size_t i = 0; i < unit.work.size(); i++) {
    const size_t n = unit.first_region + i;
    const Unit::Work& work = unit.work[i];
    const std::string plain = fmt::format("backstep_region_{}", n),
                      tag = fmt::format("backstep_tagILi{}EE", n);
    for (const auto& [name, symbol] : assembly.defined()) {
      const bool nested = unit.command.c && name.starts_with(plain + ".") && is_numbered(name);
      const bool lambda =
          !unit.command.c && name.find(tag) != std::string::npos && name.find("clE") != std::string::npos;
      if (!symbol.function || (!nested && !lambda)) continue;
      if (!symbol.weak) text += fmt::format("\t.globl\t{}\n", name);
      for (size_t p = 0; p < work.places; p++) {
        RegionPlace& place = places_[work.first_place + p];
        if (nested || place.symbol.empty() || name.starts_with(lambda_prefix(work.functions[p])))
          place.symbol = name;
      }
    }
    for (size_t p = 0; p < work.places; p++)
      if (places_[work.first_place + p].symbol.empty())
        throw Error(
            fmt::format("{}:{}: no code was made of this region", regions_[n].file, regions_[n].line));
  }
  const std::string source = unit.stem + ".s", object = unit.stem + ".o";
  write_file(source, text);
  const auto outcome = tools_.run(true, {"-c", source, "-o", object});
  if (!outcome.ok)
    throw Error(
        fmt::format("the assembler does not take the debug code of '{}':\n{}", unit.path, outcome.errors));
  objects_.push_back(object);
}

std::string Regions::place_functions(size_t first) const {
  std::string out = "extern \"C\" void backstep_set_frame(unsigned long, unsigned long);\n";
  for (size_t i = 0; i < places_.size(); i++) {
    const RegionPlace& place = places_[i];
    std::string arguments, types;
    const bool closure = place.symbol.starts_with("_Z");
    if (closure) arguments = "&backstep_self, (void *)0", types = "void *, void *";
    if (place.entry) {
      out += fmt::format(
          "extern \"C\" void backstep_new_frame(unsigned long, unsigned long);\n"
          "extern \"C\" __attribute__((used)) void backstep_place_{}(const backstep_registers *r) {{\n"
          "backstep_new_frame(r->gpr[4] + 8, r->thread);\n}}\n",
          first + i);
      continue;
    }
    for (const auto& a : place.bindings.arguments) {
      arguments += (arguments.empty() ? "" : ", ") + a.expression;
      types += types.empty() ? "void *" : ", void *";
    }
    out += fmt::format("extern \"C\" void backstep_call_{}({}) __asm__(\"{}\");\n", first + i, types,
                       place.symbol);
    out += fmt::format(
        "extern \"C\" __attribute__((used)) void backstep_place_{}(const backstep_registers *r) "
        "{{\n(void)r;\n{}",
        first + i, place.bindings.prologue);
    if (!place.frame.empty()) out += fmt::format("backstep_set_frame({}, r->thread);\n", place.frame);
    if (closure)
      out += fmt::format("unsigned long backstep_self = {};\n",
                         place.bindings.self.empty() ? "0" : place.bindings.self);
    out += fmt::format("backstep_call_{}({});\n}}\n", first + i, arguments);
  }
  return out;
}

}  // namespace backstep::probe
