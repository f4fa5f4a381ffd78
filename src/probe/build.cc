// One C++ file is made of all snippets: the declarations that they need, for each place a function that finds
// its variables, and the snippet itself between #line directives, so that whatever the compiler says is said
// of the user's code. All places of a snippet at which the same variables are bound in the same way share one
// copy of it, and with that its static variables.
//
// If the compiler does not come to the layout of a type that the recorded program has (unusual attributes,
// say), that type is declared as mere bytes, and all is compiled again.
#include "probe/build.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/nearest.h"
#include "probe/binder.h"
#include "probe/complaints.h"
#include "probe/declarations.h"
#include "probe/loaded.h"
#include "probe/regions.h"
#include "probe/system_headers.h"
#include "probe/tokens.h"
#include "probe/toolchain.h"
#include "session/resolve.h"

namespace backstep::probe {
namespace {

constexpr size_t kMostPlaces = 1000;

// The code of a snippet, ready to stand in a function.
struct Prepared {
  std::string shown;     // what the compiler calls its file
  std::string code;      // with names that are no C++ changed
  std::string includes;  // its #include lines
  std::vector<std::string> lines;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines{""};
  for (const char c : text) {
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  }
  return lines;
}

// Behind the arrow of a lambda: `[](int n) -> void * {`. No program has members of these names.
bool begins_type(std::string_view word) {
  static const std::set<std::string_view> kWords{
      "auto",     "bool",   "char",  "char8_t",  "char16_t", "char32_t", "const",
      "decltype", "double", "enum",  "float",    "int",      "long",     "short",
      "signed",   "struct", "union", "unsigned", "void",     "volatile", "wchar_t"};
  return kWords.count(word) > 0;
}

Prepared prepare(const Snippet& snippet) {
  Prepared p;
  p.shown = snippet.file.empty() ? "--at " + snippet.place : snippet.file;
  p.lines = lines_of(snippet.code);
  const auto tokens = tokens_of(snippet.code);
  size_t from = 0;
  for (size_t i = 0; i < tokens.size(); i++) {
    const Token& t = tokens[i];
    if (t.kind == Token::Kind::Directive) {
      p.code += snippet.code.substr(from, t.offset - from);
      from = t.offset + t.text.size();
      p.includes += std::string(t.text) + "\n";
    } else if (t.kind == Token::Kind::Name && is_keyword(t.text) && i &&
               (tokens[i - 1].text == "." || (tokens[i - 1].text == "->" && !begins_type(t.text))) &&
               t.text != "template" && t.text != "operator") {
      // In C it was a name.
      p.code += snippet.code.substr(from, t.offset + t.text.size() - from) + "_";
      from = t.offset + t.text.size();
    }
  }
  p.code += snippet.code.substr(from);
  return p;
}

// Where a snippet is to run.
struct At {
  uint64_t pc = 0;
  unsigned outer = 0;  // whose variables are meant, as Variables::site has it
  uint32_t region = 0;
  std::optional<Declarations::Method> method = {};
};

class Source {
 public:
  Source(session::Session& session, const BuildRequest& request, const Toolchain& tools)
      : session_(session),
        request_(request),
        tools_(tools),
        usual_(tools.usual_names()),
        region_variables_(session.program()),
        region_binder_(region_variables_, usual_, {}, {}, "region") {
    for (const Snippet& s : request.snippets) prepared_.push_back(prepare(s));
    find_places();
  }

  const std::vector<At>& places() const { return places_; }
  const std::vector<Bindings>& bindings() const { return bindings_; }

