#include "symbols/expression_compile.h"

#include <dwarf.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "symbols/program_names.h"

namespace backstep::symbols {

using namespace replayer;
using Kind = Type::Kind;

namespace {

constexpr size_t kLongestText = 200;  // that can be compared

bool is_number(const Type& type) {
  return type.integral() || (type.kind == Kind::Float && type.size <= 8);
}

std::string shown(const Operand& operand) {
  return operand.name.empty() ? "this" : "'" + operand.name + "'";
}

// Enumerators of C are of the type int, unlike variables of their enum.
bool is_int_in_c(const Variable& variable, const std::string& name) {
  const Type& type = *variable.type;
  Dwarf_Die die = variable.die;
  if (type.kind != Kind::Enum || type.cpp || !die.addr || dwarf_tag(&die) != DW_TAG_enumeration_type)
    return false;
  const auto e = std::find_if(type.enumerators.begin(), type.enumerators.end(),
                              [&](const auto& one) { return one.name == name; });
  const auto value = e == type.enumerators.end() ? 0 : static_cast<int64_t>(e->value);
  return e != type.enumerators.end() && value >= INT32_MIN && value <= INT32_MAX;
}

}  // namespace

Compilation::Compilation(Variables& variables, const std::string& text, const Site& site,
                         const EventVariables& event)
    : variables_(variables),
      types_(variables.types()),
      arithmetic_(types_),
      classes_(types_),
      text_(text),
      site_(site),
      event_(event) {}

void Compilation::fail(size_t column, const std::string& sentence) const {
  throw ExpressionError(text_, column, sentence);
}

Operand Compilation::run() {
  return eval(*parse(text_, types_, *this));
}

const Type* Compilation::type_named(const std::string& name, bool top) {
  return variables_.type_named(site_, name, top);
}

bool Compilation::is_variable(const std::string& name) {
  if (name == "this" || name == "true" || name == "false") return true;
  std::optional<Operand> found;
  try {
    found = find(name, "", false, 0);
  } catch (const ExpressionError&) {
    throw;
  } catch (const Error&) {  // one of several modules' variables, which a type may hide
    return !variables_.type_named(site_, name);
  }
  return found && found->type->kind != Kind::Function;  // a constructor has the name of its class
}

Operand Compilation::eval(const Node& node) {
  switch (node.kind) {
    case Node::Kind::Integer:
      return value({node.type, Code().constant(node.value)}, node);
    case Node::Kind::Floating: {
      const uint64_t bits = node.type->size == 4 ? std::bit_cast<uint32_t>(static_cast<float>(node.number))
                                                 : std::bit_cast<uint64_t>(node.number);
      return value({node.type, Code().constant(bits)}, node);
    }
    case Node::Kind::Text: {
      Operand text = value({types_.nothing(), {}}, node);
      text.is_text = true;
      text.text = node.text;
      return text;
    }
    case Node::Kind::Name:
      return name(node);
    case Node::Kind::Dollar:
      return dollar(node);
    case Node::Kind::Unary:
      return unary(node);
    case Node::Kind::Binary:
      return binary(node);
    case Node::Kind::Choice:
      return choice(node);
    case Node::Kind::Member:
      return member(node);
    case Node::Kind::Index:
      return index(node);
    case Node::Kind::Cast:
      return cast(node);
    case Node::Kind::SizeOf: {
      const Type* type = node.type ? node.type : eval(*node.children[0]).type;
      if (type->incomplete || (type->size == 0 && type->kind != Kind::Struct && type->kind != Kind::Array))
        fail(node.column, fmt::format("the size of '{}' is not known", type->text_name()));
      return value({types_.integer(8, false), Code().constant(type->size)}, node);
    }
  }
  fail(node.column, "this cannot be compiled");
}

Operand Compilation::value(const Word& word, const Node& node) {
  Operand out{.type = word.type, .storage = {.kind = Storage::Kind::Value, .code = word.code}};
  out.column = node.column;
  return out;
}

Operand Compilation::operand(const Variable& variable, const std::string& name, size_t column) {
  Operand out{.type = variable.type, .storage = variable.storage};
  out.name = name;
  out.column = column;
  out.is_int = is_int_in_c(variable, name);
  return referred(out);
}

Operand Compilation::referred(Operand operand) {
  if (operand.type->kind != Kind::Reference) return operand;
  const Type* target = types_.target(operand.type);
  if (operand.storage.kind == Storage::Kind::Gone) {
    operand.type = target;
    return operand;
  }
  Operand pointer = operand;
  pointer.type = types_.pointer_to(target);
  Operand out = dereferenced(pointer, operand.column);
  out.name = operand.name;
  return out;
}

// ---- names

std::optional<Operand> Compilation::member_of_this(const std::string& name, size_t column) {
  auto self = variables_.local(site_, "this");
  if (!self || self->type->kind != Kind::Pointer) return {};
  Operand object = dereferenced(operand(*self, "this", column), column);
  return member(object, name, column);
}

std::optional<Operand> Compilation::find(const std::string& name, const std::string& file, bool top,
                                         size_t column) {
  if (file.empty() && !top) {
    for (const auto& named : event_.named) {
      if (named.name != name) continue;
      using NamedKind = EventVariables::Named::Kind;
      const Type* type = named.kind == NamedKind::Text ? types_.pointer_to(types_.character())
                         : named.kind == NamedKind::Pointer
                             ? types_.pointer_to(types_.nothing())
                             : types_.integer(8, named.kind == NamedKind::Signed);
      return operand({type, {.kind = Storage::Kind::Value, .code = Code().op(kState, named.state)}}, name, 0);
    }
    if (auto local = variables_.local(site_, name)) return operand(*local, name, column);
    if (auto of_this = member_of_this(name, column)) return of_this;
  }
  if (auto global = variables_.global(site_, name, file, top)) return operand(*global, name, 0);
  if (file.empty())
    if (auto symbol = variables_.symbol(name)) return operand(*symbol, name, 0);
  return {};
}

Operand Compilation::name(const Node& node) {
  if (node.file.empty() && !node.top) {
    if (node.text == "true" || node.text == "false")
      return value({types_.boolean(), Code().constant(node.text == "true")}, node);
  }
  std::optional<Operand> found;
  try {
    found = find(node.text, node.file, node.top && node.file.empty(), node.column);
  } catch (const ExpressionError&) {
    throw;
  } catch (const Error& e) {
    fail(node.column, e.what());
  }
  if (!found && (node.text == "NULL" || node.text == "nullptr"))
    return value({types_.pointer_to(types_.nothing()), Code().constant(0)}, node);
  if (!found) unknown_name(node);
  found->column = node.column;
  return *found;
}

void Compilation::unknown_name(const Node& node) {
  std::vector<std::string> members;
  if (auto self = variables_.local(site_, "this"); self && self->type->kind == Kind::Pointer)
    for (const auto& m : types_.target(self->type)->members) members.push_back(m.name);
  const auto near = variables_.nearest(site_, node.text, members);
  std::string sentence = fmt::format("there is no variable '{}' here", node.text);
  if (variables_.type_named(site_, node.text))
    sentence = fmt::format("'{}' is a type, not a variable", node.text);
  else if (!node.file.empty())
    sentence = fmt::format("there is no variable '{}' in \"{}\"", node.text, node.file);
  else if (!near.empty())
    sentence += fmt::format("; did you mean '{}'?", fmt::join(near, "' or '"));
  else if (site_.module && !site_.unit)
    sentence += site_.module->elf().dwarf()
                    ? "; the code at this place has no debug information"
                    : fmt::format("; {} has no debug information", site_.module->name);
  if (site_.module && !variables_.split_units(site_.module).empty())
    sentence += " (debug information in .dwo files, -gsplit-dwarf, is not read)";
  fail(node.column, sentence);
}

Operand Compilation::state(const Node& node, bool offered, StateWord word, const Type* type) {
  if (!offered) fail(node.column, fmt::format("this event has no ${}", node.text));
  Operand out = value({type, Code().state(word)}, node);
  out.name = "$" + node.text;
  return out;
}

std::optional<Operand> Compilation::machine_register(const std::string& name) {
  struct Row {
    const char *whole, *half, *quarter, *low;
  };
  // In gdb's order.
  static constexpr Row kNames[] = {{"rax", "eax", "ax", "al"},  {"rbx", "ebx", "bx", "bl"},
                                   {"rcx", "ecx", "cx", "cl"},  {"rdx", "edx", "dx", "dl"},
                                   {"rsi", "esi", "si", "sil"}, {"rdi", "edi", "di", "dil"},
                                   {"rbp", "ebp", "bp", "bpl"}, {"rsp", "esp", "", "spl"}};
  const Type* text = types_.pointer_to(types_.nothing());
  auto made = [&](const Type* type, const Code& code) {
    return Operand{.type = type, .storage = {.kind = Storage::Kind::Value, .code = code}};
  };
  auto general = [&](unsigned number, unsigned size) {
    return made(types_.integer(size, true), Code().reg(number));
  };
  if (name == "pc" || name == "rip") return made(text, Code().reg(16));
  if (name == "sp" || name == "rsp") return made(text, Code().reg(7));
  if (name == "fp" || name == "rbp") return made(text, Code().reg(6));
  if (name == "eflags" || name == "rflags") return made(types_.integer(4, false), Code().reg(17));
  if (name == "fs_base") return made(text, Code().state(kStateFsBase));
  if (name == "gs_base") return made(text, Code().state(kStateGsBase));
  for (unsigned i = 0; i < std::size(kNames); i++) {
    if (name == kNames[i].whole) return general(i, 8);
    if (name == kNames[i].half) return general(i, 4);
    if (name == kNames[i].quarter && !name.empty()) return general(i, 2);
    if (name == kNames[i].low) return general(i, 1);
    if (i < 4 && name == std::string(1, kNames[i].whole[1]) + "h")
      return made(types_.integer(1, true), Code().reg(i).constant(8).op(kRshUnsigned));
  }
  for (unsigned i = 8; i < 16; i++) {
    const std::string whole = fmt::format("r{}", i);
    if (name == whole) return general(i, 8);
    if (name == whole + "d") return general(i, 4);
    if (name == whole + "w") return general(i, 2);
    if (name == whole + "b") return general(i, 1);
  }
  for (unsigned i = 0; i < 16; i++) {
    const std::string whole = fmt::format("xmm{}", i);
    const Code code = Code().op(kVector, i);
    if (name == whole) return made(types_.floating(8), code);
    if (name == whole + "f") return made(types_.floating(4), code);
    if (name == whole + "i") return made(types_.integer(8, true), code);
  }
  return {};
}

// Of a system call, by its number or its name. A register's name is the register's.
std::optional<Operand> Compilation::call_argument(const std::string& name) {
  static constexpr unsigned kRegisters[] = {5, 4, 3, 10, 8, 9};  // gdb's: rdi rsi rdx r10 r8 r9
  const auto& args = event_.call_args;
  size_t number = 0;
  while (number < args.size() && name != fmt::format("arg{}", number) &&
         (name != args[number].name || machine_register(name)))
    number++;
  if (number == args.size() || number >= std::size(kRegisters)) return {};
  using ArgumentKind = EventVariables::CallArgument::Kind;
  const ArgumentKind kind = args[number].kind;
  const Type* type = kind == ArgumentKind::Text      ? types_.pointer_to(types_.character())
                     : kind == ArgumentKind::Pointer ? types_.pointer_to(types_.nothing())
                     : kind == ArgumentKind::Int || kind == ArgumentKind::Unsigned
                         ? types_.integer(4, kind == ArgumentKind::Int)
                         : types_.integer(8, kind == ArgumentKind::Long);
  return operand({type, {.kind = Storage::Kind::Value, .code = Code().reg(kRegisters[number])}}, "$" + name,
                 0);
}

Operand Compilation::dollar(const Node& node) {
  const std::string& name = node.text;
  if (auto argument = call_argument(name)) {
    argument->column = node.column;
    return *argument;
  }
  const Type* word = types_.integer(8, false);
  const Type* data = event_.value_type && event_.value_type->scalar() ? event_.value_type.get() : word;
  if (name == "tick") return state(node, true, kStateTick, word);
  if (name == "thread") return state(node, true, kStateThread, types_.integer(4, true));
  if (name == "addr") return state(node, event_.addr, kStateAddress, types_.pointer_to(types_.nothing()));
  if (name == "size") return state(node, event_.addr, kStateSize, word);
  if (name == "old") return state(node, event_.old_value, kStateOld, data);
  if (name == "new") return state(node, event_.new_value, kStateNew, data);
  const Site function = event_.function ? variables_.site(event_.function) : site_;
  try {
    if (name == "retval") {
      if (!event_.retval) fail(node.column, "$retval is known only where a function returns");
      return operand(variables_.result(function), "$retval", node.column);
    }
    if (name.starts_with("arg") && name.size() > 3 && name.size() < 6 &&
        name.find_first_not_of("0123456789", 3) == std::string::npos) {
      if (!event_.call_args.empty())
        fail(node.column, fmt::format("there is no ${}: the call has {} argument{}, counted from $arg0", name,
                                      event_.call_args.size(), event_.call_args.size() == 1 ? "" : "s"));
      if (!event_.args)
        fail(node.column, fmt::format("${} is known only where a function is entered, at a system call, and "
                                      "behind one that is named",
                                      name));
      return operand(variables_.argument(function, static_cast<unsigned>(std::stoul(name.substr(3)))),
                     "$" + name, node.column);
    }
  } catch (const ExpressionError&) {
    throw;
  } catch (const Error& e) {
    fail(node.column, e.what());
  }
  if (auto found = machine_register(name)) {
    found->column = node.column;
    found->name = "$" + name;
    return *found;
  }
  if (name == "stack") fail(node.column, "$stack can only be logged, by itself: {$stack}");
  Nearest nearest(name, 3);
  for (const char* other : {"tick", "thread", "addr", "size", "old",    "new",  "retval",  "arg0",
                            "rax",  "rbx",    "rcx",  "rdx",  "rsi",    "rdi",  "rbp",     "rsp",
                            "rip",  "pc",     "sp",   "fp",   "eflags", "xmm0", "fs_base", "gs_base"})
    nearest.offer(other);
  const auto near = nearest.names();
  fail(node.column, near.empty()
                        ? fmt::format("there is no ${}", name)
                        : fmt::format("there is no ${}; did you mean ${}?", name, fmt::join(near, " or $")));
}

// ---- values

Word Compilation::word(const Operand& o) {
  const Type* type = o.type;
  if (o.is_text) fail(o.column, "a text can only be compared, with == or != or ~");
  if (type->kind == Kind::Array || type->kind == Kind::Function) {
    if (type->kind == Kind::Array) return {types_.pointer_to(type->element), address(o)};
    return {types_.pointer_to(type), address(o)};
  }
  if (type->kind == Kind::Void)
    fail(o.column,
         fmt::format("the type of {} is not known: write *(int *)&{}, for instance", shown(o), o.name));
  if (type->kind == Kind::Struct)
    fail(o.column, fmt::format("{} is a struct: name one of its members", shown(o)));
  if (type->kind == Kind::Integer && type->size == 16)
    fail(o.column,
         fmt::format("{} has 128 bits, which can be shown, not calculated with: (long)x is its lower half",
                     shown(o)));
  if (type->kind == Kind::Other || type->kind == Kind::Reference)
    fail(o.column,
         fmt::format("{} is of the type '{}', which expressions do not know", shown(o), type->text_name()));
  const Storage& storage = o.storage;
  switch (storage.kind) {
    case Storage::Kind::Gone:
      throw OptimizedOut{o.column, o.name, storage.why};
    case Storage::Kind::Implicit:
      throw OptimizedOut{o.column, o.name, "what it points to is not in memory"};
    default:
      break;
  }
  if (type->kind == Kind::Float && type->size == 16) {
    if (storage.kind != Storage::Kind::Memory)
      throw OptimizedOut{o.column, o.name, "it is in an x87 register"};
    return {types_.floating(8), Code(storage.code).op(kFloatRef80)};
  }
  const uint64_t size = o.bit_size ? o.unit : type->size;
  Word out{o.is_int ? types_.integer(4, true) : type, {}};
  if (storage.kind == Storage::Kind::Memory) {
    out.code = storage.code;
    out.code.load(size);
  } else if (storage.kind == Storage::Kind::Value) {
    out.code = storage.code;
  } else {
    out.code = words({.type = type,
                      .storage = slice(storage, 0, size),
                      .unit = static_cast<uint8_t>(size),
                      .name = o.name,
                      .column = o.column});
  }
  if (o.bit_size) {
    if (o.bit_shift) out.code.constant(o.bit_shift).op(kRshUnsigned);
    out.code.extend(o.bit_size, type->is_signed);
  } else if (storage.kind != Storage::Kind::Memory || type->is_signed) {
    out.code.extend(type->size * 8, type->is_signed && type->kind != Kind::Float);
  }
  return out;
}

// Each word is put together of the pieces in it.
Code Compilation::words(const Operand& o) {
  const uint64_t size = o.unit ? o.unit : o.type->size;
  Code all;
  for (uint64_t at = 0; at < size; at += 8) {
    const uint64_t length = std::min<uint64_t>(8, size - at);
    const Storage part = slice(o.storage, at, length);
    if (part.kind == Storage::Kind::Gone || part.kind == Storage::Kind::Implicit)
      throw OptimizedOut{o.column, o.name, part.why};
    std::vector<Storage::Piece> pieces = part.pieces;
    if (part.kind != Storage::Kind::Pieces) pieces = {{0, length, part.kind, part.code}};
    bool first = true;
    for (const auto& piece : pieces) {
      Code one;
      if (piece.kind == Storage::Kind::Value) {
        one = piece.code;
        one.extend(piece.size * 8, false);
      } else {
        // Byte by byte: a piece need not be of a size that can be loaded.
        for (uint64_t i = 0; i < piece.size; i++) {
          one.append(piece.code).offset(i).load(1);
          if (i) one.constant(i * 8).op(kLsh).op(kBitOr);
        }
      }
      if (piece.offset) one.constant(piece.offset * 8).op(kLsh);
      all.append(one);
      if (!first) all.op(kBitOr);
      first = false;
    }
  }
  return all;
}

Code Compilation::address(const Operand& o) {
  if (o.bit_size) fail(o.column, fmt::format("{} is a bit-field and has no address", shown(o)));
  switch (o.storage.kind) {
    case Storage::Kind::Memory:
      return o.storage.code;
    case Storage::Kind::Gone:
      throw OptimizedOut{o.column, o.name, o.storage.why};
    default:
      if (o.name.empty()) fail(o.column, "only what is in memory has an address");
      fail(o.column, fmt::format("{} is in a register here and has no address", shown(o)));
  }
}

Code Compilation::truth(const Operand& o) {
  return arithmetic_.truth(word(o));
}

std::optional<Code> Compilation::text_address(const Operand& o) {
  if (o.is_text) return {};
  if (o.type->text()) return address(o);
  if (o.type->kind == Kind::Pointer && types_.target(o.type)->character()) return word(o).code;
  if (auto offset = o.type->string_pointer()) return address(o).offset(*offset).load(8);
  return {};
}

Word Compilation::arithmetic_word(const Operand& o, const std::string& op, size_t column) {
  const Word w = word(o);
  if (!is_number(*w.type))
    fail(column,
         fmt::format("'{}' needs numbers, and {} is of the type '{}'", op, shown(o), o.type->text_name()));
  return arithmetic_.promoted(w, o.bit_size);
}

// ---- operators

Operand Compilation::dereferenced(const Operand& pointer, size_t column) {
  if (pointer.type->kind == Kind::Array) {
    Operand first = pointer;
    first.type = pointer.type->element;
    first.storage = slice(pointer.storage, 0, first.type->size);
    return referred(first);
  }
  if (pointer.type->kind != Kind::Pointer)
    fail(column,
         fmt::format("{} is of the type '{}', not a pointer", shown(pointer), pointer.type->text_name()));
  const Type* target = types_.target(pointer.type);
  Operand out{.type = target};
  out.name = pointer.name.empty() ? "" : "*" + pointer.name;
  out.column = column;
  if (pointer.storage.kind == Storage::Kind::Gone) {
    out.storage = pointer.storage;
  } else if (pointer.storage.kind == Storage::Kind::Implicit) {
    auto variable = variables_.pointee(site_, pointer.storage);
    const bool inside = variable && pointer.storage.offset >= 0 &&
                        static_cast<uint64_t>(pointer.storage.offset) + target->size <= variable->type->size;
    out.storage = inside
                      ? slice(variable->storage, static_cast<uint64_t>(pointer.storage.offset), target->size)
                      : Storage{.why = "what it points to is not in memory"};
  } else {
    out.storage = {.kind = Storage::Kind::Memory, .code = word(pointer).code};
  }
  return referred(out);
}

Operand Compilation::unary(const Node& node) {
  const std::string& op = node.text;
  const Operand o = eval(*node.children[0]);
  if (op == "*") {
    if (o.type->kind == Kind::Pointer && types_.target(o.type)->kind == Kind::Void)
      fail(node.column, fmt::format("{} points to void: cast it first, as in *(int *)x", shown(o)));
    return dereferenced(o, node.column);
  }
  if (op == "&") {
    const Type* target = o.type;
    Operand out = value({types_.pointer_to(target), address(o)}, node);
    return out;
  }
  if (op == "!") return value({types_.integer(4, true), truth(o).op(kLogNot)}, node);
  Word w = arithmetic_word(o, op, node.column);
  if (op == "-") return value(arithmetic_.negated(w), node);
  if (op == "~") {
    if (w.type->kind == Kind::Float) fail(node.column, "'~' needs an integer");
    w.code.op(kBitNot).extend(w.type->size * 8, w.type->is_signed);
  }
  return value(w, node);
}

Operand Compilation::compare_text(const Node& node, const Operand& a, const Operand& b) {
  const Operand& literal = b.is_text ? b : a;
  const Operand& other = b.is_text ? a : b;
  if (other.is_text) fail(node.column, "two texts in quotes are compared: one of them should be a variable");
  if (node.text == "~" && !b.is_text) fail(a.column, "the text to look for stands behind '~'");
  auto where = text_address(other);
  if (!where)
    fail(other.column, fmt::format("{} is of the type '{}', which is no text: cast it to (char *)",
                                   shown(other), other.type->text_name()));
  const std::string& text = literal.text;
  if (text.size() > kLongestText)
    fail(literal.column, fmt::format("texts of up to {} bytes can be compared", kLongestText));
  if (text.find('\0') != std::string::npos) fail(literal.column, "a text ends at its first \\0");
  Code code = *where;
  for (size_t i = 0; i < text.size(); i += 8) {
    uint64_t part = 0;
    std::memcpy(&part, text.data() + i, std::min<size_t>(8, text.size() - i));
    code.constant(part);
  }
  code.op(node.text == "~" ? kTextContains : kTextEqual, text.size());
  if (node.text == "!=") code.op(kLogNot);
  return value({types_.integer(4, true), code}, node);
}

uint64_t Compilation::size_for_arithmetic(const Operand& pointer, size_t column) {
  const Type* target =
      pointer.type->kind == Kind::Array ? pointer.type->element : types_.target(pointer.type);
  if (target->kind == Kind::Void || target->kind == Kind::Function) return 1;
  if (target->size == 0)
    fail(column, fmt::format("the size of what {} points to is not known", shown(pointer)));
  return target->size;
}

Operand Compilation::pointer_arithmetic(const Node& node, const Operand& a, const Operand& b) {
  auto points = [](const Operand& o) { return o.type->kind == Kind::Pointer || o.type->kind == Kind::Array; };
  if (points(a) && points(b)) {
    if (node.text != "-") fail(node.column, fmt::format("'{}' cannot join two pointers", node.text));
    Code code = word(a).code;
    code.append(word(b).code).op(kSub).constant(size_for_arithmetic(a, node.column)).op(kDivSigned);
    return value({types_.integer(8, true), code}, node);
  }
  const Operand& pointer = points(a) ? a : b;
  const Operand& number = points(a) ? b : a;
  if (!points(a) && node.text == "-") fail(node.column, "a pointer cannot be subtracted from a number");
  const Word steps = arithmetic_word(number, node.text, node.column);
  if (steps.type->kind == Kind::Float) fail(number.column, "only a whole number can be added to a pointer");
  Word out = word(pointer);
  out.code.append(steps.code)
      .constant(size_for_arithmetic(pointer, node.column))
      .op(kMul)
      .op(node.text == "+" ? kAdd : kSub);
  return value(out, node);
}

Operand Compilation::binary(const Node& node) {
  const std::string& op = node.text;
  const Operand a = eval(*node.children[0]), b = eval(*node.children[1]);
  if (op == "&&" || op == "||") return value(arithmetic_.logical(op == "&&", word(a), word(b)), node);
  const bool equality = op == "==" || op == "!=";
  if (op == "~" || (equality && (a.is_text || b.is_text))) {
    if (!a.is_text && !b.is_text)
      fail(node.column, "'~' asks whether a text contains another: name ~ \"part\"");
    return compare_text(node, a, b);
  }
  auto points = [](const Operand& o) {
    return o.type->kind == Kind::Pointer || o.type->kind == Kind::Array || o.type->kind == Kind::Function;
  };
  const bool comparison = equality || op[0] == '<' || op[0] == '>';
  if (comparison && op != "<<" && op != ">>") {
    if (points(a) || points(b)) {
      Word wa = word(a), wb = word(b);
      join_pointers(wa, wb, node.column);
      for (const Operand* o : {&a, &b})
        if (!points(*o) && !o->type->integral())
          fail(node.column, fmt::format("a pointer and a '{}' cannot be compared", o->type->text_name()));
      return value(arithmetic_.compare(op, wa, wb), node);
    }
    return value(
        arithmetic_.compare(op, arithmetic_word(a, op, node.column), arithmetic_word(b, op, node.column)),
        node);
  }
  if ((op == "+" || op == "-") && (points(a) || points(b))) return pointer_arithmetic(node, a, b);
  const Word wa = arithmetic_word(a, op, node.column), wb = arithmetic_word(b, op, node.column);
  const bool whole = wa.type->kind != Kind::Float && wb.type->kind != Kind::Float;
  if (op == "+" || op == "-" || op == "*" || op == "/")
    return value(arithmetic_.add_sub_mul_div(op, wa, wb), node);
  if (!whole) fail(node.column, fmt::format("'{}' needs integers", op));
  if (op == "<<" || op == ">>") return value(arithmetic_.shift(op, wa, wb), node);
  return value(arithmetic_.bits(op, wa, wb), node);
}

Operand Compilation::choice(const Node& node) {
  const Operand condition = eval(*node.children[0]);
  const Operand yes = eval(*node.children[1]), no = eval(*node.children[2]);
  Word a = word(yes), b = word(no);
  const Type* type = a.type;
  if (is_number(*a.type) && is_number(*b.type)) {
    a = arithmetic_.promoted(a, yes.bit_size);
    b = arithmetic_.promoted(b, no.bit_size);
    // Both of one enum, both true or false: they stay that.
    if (word(yes).type == word(no).type) a = word(yes), b = word(no);
    type = a.type == b.type ? a.type : arithmetic_.common(a.type, b.type);
    a = arithmetic_.converted(a, type);
    b = arithmetic_.converted(b, type);
  } else if (a.type->kind != b.type->kind && !a.type->integral() && !b.type->integral()) {
    fail(node.column, "the two values of '?:' are of different kinds");
  } else if (a.type->integral()) {
    type = b.type;  // 0 or a pointer
  } else {
    join_pointers(a, b, node.column);
    type = a.type;
  }
  Word out = arithmetic_.choice(word(condition), a, b);
  out.type = type;
  return value(out, node);
}

Operand Compilation::member(const Node& node) {
  Operand of = eval(*node.children[0]);
  const bool pointer = of.type->kind == Kind::Pointer;
  if (node.arrow) {
    if (of.type->kind == Kind::Struct)
      fail(node.column, fmt::format("{} is not a pointer: write '.'", shown(of)));
    const std::string name = of.name;
    of = dereferenced(of, of.column);
    of.name = name.empty() ? "" : name + "->";
  } else if (pointer) {
    fail(node.column, fmt::format("{} is a pointer: write '->'", shown(of)));
  }
  const std::string whole = of.name.ends_with("->") ? of.name + node.text
                            : of.name.empty()       ? node.text
                                                    : of.name + "." + node.text;
  if (of.type->kind != Kind::Struct)
    fail(node.column,
         fmt::format("{} is of the type '{}', which has no members", shown(of), of.type->text_name()));
  if (of.type->incomplete)
    fail(node.column, fmt::format("what is in '{}' is not known: it is only declared", of.type->text_name()));
  of.column = node.column;
  if (auto found = member(of, node.text, node.column)) {
    found->name = whole;
    found->column = node.column;
    return *found;
  }
  Nearest nearest(node.text, 3);
  for (const std::string& name : classes_.member_names(of.type)) nearest.offer(name);
  const auto near = nearest.names();
  std::string sentence = fmt::format("'{}' has no member '{}'", of.type->text_name(), node.text);
  if (!near.empty()) sentence += fmt::format("; did you mean '{}'?", fmt::join(near, "' or '"));
  fail(node.column, sentence);
}

Operand Compilation::index(const Node& node) {
  const Operand a = eval(*node.children[0]), b = eval(*node.children[1]);
  const bool swapped = b.type->kind == Kind::Pointer || b.type->kind == Kind::Array;
  const Operand& array = swapped ? b : a;
  const Operand& number = swapped ? a : b;
  if (array.type->kind != Kind::Pointer && array.type->kind != Kind::Array)
    fail(node.column, fmt::format("{} is of the type '{}', neither array nor pointer", shown(array),
                                  array.type->text_name()));
  const Word steps = arithmetic_word(number, "[]", number.column);
  if (steps.type->kind == Kind::Float) fail(number.column, "an index is a whole number");
  const uint64_t size = size_for_arithmetic(array, node.column);
  const Type* element = array.type->kind == Kind::Array ? array.type->element : types_.target(array.type);
  if (element->kind == Kind::Void)
    fail(node.column, fmt::format("{} points to void: cast it first", shown(array)));
  Operand out{.type = element};
  out.name = array.name.empty() ? "" : array.name + "[]";
  out.column = node.column;
  const Node& fixed = *node.children[swapped ? 0 : 1];
  if (array.type->kind == Kind::Array && array.storage.kind != Storage::Kind::Memory) {
    const bool inside = fixed.kind == Node::Kind::Integer && fixed.value < array.type->count.value_or(0);
    out.storage =
        inside
            ? slice(array.storage, fixed.value * size, size)
            : Storage{.why = "it is not in memory here, and can be read only at an index that is a number"};
  } else if (array.storage.kind == Storage::Kind::Implicit && fixed.kind == Node::Kind::Integer &&
             fixed.value < 1 << 20) {
    Operand pointer = array;
    pointer.storage.offset += static_cast<int64_t>(fixed.value * size);
    return dereferenced(pointer, node.column);
  } else {
    Code code = word(array).code;
    code.append(steps.code).constant(size).op(kMul).op(kAdd);
    out.storage = {.kind = Storage::Kind::Memory, .code = code};
  }
  return referred(out);
}

Operand Compilation::cast(const Node& node) {
  Operand o = eval(*node.children[0]);
  const Type* to = node.type;
  // The lower half of 128 bits, the address of a symbol whose type is not known.
  if (o.type->kind == Kind::Integer && o.type->size == 16) {
    o.type = types_.integer(8, o.type->is_signed);
    o.storage = slice(o.storage, 0, 8);
  }
  if (o.type->kind == Kind::Void && o.storage.kind == Storage::Kind::Memory && to->scalar()) {
    o.type = to;
    return o;
  }
  if (to->kind == Kind::Void || !to->scalar()) {
    if (to->kind == Kind::Float && to->size == 16) {
      fail(node.column, "long double can be shown, not converted to: (double)x is as near as it gets");
    }
    fail(node.column, fmt::format("a value cannot be cast to '{}'; *({} *)&x looks at x as one",
                                  to->text_name(), to->text_name()));
  }
  const Word w = word(o);
  if (to->kind == Kind::Pointer && w.type->kind == Kind::Float)
    fail(node.column, "a floating-point number is no address");
  if (w.type->kind == Kind::Pointer && to->kind == Kind::Float)
    fail(node.column, "a pointer is no floating-point number");
  if (w.type->kind == Kind::Pointer && to->kind == Kind::Pointer)
    return value(class_pointer(w, to, node.column, true), node);
  Operand out = value(arithmetic_.converted(w, to), node);
  return out;
}

}  // namespace backstep::symbols
