// Names outside of functions, of one file's DWARF: variables, functions, types and enumerators, with the
// namespaces and classes that they are in. One walk over the top of all units, made when the first such name
// is asked for.
#pragma once
#include <elfutils/libdw.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace backstep::symbols {

class Globals {
 public:
  struct Entry {
    enum class Kind : uint8_t { Variable, Function, Type, Enumerator };
    Kind kind = Kind::Variable;
    bool external = false;
    Dwarf_Die die = {};
    const void* unit = nullptr;  // which entries are of one unit
  };

  explicit Globals(Dwarf* dwarf);

  // By the qualified name ("ns::x").
  const std::vector<Entry>& named(const std::string& name) const;
  const std::unordered_map<std::string, std::vector<Entry>>& all() const { return entries_; }
  // The qualified name of what was declared in a namespace or class, by its DIE; null: not in one.
  const std::string* qualified(const Dwarf_Die& die) const;
  // Units whose debug information is in files of their own (-gsplit-dwarf).
  const std::vector<std::string>& split_units() const { return split_; }

 private:
  void read(Dwarf_Die parent, const std::string& prefix, const void* unit, unsigned depth);
  void read_one(Dwarf_Die die, const std::string& prefix, const void* unit, unsigned depth);
  void add_code_or_data(Dwarf_Die die, const std::string& prefix, const void* unit);
  void read_enumerators(Dwarf_Die die, const std::string& prefix, const std::string& name, const void* unit);
  void add(const std::string& name, Entry::Kind kind, Dwarf_Die die, const void* unit);

  std::unordered_map<std::string, std::vector<Entry>> entries_;
  std::unordered_map<const void*, std::string> declared_;
  std::vector<std::pair<Dwarf_Die, const void*>> definitions_;  // of what is declared elsewhere
  std::vector<std::string> split_;
};

// What a DIE is called where it is declared: through its specification or abstract origin.
std::string die_name(Dwarf_Die die);
bool die_flag(Dwarf_Die die, unsigned attribute);
// The DIE that this one completes or is a copy of; itself if it is neither.
Dwarf_Die die_origin(Dwarf_Die die);

// Those that lie directly in it.
template <class Visit>
void each_child(Dwarf_Die die, Visit visit) {
  Dwarf_Die child;
  if (dwarf_child(&die, &child) != 0) return;
  do visit(child);
  while (dwarf_siblingof(&child, &child) == 0);
}

}  // namespace backstep::symbols
