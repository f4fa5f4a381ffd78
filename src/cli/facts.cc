// JSON for scripts. Fields are stable names; what is not known is null, not left out, so that a script can
// rely on the shape. Byte strings become UTF-8 (bytes that are not are replaced); who needs them exactly
// reads the manifest.
#include "cli/facts.h"

#include "cli/format.h"

namespace backstep::cli {

Json point_json(const ControlPoint& point) {
  return {{"tick", point.tick}, {"pc", point.pc}, {"text", format_point(point)}};
}

void add_manifest(const recording::Manifest& m, Json& object) {
  Json argv = Json::array();
  for (const auto& arg : m.argv) argv.push_back(to_utf8(arg));
  object["argv"] = argv;
  object["exe"] = to_utf8(m.exe);
  object["cwd"] = to_utf8(m.cwd);
  object["uid"] = m.uid;
  object["hostname"] = to_utf8(m.hostname);
  object["kernel"] = to_utf8(m.kernel);
  object["cpu"] = {{"vendor", m.cpu.vendor}, {"model", m.cpu.model}, {"level", m.cpu.level}};
  object["version"] = m.version;
  object["backstep"] = m.backstep;
  object["start"] = format_time_iso(m.start_ns);
  object["start_ns"] = m.start_ns;
  object["chaos"] = m.chaos ? Json(*m.chaos) : Json();
  if (!m.end) {
    object["end"] = nullptr;
    return;
  }
  object["end"] = end_json(*m.end);
}

Json end_json(const recording::Manifest::End& e) {
  static constexpr const char* kKinds[] = {"exit", "signal", "exec", "stopped"};
  Json end = {{"kind", kKinds[static_cast<size_t>(e.kind)]},
              {"status", e.status},
              {"text", recording::end_text(e)},
              {"duration_ns", e.duration_ns >= 0 ? Json(e.duration_ns) : Json()},
              {"cpu_ns", e.cpu_ns >= 0 ? Json(e.cpu_ns) : Json()},
              {"ticks", e.ticks},
              {"events", e.events}};
  end["crash"] = e.crash ? point_json(*e.crash) : Json();
  return end;
}

}  // namespace backstep::cli
