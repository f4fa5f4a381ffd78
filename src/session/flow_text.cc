// The way back of a value for people (a tree), for scripts (JSON) and for Graphviz.
#include <set>

#include <fmt/format.h>

#include "session/flow.h"
#include "session/flow_origins.h"
#include "timeline/moments.h"

namespace backstep::session {
namespace {

using Json = nlohmann::ordered_json;

std::string where_text(const FlowPlace& p) {
  std::string text = p.function.empty() ? fmt::format("{:#x}", p.at.pc) : p.function;
  if (p.line) text += fmt::format(" ({}:{})", p.file.substr(p.file.rfind('/') + 1), p.line);
  return text;
}

class TextTree {
 public:
  std::vector<std::string> run(const FlowAnswer& answer) {
    process_ = answer.place.process;
    std::string title = fmt::format("{} = {}", answer.value.name, answer.value.text);
    if (!answer.type.empty()) title += fmt::format("  ({})", answer.type);
    lines_.push_back(fmt::format("{}  at {}, {}", title,
                                 timeline::point_text(answer.place.at.tick, answer.place.at.pc),
                                 where_text(answer.place)));
    parts(answer.value, "");
    return std::move(lines_);
  }

 private:
  void parts(const FlowValue& value, const std::string& indent) {
    for (size_t i = 0; i < value.parts.size(); i++) {
      const FlowPart& p = value.parts[i];
      const bool last = i + 1 == value.parts.size();
      std::string label;
      // What is missing of a single part is only its extension.
      if (value.parts.size() > 1 || p.offset > 0)
        label = p.bytes.size() == 1 ? fmt::format("byte {} = {}: ", p.offset, flow_number(p.bytes))
                                    : fmt::format("bytes {} to {} = {}: ", p.offset,
                                                  p.offset + p.bytes.size() - 1, flow_number(p.bytes));
      origin(p, indent + (last ? "└─ " : "├─ ") + label, indent + (last ? "   " : "│  "));
    }
  }

  void origin(const FlowPart& part, const std::string& lead, const std::string& indent) {
    const FlowOrigin& o = *part.origin;
    if (o.kind == FlowOrigin::Kind::Computed && !seen_.insert(o.number).second) {
      lines_.push_back(fmt::format("{}#{} above: {}", lead, o.number, o.sentence));
      return;
    }
    const bool computed = o.kind == FlowOrigin::Kind::Computed;
    std::string line = lead + (computed ? fmt::format("#{} ", o.number) : "") + o.sentence;
    if (o.place.at.pc)
      line +=
          fmt::format("  {}  {}{}", timeline::point_text(o.place.at.tick, o.place.at.pc), where_text(o.place),
                      o.place.thread == 1 ? "" : fmt::format(", thread {}", o.place.thread));
    if (o.place.process != process_) line += fmt::format(", process #{}", o.place.process);
    if (computed) line += "  [" + o.place.instruction + "]";
    lines_.push_back(line);
    const std::string deeper = indent + (o.inputs.empty() ? "   " : "│  ");
    if (!o.call.empty()) lines_.push_back(deeper + o.call);
    if (!o.data.empty()) lines_.push_back(deeper + "in the line: " + o.data);
    if (!part.copies.empty()) lines_.push_back(deeper + copies(part.copies));
    for (size_t i = 0; i < o.inputs.size(); i++) {
      const bool last = i + 1 == o.inputs.size() && !o.cut;
      const FlowValue& v = o.inputs[i];
      lines_.push_back(indent + (last ? "└─ " : "├─ ") + v.name + (v.text.empty() ? "" : " = " + v.text));
      parts(v, indent + (last ? "   " : "│  "));
    }
    if (o.cut) lines_.push_back(indent + "└─ … (--depth, --width and --limit show more)");
  }

  static std::string copies(const std::vector<FlowCopy>& list) {
    constexpr size_t kMost = 4;  // places; the JSON form has them all
    uint64_t steps = 0;
    for (const FlowCopy& c : list) steps += c.steps;
    std::string text = fmt::format("through {} cop{}: ", steps, steps == 1 ? "y" : "ies");
    for (size_t i = 0; i < list.size() && i < kMost; i++)
      text += fmt::format("{}{} {}", i ? ", " : "",
                          timeline::point_text(list[i].place.at.tick, list[i].place.at.pc),
                          where_text(list[i].place));
    if (list.size() > kMost) text += fmt::format(", … ({} more)", list.size() - kMost);
    return text;
  }

