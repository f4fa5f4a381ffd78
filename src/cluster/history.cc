// Words for what a history consists of, and finding a process by its name.
#include "cluster/history.h"

namespace backstep::cluster {

const char* channel_kind_name(ChannelKind kind) {
  constexpr const char* kNames[] = {"pipe", "socketpair", "unix", "unix-datagram", "tcp", "udp", "other"};
  return kNames[static_cast<size_t>(kind)];
}

const char* edge_kind_name(Edge::Kind kind) {
  constexpr const char* kNames[] = {"fork", "exec", "wait", "signal", "connect", "listen", "close", "shared"};
  return kNames[static_cast<size_t>(kind)];
}

ProcessId History::find(const std::string& name) const {
  for (ProcessId p = 0; p < processes.size(); p++)
    if (processes[p].name == name || (hosts.size() == 1 && processes[p].name == hosts[0].name + "/" + name))
      return p;
  return kNone;
}

}  // namespace backstep::cluster
