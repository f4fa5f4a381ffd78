// A name is looked for in all subobjects that are not hidden, and what is found is sorted out afterwards:
// what several paths found is one if they lead to the same subobject, and what lies in a base class of
// something else that was found is hidden by it (it matters for virtual bases, which other paths reach as
// well).
//
// The debug information is a stranger's: classes may be derived from themselves, or a thousand times from
// one.
#include "symbols/classes.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace backstep::symbols {
namespace {

constexpr size_t kDeepest = 32;     // classes derived from classes
constexpr unsigned kMost = 10'000;  // subobjects of one class

bool is_nameless(const Type::Member& m) {
  return m.name.empty() && !m.base && m.type->kind == Type::Kind::Struct;
}

// A member of that name, also in nameless structs and unions, whose members count as those of the class. The
// way to it is added to `path`.
const Type::Member* own_member(const Type* type, const std::string& name,
                               std::vector<const Type::Member*>& path, size_t depth = 0) {
  for (const Type::Member& m : type->members)
    if (m.name == name && !m.base) return &m;
  for (const Type::Member& m : type->members) {
    if (!is_nameless(m) || depth > kDeepest) continue;
    path.push_back(&m);
    if (const auto* found = own_member(m.type, name, path, depth + 1)) return found;
    path.pop_back();
  }
  return nullptr;
}

void own_names(const Type* type, std::vector<std::string>& to, size_t depth = 0) {
  for (const Type::Member& m : type->members) {
    if (!m.name.empty() && !m.artificial) to.push_back(m.name);
    if (is_nameless(m) && depth < kDeepest) own_names(m.type, to, depth + 1);
  }
  to.insert(to.end(), type->statics.begin(), type->statics.end());
}

}  // namespace

template <typename Visit>
void Classes::each(Subobject& at, unsigned& left, Visit visit) const {
  if (left-- == 0 || at.path.size() > kDeepest)
    throw Error(fmt::format("'{}' has too many base classes", at.type->text_name()));
  if (!visit(static_cast<const Subobject&>(at))) return;
  const Type* type = at.type;
  for (const Type::Member& m : type->members) {
    if (!m.base) continue;
    at.path.push_back(&m);
    at.type = m.type;
    each(at, left, visit);
    at.path.pop_back();
  }
  at.type = type;
}

// Behind its last virtual base class a path says where it leads; which way it came to that does not matter.
bool Classes::same_part(const Subobject& a, const Subobject& b) const {
  auto last_virtual = [](const Subobject& s) {
    return static_cast<size_t>(
        std::find_if(s.path.rbegin(), s.path.rend(), [](const Type::Member* m) { return m->virtual_base; }) -
        s.path.rbegin());
  };
  const size_t tail = last_virtual(a);
  if (tail != last_virtual(b)) return false;
  const bool is_virtual = tail < a.path.size();
  if (is_virtual != (tail < b.path.size())) return false;
  auto from_end = [](const Subobject& s, size_t n) { return s.path[s.path.size() - 1 - n]; };
  for (size_t n = 0; n < tail; n++)
    if (from_end(a, n)->offset != from_end(b, n)->offset ||
        !types_.same_class(from_end(a, n)->type, from_end(b, n)->type))
      return false;
  return !is_virtual || types_.same_class(from_end(a, tail)->type, from_end(b, tail)->type);
}

bool Classes::has_part(const Subobject& whole, const Subobject& part) const {
  unsigned left = kMost;
  bool has = false;
  Subobject at = whole;
  each(at, left, [&](const Subobject& s) {
    has = has ||
          (s.path.size() > whole.path.size() && types_.same_class(s.type, part.type) && same_part(s, part));
    return !has;
  });
  return has;
}

void Classes::add(std::vector<Subobject>& to, const Subobject& part) const {
  if (std::none_of(to.begin(), to.end(), [&](const Subobject& s) { return same_part(s, part); }))
    to.push_back(part);
}

std::vector<Subobject> Classes::parts(const Type* whole, const Type* base) const {
  std::vector<Subobject> out;
  unsigned left = kMost;
  Subobject at{whole};
  each(at, left, [&](const Subobject& s) {
    if (types_.same_class(s.type, base)) add(out, s);
    return true;
  });
  return out;
}

std::vector<Subobject> Classes::parts_named(const Type* whole, const std::string& base) const {
  std::vector<Subobject> out;
  unsigned left = kMost;
  Subobject at{whole};
  each(at, left, [&](const Subobject& s) {
    if (s.type->name == base) add(out, s);
    return true;
  });
  return out;
}

std::vector<Classes::Found> Classes::members(const Type* whole, const std::string& name) const {
  std::vector<std::pair<Subobject, Found>> found;  // with the class that has it
  unsigned left = kMost;
  Subobject at{whole};
  each(at, left, [&](const Subobject& s) {
    Found own{s, nullptr};
    own.member = own_member(s.type, name, own.in.path);
    if (!own.in.path.empty()) own.in.type = own.in.path.back()->type;
    const auto& statics = s.type->statics;
    const bool is_static = !own.member && std::find(statics.begin(), statics.end(), name) != statics.end();
    if (!own.member && !is_static) return true;
    // A static member is one, in however many base classes it is found.
    const bool known = std::any_of(found.begin(), found.end(), [&](const auto& f) {
      return is_static ? !f.second.member && types_.same_class(f.first.type, s.type)
                       : f.second.member && same_part(f.first, s);
    });
    if (!known) found.push_back({s, own});
    return false;
  });
  std::vector<Found> out;
  for (const auto& f : found)
    if (std::none_of(found.begin(), found.end(),
                     [&](const auto& other) { return &other != &f && has_part(other.first, f.first); }))
      out.push_back(f.second);
  return out;
}

std::vector<std::string> Classes::member_names(const Type* whole) const {
  std::vector<std::string> out;
  unsigned left = kMost;
  Subobject at{whole};
  each(at, left, [&](const Subobject& s) {
    own_names(s.type, out);
    return true;
  });
  return out;
}

}  // namespace backstep::symbols
