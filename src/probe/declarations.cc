// DWARF describes what a type has become, C++ what it is to be: a struct is declared so that the compiler, by
// its own rules, comes to the same layout. Mostly that is the plain sequence of members; where the original
// had alignments, packed members or bit-fields at unusual places, padding or attributes are put in. The
// result is not trusted but asserted, and a type that comes out wrong is compiled anew as bytes of the right
// size (build.cc), so that it does not stand in the way of others.
//
// C++ has several ways to be in a class; all nested types become types of a namespace here, with an alias in
// the class, so that declarations can be ordered by who needs whom. Everything is public: debug code may look
// at anything.
#include "probe/declarations.h"

#include <dwarf.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "probe/system_headers.h"
#include "probe/tokens.h"
#include "symbols/variables_globals.h"

namespace backstep::probe {

using symbols::die_flag;
using symbols::die_name;
using symbols::die_origin;
using symbols::each_child;
using symbols::Module;

bool is_null(const Dwarf_Die& die) {
  return die.addr == nullptr;
}

Dwarf_Die type_of(Dwarf_Die die) {
  Dwarf_Attribute attribute;
  Dwarf_Die type = {};
  if (!dwarf_attr_integrate(&die, DW_AT_type, &attribute) || !dwarf_formref_die(&attribute, &type)) return {};
  return type;
}

Dwarf_Die stripped(Dwarf_Die type) {
  for (int steps = 0; steps < 64 && !is_null(type); steps++) {
    switch (dwarf_tag(&type)) {
      case DW_TAG_typedef:
      case DW_TAG_const_type:
      case DW_TAG_volatile_type:
      case DW_TAG_restrict_type:
      case DW_TAG_atomic_type:
        type = type_of(type);
        break;
      default:
        return type;
    }
  }
  return type;
}

uint64_t size_of(Dwarf_Die type) {
  Dwarf_Word size = 0;
  if (is_null(type)) return 0;
  if (const Dwarf_Die plain = stripped(type);
      !is_null(plain) && dwarf_tag(const_cast<Dwarf_Die*>(&plain)) == DW_TAG_ptr_to_member_type) {
    Dwarf_Die target = stripped(type_of(plain));
    return !is_null(target) && dwarf_tag(&target) == DW_TAG_subroutine_type ? 16 : 8;
  }
  if (dwarf_aggregate_size(&type, &size) == 0) return size;
  // Arrays of what elfutils knows no size of.
  Dwarf_Die array = stripped(type);
  if (is_null(array) || dwarf_tag(&array) != DW_TAG_array_type) return 0;
  size = size_of(type_of(array));
  each_child(array, [&](Dwarf_Die range) {
    Dwarf_Attribute upper;
    Dwarf_Word last = 0;
    if (dwarf_tag(&range) == DW_TAG_subrange_type && dwarf_attr(&range, DW_AT_upper_bound, &upper) &&
        dwarf_formudata(&upper, &last) == 0)
      size *= last + 1;
  });
  return size;
}

namespace {

bool is_struct_tag(int tag) {
  return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

std::optional<uint64_t> number(Dwarf_Die die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (!dwarf_attr_integrate(&die, name, &attribute)) return {};
  if (dwarf_formudata(&attribute, &value) == 0) return value;
  return {};
}

// Of a member: a constant, or (DWARF 2) an expression that adds one.
uint64_t member_offset(Dwarf_Die member) {
  if (auto n = number(member, DW_AT_data_member_location)) return *n;
  Dwarf_Attribute attribute;
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  if (dwarf_attr_integrate(&member, DW_AT_data_member_location, &attribute) &&
      dwarf_getlocation(&attribute, &ops, &count) == 0 && count == 1 && ops[0].atom == DW_OP_plus_uconst)
    return ops[0].number;
  return 0;
}

// "Box" of "Box<int>".
std::string without_arguments(const std::string& name) {
  const size_t open = name.find('<');
  return open == std::string::npos || name.starts_with("operator") ? name : name.substr(0, open);
}

bool is_plain_name(const std::string& name) {
  if (name.empty()) return false;
  const auto tokens = tokens_of(name);
  return tokens.size() == 1 && tokens[0].kind == Token::Kind::Name;
}

std::string usable(const std::string& name) {
  return is_keyword(name) ? name + "_" : name;
}

// Has it a table of virtual functions of its own?
bool is_polymorphic(Dwarf_Die type) {
  bool found = false;
  each_child(type, [&](Dwarf_Die child) {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_member && die_name(child).starts_with("_vptr")) found = true;
    if (tag == DW_TAG_subprogram && number(child, DW_AT_virtuality).value_or(0)) found = true;
  });
  return found;
}

uint64_t align_up(uint64_t n, uint64_t to) {
  return to > 1 ? (n + to - 1) / to * to : n;
}

}  // namespace

uint64_t alignment_of(Dwarf_Die type) {
  if (is_null(type)) return 1;
  uint64_t asked = number(type, DW_AT_alignment).value_or(0);
  switch (dwarf_tag(&type)) {
    case DW_TAG_typedef:
    case DW_TAG_const_type:
    case DW_TAG_volatile_type:
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
    case DW_TAG_array_type:
      return std::max(asked, alignment_of(type_of(type)));
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type: {
      uint64_t most = std::max<uint64_t>(asked, 1);
      each_child(type, [&](Dwarf_Die child) {
        const int tag = dwarf_tag(&child);
        if ((tag == DW_TAG_member && !die_flag(child, DW_AT_external) &&
             !die_flag(child, DW_AT_declaration)) ||
            tag == DW_TAG_inheritance)
          most = std::max({most, alignment_of(type_of(child)), number(child, DW_AT_alignment).value_or(0)});
      });
      return most;
    }
    case DW_TAG_ptr_to_member_type:
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
      return 8;
    default: {
      const uint64_t size = size_of(type);
      return std::max(asked, std::has_single_bit(size) && size <= 16 ? size : 1);
    }
  }
}

// ---- names ----

std::string Declarations::outer_of(const std::string& qualified, std::string& last) {
  int depth = 0;
  for (size_t i = qualified.size(); i-- > 1;) {
    if (qualified[i] == '>') depth++;
    if (qualified[i] == '<') depth--;
    if (depth == 0 && qualified[i] == ':' && qualified[i - 1] == ':') {
      last = qualified.substr(i + 1);
      return qualified.substr(0, i - 1);
    }
  }
  last = qualified;
  return "";
}

bool Declarations::from_header(Dwarf_Die die, const std::string& qualified) {
  const char* file = dwarf_decl_file(&die);
  const std::string path = file ? file : "";
  if (qualified.starts_with("std::") || qualified.starts_with("__gnu_cxx::")) {
    headers_.insert(cpp_header(path));
    return true;
  }
  return qualified.find("::") == std::string::npos && known_.count(qualified) &&
         (path.empty() || is_system_header(path));
}

void Declarations::in_namespace(const std::string& outer, const std::string& text) {
  if (outer.empty()) {
    out_ += text;
    return;
  }
  out_ += fmt::format("namespace {} {{\n{}}}\n", outer, text);
}

Declarations::Struct& Declarations::struct_of(const Module* module, Dwarf_Die die) {
  auto known = by_die_.find(die.addr);
  if (known != by_die_.end()) return *known->second;
  Dwarf_Die definition = die;
  const Module* its_module = module;
  if (die_flag(die, DW_AT_declaration)) {
    if (auto found = variables_.definition_of(module, die)) {
      its_module = found->first;
      definition = found->second;
    }
    if (auto again = by_die_.find(definition.addr); again != by_die_.end())
      return *(by_die_[die.addr] = again->second);
  }
  auto made = std::make_unique<Struct>();
  Struct& s = *made;
  s.module = its_module, s.die = definition;
  name_struct(s);
  // The same type is described in each unit that uses it.
  const uint64_t size = size_of(definition);
  auto [same, fresh] = by_name_.try_emplace(s.spelled, &s);
  if (!fresh && (size_of(same->second->die) == size || die_flag(definition, DW_AT_declaration)))
    return *(by_die_[die.addr] = by_die_[definition.addr] = same->second);
  s.number = static_cast<unsigned>(structs_.size());
  if (!fresh) {
    s.outer.clear(), s.specialization_of.clear();
    s.name = fmt::format("backstep_type_{}", s.number);
    s.spelled = "::" + s.name;
  }
  by_die_[die.addr] = by_die_[definition.addr] = &s;
  structs_.push_back(std::move(made));
  if (!s.header) forward(s);
  return s;
}

void Declarations::name_struct(Struct& s) {
  const std::string qualified = variables_.qualified(s.module, s.die);
  if (!qualified.empty() && from_header(s.die, qualified)) {
    s.header = true;
    s.spelled = qualified;
    // Instances of the library's templates need their arguments.
    each_child(s.die, [&](Dwarf_Die child) {
      if (dwarf_tag(&child) == DW_TAG_template_type_parameter) declare_of(s.module, child, "", Need::Whole);
    });
    return;
  }
  std::string last;
  std::string outer = outer_of(qualified, last);
  const std::string plain = without_arguments(last);
  bool simple = is_plain_name(plain);
  // Types of things that have no name in a source, as arguments.
  for (const char* strange : {"{", "(anonymous", "<lambda", "<unnamed"})
    if (qualified.find(strange) != std::string::npos) simple = false;
  const bool in_class = !outer.empty() && variables_.type_described({.module = s.module}, outer, true);
  if (simple && !in_class) {
    s.outer = outer;
    s.name = usable(last);
    s.spelled = "::" + (outer.empty() ? "" : outer + "::") + s.name;
    if (plain != last) {
      std::string kinds;
      each_child(s.die, [&](Dwarf_Die child) {
        const int tag = dwarf_tag(&child);
        auto add = [&](const std::string& kind) { kinds += (kinds.empty() ? "" : ", ") + kind; };
        if (tag == DW_TAG_template_type_parameter) {
          declare_of(s.module, child, "", Need::Name);
          add("typename");
        } else if (tag == DW_TAG_template_value_parameter) {
          add(declare_of(s.module, child, "", Need::Name));
        } else if (tag == DW_TAG_GNU_template_parameter_pack) {
          add("typename...");
          each_child(child, [&](Dwarf_Die one) { declare_of(s.module, one, "", Need::Name); });
        }
      });
      s.specialization_of = fmt::format("template<{}> struct {};\n", kinds, plain);
    }
    return;
  }
  // One in a class, in a function, or without a name.
  s.name = fmt::format("backstep_type_{}_{}", structs_.size(),
                       is_plain_name(die_name(s.die)) ? die_name(s.die) : "");
  s.spelled = "::" + s.name;
}

void Declarations::forward(const Struct& s) {
  const char* kind = dwarf_tag(const_cast<Dwarf_Die*>(&s.die)) == DW_TAG_union_type ? "union" : "struct";
  std::string text;
  if (!s.specialization_of.empty()) {
    if (templates_.insert(s.outer + s.specialization_of).second) text = s.specialization_of;
    text += "template<> ";
  }
  in_namespace(s.outer, text + fmt::format("{} {};\n", kind, s.name));
}

// ---- types ----

std::string Declarations::declare_of(const Module* module, Dwarf_Die die, const std::string& inner,
                                     Need need) {
  return declare(module, type_of(die), inner, need);
}

std::string Declarations::declare(const Module* module, Dwarf_Die type, const std::string& inner, Need need) {
  constexpr unsigned kDeepest = 200;
  const std::string space = inner.empty() ? "" : " " + inner;
  if (is_null(type)) return "void" + space;
  if (depth_ > kDeepest) throw Error("the types in the debug information are nested without an end");
  depth_++;
  struct Leave {
    unsigned& depth;
    ~Leave() { depth--; }
  } leave{depth_};
  auto around = [&](const std::string& sign) {
    const Dwarf_Die target = type_of(type);
    const int tag = is_null(target) ? 0 : dwarf_tag(const_cast<Dwarf_Die*>(&target));
    const bool brackets = tag == DW_TAG_array_type || tag == DW_TAG_subroutine_type;
    return declare(module, target, brackets ? "(" + sign + inner + ")" : sign + inner, Need::Name);
  };
  const int tag = dwarf_tag(&type);
  switch (tag) {
    case DW_TAG_pointer_type:
      return around("*");
    case DW_TAG_reference_type:
      return around("&");
    case DW_TAG_rvalue_reference_type:
      return around("&&");
    case DW_TAG_const_type:
      // (Constant arrays are constant arrays of constants to C compilers.)
      if (inner == "const" || inner.starts_with("const ")) return declare_of(module, type, inner, need);
      return declare_of(module, type, inner.empty() ? "const" : "const " + inner, need);
    case DW_TAG_volatile_type:
      return declare_of(module, type, inner.empty() ? "volatile" : "volatile " + inner, need);
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
      return declare_of(module, type, inner, need);
    case DW_TAG_array_type:
      return array(module, type, inner);
    case DW_TAG_subroutine_type:
      return function_type(module, type, inner);
    case DW_TAG_typedef:
      return typedef_of(module, type, need) + space;
    case DW_TAG_base_type:
      return base_type(type) + space;
    case DW_TAG_unspecified_type:
      return (die_name(type) == "void" ? "void" : "decltype(nullptr)") + space;
    case DW_TAG_enumeration_type: {
      std::string name;
      enum_of(module, type, name);
      return name + space;
    }
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type: {
      Struct& s = struct_of(module, type);
      if (need == Need::Whole) define(s);
      return (tag == DW_TAG_union_type ? "union " : "struct ") + s.spelled + space;
    }
    case DW_TAG_ptr_to_member_type: {
      const Dwarf_Die target = stripped(type_of(type));
      const bool function =
          !is_null(target) && dwarf_tag(const_cast<Dwarf_Die*>(&target)) == DW_TAG_subroutine_type;
      return (function ? "backstep_pair" : "long") + space;
    }
    default:  // Fortran's strings, complex numbers…
      return fmt::format("backstep_bytes<{}>{}", std::max<uint64_t>(size_of(type), 1), space);
  }
}

std::string Declarations::base_type(Dwarf_Die die) {
  const std::string name = die_name(die);
  if (name == "_Bool") return "bool";
  if (name == "_Float128") return "__float128";
  static const Names kWords{"int",   "char",   "long",    "short",   "unsigned", "signed",   "bool",
                            "float", "double", "wchar_t", "char8_t", "char16_t", "char32_t", "__int128"};
  const auto tokens = tokens_of(name);
  if (!tokens.empty() &&
      std::all_of(tokens.begin(), tokens.end(), [](const Token& t) { return kWords.count(t.text); }))
    return name;
  // Other languages call them otherwise.
  const uint64_t size = size_of(die), encoding = number(die, DW_AT_encoding).value_or(0);
  if (encoding == DW_ATE_boolean && size == 1) return "bool";
  if (encoding == DW_ATE_float && (size == 4 || size == 8 || size == 16))
    return size == 4 ? "float" : size == 8 ? "double" : "long double";
  if (size == 1 || size == 2 || size == 4 || size == 8 || size == 16) {
    static constexpr const char* kSigned[] = {"signed char", "short", "int", "long", "__int128"};
    const bool is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
    if (encoding == DW_ATE_UTF && size == 4) return "char32_t";
    if (is_signed || encoding == DW_ATE_unsigned || encoding == DW_ATE_unsigned_char)
      return std::string(is_signed || size == 1 ? "" : "unsigned ") +
             (size == 1 && !is_signed ? "unsigned char" : kSigned[std::countr_zero(size)]);
  }
  return fmt::format("backstep_bytes<{}>", std::max<uint64_t>(size, 1));
}

std::string Declarations::typedef_of(const Module* module, Dwarf_Die die, Need need) {
  const std::string name = die_name(die), qualified = variables_.qualified(module, die);
  if (!qualified.empty() && from_header(die, qualified)) {
    // std::string and the like: what it means has the header as well.
    return qualified;
  }
  const std::string meaning = declare_of(module, die, "", need);
  if (!is_plain_name(qualified) || is_keyword(name) || known_.count(qualified))
    return "backstep_same<" + meaning + ">";
  const std::string text = fmt::format("typedef {};\n", declare_of(module, die, name, need));
  // Two units may mean different things by one name.
  if (typedefs_.count(text)) return "::" + name;
  if (!typedefs_.insert(name).second) return "backstep_same<" + meaning + ">";
  typedefs_.insert(text);
  // "typedef struct { … } name" and "typedef struct name { … } name" are the usual ways.
  if (meaning == "struct ::" + name || meaning == "union ::" + name || meaning == "enum ::" + name)
    return meaning;
  out_ += text;
  return "::" + name;
}

std::string Declarations::array(const Module* module, Dwarf_Die type, const std::string& inner) {
  std::string bounds;
  each_child(type, [&](Dwarf_Die range) {
    if (dwarf_tag(&range) != DW_TAG_subrange_type && dwarf_tag(&range) != DW_TAG_enumeration_type) return;
    const auto count = number(range, DW_AT_count), upper = number(range, DW_AT_upper_bound);
    const uint64_t lower = number(range, DW_AT_lower_bound).value_or(0);
    // An upper bound of -1: "char x[0]"
    if (count)
      bounds += fmt::format("[{}]", *count);
    else if (upper && *upper < 1ull << 62)
      bounds += fmt::format("[{}]", *upper - lower + 1);
    else
      bounds += upper ? "[0]" : bounds.empty() ? "[]" : "[1]";
  });
  if (bounds.empty()) bounds = "[]";
  if (die_flag(type, DW_AT_GNU_vector))
    return fmt::format("backstep_bytes<{}> {}", std::max<uint64_t>(size_of(type), 1), inner);
  return declare_of(module, type, inner + bounds, Need::Whole);
}

std::string Declarations::parameters(const Module* module, Dwarf_Die function, size_t skip) {
  std::string out;
  each_child(function, [&](Dwarf_Die child) {
    const int tag = dwarf_tag(&child);
    std::string one;
    if (tag == DW_TAG_formal_parameter) {
      if (skip) {
        skip--;
        return;
      }
      one = declare_of(module, child, "", Need::Whole);
    } else if (tag == DW_TAG_unspecified_parameters) {
      one = "...";
    } else {
      return;
    }
    out += (out.empty() ? "" : ", ") + one;
  });
  return out;
}

std::string Declarations::function_type(const Module* module, Dwarf_Die type, const std::string& inner) {
  return declare_of(module, type, fmt::format("{}({})", inner, parameters(module, type, 0)), Need::Whole);
}

void Declarations::enum_of(const Module* module, Dwarf_Die die, std::string& name) {
  if (auto known = enums_.find(die.addr); known != enums_.end()) {
    name = known->second;
    return;
  }
  const std::string qualified = variables_.qualified(module, die);
  std::string last, values;
  std::string outer = outer_of(qualified, last);
  bool in_headers = !qualified.empty() && from_header(die, qualified);
  const bool in_class = !outer.empty() && variables_.type_described({.module = module}, outer, true);
  const bool scoped = die_flag(die, DW_AT_enum_class);
  each_child(die, [&](Dwarf_Die child) {
    if (dwarf_tag(&child) != DW_TAG_enumerator) return;
    Dwarf_Attribute attribute;
    Dwarf_Sword value = 0;
    if (!dwarf_attr(&child, DW_AT_const_value, &attribute) || dwarf_formsdata(&attribute, &value) != 0)
      return;
    const std::string own = die_name(child);
    if (!scoped && known_.count(own)) in_headers = true;
    values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", usable(own), value);
  });
  const uint64_t size = std::max<uint64_t>(size_of(die), 1);
  Dwarf_Die under = type_of(die);
  std::string base = is_null(under) ? base_type(die) : declare(module, under, "", Need::Whole);
  if (is_null(under))
    base = size == 1   ? "unsigned char"
           : size == 2 ? "unsigned short"
           : size == 4 ? "unsigned"
                       : "unsigned long";
  if (in_headers) {
    name =
        qualified.empty() || !(known_.count(qualified) || qualified.starts_with("std::")) ? base : qualified;
    enums_[die.addr] = name;
    return;
  }
  if (!is_plain_name(last)) last = "";
  // Of a class or a function: a type of our own, whose enumerators are everywhere.
  if (last.empty() || in_class) outer.clear(), last = fmt::format("backstep_enum_{}", enums_.size());
  auto [same, fresh] = enum_names_.try_emplace(qualified.empty() || in_class ? values : qualified, "");
  if (fresh) {
    same->second = "::" + (outer.empty() ? "" : outer + "::") + usable(last);
    in_namespace(
        outer, fmt::format("enum {}{} : {} {{ {} }};\n", scoped ? "class " : "", usable(last), base, values));
    same->second = "enum " + same->second;
  }
  name = enums_[die.addr] = same->second;
}

// ---- structs ----

// The members of a struct so far, and where the compiler is.
struct Declarations::Layout {
  std::string text, checks;
  std::string owner;    // for the checks; empty: of one without a name
  unsigned number = 0;  // … and in their messages
  bool is_union = false;
  uint64_t bits = 0;  // where the next one may begin
  unsigned paddings = 0;
};

void Declarations::member(Layout& layout, const Module* module, Dwarf_Die die) {
  const std::string name = usable(die_name(die));
  Dwarf_Die type = type_of(die);
  const auto bit_size = number(die, DW_AT_bit_size);
  auto pad_to = [&](uint64_t bits) {
    if (bits / 8 > (layout.bits + 7) / 8)
      layout.text += fmt::format("char backstep_pad_{}_{}[{}];\n", layout.number, layout.paddings++,
                                 bits / 8 - (layout.bits + 7) / 8);
    layout.bits = bits / 8 * 8;
  };
  if (bit_size) {
    const uint64_t unit = std::max<uint64_t>(size_of(type), 1) * 8;
    uint64_t at = 0;
    if (auto n = number(die, DW_AT_data_bit_offset)) {
      at = *n;
    } else {  // DWARF 2: from the upper end of the unit
      const uint64_t storage = number(die, DW_AT_byte_size).value_or(unit / 8) * 8;
      at = member_offset(die) * 8 + storage - number(die, DW_AT_bit_offset).value_or(0) - *bit_size;
    }
    // Where the compiler would put it: next to the one before, unless it crosses the border of a unit.
    uint64_t natural = layout.bits;
    if (natural / unit != (natural + *bit_size - 1) / unit) natural = align_up(natural, unit);
    if (!layout.is_union && natural < at) {
      if (at - layout.bits >= unit) pad_to(at / unit * unit);
      for (uint64_t gap = at - layout.bits; gap;) {
        const uint64_t some = std::min<uint64_t>(gap, 8 - layout.bits % 8);
        layout.text += fmt::format("unsigned char : {};\n", some);
        layout.bits += some, gap -= some;
      }
    }
    layout.text += declare(module, type, fmt::format("{} : {}", name, *bit_size), Need::Whole) + ";\n";
    layout.bits = layout.is_union ? 0 : at + *bit_size;
    return;
  }
  const uint64_t offset = member_offset(die), alignment = std::max<uint64_t>(alignment_of(type), 1);
  const uint64_t asked = number(die, DW_AT_alignment).value_or(0);
  std::string attribute;
  if (asked > alignment) attribute = fmt::format(" __attribute__((aligned({})))", asked);
  if (!layout.is_union) {
    uint64_t natural = align_up((layout.bits + 7) / 8, std::max(asked, alignment));
    if (offset % alignment) {
      attribute = " __attribute__((packed))";
      natural = (layout.bits + 7) / 8;
    } else if (natural > offset) {
      natural = (layout.bits + 7) / 8;  // in the tail of a base class
    }
    if (natural < offset) pad_to(offset * 8);
  }
  const Dwarf_Die plain = stripped(type);
  const bool nameless =
      name.empty() && !is_null(plain) && is_struct_tag(dwarf_tag(const_cast<Dwarf_Die*>(&plain)));
  if (nameless)
    layout.text +=
        fmt::format("{} {{\n{}}}{};\n",
                    dwarf_tag(const_cast<Dwarf_Die*>(&plain)) == DW_TAG_union_type ? "union" : "struct",
                    nested_body(module, plain), attribute);
  else
    layout.text += declare(module, type, name, Need::Whole) + attribute + ";\n";
  if (!nameless && !layout.owner.empty())
    layout.checks += fmt::format("static_assert(__builtin_offsetof({}, {}) == {}, \"{}{}\");\n", layout.owner,
                                 name, offset, kLayoutMark, layout.number);
  layout.bits = layout.is_union ? 0 : (offset + size_of(type)) * 8;
}

void Declarations::members_of(Layout& layout, const Module* module, Dwarf_Die type) {
  each_child(type, [&](Dwarf_Die child) {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_inheritance && !number(child, DW_AT_virtuality).value_or(0)) {
      // Members may lie in the padding at its end; how much of it is not known here, so the checks decide.
      layout.bits = std::max(layout.bits, (member_offset(child) + size_of(type_of(child))) * 8);
    } else if (tag == DW_TAG_member && die_name(child).starts_with("_vptr")) {
      layout.bits = std::max<uint64_t>(layout.bits, 64);
    } else if (tag == DW_TAG_member && !die_flag(child, DW_AT_external) &&
               !die_flag(child, DW_AT_declaration)) {
      member(layout, module, child);
    }
  });
}

