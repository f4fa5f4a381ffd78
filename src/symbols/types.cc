// Types out of DWARF. Whatever the file says is taken with care: sizes are bounded, and a chain of types that
// leads back to itself ends.
#include "symbols/types.h"

#include <dwarf.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "symbols/expression_code.h"
#include "symbols/program.h"
#include "symbols/variables_globals.h"

namespace backstep::symbols {
namespace {

using Kind = Type::Kind;
constexpr unsigned kDeepestType = 64;  // types in types

std::optional<uint64_t> number(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (!dwarf_attr_integrate(die, name, &attribute)) return {};
  if (dwarf_formudata(&attribute, &value) == 0) return value;
  return {};
}

bool flag(Dwarf_Die* die, unsigned name) {
  Dwarf_Attribute attribute;
  bool value = false;
  return dwarf_attr_integrate(die, name, &attribute) && dwarf_formflag(&attribute, &value) == 0 && value;
}

std::string name_of(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  const char* name = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_name, &attribute));
  return name ? name : "";
}

std::optional<Dwarf_Die> type_die(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  Dwarf_Die type;
  if (!dwarf_attr_integrate(die, DW_AT_type, &attribute) || !dwarf_formref_die(&attribute, &type)) return {};
  return type;
}

// Constant offsets, and those of old compilers: "add this".
std::optional<uint64_t> member_offset(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  if (!dwarf_attr_integrate(die, DW_AT_data_member_location, &attribute)) return 0;
  Dwarf_Word value = 0;
  if (dwarf_formudata(&attribute, &value) == 0) return value;
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  if (dwarf_getlocation(&attribute, &ops, &count) == 0 && count == 1 && ops[0].atom == DW_OP_plus_uconst)
    return ops[0].number;
  return {};
}

// Where a virtual base class is: the way there begins at the address of the object and leads through its
// table of virtual functions. Null: something else than that.
std::shared_ptr<const Code> virtual_base_location(Dwarf_Die* die) {
  using namespace replayer;
  Dwarf_Attribute attribute;
  Dwarf_Op* ops = nullptr;
  size_t count = 0;
  if (!dwarf_attr_integrate(die, DW_AT_data_member_location, &attribute) ||
      dwarf_getlocation(&attribute, &ops, &count) != 0 || count == 0)
    return {};
  auto code = std::make_shared<Code>();
  int depth = 1;  // of the stack; none of these operations needs more than two
  for (size_t i = 0; i < count; i++) {
    const Dwarf_Op& op = ops[i];
    if (op.atom >= DW_OP_lit0 && op.atom <= DW_OP_lit31) {
      code->constant(op.atom - DW_OP_lit0);
      depth++;
      continue;
    }
    switch (op.atom) {
      case DW_OP_const1u:
      case DW_OP_const1s:
      case DW_OP_const2u:
      case DW_OP_const2s:
      case DW_OP_const4u:
      case DW_OP_const4s:
      case DW_OP_const8u:
      case DW_OP_const8s:
      case DW_OP_constu:
      case DW_OP_consts:
        code->constant(op.number);
        depth++;
        break;
      case DW_OP_dup:
        code->op(kDup);
        depth++;
        break;
      case DW_OP_deref:
        code->load(8);
        break;
      case DW_OP_plus_uconst:
        code->offset(op.number);
        break;
      case DW_OP_plus:
      case DW_OP_minus:
        code->op(op.atom == DW_OP_plus ? kAdd : kSub);
        if (--depth < 1) return {};
        break;
      default:
        return {};
    }
  }
  if (depth != 1) return {};
  return code;
}

bool is_cpp(Dwarf_Die die) {
  Dwarf_Die unit;
  if (!dwarf_diecu(&die, &unit, nullptr, nullptr)) return false;
  constexpr int kCpp17 = 0x2a, kCpp20 = 0x2b;  // of DWARF 6, which compilers write already
  const int language = dwarf_srclang(&unit);
  return language == DW_LANG_C_plus_plus || language == DW_LANG_C_plus_plus_03 ||
         language == DW_LANG_C_plus_plus_11 || language == DW_LANG_C_plus_plus_14 || language == kCpp17 ||
         language == kCpp20;
}