  // The whole file; `opaque`: see Declarations.
  std::string text(const std::set<unsigned>& opaque) {
    symbols::Variables variables(session_.program());
    Names used;
    for (const Prepared& p : prepared_) used.merge(names_in(tokens_of(p.code)));
    Binder binder(variables, usual_, used, opaque);
    bindings_.clear();
    for (size_t i = 0; i < places_.size(); i++)
      places_[i].method =
          binder.add_method(places_[i].pc, places_[i].outer,
                            fmt::format("void backstep_region_{0}(struct backstep_arguments_{0} &)", i));
    for (const At& at : places_)
      bindings_.push_back(binder.bind(at.pc, at.outer, tokens_of(prepared_[at.region].code),
                                      request_.snippets[at.region].place));
    std::string functions;
    std::map<std::string, size_t> same;  // by all that is bound: the first such place
    for (size_t i = 0; i < places_.size(); i++) functions += place(i, same);
    if (!regions_) {
      regions_.emplace(session_, tools_, region_variables_, region_binder_);
      for (const SourceFile& source : request_.sources) regions_->add(source);
    }
    functions += region_binder_.helpers() + regions_->place_functions(places_.size());
    const std::string declarations = binder.declarations();
    std::string out = "#include <backstep/debug.h>\n" + usual_headers();
    for (const std::string& header : binder.headers()) out += "#include " + header + "\n";
    for (const Prepared& p : prepared_) out += p.includes;
    out +=
        "typedef unsigned short backstep_word16 __attribute__((aligned(1), may_alias));\n"
        "typedef unsigned int backstep_word32 __attribute__((aligned(1), may_alias));\n"
        "typedef unsigned long backstep_word64 __attribute__((aligned(1), may_alias));\n"
        "template <unsigned long n> struct backstep_bytes { unsigned char bytes[n]; };\n"
        "template <class T> using backstep_same = T;\n"
        "struct backstep_pair { long words[2]; };\n"
        "extern \"C\" void backstep_unknown(const char *name, const char *where);\n"
        "namespace backstep_program {}\n";
    for (size_t i = 0; i < places_.size(); i++) out += fmt::format("struct backstep_arguments_{};\n", i);
    symbols_ = binder.symbols();
    return out + declarations + binder.helpers() + functions;
  }
  std::map<std::string, uint64_t> symbols() const {
    auto all = symbols_;
    all.insert(regions_->symbols().begin(), regions_->symbols().end());
    return all;
  }
  const Regions& regions() const { return *regions_; }
  const std::vector<std::string>& notes() const { return notes_; }  // about places

  // Complaints about the user's code, with its lines; about ours if there are no others.
  std::string explain(const Toolchain::Outcome& outcome) const {
    std::map<std::string, std::vector<std::string>> sources;
    for (const Prepared& p : prepared_) sources[p.shown] = p.lines;
    return complaints_text(outcome, sources, "the snippet does not compile");
  }

 private:
  void find_places() {
    for (uint32_t n = 0; n < request_.snippets.size(); n++) {
      const Snippet& s = request_.snippets[n];
      std::map<uint64_t, unsigned> pcs;  // … and whose variables are meant there
      const bool copies = inlined_copies(s.place, pcs);
      const auto resolved = copies ? session::Resolved() : session::resolve(session_, s.place, true);
      for (const std::string& note : resolved.notes)
        notes_.push_back(fmt::format("--at {}: {}", s.place, note));
      for (const auto& tap : resolved.taps) {
        if (!tap.pc || tap.tap.kind != timeline::Tap::Pc || !tap.tap.conditions.empty())
          throw Error(
              fmt::format(
                  "'{}' is no place in the code: debug code belongs to a line (parse.c:42), a function or an "
                  "address, and conditions into the code itself",
                  s.place),
              kExitUsage);
        pcs.emplace(tap.pc, tap.offers.outer);
      }
      if (pcs.size() > kMostPlaces)
        throw Error(
            fmt::format("'{}' is {} places in the code, more than debug code can have", s.place, pcs.size()),
            kExitUsage);
      for (const auto& [pc, outer] : pcs) places_.push_back({.pc = pc, .outer = outer, .region = n});
    }
    std::stable_sort(places_.begin(), places_.end(), [](const At& a, const At& b) { return a.pc < b.pc; });
  }

