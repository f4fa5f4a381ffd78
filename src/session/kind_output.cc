// What the program writes to stdout and stderr.
#include "session/kind.h"

#include "events/reader.h"
#include "session/session.h"

namespace backstep::session {
namespace {

std::string unquote(const std::string& text) {
  if (text.size() < 2 || text.front() != text.back() || (text[0] != '"' && text[0] != '\'')) return text;
  std::string out;
  for (size_t i = 1; i + 1 < text.size(); i++) {
    char c = text[i];
    if (c == '\\' && i + 2 < text.size()) {
      c = text[++i];
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
    out += c;
  }
  return out;
}

void read_text(events::Reader& r, events::Spec& s) {
  s.name = unquote(r.rest());
  if (s.name.empty()) r.fail("the text that is written is missing here, as in 'output \"error\"'");
}

void output_taps(Resolving& r, const events::Spec& spec) {
  std::vector<timeline::Moment> moments;
  for (uint64_t from = r.log().own();;) {
    const auto m = r.session.timeline().find_output(spec.name, from);
    if (!m) break;
    moments.push_back(*m);
    from = m->event + 1;
  }
  r.at(moments);
}

}  // namespace

extern const KindOfEvent kOutput{
    {"output", read_text, {{"output TEXT", "the call that writes TEXT to stdout or stderr"}}},
    output_taps,
    false,
    true};

}  // namespace backstep::session