  std::vector<std::string> lines_;
  std::set<unsigned> seen_;
  uint64_t process_ = 1;
};

Json place_json(const FlowPlace& p) {
  Json o{{"at", timeline::point_text(p.at.tick, p.at.pc)},
         {"tick", p.at.tick},
         {"pc", p.at.pc},
         {"process", p.process},
         {"thread", p.thread}};
  if (!p.function.empty()) o["function"] = p.function;
  if (p.line) o["file"] = p.file, o["line"] = p.line;
  if (!p.instruction.empty()) o["instruction"] = p.instruction;
  return o;
}

Json bytes_json(const std::vector<uint8_t>& bytes) {
  std::string hex;
  for (uint8_t b : bytes) hex += fmt::format("{:02x}", b);
  return hex;
}

class JsonTree {
 public:
  Json value(const FlowValue& v) {
    Json o{{"name", v.name}};
    o["text"] = v.text.empty() ? Json(nullptr) : Json(v.text);
    o["bytes"] = bytes_json(v.bytes);
    Json list = Json::array();
    for (const FlowPart& p : v.parts) {
      Json copies = Json::array();
      for (const FlowCopy& c : p.copies) {
        Json copy = place_json(c.place);
        copy["steps"] = c.steps;
        copies.push_back(std::move(copy));
      }
      list.push_back(Json{{"offset", p.offset},
                          {"size", p.bytes.size()},
                          {"bytes", bytes_json(p.bytes)},
                          {"copies", std::move(copies)},
                          {"origin", origin(*p.origin)}});
    }
    o["parts"] = std::move(list);
    return o;
  }

 private:
  Json origin(const FlowOrigin& f) {
    Json o{{"number", f.number}, {"kind", flow_kind_name(f.kind)}, {"sentence", f.sentence}};
    // One that several values came from is told once.
    if (!seen_.insert(f.number).second) return o;
    o.update(place_json(f.place));
    if (!f.file.empty()) o["source"] = f.file;
    if (f.offset) o["offset"] = *f.offset;
    if (!f.call.empty()) o["call"] = f.call;
    if (!f.inputs.empty()) {
      o["inputs"] = Json::array();
      for (const FlowValue& v : f.inputs) o["inputs"].push_back(value(v));
    }
    if (f.cut) o["cut"] = true;
    return o;
  }
  std::set<unsigned> seen_;
};

std::string dot_text(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

class DotGraph {
 public:
  std::string run(const FlowAnswer& a) {
    text_ = "digraph why {\n  rankdir=BT;\n  node [shape=box, fontname=monospace];\n";
    text_ += fmt::format("  value [label=\"{}\", style=bold];\n",
                         dot_text(fmt::format("{} = {}", a.value.name, a.value.text)));
    edges(a.value, "value", "");
    return text_ + "}\n";
  }

 private:
  void edges(const FlowValue& v, const std::string& to, const std::string& name) {
    for (const FlowPart& p : v.parts) {
      node(*p.origin);
      std::string label = name;
      if (p.bytes.size() < v.bytes.size()) label += fmt::format(" bytes {}+{}", p.offset, p.bytes.size());
      if (!p.copies.empty()) label += fmt::format(" ({} places)", p.copies.size());
      text_ += fmt::format("  n{} -> {} [label=\"{}\"];\n", p.origin->number, to, dot_text(label));
    }
  }
  void node(const FlowOrigin& o) {
    if (!seen_.insert(o.number).second) return;
    text_ += fmt::format("  n{} [label=\"{}\\n{}\\n{}\"];\n", o.number, dot_text(o.sentence),
                         dot_text(where_text(o.place)), timeline::point_text(o.place.at.tick, o.place.at.pc));
    for (const FlowValue& v : o.inputs)
      edges(v, fmt::format("n{}", o.number), v.text.empty() ? v.name : v.name + " = " + v.text);
  }
  std::string text_;
  std::set<unsigned> seen_;
};

}  // namespace

std::vector<std::string> flow_text(const FlowAnswer& answer) {
  return TextTree().run(answer);
}

Json flow_json(const FlowAnswer& answer) {
  Json o = place_json(answer.place);
  o["expression"] = answer.value.name;
  if (!answer.type.empty()) o["type"] = answer.type;
  o["value"] = JsonTree().value(answer.value);
  o["steps"] = answer.steps;
  o["searches"] = answer.searches;
  o["complete"] = answer.complete;
  return o;
}

std::string flow_dot(const FlowAnswer& answer) {
  return DotGraph().run(answer);
}

}  // namespace backstep::session
