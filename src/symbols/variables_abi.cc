// Arguments and results by the calling convention (System V ABI for x86-64, 3.2.3): which registers, or where
// on the stack. Needed where DWARF does not say it: at the first instruction of a function, whose code has
// yet to store its parameters where DWARF looks for them; at its return; and for functions without debug
// information.
#include <dwarf.h>

#include <fmt/format.h>

#include "base/error.h"
#include "symbols/program_index.h"
#include "symbols/variables.h"

namespace backstep::symbols {
namespace {

using Kind = Type::Kind;
using namespace replayer;

enum class Class : uint8_t { None, Sse, Integer, Memory, X87 };

// gdb's numbers.
constexpr unsigned kRax = 0, kRdx = 3, kRsp = 7;
constexpr unsigned kArgumentRegisters[] = {5, 4, 3, 2, 8, 9};  // rdi rsi rdx rcx r8 r9
constexpr unsigned kVectorArguments = 8;

void merge(Class& to, Class from) {
  to = std::max(to, from);
}

// The class of each eight bytes.
void classify(const Type& type, uint64_t offset, Class (&parts)[2], unsigned depth) {
  if (depth > 16 || offset + type.size > 16) {
    parts[0] = Class::Memory;
    return;
  }
  switch (type.kind) {
    case Kind::Struct:
      if (type.incomplete) parts[0] = Class::Memory;
      for (const auto& member : type.members) {
        if (member.virtual_base)
          parts[0] = Class::Memory;
        else if (member.bit_size)
          merge(parts[std::min<uint64_t>(1, (offset + member.offset) / 8)], Class::Integer);
        else
          classify(*member.type, offset + member.offset, parts, depth + 1);
      }
      break;
    case Kind::Array:
      for (uint64_t i = 0; i < type.count.value_or(0) && type.element->size; i++)
        classify(*type.element, offset + i * type.element->size, parts, depth + 1);
      break;
    case Kind::Float:
      if (type.size == 16)
        parts[0] = Class::X87;
      else if (offset % type.size)
        parts[0] = Class::Memory;
      else
        merge(parts[offset / 8], Class::Sse);
      break;
    case Kind::Void:
    case Kind::Function:
    case Kind::Other:
      parts[0] = Class::Memory;
      break;
    default:
      if (type.size == 0 || offset % std::min<uint64_t>(type.size, 8)) {
        parts[0] = Class::Memory;
        break;
      }
      for (uint64_t i = 0; i < type.size; i += 8) merge(parts[(offset + i) / 8], Class::Integer);
  }
}

struct Passing {
  Class parts[2] = {};
  unsigned words = 0;         // in registers
  bool memory = false;        // on the stack
  bool by_reference = false;  // what is passed is its address
};

Passing passing(const Type& type) {
  Passing how;
  if (type.kind == Kind::Struct && type.passed_by_reference) {
    how.by_reference = true;
    how.parts[0] = Class::Integer;
    how.words = 1;
    return how;
  }
  classify(type, 0, how.parts, 0);
  how.memory = type.size > 16 || how.parts[0] >= Class::Memory || how.parts[1] >= Class::Memory;
  how.words = static_cast<unsigned>((type.size + 7) / 8);
  return how;
}

// A value whose eight-byte words are in registers.
Storage in_words(const Type& type, const std::vector<Code>& words) {
  if (words.size() == 1) return {.kind = Storage::Kind::Value, .code = words[0]};
  Storage storage{.kind = Storage::Kind::Pieces};
  for (size_t i = 0; i < words.size(); i++)
    storage.pieces.push_back(
        {i * 8, std::min<uint64_t>(8, type.size - i * 8), Storage::Kind::Value, words[i]});
  return storage;
}

// Registers and stack, as they are used up by the arguments before.
struct Arguments {
  unsigned general = 0, vectors = 0;
  uint64_t stack = 8;  // from rsp: the return address is before them

