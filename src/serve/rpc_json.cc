// What is known and what is not has the same form everywhere: a member that has nothing to say is left out, a
// control point is written as one can go to it.
#include "serve/rpc_json.h"

#include <algorithm>

#include "base/nearest.h"
#include "timeline/moments.h"

namespace backstep::serve {

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Params::only(const std::string& method, const std::vector<std::string>& known) const {
  if (!json_.is_object()) return;
  for (const auto& [name, value] : json_.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw RpcError{kInvalidParams,
                     fmt::format("'{}' has no parameter '{}'{}", method, name, did_you_mean(name, known))};
}

Json point(const ControlPoint& at) {
  return timeline::point_text(at.tick, at.pc);
}

Json value_json(const session::ValueFacts& v) {
  Json json{{"expression", v.expression}, {"text", v.text}, {"value", v.json}};
  if (!v.type.empty()) json["type"] = v.type;
  if (!v.why.empty()) json["why"] = v.why;
  return json;
}

Json bookmark_json(const std::string& name, const Json& mark) {
  return {{"name", name},
          {"at", mark.value("at", "")},
          {"process", mark.value("process", 1u)},
          {"note", mark.value("note", "")}};
}

Json hit_json(const session::Hit& h, const session::LogRequest& request) {
  Json json{{"at", point(h.at)}, {"tick", h.at.tick}, {"pc", h.at.pc}, {"thread", h.thread}};
  Json values = Json::object(), texts = Json::object();
  for (size_t i = 0; i < request.values.size(); i++)
    values[request.values[i]] = h.json[i], texts[request.values[i]] = h.values[i];
  json["values"] = values;
  json["texts"] = texts;
  if (request.stack) json["stack"] = frames_json(h.stack), json["stack_complete"] = h.stack_complete;
  return json;
}

Json verdict_json(const session::Verdict& v) {
  Json json{{"assertion", v.assertion},   {"line", v.line},        {"holds", v.holds()}, {"checks", v.checks},
            {"violations", v.violations}, {"failures", v.failures}};
  if (!v.first) return json;
  Json first{{"at", point(v.first->at)},
             {"tick", v.first->at.tick},
             {"pc", v.first->at.pc},
             {"thread", v.first->thread}};
  if (!v.first->place.function.empty()) first["function"] = v.first->place.function;
  if (v.first->place.line) first["file"] = v.first->place.file, first["line"] = v.first->place.line;
  first["words"] = v.first->words;
  first["values"] = v.first->values;
  json["first"] = first;
  return json;
}

Json call_json(const session::Call& call) {
  Json args = Json::array();
  for (size_t i = 0; i < call.args.size(); i++)
    args.push_back(
        {{"name", call.args[i].first}, {"value", call.args_json[i]}, {"text", call.args[i].second}});
  Json json{{"at", point(call.at)},
            {"tick", call.at.tick},
            {"thread", call.thread},
            {"function", call.function},
            {"args", args}};
  json["ret"] = call.end == session::Call::End::Returned ? call.result_json : Json(nullptr);
  json["end"] = call.end == session::Call::End::Returned ? "returned"
                : call.end == session::Call::End::Jumped ? "jumped"
                                                         : "unknown";
  if (call.left) json["left"] = point(*call.left), json["ticks"] = call.left->tick - call.at.tick;
  json["caller"] = frame_json(call.caller);
  return json;
}

Json cell_json(const trace::Value& value) {
  if (const auto* n = std::get_if<int64_t>(&value)) return *n;
  if (const auto* x = std::get_if<double>(&value)) return *x;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* blob = std::get_if<trace::Blob>(&value)) {
    std::string hex;
    for (unsigned char b : blob->bytes) hex += fmt::format("{:02x}", b);
    return hex;
  }
  return nullptr;
}

probe::CompanionCode debug_code(const Params& params) {
  probe::CompanionCode code;
  code.keep = params.get<bool>("keep", false);
  for (const auto& at : params.get<std::vector<std::map<std::string, std::string>>>("at", {})) {
    if (!at.count("place") || !at.count("code"))
      throw RpcError{kInvalidParams, "'at' is a list of objects with 'place' and 'code'"};
    code.snippets.push_back({at.at("place"), at.at("code"), ""});
  }
  const auto flags = params.get<std::vector<std::string>>("flags", {});
  for (const auto& path : params.get<std::vector<std::string>>("sources", {}))
    code.sources.push_back({path, flags});
  return code;
}

}  // namespace backstep::serve