std::string Declarations::nested_body(const Module* module, Dwarf_Die type) {
  Layout layout;
  layout.is_union = dwarf_tag(&type) == DW_TAG_union_type;
  layout.number = static_cast<unsigned>(structs_.size());
  members_of(layout, module, type);
  return layout.text;
}

std::string Declarations::bases(const Module* module, Dwarf_Die type) {
  std::string out;
  each_child(type, [&](Dwarf_Die child) {
    if (dwarf_tag(&child) != DW_TAG_inheritance) return;
    const bool is_virtual = number(child, DW_AT_virtuality).value_or(0);
    std::string base = declare_of(module, child, "", Need::Whole);
    for (const char* kind : {"struct ", "union "})
      if (base.starts_with(kind)) base = base.substr(std::strlen(kind));
    out += (out.empty() ? " : " : ", ") + std::string(is_virtual ? "virtual " : "") + base;
  });
  return out;
}

// Declared under a name that the linker knows the address of; empty: it is nowhere, or cannot be said.
std::string Declarations::method(const Module* module, Dwarf_Die die, const std::string& owner) {
  const std::string name = die_name(die);
  if (!is_plain_name(name) || name == without_arguments(owner)) return "";
  std::vector<Dwarf_Die> code;
  for (const auto& [its_module, function] :
       variables_.functions_named({.module = module}, variables_.qualified(module, die)))
    if (die_origin(function).addr == die.addr || die_origin(die).addr == function.addr) {
      Dwarf_Die copy = function;
      Dwarf_Addr entry = 0;
      if (dwarf_entrypc(&copy, &entry) != 0) continue;
      const std::string symbol = fmt::format("backstep_at_{:x}", entry + its_module->bias);
      symbols_[symbol] = entry + its_module->bias;
      Dwarf_Attribute attribute;
      const bool has_this = dwarf_hasattr_integrate(&die, DW_AT_object_pointer) ||
                            dwarf_attr_integrate(&copy, DW_AT_object_pointer, &attribute);
      bool is_const = false;
      if (has_this) {
        bool first = true;
        each_child(die, [&](Dwarf_Die child) {
          if (!first || dwarf_tag(&child) != DW_TAG_formal_parameter) return;
          first = false;
          for (Dwarf_Die t = type_of(child);
               !is_null(t) && dwarf_tag(&t) != DW_TAG_structure_type && dwarf_tag(&t) != DW_TAG_class_type;
               t = type_of(t))
            if (dwarf_tag(&t) == DW_TAG_pointer_type) {
              Dwarf_Die target = type_of(t);
              is_const = !is_null(target) && dwarf_tag(&target) == DW_TAG_const_type;
            }
        });
      }
      const std::string signature =
          fmt::format("{}({}){}", name, parameters(module, die, has_this ? 1 : 0), is_const ? " const" : "");
      return fmt::format("{}{} __asm__(\"{}\");\n", has_this ? "" : "static ",
                         declare_of(module, die, signature, Need::Name), symbol);
    }
  return "";
}