std::optional<uint64_t> elements(Dwarf_Die* range) {
  if (auto count = number(range, DW_AT_count)) return count;
  Dwarf_Attribute attribute;
  Dwarf_Sword upper = 0;
  if (!dwarf_attr_integrate(range, DW_AT_upper_bound, &attribute) || dwarf_formsdata(&attribute, &upper) != 0)
    return {};
  // A bound of 255 in one byte is not -1, except for the arrays of no elements that some compilers write so.
  Dwarf_Word plain = 0;
  if (upper < -1 && dwarf_formudata(&attribute, &plain) == 0) upper = static_cast<Dwarf_Sword>(plain);
  if (upper < -1) return {};
  if (upper == -1 && dwarf_whatform(&attribute) == DW_FORM_data1) upper = 255;
  if (upper == -1 && dwarf_whatform(&attribute) == DW_FORM_data2) upper = 65535;
  return static_cast<uint64_t>(upper) + 1;
}

}  // namespace

bool Type::integral() const {
  return (kind == Kind::Bool || kind == Kind::Char || kind == Kind::Integer || kind == Kind::Enum) &&
         size <= 8;
}

bool Type::scalar() const {
  return integral() || kind == Kind::Pointer || (kind == Kind::Float && size <= 8);
}

bool Type::text() const {
  return kind == Kind::Array && element->character();
}

std::string Type::text_name() const {
  switch (kind) {
    case Kind::Pointer:
      return (target_ ? target_->text_name() : std::string("pointer")) + (target_ ? " *" : "");
    case Kind::Reference:
      return (target_ ? target_->text_name() : std::string("reference")) + (target_ ? " &" : "");
    case Kind::Array:
      return element->text_name() + (count ? fmt::format("[{}]", *count) : "[]");
    case Kind::Function:
      return "function";
    default:
      if (!name.empty()) return name;
      return kind == Kind::Struct ? is_union ? "unnamed union" : "unnamed struct"
             : kind == Kind::Enum ? "unnamed enum"
                                  : "void";
  }
}

std::optional<uint64_t> Type::string_pointer() const {
  if (kind != Kind::Struct || !name.starts_with("basic_string<char,")) return {};
  for (const Member& outer : members) {
    if (outer.name != "_M_dataplus" || outer.type->kind != Kind::Struct) continue;
    for (const Member& inner : outer.type->members)
      if (inner.name == "_M_p") return outer.offset + inner.offset;
  }
  return {};
}

std::shared_ptr<Types> Types::make(Definitions* definitions) {
  auto types = std::make_shared<Types>();
  types->definitions_ = definitions;
  return types;
}

Type* Types::add(Type type) {
  all_.push_back(std::make_unique<Type>(std::move(type)));
  return all_.back().get();
}

const Type* Types::at(const Module* module, Dwarf_Die die) {
  return read(module, die, 0);
}

const Type* Types::of(const Module* module, Dwarf_Die* die) {
  auto type = type_die(die);
  return type ? read(module, *type, 0) : nothing();
}

const Type* Types::target(const Type* type) {
  auto* t = const_cast<Type*>(type);  // every Type is one of all_
  if (!t->target_) t->target_ = t->target_die_ ? read(t->module_, *t->target_die_, 0) : nothing();
  return t->target_;
}

std::string Types::qualified(const Type* type) {
  const std::string name =
      type->class_die_ && definitions_ ? definitions_->qualified(type->module_, *type->class_die_) : "";
  return name.empty() ? type->name : name;
}

bool Types::same_class(const Type* a, const Type* b) {
  if (a == b) return true;
  if (a->kind != Kind::Struct || b->kind != Kind::Struct || a->name != b->name || a->name.empty() ||
      !a->class_die_ || !b->class_die_ || !definitions_)
    return false;
  if (a->class_die_->addr == b->class_die_->addr) return true;
  const std::string name = definitions_->qualified(a->module_, *a->class_die_);
  return !name.empty() && name == definitions_->qualified(b->module_, *b->class_die_);
}