  // A function by its name: its own code, and wherever it was inlined. False: it was inlined nowhere.
  bool inlined_copies(const std::string& name, std::map<uint64_t, unsigned>& pcs) const {
    if (name.find_first_of(" .") != std::string::npos || name.starts_with("0x")) return false;
    bool any = false;
    for (const symbols::Function& f : session_.program().functions(name, true)) {
      if (f.inlined)
        pcs.emplace(f.entry, 0);
      else
        pcs.emplace(f.body, symbols::EventVariables::kNotInlined);
      any |= f.inlined;
    }
    if (!any) pcs.clear();
    return any;
  }

  // The functions of one place.
  std::string place(size_t number, std::map<std::string, size_t>& same) const {
    const At& at = places_[number];
    const Bindings& b = bindings_[number];
    const Prepared& p = prepared_[at.region];
    const bool method = at.method && !b.self.empty();
    std::string bound = fmt::format("{}\n{}\n{}\n", at.region, method ? at.method->owner : "", b.scope),
                values;
    for (const auto& argument : b.arguments) bound += argument.declaration + "\n";
    const auto [shared, first] = same.try_emplace(bound, number);
    std::string out;
    if (first) {
      std::string fields, names;
      for (size_t i = 0; i < b.arguments.size(); i++) {
        std::string field = b.arguments[i].declaration;
        // The name is the last word in front of the closing bracket that belongs to its "(&".
        const size_t open = field.find("&" + declared(b.arguments[i].name) + ")");
        field.replace(open + 1, declared(b.arguments[i].name).size(), fmt::format("backstep_{}", i));
        fields += field + ";\n";
        names += fmt::format("{} = backstep_a.backstep_{};\n", b.arguments[i].declaration, i);
      }
      out += fmt::format("struct backstep_arguments_{} {{\n{}}};\n", number, fields);
      out += fmt::format(
          "{}void {}backstep_region_{}(struct backstep_arguments_{} &backstep_a){} "
          "{{\n(void)backstep_a;\n{}{}{{\n",
          method ? "" : "static ", method ? at.method->owner + "::" : "", number, number,
          method && at.method->is_const ? " const" : "", names, b.scope);
      out += fmt::format("#line 1 {}\n{}\n;\n#line 1 \"<backstep>\"\n}}\n}}\n", literal(p.shown), p.code);
    }
    for (const auto& argument : b.arguments) values += argument.expression + ", ";
    out += fmt::format(
        "extern \"C\" __attribute__((used)) void backstep_place_{}(const backstep_registers *r) "
        "{{\n(void)r;\n{}",
        number, b.prologue);
    out += fmt::format(
        "struct backstep_arguments_{} a = {{{}}};\n{}backstep_region_{}(a);\n}}\n", shared->second, values,
        method ? fmt::format("((struct {} *){})->", at.method->owner, b.self) : "", shared->second);
    return out;
  }
  static std::string declared(const std::string& name) { return is_keyword(name) ? name + "_" : name; }