// Functions that debug code names, virtual ones all or none: their order is that of the table.
void Declarations::methods_of(Struct& s, std::string& out) {
  std::map<uint64_t, std::string> table;
  bool any_named = false, destructor = false;
  each_child(s.die, [&](Dwarf_Die child) {
    if (dwarf_tag(&child) != DW_TAG_subprogram) return;
    const std::string name = die_name(child);
    const bool is_virtual = number(child, DW_AT_virtuality).value_or(0);
    const bool named = used_.count(name) > 0;
    if (!is_virtual) {
      if (named) out += method(s.module, child, s.name);
      return;
    }
    any_named |= named;
    Dwarf_Attribute attribute;
    Dwarf_Op* ops = nullptr;
    size_t count = 0;
    uint64_t place = ~0ull;
    if (dwarf_attr(&child, DW_AT_vtable_elem_location, &attribute) &&
        dwarf_getlocation(&attribute, &ops, &count) == 0 && count == 1)
      place =
          ops[0].atom >= DW_OP_lit0 && ops[0].atom <= DW_OP_lit31 ? ops[0].atom - DW_OP_lit0 : ops[0].number;
    std::string text;
    if (name.starts_with("~")) {
      destructor = true;
      return;
    } else if (named && is_plain_name(name)) {
      text = method(s.module, child, s.name);
      if (text.empty()) {  // pure, or only elsewhere: the table has it
        bool is_const = false;
        each_child(child, [&](Dwarf_Die p) {
          Dwarf_Die t = type_of(p);
          if (die_flag(p, DW_AT_artificial) && !is_null(t)) {
            t = type_of(t);
            is_const = !is_null(t) && dwarf_tag(&t) == DW_TAG_const_type;
          }
        });
        text = declare_of(
                   s.module, child,
                   fmt::format("{}({}){}", name, parameters(s.module, child, 1), is_const ? " const" : ""),
                   Need::Name) +
               ";\n";
      }
      text = "virtual " + text;
    } else {
      text = fmt::format("virtual void backstep_virtual_{}();\n", place);
    }
    table[place] = text;
  });
  if (destructor) {
    // gcc does not say where it is; it takes two places, which the others have left free.
    uint64_t place = 0;
    while (table.count(place) || table.count(place + 1)) place++;
    table[place] = fmt::format("virtual ~{}();\n", without_arguments(s.name));
  }
  for (const auto& [place, text] : table) out += any_named || place == table.begin()->first ? text : "";
}