const Type* Types::read(const Module* module, Dwarf_Die die, unsigned depth) {
  const auto key = std::make_pair(module, static_cast<const void*>(die.addr));
  if (auto known = known_.find(key); known != known_.end()) return known->second;
  if (depth > kDeepestType) return nothing();
  switch (dwarf_tag(&die)) {
    case DW_TAG_typedef:
    case DW_TAG_const_type:
    case DW_TAG_volatile_type:
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
    case DW_TAG_immutable_type:
    case DW_TAG_packed_type:
    case DW_TAG_shared_type: {
      auto inner = type_die(&die);
      const Type* type = inner ? read(module, *inner, depth + 1) : nothing();
      // struct {…} is best known by the name that was given to it afterwards.
      if (type->name.empty() && (type->kind == Kind::Struct || type->kind == Kind::Enum))
        const_cast<Type*>(type)->name = name_of(&die);
      return known_[key] = type;
    }
    case DW_TAG_array_type:
      return known_[key] = read_array(module, die, depth);
    default:
      break;
  }
  Type* type = add({});
  known_[key] = type;  // before it is filled: its members may lead back here
  fill(*type, module, die, depth);
  return type;
}

void Types::fill(Type& type, const Module* module, Dwarf_Die die, unsigned depth) {
  type.module_ = module;
  type.name = name_of(&die);
  type.size = number(&die, DW_AT_byte_size).value_or(0);
  switch (dwarf_tag(&die)) {
    case DW_TAG_base_type:
      fill_base(type, die);
      break;
    case DW_TAG_pointer_type:
    case DW_TAG_unspecified_type:  // nullptr_t
      type.kind = Kind::Pointer;
      type.size = 8;
      type.target_die_ = type_die(&die);
      break;
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
      type.kind = Kind::Reference;
      type.size = 8;
      type.target_die_ = type_die(&die);
      break;
    case DW_TAG_subroutine_type:
      type.kind = Kind::Function;
      type.target_die_ = type_die(&die);
      break;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
      fill_struct(type, module, die, depth);
      break;
    case DW_TAG_enumeration_type:
      fill_enum(type, module, die, depth);
      break;
    default:
      type.kind = Kind::Other;
  }
}

void Types::fill_base(Type& type, Dwarf_Die die) {
  switch (number(&die, DW_AT_encoding).value_or(0)) {
    case DW_ATE_boolean:
      type.kind = Kind::Bool;
      break;
    case DW_ATE_signed_char:
    case DW_ATE_unsigned_char:
      // unsigned char is what bytes are made of: those are numbers.
      type.kind = type.name == "char" || type.name == "char8_t" ? Kind::Char : Kind::Integer;
      type.is_signed = number(&die, DW_AT_encoding) == uint64_t{DW_ATE_signed_char};
      break;
    case DW_ATE_UTF:
      type.kind = Kind::Char;
      break;
    case DW_ATE_signed:
      type.kind = Kind::Integer;
      type.is_signed = true;
      break;
    case DW_ATE_unsigned:
    case DW_ATE_address:
      type.kind = Kind::Integer;
      break;
    case DW_ATE_float:
      type.kind = type.size == 4 || type.size == 8 ||
                          (type.size == 16 && type.name != "_Float128" && type.name != "__float128")
                      ? Kind::Float
                      : Kind::Other;
      break;
    default:
      type.kind = Kind::Other;
  }
  const bool whole = type.size == 1 || type.size == 2 || type.size == 4 || type.size == 8 || type.size == 16;
  if (!whole) type.kind = Kind::Other;
}

const Type* Types::read_array(const Module* module, Dwarf_Die die, unsigned depth) {
  auto element_die = type_die(&die);
  const Type* type = element_die ? read(module, *element_die, depth + 1) : nothing();
  std::vector<std::optional<uint64_t>> counts;
  each_child(die, [&](Dwarf_Die child) {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_subrange_type || tag == DW_TAG_enumeration_type) counts.push_back(elements(&child));
  });
  if (counts.empty()) counts.emplace_back();
  for (auto count = counts.rbegin(); count != counts.rend(); ++count) {
    Type array;
    array.kind = Kind::Array;
    array.element = type;
    array.count = *count;
    constexpr uint64_t kLargest = uint64_t{1} << 47;
    if (array.count && type->size && *array.count > kLargest / type->size) array.count.reset();
    array.size = array.count.value_or(0) * type->size;
    type = add(std::move(array));
  }
  return type;
}