  Storage take(const Type& type) {
    const Passing how = passing(type);
    unsigned general_needed = 0, vectors_needed = 0;
    for (unsigned i = 0; i < how.words && i < 2; i++)
      (how.parts[i] == Class::Sse ? vectors_needed : general_needed)++;
    if (how.memory || general + general_needed > std::size(kArgumentRegisters) ||
        vectors + vectors_needed > kVectorArguments)
      return on_stack(type, how);
    std::vector<Code> words;
    for (unsigned i = 0; i < how.words; i++) {
      if (how.parts[i] == Class::Sse)
        words.push_back(Code().op(kVector, vectors++));
      else
        words.push_back(Code().reg(kArgumentRegisters[general++]));
    }
    if (how.by_reference) return {.kind = Storage::Kind::Memory, .code = words[0]};
    if (words.empty()) return {.why = "it is empty"};
    return in_words(type, words);
  }

  Storage on_stack(const Type& type, const Passing& how) {
    const bool wide = how.parts[0] == Class::X87 || (type.kind == Kind::Integer && type.size == 16);
    if (wide) stack = ((stack - 8 + 15) & ~uint64_t{15}) + 8;
    Code code;
    code.reg(kRsp).offset(stack);
    stack += how.by_reference ? 8 : (type.size + 7) & ~uint64_t{7};
    if (how.by_reference) code.load(8);
    return {.kind = Storage::Kind::Memory, .code = code};
  }
};

}  // namespace

Variable Variables::argument(const Site& site, unsigned number) {
  Arguments arguments;
  const Type* word = types_->integer(8, true);
  auto die = function_die(site);
  if (die) {
    const Type* result = types_->of(site.module, &*die);
    if (result->kind == Kind::Struct && (result->passed_by_reference || passing(*result).memory))
      arguments.general++;
    unsigned at = 0;
    bool more = false;
    std::optional<Variable> found;
    Dwarf_Die child;
    if (dwarf_child(&*die, &child) == 0) do {
        const int tag = dwarf_tag(&child);
        more = more || tag == DW_TAG_unspecified_parameters;
        if (tag != DW_TAG_formal_parameter || found) continue;
        const Type* type = types_->of(site.module, &child);
        const Type* passed = type->kind == Kind::Reference ? type : type;
        Storage storage = arguments.take(*passed);
        if (at++ == number) found = Variable{type, storage};
      } while (dwarf_siblingof(&child, &child) == 0);
    if (found) return *found;
    if (!more && dwarf_hasattr_integrate(&*die, DW_AT_prototyped))
      throw Error(
          fmt::format("{} has {} argument{}, counted from $arg0", die_name(*die), at, at == 1 ? "" : "s"));
    number -= std::min(number, at);
  }
  for (unsigned i = 0; i < number; i++) arguments.take(*word);
  return {word, arguments.take(*word)};
}

Variable Variables::result(const Site& site) {
  auto die = function_die(site);
  const Type* type = die ? types_->of(site.module, &*die) : types_->integer(8, true);
  if (type->kind == Kind::Void) throw Error(fmt::format("{} returns nothing", die_name(*die)));
  const Passing how = passing(*type);
  if (how.parts[0] == Class::X87 && type->kind == Kind::Float)
    throw Error("a long double is returned in an x87 register, which expressions do not read");
  if (how.memory || how.by_reference)
    return {type, {.kind = Storage::Kind::Memory, .code = Code().reg(kRax)}};
  std::vector<Code> words;
  unsigned general = 0, vectors = 0;
  for (unsigned i = 0; i < how.words; i++) {
    if (how.parts[i] == Class::Sse)
      words.push_back(Code().op(kVector, vectors++));
    else
      words.push_back(Code().reg(general++ ? kRdx : kRax));
  }
  if (words.empty()) return {type, {.why = "it is empty"}};
  return {type, in_words(*type, words)};
}

}  // namespace backstep::symbols