void Declarations::opaque_body(Struct& s, std::string& out) {
  out = fmt::format("{{\nchar backstep_opaque[{}];\n", std::max<uint64_t>(size_of(s.die), 1));
  for (const std::string& method : s.methods) out += method + ";\n";
  out += fmt::format("}} __attribute__((aligned({})));\n", std::min<uint64_t>(alignment_of(s.die), 4096));
}

std::string Declarations::body(Struct& s) {
  std::string out;
  if (opaque_.count(s.number)) {
    opaque_body(s, out);
    return out;
  }
  const bool is_union = dwarf_tag(&s.die) == DW_TAG_union_type;
  std::string aliases, functions;
  bool made = false, has_private = false;
  each_child(s.die, [&](Dwarf_Die child) {
    const int tag = dwarf_tag(&child);
    const std::string name = die_name(child);
    if ((is_struct_tag(tag) || tag == DW_TAG_enumeration_type || tag == DW_TAG_typedef) &&
        is_plain_name(name) && used_.count(name) && name != without_arguments(s.name))
      aliases += fmt::format("typedef {};\n", declare(s.module, child, name, Need::Name));
    const bool artificial = die_flag(child, DW_AT_artificial);
    if (tag == DW_TAG_subprogram && !artificial &&
        (name == without_arguments(s.name) || name.starts_with("~")))
      made = true;
    const auto access = number(child, DW_AT_accessibility);
    if (tag == DW_TAG_member &&
        (access ? *access != DW_ACCESS_public : dwarf_tag(&s.die) == DW_TAG_class_type))
      has_private = true;
    if (tag == DW_TAG_member && (die_flag(child, DW_AT_external) || die_flag(child, DW_AT_declaration)) &&
        used_.count(name)) {
      symbols::Site nowhere{.module = s.module};
      auto found = variables_.global(nowhere, variables_.qualified(s.module, s.die) + "::" + name, "", true);
      const auto bytes = found && found->storage.kind == symbols::Storage::Kind::Memory
                             ? found->storage.code.bytes()
                             : std::vector<uint8_t>{};
      uint64_t address = 0;
      for (size_t i = 1; i + 1 < bytes.size() && bytes.size() <= 10; i++) address = address << 8 | bytes[i];
      if (!bytes.empty()) {
        const std::string symbol = fmt::format("backstep_at_{:x}", address);
        symbols_[symbol] = address;
        aliases += "static " + declare_of(s.module, child, name, Need::Name) +
                   fmt::format(" __asm__(\"{}\");\n", symbol);
      }
    }
  });
  Layout layout;
  layout.owner = (is_union ? "union " : "struct ") + s.spelled;
  layout.number = s.number, layout.is_union = is_union;
  const std::string base = bases(s.module, s.die);
  members_of(layout, s.module, s.die);
  methods_of(s, functions);
  out = base + " {\n" + aliases + layout.text + functions;
  // It has to be a class for layout purposes where it was one: others may lie in its padding.
  const bool polymorphic = is_polymorphic(s.die);
  if (!is_union && (made || has_private) && !polymorphic)
    out += fmt::format("{}(const backstep_registers *);\n", without_arguments(s.name));
  if (!is_union && number(s.die, DW_AT_calling_convention).value_or(0) == DW_CC_pass_by_reference &&
      !polymorphic)
    out += fmt::format("~{}() {{}}\n", without_arguments(s.name));
  for (const std::string& method : s.methods) out += method + ";\n";
  const uint64_t asked = number(s.die, DW_AT_alignment).value_or(0);
  out += asked ? fmt::format("}} __attribute__((aligned({})));\n", asked) : "};\n";
  const uint64_t size = size_of(s.die);
  const bool is_empty = layout.text.empty();
  if (size && !is_empty)
    layout.checks += fmt::format("static_assert(sizeof({}) == {}, \"{}{}\");\n", layout.owner, size,
                                 kLayoutMark, s.number);
  s.busy = false;
  return out + "\n" + "@" + layout.checks;
}

