// `backstep cluster events`: the event database of a run, shown and added to.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/asking.h"
#include "cli/cluster_commands.h"
#include "cli/format.h"
#include "cluster/event_database.h"

namespace backstep::cli {
namespace {

using cluster::EventDatabase;
using cluster::EventRequest;
using cluster::EventsOf;

std::string sql_text(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string events_query(const std::string& process, const std::string& kind, const std::string& channel) {
  std::string query =
      "SELECT time, process, kind, call, peer, channel, bytes, at, what, source FROM events WHERE 1";
  if (!process.empty()) query += " AND process GLOB " + sql_text(process);
  if (!kind.empty()) query += " AND kind GLOB " + sql_text(kind);
  if (!channel.empty()) query += " AND channel GLOB " + sql_text(channel);
  return query;
}

struct EventRecording {
  bool json = false;
  cluster::CollectOptions collect;
};

Json recorded_json(const OpenRun& run, const EventsOf& e) {
  return {{"process", run.history.processes[e.process].name},
          {"kind", e.kind},
          {"name", e.name},
          {"values", e.values},
          {"events", e.rows.size()},
          {"cut_off", e.cut_off}};
}

void list_recorded(const OpenRun& run, const std::vector<EventsOf>& all, bool json) {
  Table table({"process", "event", "name", "values", "events"});
  Json list = Json::array();
  for (const EventsOf& e : all) {
    std::string values;
    for (const std::string& v : e.values) values += (values.empty() ? "" : ", ") + v;
    table.add({run.history.processes[e.process].name, e.kind, e.name, values,
               fmt::format("{}{}", e.rows.size(), e.cut_off ? " (and more)" : "")});
    list.push_back(recorded_json(run, e));
  }
  if (json)
    put_line(list.dump(-1, ' ', false, Json::error_handler_t::replace));
  else if (all.empty())
    put_line("nothing has been recorded yet; for example: backstep cluster events RUN 'record * user-event'");
  else
    fmt::print("{}", table.text());
}

int record_events(OpenRun& run, const EventRequest& request, const EventRecording& options) {
  const EventDatabase database(run.history);
  const auto processes = database.meant(request);
  if (processes.empty())
    throw Error(fmt::format("the run has no process '{}'; 'backstep cluster ls' lists them", request.who),
                kExitUsage);
  std::vector<EventsOf> all;
  std::string missing;
  {
    ProgressBar bar("replaying");
    for (const cluster::ProcessId p : processes) {
      const std::string name = run.history.processes[p].name;
      std::string why;
      try {
        for (EventsOf& e : cluster::collect_events(run.history, run.sessions, p, request, options.collect,
                                                   bar.watcher(), &why)) {
          database.save(e);
          all.push_back(std::move(e));
        }
      } catch (const Error& e) {
        // One that cannot be replayed does not keep the others from it; but if it was asked for by name, it
        // is what was wanted.
        if (processes.size() == 1) throw;
        why = e.what();
      }
      if (!why.empty()) missing += fmt::format("{}{}: {}", missing.empty() ? "" : "\n", name, why);
    }
  }
  if (all.empty())
    throw Error(missing.empty() ? "it never happens there" : "nothing was recorded\n" + missing);
  list_recorded(run, all, options.json);
  return 0;
}

int forget_events(const OpenRun& run, const EventRequest& request, bool json) {
  const uint64_t gone = EventDatabase(run.history).forget(request);
  put_line(json ? Json{{"forgotten", gone}}.dump()
                : fmt::format("{} event{} forgotten", gone, gone == 1 ? "" : "s"));
  return 0;
}

}  // namespace

int cluster_events_command(const Args& args) {
  std::vector<std::string> words;
  bool csv = false, recorded = false;
  std::string channel;
  EventRecording recording;
  ReplayOptions options;
  CommandLine line(
      "cluster events", "[options] RUN [PROCESS|*] [KIND] | RUN record|forget WHO [NAME] EVENT",
      "What the processes of a run did to each other, in logical time: message-transmission,\n"
      "message-reception, process-begins, process-done, process-aborted, thread-begins, thread-done, fork, "
      "exec,\n"
      "wait, signal, connect, accept, listen, close, channel-creation, channel-destruction, set-creation "
      "(of\n"
      "epoll), set-adds, set-removes; what came to a process that way is called wait-seen, signal-seen and "
      "so\n"
      "on. In PROCESS and KIND, * stands for any letters.\n"
      "'record' replays processes and adds what they did by themselves: 'record WHO NAME\n"
      "assignment-to-variables' (or assignment-to-pointers), 'record WHO FILE:LINE reaching-a-label' (or a\n"
      "function), 'record WHO [NAME] user-event' (or user-event-begun, user-event-ended: marks of\n"
      "<backstep/mark.h>; with PROVIDER:NAME any USDT probe), and 'record WHO EVENT' with any event that\n"
      "'backstep events' lists. WHO: a process, a pattern, or a thread of a process (A/server:2). It adds "
      "up\n"
      "over all replays; 'forget' removes.",
      "Examples:\n"
      "  backstep cluster events run\n"
      "  backstep cluster events run 'A/*' message-reception\n"
      "  backstep cluster events run 'record * user-event'\n"
      "  backstep cluster events run 'record A/server balance assignment-to-variables' --value "
      "account->owner\n"
      "  backstep cluster events run 'record B/* call handle if n > 3'\n"
      "  backstep cluster events run 'forget A/server balance assignment-to-variables'");
  line.add_option("--channel", channel, "only of this channel; * stands for any letters").type_name("NAME");
  line.add_option("--value", recording.collect.values,
                  "record: keep the value of this expression with each event; can be given\nseveral times")
      .one_value_each()
      .type_name("EXPR");
  line.add_option("--most", recording.collect.most, "record: so many events of each process (1000000)")
      .type_name("N");
  line.add_flag("--recorded", recorded, "list what has been recorded, and how many events each has");
  line.add_flag("--json", recording.json, "one JSON object per row");
  line.add_flag("--csv", csv, "comma-separated values, with a heading");
  line.add_engine_options(options.engine);
  line.add_option("RUN", words);
  if (auto status = line.parse_args(args)) return *status;
  if (recording.json && csv) throw Error("--json and --csv exclude each other", kExitUsage);
  std::string request;
  for (size_t i = 1; i < words.size(); i++) request += (i > 1 ? " " : "") + words[i];
  if (words.empty() || (words.size() > 3 && !cluster::is_event_request(request)))
    throw Error("of which run? And of which process, which kind?", kExitUsage);
  if (recorded) {
    const OpenRun run(words[0], options);
    list_recorded(run, EventDatabase(run.history).load(), recording.json);
    return 0;
  }
  const SqlForm form = recording.json ? SqlForm::Json : csv ? SqlForm::Csv : SqlForm::Table;
  if (!cluster::is_event_request(request))
    return ask_run(words[0], options,
                   events_query(words.size() > 1 ? words[1] : "", words.size() > 2 ? words[2] : "", channel),
                   form, false);
  const EventRequest wanted = cluster::parse_event_request(request);
  if (!wanted.local) {
    if (wanted.verb == EventRequest::Forget)
      throw Error(
          fmt::format(
              "{} comes from the logs and is always there; KIND selects: backstep cluster events {} '{}' "
              "{}",
              wanted.kind, words[0], wanted.who, wanted.kind),
          kExitUsage);
    // What the logs say is there without being recorded.
    return ask_run(words[0], options,
                   events_query(wanted.who, wanted.kind, !wanted.name.empty() ? wanted.name : channel), form,
                   false);
  }
  OpenRun run(words[0], options);
  return wanted.verb == EventRequest::Record ? record_events(run, wanted, recording)
                                             : forget_events(run, wanted, recording.json);
}

}  // namespace backstep::cli
