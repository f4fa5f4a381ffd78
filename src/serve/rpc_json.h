// Answers of a session as JSON, and parameters out of it.
#pragma once
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "probe/companion.h"
#include "session/assertions.h"
#include "session/calls.h"
#include "session/present.h"
#include "session/session.h"
#include "trace/value.h"

namespace backstep::serve {

using Json = nlohmann::ordered_json;
using session::frame_json;
using session::frames_json;

// Of JSON-RPC, and ours.
enum Code : int {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kNoSuchMethod = -32601,
  kInvalidParams = -32602,
  kFailed = -32000,  // the sentence says why
  kCancelled = -32001,
};

struct RpcError {
  int code;
  std::string sentence;
};

std::string dump(const Json& json);
Json point(const ControlPoint& at);
Json value_json(const session::ValueFacts& v);
Json bookmark_json(const std::string& name, const Json& mark);
Json hit_json(const session::Hit& h, const session::LogRequest& request);
Json verdict_json(const session::Verdict& v);
Json call_json(const session::Call& call);
Json cell_json(const trace::Value& value);

// Parameters by name, checked.
class Params {
 public:
  explicit Params(const Json& json) : json_(json) {
    if (!json.is_object() && !json.is_null())
      throw RpcError{kInvalidParams, "params must be an object: parameters have names here"};
  }
  template <class T>
  T get(const char* name) const {
    if (!has(name)) throw RpcError{kInvalidParams, fmt::format("the parameter '{}' is missing", name)};
    return convert<T>(name);
  }
  template <class T>
  T get(const char* name, T otherwise) const {
    return has(name) ? convert<T>(name) : otherwise;
  }
  // A parameter that is mistyped would be one that is left out.
  void only(const std::string& method, const std::vector<std::string>& known) const;
  bool is_text(const char* name) const { return has(name) && json_[name].is_string(); }
  bool has(const char* name) const {
    return json_.is_object() && json_.contains(name) && !json_[name].is_null();
  }

 private:
  template <class T>
  T convert(const char* name) const {
    const Json& value = json_[name];
    constexpr bool kNumber = std::is_integral_v<T> && !std::is_same_v<T, bool>;
    const bool fits =
        !kNumber || value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
    try {
      if (fits) return value.get<T>();
    } catch (const nlohmann::json::exception&) {
      // as below
    }
    throw RpcError{kInvalidParams,
                   fmt::format("the parameter '{}' is of another type than it should be", name)};
  }
  const Json& json_;
};

// `at`: [{place, code}], `sources`, `flags`, `keep`.
probe::CompanionCode debug_code(const Params& params);

}  // namespace backstep::serve