void Declarations::define(Struct& s) {
  if (s.whole || s.busy || s.header || die_flag(s.die, DW_AT_declaration)) return;
  s.busy = true;
  std::string text = body(s), checks;
  if (const size_t at = text.find("\n@"); at != std::string::npos) {
    checks = text.substr(at + 2);
    text.resize(at + 1);
  }
  s.busy = false;
  s.whole = true;
  const char* kind = dwarf_tag(&s.die) == DW_TAG_union_type ? "union" : "struct";
  in_namespace(s.outer, fmt::format("{}{} {}{}", s.specialization_of.empty() ? "" : "template<> ", kind,
                                    s.name, text));
  out_ += checks;
}

std::optional<Declarations::Method> Declarations::add_method(const Module* module, Dwarf_Die this_pointer,
                                                             const std::string& declaration) {
  Dwarf_Die pointer = stripped(this_pointer);
  if (is_null(pointer) || dwarf_tag(&pointer) != DW_TAG_pointer_type) return {};
  Dwarf_Die target = type_of(pointer);
  bool is_const = false;
  for (Dwarf_Die t = target; !is_null(t) && !is_struct_tag(dwarf_tag(&t)); t = type_of(t))
    is_const |= dwarf_tag(&t) == DW_TAG_const_type;
  target = stripped(target);
  if (is_null(target) || !is_struct_tag(dwarf_tag(&target))) return {};
  Struct& s = struct_of(module, target);
  if (s.header || s.whole || die_flag(s.die, DW_AT_declaration)) return {};
  s.methods.push_back(declaration + (is_const ? " const" : ""));
  s.wanted = true;
  return Method{s.spelled, is_const};
}

