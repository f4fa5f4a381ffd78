// Names are looked up as the language would: variables of the function from the innermost block outwards,
// members of the class around it, what is outside; and what nobody knows is left to the compiler, because
// debug code has names of its own.
//
// A variable that has no value at the place is declared nonetheless, as one that must not be used (the
// attribute `unavailable`): if debug code has its own variable of that name all is well, else the compiler
// complains at the right place, with our sentence.
#include "probe/binder.h"

#include <dwarf.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "probe/location_code.h"
#include "probe/system_headers.h"
#include "session/modules.h"
#include "symbols/variables_globals.h"

namespace backstep::probe {

using symbols::Code;
using symbols::Storage;
using symbols::Variable;
using Need = Declarations::Need;

struct Binder::Place {
  symbols::Site site;
  const std::string& where;
  Bindings out;
  std::optional<Variable> self = {};
  bool uses_self = false;
};

std::string literal(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

namespace {

// The address, if it is the same everywhere.
std::optional<uint64_t> constant_address(const Storage& storage) {
  const auto bytes = storage.code.bytes();
  if (storage.kind != Storage::Kind::Memory || bytes.size() < 3) return {};
  const size_t operands = bytes.size() - 2;
  const uint8_t op = bytes[0];
  const bool constant =
      (op == replayer::kConst8 && operands == 1) || (op == replayer::kConst16 && operands == 2) ||
      (op == replayer::kConst32 && operands == 4) || (op == replayer::kConst64 && operands == 8);
  if (!constant) return {};
  uint64_t address = 0;
  for (size_t i = 1; i <= operands; i++) address = address << 8 | bytes[i];
  return address;
}

bool is_scalar(const symbols::Type* type) {
  return type && type->scalar();
}

bool is_reference(Dwarf_Die type) {
  const Dwarf_Die plain = stripped(type);
  if (is_null(plain)) return false;
  const int tag = dwarf_tag(const_cast<Dwarf_Die*>(&plain));
  return tag == DW_TAG_reference_type || tag == DW_TAG_rvalue_reference_type;
}

std::string usable(const std::string& name) {
  return is_keyword(name) ? name + "_" : name;
}

}  // namespace

std::set<std::string> Binder::headers() const {
  std::set<std::string> all = declarations_.headers();
  all.insert(headers_.begin(), headers_.end());
  return all;
}

std::map<std::string, uint64_t> Binder::symbols() const {
  std::map<std::string, uint64_t> all = declarations_.symbols();
  all.insert(symbols_.begin(), symbols_.end());
  return all;
}

std::string Binder::declarations() {
  return declarations_.text() + outside_;
}

void Binder::declare_outside(const std::string& space, const std::string& text) {
  if (!declared_.insert(space + "\n" + text).second) return;
  outside_ += space.empty() ? text : fmt::format("namespace {} {{ {} }}\n", space, text);
}

// A word that is computed at the beginning of the place's function; its name.
std::string Binder::word(Place& place, const std::string& name, const Code& code) {
  const unsigned n = count_++;
  helpers_ += location_function(fmt::format("backstep_{}_{}", prefix_, n), code);
  place.out.needs_vector |= uses_vector(code);
  place.out.prologue += fmt::format(
      "unsigned long at_{0};\nif (!backstep_{3}_{0}(r, &at_{0})) return backstep_unknown({1}, {2});\n", n,
      literal(name), literal(place.where), prefix_);
  return fmt::format("at_{}", n);
}

// A copy of a value that is not in memory; the name of an array of its bytes.
std::string Binder::copy(Place& place, const std::string& name, const Variable& variable) {
  const std::string bytes = fmt::format("value_{}", count_++);
  const uint64_t size = std::max<uint64_t>(variable.type ? variable.type->size : 8, 8);
  std::string fill;
  auto part = [&](uint64_t offset, uint64_t part_size, Storage::Kind kind, const Code& code) {
    const std::string from = word(place, name, code);
    if (offset >= size) return;
    fill += kind == Storage::Kind::Memory
                ? fmt::format("__builtin_memcpy({} + {}, (const void *){}, {});\n", bytes, offset, from,
                              std::min(part_size, size - offset))
                : fmt::format("__builtin_memcpy({} + {}, &{}, {});\n", bytes, offset, from,
                              std::min<uint64_t>({part_size, size - offset, 8}));
  };
  const Storage& storage = variable.storage;
  if (storage.kind == Storage::Kind::Pieces) {
    for (const auto& piece : storage.pieces) part(piece.offset, piece.size, piece.kind, piece.code);
  } else {
    part(0, 8, Storage::Kind::Value, storage.code);
  }
  place.out.prologue += fmt::format("alignas(16) unsigned char {}[{}] = {{}};\n{}", bytes, size, fill);
  return bytes;
}

void Binder::gone(Place& place, const std::string& name, const Variable* variable, const std::string& why) {
  std::string declared = fmt::format("int {}", usable(name));
  const std::string sentence = fmt::format("'{}' has no value at {}: {}", name, place.where, why);
  std::string value = " = 0";
  if (variable && variable->module && !is_null(variable->die)) {
    Dwarf_Die type = probe::type_of(variable->die);
    if (is_reference(type)) type = probe::type_of(stripped(type));
    declared = declarations_.declare(variable->module, type, fmt::format("(&{})", usable(name)), Need::Whole);
    value = fmt::format(" = *({})0", declarations_.declare(variable->module, type, "(*)", Need::Name));
  }
  place.out.scope +=
      fmt::format("__attribute__((unavailable({}))) {}{};\n", literal(sentence), declared, value);
  place.out.variables.push_back({name, "", "gone: " + why});
}

// Has it no value here? Then it is declared as one without.
bool Binder::missing(Place& place, const std::string& name, const Variable& variable) {
  const Storage& storage = variable.storage;
  std::string why = storage.kind == Storage::Kind::Gone ? storage.why : "";
  for (const auto& piece : storage.pieces)
    if (piece.kind == Storage::Kind::Gone) why = "the compiler kept only a part of it here";
  if (storage.kind == Storage::Kind::Implicit) {
    const auto target = variables_.pointee(place.site, storage);
    if (!target ||
        (target->storage.kind != Storage::Kind::Value && target->storage.kind != Storage::Kind::Pieces))
      why = "it points to a variable that the compiler kept nowhere";
  }
  if (why.empty()) return false;
  gone(place, name, &variable, why);
  return true;
}

// An expression for where it is, or where a copy of it is.
std::string Binder::address(Place& place, const std::string& name, const Variable& variable,
                            bool by_reference, std::string* where) {
  const Storage& storage = variable.storage;
  if (storage.kind == Storage::Kind::Memory || (storage.kind == Storage::Kind::Value && by_reference)) {
    Code code = storage.code;
    if (by_reference && storage.kind == Storage::Kind::Memory) code.load(8);
    *where = "memory";
    return word(place, name, code);
  }
  if (storage.kind == Storage::Kind::Implicit) {
    // What it points to is not in memory: a copy of that is, as long as the debug code runs.
    const std::string bytes = copy(place, name, *variables_.pointee(place.site, storage));
    const std::string pointer = fmt::format("value_{}", count_++);
    place.out.prologue +=
        fmt::format("unsigned long {} = (unsigned long){} + {};\n", pointer, bytes, storage.offset);
    *where = "a copy";
    return by_reference ? pointer : "&" + pointer;
  }
  const auto code = storage.kind == Storage::Kind::Value ? storage.code.bytes() : std::vector<uint8_t>{};
  const bool reads = std::find(code.begin(), code.end(), replayer::kReg) != code.end();
  *where = storage.kind == Storage::Kind::Value && !reads ? "a constant" : "a register";
  return copy(place, name, variable);
}

void Binder::bind_storage(Place& place, const std::string& name, const Variable& variable) {
  if (missing(place, name, variable)) return;
  Dwarf_Die type = probe::type_of(variable.die);
  const auto* module = variable.module;
  const bool by_reference = is_reference(type);
  if (by_reference) type = probe::type_of(stripped(type));
  std::string where;
  const std::string from = address(place, name, variable, by_reference, &where);
  // A store to a copy would be lost.
  const std::string constness =
      where != "memory" && where != "a copy" && is_scalar(variable.type) ? "const " : "";
  place.out.arguments.push_back(
      {name,
       declarations_.declare(module, type, fmt::format("{}(&{})", constness, usable(name)), Need::Whole),
       fmt::format("*({}){}", declarations_.declare(module, type, constness + "(*)", Need::Whole), from)});
  // The type as the program calls it.
  std::string shown = declarations_.declare(module, type, "", Need::Name);
  for (size_t at; (at = shown.find(" ::")) != std::string::npos;) shown.erase(at + 1, 2);
  if (shown.starts_with("::")) shown.erase(0, 2);
  place.out.variables.push_back({name, shown, where});
}

Bindings Binder::bind_addresses(uint64_t pc, unsigned outer, const std::vector<std::string>& names, bool self,
                                const std::string& where) {
  Place place{.site = variables_.site(pc, outer), .where = where, .out = {}};
  if (self) place.self = variables_.local(place.site, "this");
  auto bind_one = [&](const std::string& name, const Variable& variable) {
    const Storage& s = variable.storage;
    std::string kind, why = s.why;
    const bool gone = s.kind == Storage::Kind::Gone ||
                      std::any_of(s.pieces.begin(), s.pieces.end(),
                                  [](const auto& p) { return p.kind == Storage::Kind::Gone; });
    if (gone) {
      place.out.variables.push_back(
          {name, "",
           fmt::format("gone: '{}' has no value at {}: {}", name, where,
                       why.empty() ? "the compiler kept only a part of it here" : why)});
      place.out.arguments.push_back({name, "", ""});
      return;
    }
    const std::string from =
        address(place, name, variable, is_reference(probe::type_of(variable.die)), &kind);
    place.out.arguments.push_back({name, "", "(void *)" + from});
    place.out.variables.push_back({name, "", kind});
  };
  for (const std::string& name : names) {
    auto variable = variables_.local(place.site, name);
    if (!variable) variable = variables_.global(place.site, name, "", false);
    if (!variable) throw Error(fmt::format("'{}' is not known at {}", name, where));
    bind_one(name, *variable);
  }
  if (place.self) {
    const Storage& storage = place.self->storage;
    Code code = storage.code;
    if (storage.kind == Storage::Kind::Memory) code.load(8);
    place.out.self = storage.kind == Storage::Kind::Memory || storage.kind == Storage::Kind::Value
                         ? word(place, "this", code)
                         : "0";
  }
  return std::move(place.out);
}

bool Binder::local(Place& place, const std::string& name) {
  const auto variable = variables_.local(place.site, name);
  if (!variable) return false;
  Dwarf_Die die = variable->die;
  if (!is_null(die) && dwarf_tag(&die) == DW_TAG_enumeration_type) {
    place.out.scope +=
        fmt::format("constexpr {} = ({}){};\n",
                    declarations_.declare(variable->module, die, "const " + usable(name), Need::Whole),
                    declarations_.declare(variable->module, die, "", Need::Whole), usable(name));
    place.out.variables.push_back({name, "", "a constant"});
    return true;
  }
  bind_storage(place, name, *variable);
  return true;
}

// Functions of that name, overloaded ones too.
void Binder::functions(Place& place, const std::string& name, const std::string& as) {
  bool any = false;
  std::string last = name;
  if (const size_t at = as.rfind("::"); at != std::string::npos) last = as.substr(at + 2);
  const bool plain = as.find("::") == std::string::npos;
  const std::string space = plain ? "backstep_program" : as.substr(0, as.rfind("::"));
  for (const auto& [module, die] : variables_.functions_named(place.site, name)) {
    Dwarf_Die copy = die;
    Dwarf_Addr entry = 0;
    if (dwarf_entrypc(&copy, &entry) != 0) continue;
    if (dwarf_hasattr_integrate(&copy, DW_AT_object_pointer)) continue;  // of a class
    const std::string symbol = fmt::format("backstep_at_{:x}", entry + module->bias);
    symbols_[symbol] = entry + module->bias;
    const Dwarf_Die described = symbols::die_origin(die);
    const std::string signature =
        fmt::format("{}({})", usable(last), declarations_.parameters(module, described, 0));
    declare_outside(space, declarations_.declare_of(module, described, signature, Need::Whole) +
                               fmt::format(" __asm__(\"{}\");", symbol));
    any = true;
  }
  if (any && plain) place.out.scope += fmt::format("using backstep_program::{};\n", usable(last));
  if (any) place.out.variables.push_back({as, "", "a function"});
}

// `as`: how debug code writes it, "ns::x" or "x".
bool Binder::outside(Place& place, const std::string& name, const std::string& as) {
  std::optional<Variable> found;
  try {
    found = variables_.global(place.site, name, "", false);
  } catch (const Error& e) {
    gone(place, name, nullptr, e.what());
    return true;
  }
  if (!found) return false;
  // Debug code has a C library of its own; "stdout" is that one's.
  if (found->module && usual_.count(name) && session::is_of_the_system(found->module->name)) return true;
  const bool plain = as.find("::") == std::string::npos;
  Dwarf_Die die = found->die;
  const int tag = is_null(die) ? 0 : dwarf_tag(&die);
  if (tag == DW_TAG_subprogram) {
    functions(place, name, as);
    return true;
  }
  if (tag == DW_TAG_enumeration_type) {
    const std::string type = declarations_.declare(found->module, die, "", Need::Whole);
    const auto bytes = found->storage.code.bytes();
    uint64_t value = 0;
    for (size_t i = 1; i + 1 < bytes.size(); i++) value = value << 8 | bytes[i];
    if (plain && !usual_.count(name))
      place.out.scope +=
          fmt::format("constexpr {} const {} = ({})(long){:#x};\n", type, usable(name), type, value);
    place.out.variables.push_back({as, "", "a constant"});
    return true;
  }
  if (const auto address = constant_address(found->storage)) {
    const std::string symbol = fmt::format("backstep_at_{:x}", *address);
    symbols_[symbol] = *address;
    std::string last = as;
    if (const size_t at = as.rfind("::"); at != std::string::npos) last = as.substr(at + 2);
    const std::string space = plain ? "backstep_program" : as.substr(0, as.rfind("::"));
    declare_outside(
        space, fmt::format("extern {} __asm__(\"{}\");",
                           declarations_.declare_of(found->module, die, usable(last), Need::Whole), symbol));
    if (plain) place.out.scope += fmt::format("using backstep_program::{};\n", usable(last));
    place.out.variables.push_back({as, "", "memory"});
    return true;
  }
  if (!plain) return false;
  bind_storage(place, name, *found);  // thread-local, or a constant
  return true;
}

bool Binder::type(Place& place, const std::string& name) {
  const auto found = variables_.type_described(place.site, name);
  if (!found || usual_.count(name)) return found.has_value();
  Dwarf_Die die = found->second;
  if (dwarf_tag(&die) == DW_TAG_base_type) return true;
  const std::string spelled = declarations_.declare(found->first, die, "", Need::Whole);
  const Dwarf_Die plain = stripped(die);
  if (!is_null(plain)) declarations_.declare(found->first, plain, "", Need::Whole);
  // "x" of namespaces around the place, and of the function itself.
  if (spelled.find(" ::" + name) == std::string::npos ||
      spelled.rfind(" ::" + name) + name.size() + 3 != spelled.size())
    if (spelled != "::" + name && !is_keyword(name))
      place.out.scope += fmt::format("typedef {} {};\n", spelled, name);
  return true;
}

void Binder::name(Place& place, const std::string& name) {
  if (local(place, name)) return;
  if (place.self && declarations_.has_member(place.self->module, probe::type_of(place.self->die), name)) {
    place.uses_self = true;
    return;
  }
  if (outside(place, name, name)) return;
  if (type(place, name)) return;
  if (usual_.count(name)) return;
  // A function without debug information: what it takes and returns is up to the debug code.
  const auto symbol = variables_.symbol(name);
  const auto address = symbol ? constant_address(symbol->storage) : std::nullopt;
  if (!address || symbol->type->kind != symbols::Type::Kind::Function) return;
  const std::string label = fmt::format("backstep_at_{:x}", *address);
  symbols_[label] = *address;
  declare_outside("backstep_program", fmt::format("extern \"C\" long {}(...) __asm__(\"{}\");", name, label));
  place.out.scope += fmt::format("using backstep_program::{};\n", name);
  place.out.variables.push_back({name, "", "a function without debug information"});
}

void Binder::qualified(Place& place, const std::vector<std::string>& path) {
  if (path[0] == "std") {
    for (const std::string& part : path)
      if (const std::string header = cpp_header_of(part); !header.empty()) headers_.insert(header);
    return;
  }
  if (path[0] == "backstep") return;
  std::string whole = fmt::format("{}", fmt::join(path, "::"));
  const bool found = outside(place, whole, whole);
  type(place, path[0]);  // "Kind::Round" where debug code is in the namespace of Kind
  if (found) return;
  for (; !whole.empty(); whole.resize(whole.rfind("::") == std::string::npos ? 0 : whole.rfind("::"))) {
    if (auto found = variables_.type_described(place.site, whole)) {
      declarations_.declare(found->first, found->second, "", Need::Whole);
      return;
    }
  }
}

Bindings Binder::bind(uint64_t pc, unsigned outer, const std::vector<Token>& tokens,
                      const std::string& where) {
  Place place{.site = variables_.site(pc, outer), .where = where, .out = {}};
  if (!place.site.unit)
    throw Error(
        fmt::format("nothing is known of variables at {}: that code has no debug information (compile the "
                    "program with -g)",
                    where));
  place.self = variables_.local(place.site, "this");
  std::set<std::string> seen;
  for (size_t i = 0; i < tokens.size(); i++) {
    if (tokens[i].kind != Token::Kind::Name) continue;
    const std::string_view before = i ? tokens[i - 1].text : std::string_view();
    if (before == "." || before == "->" || before == "goto") continue;
    std::vector<std::string> path{std::string(tokens[i].text)};
    while (i + 2 < tokens.size() && tokens[i + 1].text == "::" && tokens[i + 2].kind == Token::Kind::Name) {
      path.emplace_back(tokens[i + 2].text);
      i += 2;
    }
    if (!seen.insert(fmt::format("{}", fmt::join(path, "::"))).second) continue;
    if (path.size() > 1)
      qualified(place, path);
    else if (!is_keyword(path[0]) || variables_.local(place.site, path[0]))
      path[0] == "this" ? void(place.uses_self = true) : name(place, path[0]);
  }
  if (place.self && place.uses_self) {
    const Storage& storage = place.self->storage;
    Code code = storage.code;
    if (storage.kind != Storage::Kind::Memory && storage.kind != Storage::Kind::Value)
      throw Error(fmt::format("'this' has no value at {}: {}", where, storage.why));
    if (storage.kind == Storage::Kind::Memory) code.load(8);
    place.out.self = word(place, "this", code);
    place.out.variables.push_back(
        {"this", "", storage.kind == Storage::Kind::Memory ? "memory" : "a register"});
  }
  return std::move(place.out);
}

std::optional<Declarations::Method> Binder::add_method(uint64_t pc, unsigned outer,
                                                       const std::string& declaration) {
  const auto site = variables_.site(pc, outer);
  const auto self = variables_.local(site, "this");
  if (!self || is_null(self->die)) return {};
  return declarations_.add_method(self->module, probe::type_of(self->die), declaration);
}

}  // namespace backstep::probe
