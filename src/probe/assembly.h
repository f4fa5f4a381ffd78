// What gcc made of a source file, as assembly: which functions and variables it defines, which lines they
// come from; and the same with some of them taken from elsewhere.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace backstep::probe {

class Assembly {
 public:
  explicit Assembly(std::string text);

  struct Symbol {
    bool function = false, weak = false, global = false, thread_specific = false, read_only = false;
    // Of functions: lines of their code, by file.
    std::map<std::string, std::set<int>> lines;
    // Of its name. (Its first line entry can be that of the bracket behind; debug information has both.)
    int first_line = 0;
    std::string first_file;
  };
  const std::map<std::string, Symbol>& defined() const { return defined_; }
  // Functions for which debug information has no mangled name (C, and static ones of C++), by the name that
  // it has. Empty: several have that one.
  const std::map<std::string, std::string, std::less<>>& plainly_named() const { return plainly_named_; }
  bool has_constructors() const { return constructors_; }
  // Functions that run constructors of variables call these.
  const std::set<std::string>& called_at_start() const { return called_at_start_; }

  // The text with definitions of these symbols made into ones that nobody refers to.
  std::string without_definitions(const std::set<std::string>& symbols) const;
  // Without the list of functions that run at the start.
  static std::string without_constructors(const std::string& text);
  // Names that are used.
  std::set<std::string> mentioned() const;

 private:
  void take_debug_information();

  std::string text_;
  std::map<std::string, Symbol> defined_;
  std::map<std::string, std::string, std::less<>> plainly_named_;
  bool constructors_ = false;
  std::set<std::string> called_at_start_;
};

}  // namespace backstep::probe