bool Declarations::has_member(const Module* module, Dwarf_Die this_pointer, const std::string& name) {
  Dwarf_Die pointer = stripped(this_pointer);
  if (is_null(pointer)) return false;
  Dwarf_Die target = stripped(type_of(pointer));
  return !is_null(target) && is_struct_tag(dwarf_tag(&target)) &&
         names_member(struct_of(module, target).die, {name}, 0);
}

bool Declarations::names_member(Dwarf_Die type, const Names& names, unsigned depth) {
  constexpr unsigned kDeepest = 8;
  bool found = false;
  if (depth > kDeepest) return false;
  each_child(type, [&](Dwarf_Die child) {
    if (found) return;
    const int tag = dwarf_tag(&child);
    const std::string name = die_name(child);
    if ((tag == DW_TAG_member || tag == DW_TAG_subprogram || tag == DW_TAG_variable) && names.count(name))
      found = true;
    const Dwarf_Die its = stripped(type_of(child));
    if (!found && !is_null(its) && is_struct_tag(dwarf_tag(const_cast<Dwarf_Die*>(&its))) &&
        (tag == DW_TAG_inheritance || (tag == DW_TAG_member && name.empty())))
      found = names_member(its, names, depth + 1);
  });
  return found;
}

bool Declarations::wants(const Struct& s) {
  return s.wanted || used_.count(without_arguments(die_name(s.die))) || names_member(s.die, used_, 0);
}

std::string Declarations::text() {
  for (size_t i = 0; i < structs_.size(); i++)  // grows
    if (!structs_[i]->whole && !structs_[i]->header && wants(*structs_[i])) define(*structs_[i]);
  return out_;
}

}  // namespace backstep::probe
