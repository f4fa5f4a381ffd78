// What values and answers are made of: a number, a text, a list or a structure of these, or nothing. It is
// what JSON can say, as the session says it.
//
//     hit.values["n"] == 3                      hit.values["item"]["name"].text()
//     hit.values["n"].number() % 2              std::cout << hit.values["item"]
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <backstep/export.h>

namespace backstep {

class BACKSTEP_API Data {
 public:
  enum class Kind { Nothing, Truth, Number, Real, Text, List, Structure };
  struct Member;
  using List = std::vector<Data>;
  using Structure = std::vector<Member>;  // in the order of the answer

  Data();  // nothing
  Data(bool truth);
  template <std::integral T>
  Data(T number) : Data(number < 0, static_cast<std::uint64_t>(number)) {}
  Data(double real);
  Data(std::string text);
  Data(const char* text);
  Data(List list);
  Data(Structure structure);
  Data(const Data&);
  Data(Data&&) noexcept;
  Data& operator=(const Data&);
  Data& operator=(Data&&) noexcept;
  ~Data();

  Kind kind() const;
  // False: there is nothing, or what was asked for had no value there (docs/expressions.md: its memory could
  // not be read, the optimiser kept it nowhere).
  bool available() const;

  // Each of these is an Error if it is something else, or out of range. (What is asked of an answer that
  // nobody keeps is a copy, so that `for (auto& item : s.ask("…").list())` has something to go through.)
  bool truth() const;
  std::int64_t number() const;
  double real() const;  // any number; also infinity and "nan", which JSON has as texts only
  // A number that is not negative, or a pointer, which values have as the text "0x…".
  std::uint64_t address() const;
  const std::string& text() const&;
  std::string text() && { return std::as_const(*this).text(); }
  const List& list() const&;
  List list() && { return std::as_const(*this).list(); }
  const Structure& structure() const&;
  Structure structure() &&;

  std::size_t size() const;  // of a list or a structure; of everything else it is 0
  // An element of a list, a member of a structure; an Error if there is none.
  const Data& operator[](std::size_t index) const&;
  Data operator[](std::size_t index) && { return std::as_const(*this)[index]; }
  const Data& operator[](std::string_view name) const&;
  Data operator[](std::string_view name) && { return std::as_const(*this)[name]; }
  // … null if there is none.
  const Data* find(std::string_view name) const&;
  const Data* find(std::string_view name) && = delete;

  static Data from_json(std::string_view json);  // an Error if it is none
  std::string json() const;

  // Numbers are equal by what they are, whatever their types.
  friend BACKSTEP_API bool operator==(const Data& a, const Data& b);
  // As JSON, but a text without its quotes.
  friend BACKSTEP_API std::ostream& operator<<(std::ostream& out, const Data& data);

 private:
  struct Json;  // how it is written

  Data(bool negative, std::uint64_t number);
  [[noreturn]] void is_no(const char* what) const;

  // A number that fits is an int64_t.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, List, Structure>
      value_;
};

struct Data::Member {
  std::string name;
  Data value;
};

inline Data::Structure Data::structure() && {
  return std::as_const(*this).structure();
}

}  // namespace backstep
