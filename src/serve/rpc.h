// A session over JSON-RPC 2.0: one JSON object per line, in both directions (docs/session-protocol.md).
#pragma once
#include <string>

#include "base/fd.h"
#include "recording/library.h"
#include "replay/replay.h"

namespace backstep::serve {

// Serves one client on these descriptors until it closes its end or asks for shutdown.
void serve_rpc(const ReplayOptions& options, const recording::Library& library,
               const recording::Recording& recording, int in, int out);

// One client after the other, on a unix socket that only this user can reach.
void listen_rpc(const ReplayOptions& options, const recording::Library& library,
                const recording::Recording& recording, const std::string& path);

}  // namespace backstep::serve
