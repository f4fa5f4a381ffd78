// Data is what JSON can say. The library that reads and writes JSON is used here and nowhere else: it is no
// part of what programs see of us.
#include <backstep/data.h>

#include <charconv>
#include <cstdlib>
#include <ostream>

#include <nlohmann/json.hpp>

#include <backstep/error.h>

namespace backstep {
namespace {

using Json = nlohmann::ordered_json;

Data from(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      return json.get<std::uint64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array: {
      Data::List list;
      for (const Json& item : json) list.push_back(from(item));
      return list;
    }
    case Json::value_t::object: {
      Data::Structure structure;
      for (const auto& [name, value] : json.items()) structure.push_back({name, from(value)});
      return structure;
    }
    default:
      return {};
  }
}

}  // namespace

struct Data::Json {
  static nlohmann::ordered_json of(const Data& data) { return std::visit(Json(), data.value_); }

  nlohmann::ordered_json operator()(std::monostate) const { return nullptr; }
  nlohmann::ordered_json operator()(const List& list) const {
    auto json = nlohmann::ordered_json::array();
    for (const Data& item : list) json.push_back(of(item));
    return json;
  }
  nlohmann::ordered_json operator()(const Structure& structure) const {
    auto json = nlohmann::ordered_json::object();
    for (const Member& member : structure) json[member.name] = of(member.value);
    return json;
  }
  nlohmann::ordered_json operator()(const auto& value) const { return value; }
};

Data::Data() = default;
Data::Data(bool truth) : value_(truth) {}
Data::Data(bool negative, std::uint64_t number) {
  if (negative || number <= INT64_MAX)
    value_ = static_cast<std::int64_t>(number);
  else
    value_ = number;
}
Data::Data(double real) : value_(real) {}
Data::Data(std::string text) : value_(std::move(text)) {}
Data::Data(const char* text) : value_(std::string(text)) {}
Data::Data(List list) : value_(std::move(list)) {}
Data::Data(Structure structure) : value_(std::move(structure)) {}
Data::Data(const Data&) = default;
Data::Data(Data&&) noexcept = default;
Data& Data::operator=(const Data&) = default;
Data& Data::operator=(Data&&) noexcept = default;
Data::~Data() = default;

Data::Kind Data::kind() const {
  static constexpr Kind kKinds[] = {Kind::Nothing, Kind::Truth, Kind::Number, Kind::Number,
                                    Kind::Real,    Kind::Text,  Kind::List,   Kind::Structure};
  return kKinds[value_.index()];
}

bool Data::available() const {
  return kind() != Kind::Nothing && !(size() == 1 && find("unavailable"));
}

void Data::is_no(const char* what) const {
  constexpr size_t kEnough = 200;
  const std::string is = json();
  throw Error("this is not " + std::string(what) + ": " +
              (is.size() > kEnough ? is.substr(0, kEnough) + "…" : is));
}

bool Data::truth() const {
  if (auto* truth = std::get_if<bool>(&value_)) return *truth;
  is_no("true or false");
}

std::int64_t Data::number() const {
  if (auto* number = std::get_if<std::int64_t>(&value_)) return *number;
  is_no("a number of 64 bits with a sign");
}

std::uint64_t Data::address() const {
  if (auto* number = std::get_if<std::uint64_t>(&value_)) return *number;
  if (auto* number = std::get_if<std::int64_t>(&value_); number && *number >= 0)
    return static_cast<std::uint64_t>(*number);
  // A pointer to a function has its name behind it.
  if (auto* text = std::get_if<std::string>(&value_); text && text->starts_with("0x")) {
    std::uint64_t address;
    const auto [end, error] = std::from_chars(text->data() + 2, text->data() + text->size(), address, 16);
    if (error == std::errc() && (end == text->data() + text->size() || *end == ' ')) return address;
  }
  is_no("an address");
}

double Data::real() const {
  if (auto* real = std::get_if<double>(&value_)) return *real;
  if (auto* number = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*number);
  if (auto* number = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*number);
  if (auto* text = std::get_if<std::string>(&value_))
    for (const char* special : {"inf", "-inf", "nan", "-nan"})
      if (*text == special) return std::strtod(special, nullptr);
  is_no("a number");
}

const std::string& Data::text() const& {
  if (auto* text = std::get_if<std::string>(&value_)) return *text;
  is_no("a text");
}

const Data::List& Data::list() const& {
  if (auto* list = std::get_if<List>(&value_)) return *list;
  is_no("a list");
}

const Data::Structure& Data::structure() const& {
  if (auto* structure = std::get_if<Structure>(&value_)) return *structure;
  is_no("a structure");
}

std::size_t Data::size() const {
  if (auto* list = std::get_if<List>(&value_)) return list->size();
  if (auto* structure = std::get_if<Structure>(&value_)) return structure->size();
  return 0;
}

const Data& Data::operator[](std::size_t index) const& {
  if (index < list().size()) return list()[index];
  is_no(("a list with an element " + std::to_string(index)).c_str());
}

const Data& Data::operator[](std::string_view name) const& {
  if (const Data* found = find(name)) return *found;
  is_no(("a structure with '" + std::string(name) + "'").c_str());
}

const Data* Data::find(std::string_view name) const& {
  if (auto* structure = std::get_if<Structure>(&value_))
    for (const Member& member : *structure)
      if (member.name == name) return &member.value;
  return nullptr;
}

Data Data::from_json(std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_discarded()) throw Error("this is not JSON: " + std::string(text.substr(0, 200)));
  return from(json);
}

std::string Data::json() const {
  return Json::of(*this).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

bool operator==(const Data& a, const Data& b) {
  // JSON has one kind of number: 1 and 1.0 are the same.
  return Data::Json::of(a) == Data::Json::of(b);
}

std::ostream& operator<<(std::ostream& out, const Data& data) {
  return out << (data.kind() == Data::Kind::Text ? data.text() : data.json());
}

}  // namespace backstep
