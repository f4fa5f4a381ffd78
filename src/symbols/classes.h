// Base classes of C++: where an object of a base class lies within one of a derived class, and which member a
// name means there.
//
// A base class can be in an object several times, and a virtual one is there once however many paths lead to
// it. So what a name or a cast means is a list of *subobjects*: none, one, or several, which is ambiguous and
// an error in C++, too.
#pragma once
#include <string>
#include <vector>

#include "symbols/types.h"

namespace backstep::symbols {

// A part of an object: each step is a base class, or a nameless struct or union, of the one before.
struct Subobject {
  const Type* type = nullptr;
  std::vector<const Type::Member*> path = {};  // empty: the object itself
};

class Classes {
 public:
  explicit Classes(Types& types) : types_(types) {}

  // Where `base` is in `whole`; the same class is a part of itself. Throws Error if there are too many
  // classes to be looked at.
  std::vector<Subobject> parts(const Type* whole, const Type* base) const;
  // The same by the name of the base class, which need not be one that can be named at a place.
  std::vector<Subobject> parts_named(const Type* whole, const std::string& base) const;

  struct Found {
    Subobject in;
    const Type::Member* member = nullptr;  // null: a static member
  };
  // By C++'s rules: what is nearer to the whole hides what is in its base classes.
  std::vector<Found> members(const Type* whole, const std::string& name) const;
  // Of the class and all that it is derived from.
  std::vector<std::string> member_names(const Type* whole) const;

 private:
  // Visits a class and, where `visit` says so, its base classes.
  template <typename Visit>
  void each(Subobject& at, unsigned& left, Visit visit) const;
  bool same_part(const Subobject& a, const Subobject& b) const;
  bool has_part(const Subobject& whole, const Subobject& part) const;
  void add(std::vector<Subobject>& to, const Subobject& part) const;

  Types& types_;
};

}  // namespace backstep::symbols