  session::Session& session_;
  const BuildRequest& request_;
  const Toolchain& tools_;
  Names usual_;
  std::vector<Prepared> prepared_;
  std::vector<At> places_;
  std::vector<Bindings> bindings_;
  std::vector<std::string> notes_;
  std::map<std::string, uint64_t> symbols_;
  symbols::Variables region_variables_;
  Binder region_binder_;
  std::optional<Regions> regions_;
};

// Types that came out otherwise than they are in the recorded program.
std::set<unsigned> wrong_layouts(const Toolchain::Outcome& outcome) {
  std::set<unsigned> numbers;
  for (const Complaint& c : outcome.complaints()) {
    const size_t at = c.text.find(Declarations::kLayoutMark);
    if (at != std::string::npos)
      numbers.insert(static_cast<unsigned>(
          std::atoi(c.text.c_str() + at + std::string(Declarations::kLayoutMark).size())));
  }
  return numbers;
}

std::string compile(Source& source, const Toolchain& tools) {
  constexpr int kTries = 4;
  const std::string path = tools.folder() + "/snippets.cc", object = tools.folder() + "/snippets.o";
  std::set<unsigned> opaque;
  for (int n = 1;; n++) {
    write_file(path, source.text(opaque));
    std::vector<std::string> arguments = Toolchain::common_flags();
    for (const std::string& s :
         {std::string("-std=gnu++20"), std::string("-fpermissive"), std::string("-w"),
          "-I" + tools.include_folder(), std::string("-c"), path, std::string("-o"), object})
      arguments.push_back(s);
    const auto outcome = tools.run(false, arguments);
    if (outcome.ok) return object;
    const auto wrong = wrong_layouts(outcome);
    if (wrong.empty() || n == kTries) throw Error(source.explain(outcome));
    opaque.insert(wrong.begin(), wrong.end());
  }
}

}  // namespace

bool is_source_file(const std::string& path) {
  for (const char* suffix : {".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".h", ".hh", ".hpp"})
    if (path.ends_with(suffix)) return true;
  return false;
}

Snippet snippet(const std::string& place, const std::string& code) {
  if (!code.starts_with('@')) return {place, code, ""};
  const std::string path = code.substr(1);
  if (!std::filesystem::is_regular_file(path))
    throw Error(fmt::format("cannot read the code for '{}': there is no file '{}'", place, path), kExitUsage);
  return {place, read_file(path), path};
}

Built build(session::Session& session, const BuildRequest& request) {
  const Toolchain tools(request.folder);
  Source source(session, request, tools);
  const std::string object = compile(source, tools);
  Built built;
  Module& module = built.module;
  module.base = request.base;
  module.elf_path = request.folder + "/module";
  std::vector<std::string> objects{object, tools.runtime_object()}, needed{"backstep_finish"};
  const Regions& regions = source.regions();
  objects.insert(objects.end(), regions.objects().begin(), regions.objects().end());
  for (size_t i = 0; i < source.places().size() + regions.places().size(); i++)
    needed.push_back(fmt::format("backstep_place_{}", i));
  tools.link(objects, source.symbols(), needed, request.base, module.elf_path);
  const LinkedProgram linked(module.elf_path);
  module.size = linked.end() - request.base;
  module.ready_entry = linked.entry();
  for (const Snippet& s : request.snippets)
    module.regions.push_back({s.file.empty() ? "--at " + s.place : s.file, 1, s.place});
  module.regions.insert(module.regions.end(), regions.regions().begin(), regions.regions().end());
  built.notes = source.notes();
  built.notes.insert(built.notes.end(), regions.notes().begin(), regions.notes().end());
  std::vector<std::pair<probe::Place, BoundPlace>> all;
  auto add = [&](uint64_t pc, uint32_t region, const Bindings& b) {
    const uint64_t function = linked.symbol(fmt::format("backstep_place_{}", all.size()));
    const auto place = session.program().place(pc);
    all.push_back(
        {{pc, function, region, b.needs_vector},
         {pc, place.inlined.empty() ? place.function : place.inlined, place.file, place.line, b.variables}});
  };
  for (size_t i = 0; i < source.places().size(); i++)
    add(source.places()[i].pc, source.places()[i].region, source.bindings()[i]);
  const auto others = static_cast<uint32_t>(request.snippets.size());
  for (const RegionPlace& p : regions.places())
    add(p.pc, p.entry ? Place::kNobodys : others + static_cast<uint32_t>(p.region), p.bindings);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    // (Where a function begins its regions have not been yet.)
    return a.first.pc != b.first.pc ? a.first.pc < b.first.pc : a.first.region > b.first.region;
  });
  for (const auto& [place, bound] : all) {
    module.places.push_back(place);
    built.places.push_back(bound);
  }
  return built;
}

}  // namespace backstep::probe
