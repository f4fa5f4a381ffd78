// `backstep cluster check`, `ls` and `info`: what a run consists of, and what of it is odd or missing.
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/cluster_commands.h"
#include "cli/facts.h"
#include "cli/format.h"
#include "cluster/gather.h"
#include "cluster/history.h"
#include "timeline/moments.h"

namespace backstep::cli {
namespace {

using cluster::Channel;
using cluster::History;
using cluster::kNone;

struct Traffic {
  uint64_t bytes[2] = {}, messages[2] = {};  // from ends[0], from ends[1]
  uint64_t unmatched = 0;
};

std::vector<Traffic> traffic_of(const History& h) {
  std::vector<Traffic> all(h.channels.size());
  for (const auto& t : h.transfers) {
    if (t.peeked) continue;
    all[t.channel].bytes[t.from_end] += t.bytes;
    all[t.channel].messages[t.from_end]++;
  }
  for (const auto& u : h.unmatched)
    if (u.channel != kNone) all[u.channel].unmatched += u.bytes;
  return all;
}

std::string clock_text(const cluster::Host& host, bool first) {
  if (first) return "the others are compared with it";
  const auto& c = host.clock;
  auto side = [](int64_t ns) {
    return fmt::format("{}{}", ns < 0 ? "-" : "+", format_duration(ns < 0 ? -ns : ns));
  };
  if (c.known() && c.least > c.most) return "was changed";
  if (c.known()) return fmt::format("{} to {}", side(c.least), side(c.most));
  if (c.least != INT64_MIN) return fmt::format("{} or more", side(c.least));
  if (c.most != INT64_MAX) return fmt::format("{} or less", side(c.most));
  return "not known";
}

Json host_json(const History& h, cluster::HostId id) {
  const auto& host = h.hosts[id];
  Json j{{"name", to_utf8(host.name)},
         {"recording", to_utf8(host.recording)},
         {"machine", host.machine},
         {"boot", host.boot},
         {"start_ns", host.start_ns}};
  if (host.clock.least != INT64_MIN) j["clock"]["least_ns"] = host.clock.least;
  if (host.clock.most != INT64_MAX) j["clock"]["most_ns"] = host.clock.most;
  j["clock"]["shift_ns"] = host.clock.shift;
  return j;
}

Json point_json_of(const History& h, const cluster::Point& p) {
  if (!p) return nullptr;
  return {{"process", to_utf8(h.processes[p.process].name)},
          {"at", timeline::point_text(p.at.tick, p.at.pc)},
          {"event", p.own_event},
          {"thread", p.thread}};
}

Json end_json_of(const History& h, const cluster::ChannelEnd& e) {
  if (e.host == kNone) return nullptr;
  Json j{{"host", to_utf8(h.hosts[e.host].name)}, {"local", to_utf8(e.local)}, {"peer", to_utf8(e.peer)}};
  j["accepted"] = e.accepted;
  j["made"] = point_json_of(h, e.made);
  return j;
}

Json processes_json(const History& h) {
  Json list = Json::array();
  for (const auto& p : h.processes) {
    Json j{
        {"name", to_utf8(p.name)}, {"host", to_utf8(h.hosts[p.host].name)}, {"log", p.log}, {"pid", p.pid}};
    if (p.parent != kNone) j["parent"] = to_utf8(h.processes[p.parent].name);
    j["argv"] = Json::array();
    for (const auto& a : p.argv) j["argv"].push_back(to_utf8(a));
    j["cut_off"] = p.cut_off;
    if (p.how) j["end"] = end_json(*p.how);
    list.push_back(j);
  }
  return list;
}

Json channels_json(const History& h) {
  Json list = Json::array();
  const auto traffic = traffic_of(h);
  for (size_t i = 0; i < h.channels.size(); i++) {
    const Channel& c = h.channels[i];
    list.push_back({{"name", to_utf8(c.name)},
                    {"kind", channel_kind_name(c.kind)},
                    {"ends", {end_json_of(h, c.ends[0]), end_json_of(h, c.ends[1])}},
                    {"bytes", {traffic[i].bytes[0], traffic[i].bytes[1]}},
                    {"messages", {traffic[i].messages[0], traffic[i].messages[1]}},
                    {"unmatched_bytes", traffic[i].unmatched},
                    {"by_content", c.by_content}});
  }
  return list;
}

Json messages_json(const History& h) {
  Json list = Json::array();
  for (const auto& t : h.transfers)
    list.push_back({{"channel", to_utf8(h.channels[t.channel].name)},
                    {"from_end", t.from_end},
                    {"sent", point_json_of(h, t.sent)},
                    {"received", point_json_of(h, t.received)},
                    {"offset", t.offset},
                    {"bytes", t.bytes},
                    {"sent_byte", t.sent_byte},
                    {"received_byte", t.received_byte},
                    {"peeked", t.peeked},
                    {"duplicate", t.duplicate},
                    {"checked", t.checked}});
  return list;
}

Json unmatched_json(const History& h) {
  Json list = Json::array();
  for (const auto& u : h.unmatched)
    list.push_back({{"sent", u.sent},
                    {"channel", u.channel == kNone ? Json() : Json(to_utf8(h.channels[u.channel].name))},
                    {"point", point_json_of(h, u.point)},
                    {"bytes", u.bytes},
                    {"peer", to_utf8(u.peer)},
                    {"why", u.why}});
  return list;
}

Json edges_json(const History& h) {
  Json list = Json::array();
  for (const auto& e : h.edges)
    list.push_back({{"kind", edge_kind_name(e.kind)},
                    {"from", point_json_of(h, e.from)},
                    {"to", point_json_of(h, e.to)},
                    {"what", to_utf8(e.what)}});
  return list;
}

Json findings_json(const History& h, const std::vector<std::string>& files) {
  Json list = Json::array();
  for (const auto& text : files)
    list.push_back({{"weight", "warning"}, {"kind", "file"}, {"host", nullptr}, {"text", to_utf8(text)}});
  for (const auto& f : h.findings)
    list.push_back({{"weight", f.weight == cluster::Finding::Warning ? "warning" : "note"},
                    {"kind", f.kind},
                    {"host", f.host == kNone ? Json() : Json(to_utf8(h.hosts[f.host].name))},
                    {"process", f.process == kNone ? Json() : Json(to_utf8(h.processes[f.process].name))},
                    {"text", to_utf8(f.text)}});
  return list;
}

void put_json(const Json& j) {
  put_line(j.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_hosts(const History& h) {
  std::map<cluster::HostId, uint64_t> processes, in, out;
  for (const auto& p : h.processes) processes[p.host]++;
  for (const auto& t : h.transfers) {
    const auto from = h.processes[t.sent.process].host, to = h.processes[t.received.process].host;
    if (from != to) out[from]++, in[to]++;
  }
  Table table({"HOST", ">PROCESSES", ">SENT", ">RECEIVED", "CLOCK"});
  for (cluster::HostId i = 0; i < h.hosts.size(); i++)
    table.add({h.hosts[i].name, format_count(processes[i]), format_count(out[i]), format_count(in[i]),
               clock_text(h.hosts[i], i == 0)});
  fmt::print("{}", table.text());
}

std::string count_text(uint64_t n, const char* what) {
  return fmt::format("{} {}{}", format_count(n), what, n == 1 ? "" : "s");
}

std::string processes_text(uint64_t n) {
  return fmt::format("{} {}", format_count(n), n == 1 ? "process" : "processes");
}

}  // namespace

int cluster_info_command(const Args& args) {
  std::string run;
  bool json = false;
  CommandLine line(
      "cluster info", "RUN [--json]",
      "The hosts of a run, how many processes and channels they have, and what their clocks have to do\n"
      "with each other, as far as messages tell: what has to be added to a host's clock to have the\n"
      "first one's. SENT and RECEIVED are messages between hosts.",
      "Examples:\n"
      "  backstep cluster info run");
  line.add_option("RUN", run, "the folder of a run, or a recording");
  line.add_flag("--json", json, "as JSON");
  if (auto status = line.parse_args(args)) return *status;
  if (run.empty()) throw Error("usage: backstep cluster info RUN [--json]", kExitUsage);
  const History h = cluster::read_history(run);
  uint64_t bytes = 0, checked = 0;
  for (const auto& t : h.transfers) bytes += t.peeked ? 0 : t.bytes, checked += t.checked;
  if (json) {
    Json hosts = Json::array();
    for (cluster::HostId i = 0; i < h.hosts.size(); i++) hosts.push_back(host_json(h, i));
    put_json({{"run", to_utf8(h.run)},
              {"hosts", hosts},
              {"processes", h.processes.size()},
              {"channels", h.channels.size()},
              {"messages", h.transfers.size()},
              {"bytes", bytes},
              {"checked", checked},
              {"unmatched", h.unmatched.size()},
              {"edges", h.edges.size()},
              {"findings", h.findings.size()}});
    return 0;
  }
  print_hosts(h);
  fmt::print("\n{}, {}, {} with {}", processes_text(h.processes.size()),
             count_text(h.channels.size(), "channel"), count_text(h.transfers.size(), "message"),
             format_size(bytes));
  fmt::print(" ({} of them by their checksums); {} that only one side tells of\n", format_count(checked),
             format_count(h.unmatched.size()));
  if (!h.findings.empty())
    fmt::print("{}: backstep cluster check {}\n", count_text(h.findings.size(), "finding"), run);
  return 0;
}

int cluster_ls_command(const Args& args) {
  std::string run;
  bool json = false, messages = false;
  CommandLine line(
      "cluster ls", "RUN [--messages] [--json]",
      "The processes of a run and the channels between them, by names that depend only on who created\n"
      "whom and in which order: A/server.2 is the second process that server on host A forked, and\n"
      "'tcp A/client -> B/server:80 #3' the third connection that it accepted from there.",
      "Examples:\n"
      "  backstep cluster ls run\n"
      "  backstep cluster ls run --messages --json");
  line.add_option("RUN", run, "the folder of a run, or a recording");
  line.add_flag("--messages", messages, "also each message: what was sent and received");
  line.add_flag("--json", json, "as JSON");
  if (auto status = line.parse_args(args)) return *status;
  if (run.empty()) throw Error("usage: backstep cluster ls RUN [--messages] [--json]", kExitUsage);
  const History h = cluster::read_history(run);
  if (json) {
    Json j{{"processes", processes_json(h)}, {"channels", channels_json(h)}};
    if (messages)
      j["messages"] = messages_json(h), j["unmatched"] = unmatched_json(h), j["edges"] = edges_json(h);
    put_json(j);
    return 0;
  }
  Table processes({"PROCESS", ">LOG", ">PID", "END", "COMMAND"});
  for (const auto& p : h.processes)
    processes.add({p.name, std::to_string(p.log), std::to_string(p.pid),
                   p.how       ? recording::end_text(p.how)
                   : p.cut_off ? "?"
                               : "",
                   shorten(format_command(p.argv), 60)});
  fmt::print("{}", processes.text());
  if (h.channels.empty()) return 0;
  const auto traffic = traffic_of(h);
  Table channels({"CHANNEL", ">BYTES ->", ">BYTES <-", ">UNMATCHED"});
  for (size_t i = 0; i < h.channels.size(); i++) {
    const bool pipe = h.channels[i].kind == cluster::ChannelKind::Pipe;
    channels.add({h.channels[i].name, format_count(traffic[i].bytes[pipe]),
                  pipe ? "" : format_count(traffic[i].bytes[1]),
                  traffic[i].unmatched ? format_count(traffic[i].unmatched) : ""});
  }
  fmt::print("\n{}", channels.text());
  if (!messages) return 0;
  Table table({"CHANNEL", ">OFFSET", ">BYTES", "SENT", "AT", "RECEIVED", "AT", ""});
  for (const auto& t : h.transfers)
    table.add({h.channels[t.channel].name, format_count(t.offset), format_count(t.bytes),
               h.processes[t.sent.process].name, timeline::point_text(t.sent.at.tick, t.sent.at.pc),
               h.processes[t.received.process].name,
               timeline::point_text(t.received.at.tick, t.received.at.pc),
               t.peeked      ? "peeked"
               : t.duplicate ? "duplicate"
                             : ""});
  fmt::print("\n{}", table.text());
  return 0;
}

int cluster_check_command(const Args& args) {
  std::string run;
  bool json = false, quick = false;
  CommandLine line(
      "cluster check", "RUN [--quick] [--json]",
      "Says what is missing in a run, or odd: messages of which one side only was recorded, refused\n"
      "connections, logs that are damaged or have no end, hosts of the same name, one recording twice,\n"
      "clocks that differ, files that are not what was gathered. Everything else works without what\n"
      "is missing. Exit status 1 if there is a warning; notes are no mistakes.",
      "Examples:\n"
      "  backstep cluster check run\n"
      "  backstep cluster check run --json | jq '.findings[] | select(.kind == \"unmatched\")'");
  line.add_option("RUN", run, "the folder of a run, or a recording");
  line.add_flag("--quick", quick, "without the checksums of all files");
  line.add_flag("--json", json, "as JSON");
  if (auto status = line.parse_args(args)) return *status;
  if (run.empty()) throw Error("usage: backstep cluster check RUN [--quick] [--json]", kExitUsage);
  std::vector<std::string> files;
  if (!quick) files = cluster::check_files(cluster::RunFolder::open(run));
  const History h = cluster::read_history(run);
  bool warned = !files.empty();
  for (const auto& f : h.findings) warned = warned || f.weight == cluster::Finding::Warning;
  if (json) {
    put_json({{"good", !warned}, {"findings", findings_json(h, files)}});
    return warned;
  }
  for (const auto& text : files) fmt::print("warning: {}\n", text);
  for (auto weight : {cluster::Finding::Warning, cluster::Finding::Note})
    for (const auto& f : h.findings)
      if (f.weight == weight)
        fmt::print("{}{}\n", weight == cluster::Finding::Warning ? "warning: " : "", f.text);
  if (files.empty() && h.findings.empty())
    fmt::print("{}: {}, {}, all of it is there\n", run, processes_text(h.processes.size()),
               count_text(h.transfers.size(), "message"));
  return warned;
}

}  // namespace backstep::cli