void Types::fill_struct(Type& type, const Module* module, Dwarf_Die die, unsigned depth) {
  type.kind = Kind::Struct;
  type.is_union = dwarf_tag(&die) == DW_TAG_union_type;
  type.cpp = is_cpp(die);
  type.class_die_ = die;
  if (flag(&die, DW_AT_declaration)) {
    auto definition = definitions_ ? definitions_->definition_of(module, die) : std::nullopt;
    type.incomplete = !definition;
    if (!definition) return;
    module = type.module_ = definition->first;
    die = definition->second;
    type.class_die_ = die;
    type.size = number(&die, DW_AT_byte_size).value_or(0);
  }
  type.passed_by_reference = number(&die, DW_AT_calling_convention) == uint64_t{DW_CC_pass_by_reference};
  each_child(die, [&](Dwarf_Die child) {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_member || tag == DW_TAG_inheritance) fill_member(type, module, child, depth);
    if (tag == DW_TAG_variable) type.statics.push_back(name_of(&child));  // DWARF 5
  });
}

void Types::fill_member(Type& type, const Module* module, Dwarf_Die die, unsigned depth) {
  if (flag(&die, DW_AT_external) || flag(&die, DW_AT_declaration)) {
    type.statics.push_back(name_of(&die));
    return;
  }
  Type::Member member;
  auto its_type = type_die(&die);
  if (!its_type) return;
  member.type = read(module, *its_type, depth + 1);
  member.base = dwarf_tag(&die) == DW_TAG_inheritance;
  member.virtual_base = member.base && number(&die, DW_AT_virtuality).value_or(0) != 0;
  member.artificial = flag(&die, DW_AT_artificial) || name_of(&die).starts_with("_vptr");
  if (!member.base) member.name = name_of(&die);
  auto offset = member_offset(&die);
  if (!offset && !member.virtual_base) return;
  member.offset = offset.value_or(0);
  if (member.virtual_base) member.location = virtual_base_location(&die);
  auto bits = number(&die, DW_AT_bit_size);
  if (bits && *bits > 0 && *bits <= 64) {
    uint64_t first = member.offset * 8;  // from the start of the struct
    if (auto at = number(&die, DW_AT_data_bit_offset)) {
      first = *at;
    } else if (auto from_top = number(&die, DW_AT_bit_offset)) {
      const uint64_t storage = number(&die, DW_AT_byte_size).value_or(member.type->size);
      if (*from_top + *bits > storage * 8) return;
      first += storage * 8 - *from_top - *bits;
    }
    const uint64_t needed = first % 8 + *bits;
    if (needed > 64) return;
    member.unit = needed <= 8 ? 1 : needed <= 16 ? 2 : needed <= 32 ? 4 : 8;
    member.offset = first / 8;
    // Nothing behind the struct may be read: the page there may not exist.
    if (type.size >= member.unit) member.offset = std::min(member.offset, type.size - member.unit);
    if (first - member.offset * 8 + *bits > member.unit * 8u) return;
    member.bit_size = static_cast<uint8_t>(*bits);
    member.bit_shift = static_cast<uint8_t>(first - member.offset * 8);
  }
  type.members.push_back(std::move(member));
}

void Types::fill_enum(Type& type, const Module* module, Dwarf_Die die, unsigned depth) {
  type.kind = Kind::Enum;
  type.cpp = is_cpp(die);
  if (flag(&die, DW_AT_declaration) && definitions_)
    if (auto definition = definitions_->definition_of(module, die)) {
      module = definition->first;
      die = definition->second;
      type.size = number(&die, DW_AT_byte_size).value_or(0);
    }
  if (auto underlying = type_die(&die)) {
    const Type* integer = read(module, *underlying, depth + 1);
    type.is_signed = integer->is_signed;
    if (!type.size) type.size = integer->size;
  }
  if (type.size != 1 && type.size != 2 && type.size != 8) type.size = 4;
  each_child(die, [&](Dwarf_Die child) {
    Dwarf_Attribute attribute;
    if (dwarf_tag(&child) != DW_TAG_enumerator || !dwarf_attr(&child, DW_AT_const_value, &attribute)) return;
    const unsigned form = dwarf_whatform(&attribute);
    Dwarf_Word value = 0;
    Dwarf_Sword negative = 0;
    if (form == DW_FORM_sdata || form == DW_FORM_implicit_const) {
      if (dwarf_formsdata(&attribute, &negative) != 0) return;
      value = static_cast<Dwarf_Word>(negative);
      if (negative < 0) type.is_signed = true;
    } else if (dwarf_formudata(&attribute, &value) != 0) {
      return;
    }
    type.enumerators.push_back({name_of(&child), value});
  });
}

