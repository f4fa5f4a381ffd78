// Each structure is an array of its members in their order: both ends are the same program, of the same
// build, so names would only take time.
#include "session/answers.h"

namespace backstep::session {
namespace {

// Takes the members of an array one after the other.
class Members {
 public:
  explicit Members(const AnswerJson& json) : json_(json) {}
  template <class T>
  Members& operator>>(T& member) {
    json_.at(next_++).get_to(member);
    return *this;
  }
  const AnswerJson& next() { return json_.at(next_++); }

 private:
  const AnswerJson& json_;
  size_t next_ = 0;
};

AnswerJson point_json(const ControlPoint& at) {
  return AnswerJson::array({at.tick, at.pc});
}

ControlPoint point_of(const AnswerJson& json) {
  return {json.at(0).get<Tick>(), json.at(1).get<Address>()};
}

AnswerJson nodes_json(const CallNode& node) {
  AnswerJson array = AnswerJson::array();
  for (const auto& child : node.calls)
    array.push_back(AnswerJson::array({child->function, child->count, child->ticks, nodes_json(*child)}));
  return array;
}

void read_nodes(const AnswerJson& array, CallNode& node) {
  for (const AnswerJson& json : array) {
    CallNode& child = *node.calls.emplace_back(std::make_unique<CallNode>());
    Members members(json);
    members >> child.function >> child.count >> child.ticks;
    read_nodes(members.next(), child);
  }
}

}  // namespace

void to_json(AnswerJson& json, const Count& c) {
  json = AnswerJson::array({c.spec, c.matches, c.failures, c.unknown});
}
void from_json(const AnswerJson& json, Count& c) {
  Members(json) >> c.spec >> c.matches >> c.failures >> c.unknown;
}

void to_json(AnswerJson& json, const StackFrame& f) {
  json = AnswerJson::array({f.pc, f.function, f.file, f.line, f.inlined, f.module});
}
void from_json(const AnswerJson& json, StackFrame& f) {
  Members(json) >> f.pc >> f.function >> f.file >> f.line >> f.inlined >> f.module;
}

void to_json(AnswerJson& json, const Hit& h) {
  json =
      AnswerJson::array({point_json(h.at), h.event, h.thread, h.values, h.json, h.stack, h.stack_complete});
}
void from_json(const AnswerJson& json, Hit& h) {
  Members members(json);
  h.at = point_of(members.next());
  members >> h.event >> h.thread >> h.values >> h.json >> h.stack >> h.stack_complete;
}

void to_json(AnswerJson& json, const CallWithTree& both) {
  const Call& c = both.call;
  json = AnswerJson::array({c.function, point_json(c.at), c.thread, c.args, c.args_json, c.args_known,
                            static_cast<int>(c.end), c.left ? point_json(*c.left) : AnswerJson(), c.result,
                            c.result_json, c.caller, both.tree.count, nodes_json(both.tree)});
}
void from_json(const AnswerJson& json, CallWithTree& both) {
  Call& c = both.call;
  Members members(json);
  members >> c.function;
  c.at = point_of(members.next());
  members >> c.thread >> c.args >> c.args_json >> c.args_known;
  c.end = static_cast<Call::End>(members.next().get<int>());
  if (const AnswerJson& left = members.next(); !left.is_null()) c.left = point_of(left);
  members >> c.result >> c.result_json >> c.caller >> both.tree.count;
  both.tree.function = c.function;
  read_nodes(members.next(), both.tree);
}

void to_json(AnswerJson& json, const Profile& p) {
  json = AnswerJson::array({p.period, p.samples, p.cut, p.stacks});
}
void from_json(const AnswerJson& json, Profile& p) {
  Members(json) >> p.period >> p.samples >> p.cut >> p.stacks;
}

void to_json(AnswerJson& json, const Verdict& v) {
  AnswerJson first;
  if (v.first)
    first = AnswerJson::array(
        {point_json(v.first->at), v.first->thread, v.first->place, v.first->words, v.first->values});
  json = AnswerJson::array(
      {v.assertion, v.line, v.checks, v.violations, v.failures, v.unknown, std::move(first)});
}
void from_json(const AnswerJson& json, Verdict& v) {
  Members members(json);
  members >> v.assertion >> v.line >> v.checks >> v.violations >> v.failures >> v.unknown;
  const AnswerJson& first = members.next();
  if (first.is_null()) return;
  Members of(first);
  v.first.emplace().at = point_of(of.next());
  of >> v.first->thread >> v.first->place >> v.first->words;
  v.first->values = of.next();
}

void to_json(AnswerJson& json, const Coverage& coverage) {
  json = AnswerJson::array();
  for (const auto& [path, file] : coverage.files) {
    AnswerJson functions = AnswerJson::array();
    for (const auto& [key, f] : file.functions)
      functions.push_back(AnswerJson::array({key, f.name, f.line, f.executed}));
    json.push_back(AnswerJson::array({path, file.lines, functions}));
  }
}
void from_json(const AnswerJson& json, Coverage& coverage) {
  for (const AnswerJson& entry : json) {
    Coverage::File& file = coverage.files[entry.at(0).get<std::string>()];
    entry.at(1).get_to(file.lines);
    for (const AnswerJson& function : entry.at(2)) {
      Coverage::Function& f = file.functions[function.at(0).get<std::string>()];
      f.name = function.at(1).get<std::string>(), f.line = function.at(2).get<int>(),
      f.executed = function.at(3).get<bool>();
    }
  }
}

}  // namespace backstep::session
