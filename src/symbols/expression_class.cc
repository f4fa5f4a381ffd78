// What expressions know of C++'s classes: members of base classes, and pointers to them. An object of a base
// class need not begin where the whole one begins, so a pointer that is converted moves, and null stays null.
// Where a virtual base class is, the object itself says, through its table of virtual functions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "symbols/expression_compile.h"

namespace backstep::symbols {

using namespace replayer;
using Kind = Type::Kind;

namespace {

bool points_to_class(Types& types, const Type* type) {
  return type->kind == Kind::Pointer && types.target(type)->kind == Kind::Struct;
}

// Done to an address that is not null.
Code moved(Code pointer, const Code& way) {
  if (way.empty()) return pointer;
  return pointer.op(kDup).skip_if(1).skip(way.size()).append(way);
}

// "A::x" -> "A" and "x"; colons in template arguments are those of something else.
std::pair<std::string, std::string> split_member(const std::string& name) {
  int depth = 0;
  for (size_t i = name.size(); i-- > 1;) {
    if (name[i] == '>') depth++;
    if (name[i] == '<') depth--;
    if (depth == 0 && name[i] == ':' && name[i - 1] == ':')
      return {name.substr(0, i - 1), name.substr(i + 1)};
  }
  return {"", name};
}

}  // namespace

Operand Compilation::part(const Operand& of, const Subobject& to, size_t column) {
  Operand out = of;
  out.column = column;
  for (const Type::Member* step : to.path) {
    out.type = step->type;
    if (!step->virtual_base) {
      out.storage = slice(out.storage, step->offset, step->type->size);
    } else if (!step->location) {
      fail(column,
           fmt::format("where the virtual base class '{}' is, the debug information does not tell in a "
                       "way that is understood",
                       step->type->text_name()));
    } else if (out.storage.kind == Storage::Kind::Memory) {
      out.storage.code.append(*step->location);
    } else if (out.storage.kind != Storage::Kind::Gone) {
      out.storage = {.why = "the object is not in memory, which tells where its virtual base class is"};
    }
  }
  return out;
}

std::optional<Operand> Compilation::member(const Operand& of, const std::string& whole_name, size_t column) {
  if (of.type->kind != Kind::Struct) return {};
  const auto [scope, name] = split_member(whole_name);
  Operand object = of;
  if (!scope.empty()) {
    const Type* type = variables_.type_named(site_, scope);
    auto bases = type ? classes_.parts(of.type, type) : classes_.parts_named(of.type, scope);
    if (bases.empty()) return {};
    if (bases.size() > 1)
      fail(column, fmt::format("'{}' has several base classes '{}': name the class in between",
                               of.type->text_name(), scope));
    object = part(of, bases[0], column);
  }
  const auto found = classes_.members(object.type, name);
  if (found.empty()) return {};
  if (found.size() > 1) {
    std::vector<std::string> classes;
    for (const auto& f : found) classes.push_back(types_.qualified(f.in.type));
    const bool same =
        std::all_of(classes.begin(), classes.end(), [&](const auto& c) { return c == classes[0]; });
    fail(column,
         same ? fmt::format("'{}' is a member of '{}', which is a base class of '{}' several times: name "
                            "the class in between, as in x.Class::{}",
                            name, classes[0], object.type->text_name(), name)
              : fmt::format("'{}' is a member of '{}': say which, as in x.{}::{}", name,
                            fmt::join(classes, "' and of '"), classes[0], name));
  }
  const Classes::Found& one = found[0];
  const std::string shown = of.name.empty() || of.name == "*this" ? whole_name : of.name + "." + whole_name;
  if (!one.member) {
    auto fixed = variables_.global(site_, types_.qualified(one.in.type) + "::" + name, "", false);
    if (!fixed)
      fail(column, fmt::format("the debug information does not tell where the static member '{}' is", name));
    return operand(*fixed, shown, column);
  }
  const Operand in = part(object, one.in, column);
  Operand out{.type = one.member->type};
  out.bit_size = one.member->bit_size;
  out.bit_shift = one.member->bit_shift;
  out.unit = one.member->unit;
  out.name = shown;
  out.column = column;
  out.storage = slice(in.storage, one.member->offset, out.bit_size ? out.unit : out.type->size);
  return referred(out);
}

// As C++ converts pointers: to a base class, and down again if that may be.
Word Compilation::class_pointer(const Word& pointer, const Type* to, size_t column, bool may_go_down) {
  const Word plain{to, pointer.code};
  if (!points_to_class(types_, pointer.type) || !points_to_class(types_, to)) return plain;
  const Type *from = types_.target(pointer.type), *target = types_.target(to);
  if (from == target || types_.same_class(from, target)) return plain;
  for (const Type* type : {from, target})
    if (type->incomplete && type->cpp && may_go_down)
      fail(column,
           fmt::format(
               "'{}' is only declared, so whether it has base classes is not known; ({} *)(void *)… takes "
               "the address as it is",
               type->text_name(), target->text_name()));
  const auto up = classes_.parts(from, target), down = classes_.parts(target, from);
  if (up.size() > 1 || down.size() > 1)
    fail(column,
         fmt::format("'{}' has several base classes '{}': go by the class in between",
                     (up.empty() ? target : from)->text_name(), (up.empty() ? from : target)->text_name()));
  if (!up.empty()) {
    const Operand whole{.type = from, .storage = {.kind = Storage::Kind::Memory}};
    return {to, moved(pointer.code, part(whole, up[0], column).storage.code)};
  }
  if (down.empty() || !may_go_down) return plain;
  uint64_t offset = 0;
  for (const Type::Member* step : down[0].path) {
    if (step->virtual_base)
      fail(column,
           fmt::format("'{}' is a virtual base class of '{}', so the way back is not known, in C++ neither: "
                       "cast what points to a '{}'",
                       from->text_name(), target->text_name(), target->text_name()));
    offset += step->offset;
  }
  return {to, moved(pointer.code, offset ? Code().constant(offset).op(kSub) : Code())};
}

// For an operator: the one to a derived class becomes one to the base class.
void Compilation::join_pointers(Word& a, Word& b, size_t column) {
  if (!points_to_class(types_, a.type) || !points_to_class(types_, b.type)) return;
  const Type *ta = types_.target(a.type), *tb = types_.target(b.type);
  if (!classes_.parts(ta, tb).empty())
    a = class_pointer(a, b.type, column, false);
  else
    b = class_pointer(b, a.type, column, false);
}

}  // namespace backstep::symbols