const Type* Types::nothing() {
  auto& type = plain_["void"];
  if (!type) type = add({});
  return type;
}

const Type* Types::boolean() {
  auto& type = plain_["bool"];
  if (!type) {
    Type* made = add({});
    made->kind = Kind::Bool;
    made->size = 1;
    made->name = "bool";
    type = made;
  }
  return type;
}

const Type* Types::integer(unsigned size, bool is_signed) {
  const char* names[] = {"char", "short", "int", "long", "__int128"};
  std::string name = names[size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : 4];
  if (size == 1 && is_signed) name = "signed char";
  if (!is_signed) name = "unsigned " + name;
  auto& type = plain_[name];
  if (!type) {
    Type* made = add({});
    made->kind = Kind::Integer;
    made->size = size;
    made->is_signed = is_signed;
    made->name = name;
    type = made;
  }
  return type;
}

const Type* Types::character() {
  auto& type = plain_["char"];
  if (!type) {
    Type* made = add({});
    made->kind = Kind::Char;
    made->size = 1;
    made->is_signed = true;
    made->name = "char";
    type = made;
  }
  return type;
}

const Type* Types::floating(unsigned size) {
  const std::string name = size == 4 ? "float" : size == 8 ? "double" : "long double";
  auto& type = plain_[name];
  if (!type) {
    Type* made = add({});
    made->kind = Kind::Float;
    made->size = size;
    made->is_signed = true;
    made->name = name;
    type = made;
  }
  return type;
}

const Type* Types::pointer_to(const Type* target) {
  Type* type = add({});
  type->kind = Kind::Pointer;
  type->size = 8;
  type->target_ = target;
  return type;
}

const Type* Types::array_of(const Type* element, uint64_t count) {
  Type* type = add({});
  type->kind = Kind::Array;
  type->element = element;
  type->count = count;
  type->size = count * element->size;
  return type;
}

const Type* Types::function() {
  auto& type = plain_["function"];
  if (!type) {
    Type* made = add({});
    made->kind = Kind::Function;
    type = made;
  }
  return type;
}

const Type* Types::builtin(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  auto take = [&](const char* word) {
    auto at = std::find(words.begin(), words.end(), word);
    if (at == words.end()) return false;
    words.erase(at);
    return true;
  };
  if (words.empty()) return nullptr;
  const bool is_unsigned = take("unsigned"), is_signed = take("signed");
  if (is_unsigned && is_signed) return nullptr;
  const Type* type = nullptr;
  if (take("char")) {
    type = is_unsigned || is_signed ? integer(1, is_signed) : character();
  } else if (take("short")) {
    take("int");
    type = integer(2, !is_unsigned);
  } else if (take("long")) {
    const bool twice = take("long");
    if (!twice && take("double")) {
      type = is_unsigned || is_signed ? nullptr : floating(16);
    } else {
      take("int");
      type = integer(8, !is_unsigned);
    }
  } else if (take("__int128")) {
    type = integer(16, !is_unsigned);
  } else if (take("int") || ((is_unsigned || is_signed) && words.empty())) {
    type = integer(4, !is_unsigned);
  } else if (!is_unsigned && !is_signed) {
    if (take("void"))
      type = nothing();
    else if (take("bool") || take("_Bool"))
      type = boolean();
    else if (take("float"))
      type = floating(4);
    else if (take("double"))
      type = floating(8);
  }
  return words.empty() ? type : nullptr;
}

}  // namespace backstep::symbols
