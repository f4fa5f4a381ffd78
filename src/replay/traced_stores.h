// Stores as translated code reports them (engine/report.h), on their way into the trace of a window
// (recording/trace_chunk.h).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/report.h"
#include "recording/trace_chunk.h"
#include "replay/tap_set.h"

namespace backstep::replayer {

class TracedStores {
 public:
  // Level 3: all of them; 2: which were the last ones.
  TracedStores(TapSet& taps, int level) : taps_(taps), level_(level), encoder_(std::in_place, level) {}

  // What is in the engine's buffer is going to be told.
  void begin_buffer();
  void context(const engine::ReportContext& context);
  void store(const engine::ReportedAccess& access);
  // As many blocks as follow each other; what is behind them.
  const uint64_t* blocks(const uint64_t* at, const uint64_t* end);
  // The window is over: logs what is left, and if it is nothing.
  void finish();

 private:
  uint32_t block_of(uint32_t unit);
  void log();

  TapSet& taps_;
  int level_;
  std::optional<recording::TraceEncoder> encoder_;
  std::vector<uint32_t> ids_;  // by the engine's units: the encoder's number of the block, or 0
  uint64_t generation_ = 0;    // of those
  uint64_t event_ = 0;
  uint32_t thread_ = 0;
};

}  // namespace backstep::replayer
