// What is odd about a run, in sentences: what was not recorded, what is missing, what contradicts itself.
#include <set>

#include <fmt/format.h>

#include "cluster/history_reader.h"

namespace backstep::cluster {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

std::string bytes_text(uint64_t bytes) {
  return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
}

}  // namespace

void HistoryReader::find_oddities() {
  // The same recording twice, or two that call themselves the same.
  std::map<std::tuple<std::string, int64_t, uint64_t>, HostId> seen;
  std::map<std::string, HostId> said;
  for (HostId i = 0; i < h_.hosts.size(); i++) {
    const Host& h = h_.hosts[i];
    const uint64_t pid = infos_[i].empty() ? 0 : infos_[i][0].pid;
    if (auto [it, fresh] = seen.try_emplace({h.boot, h.start_ns, pid}, i); !fresh && pid)
      found(Finding::Warning, "twice", i, kNone,
            fmt::format("hosts {} and {} are the same recording: its messages are told twice or not at all",
                        h_.hosts[it->second].name, h.name));
    if (auto [it, fresh] = said.try_emplace(run_.hosts()[i].said, i); !fresh)
      found(Finding::Note, "same-name", i, kNone,
            fmt::format("two recordings say that they are of host {}: the second one is called {} here",
                        run_.hosts()[i].said, h.name));
  }
  for (ProcessId p = 0; p < h_.processes.size(); p++) {
    const ProcessOfRun& process = h_.processes[p];
    const ProcessScan& s = scans_[p];
    if (s.damage)
      found(Finding::Warning, "damaged", process.host, p,
            fmt::format("{}: its log is damaged, what is behind event {} is not known: {}", process.name,
                        s.events, *s.damage));
    else if (!s.ended && s.events)
      found(
          Finding::Note, "cut-off", process.host, p,
          fmt::format("{}: its log has no end, the process was killed or is still recording", process.name));
    if (s.gaps)
      found(Finding::Note, "gap", process.host, p,
            fmt::format("{}: its recording has {} gap{}", process.name, s.gaps, s.gaps == 1 ? "" : "s"));
    if (s.version && s.version < recording::kChannelVersion)
      found(Finding::Note, "old", process.host, p,
            fmt::format("{}: recorded by an older Backstep, connections are found by what went through them",
                        process.name));
  }
  // Whom nobody has recorded, by address and direction.
  struct Missing {
    uint64_t bytes = 0, times = 0;
    std::string why;
  };
  std::map<std::tuple<ProcessId, std::string, bool>, Missing> missing;
  for (const Unmatched& u : h_.unmatched) {
    std::string other = u.peer;
    if (other.empty() && u.channel != kNone) other = h_.channels[u.channel].name;
    Missing& m = missing[{u.point.process, other, u.sent}];
    m.bytes += u.bytes, m.times++, m.why = u.why;
  }
  for (const auto& [key, m] : missing) {
    const auto& [process, other, sent] = key;
    if (process == kNone) continue;
    found(Finding::Note, "unmatched", h_.processes[process].host, process,
          fmt::format("{} {} {} in {} call{}{}{}: {}", h_.processes[process].name, sent ? "sent" : "received",
                      bytes_text(m.bytes), m.times, m.times == 1 ? "" : "s",
                      other.empty() ? ""
                      : sent        ? " to "
                                    : " from ",
                      other, m.why));
  }
  for (const session::Side& s : messages_->sides().all())
    for (const session::Happening& h : s.happenings)
      if (h.kind == session::Happening::Refused)
        if (const ProcessId p = id(h.host, h.process); p != kNone)
          found(Finding::Note, "refused", h_.processes[p].host, p,
                fmt::format("{} could not connect to {}: {}", h_.processes[p].name, s.kernel.peer.text(),
                            strerrordesc_np(h.error) ? strerrordesc_np(h.error) : "it failed"));
  for (HostId i = 1; i < h_.hosts.size(); i++) {
    const Host::Clock& c = h_.hosts[i].clock;
    const std::string both = fmt::format("{} and {}", h_.hosts[0].name, h_.hosts[i].name);
    if (c.known() && c.least > c.most)
      found(Finding::Note, "clock", i, kNone,
            fmt::format("a clock of hosts {} was changed while they recorded", both));
    else if (c.least > kSecondNs || c.most < -kSecondNs)
      found(Finding::Note, "clock", i, kNone,
            fmt::format("the clocks of hosts {} differ by {:.1f} s at least", both,
                        static_cast<double>(c.least > 0 ? c.least : -c.most) / 1e9));
  }
}

}  // namespace backstep::cluster
