// Windows that are being replayed, one on each processor.
//
// A window can be replayed on its own, from its checkpoint forward, and what is found in it depends on
// nothing else. So whoever wants to know something about a long stretch of the run (search_back.cc, sweep.cc)
// cuts it at the checkpoints, has as many windows replayed at once as there are processors, and takes the
// results in the order in which it wants them.
#pragma once
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "recording/window_trace.h"
#include "timeline/window_slices.h"
#include "timeline/worker.h"

namespace backstep::timeline {

struct Window {
  Worker worker;
  Position low, high, at;  // at: replayed up to there
  Until until;
  Taps taps;
  bool search = false;            // for the last match; else taps count and log
  Found found;                    // of a search: of all slices so far
  Arrival end;                    // of the last slice
  Fd log;                         // what taps have logged
  uint64_t logged = 0, told = 0;  // bytes of it: there, and handed on
  std::vector<replayer::TapCount> counts;
  bool running = false, done = false;
  bool pending = false;                                 // it has no worker yet
  std::shared_ptr<const recording::WindowTrace> trace;  // it is not replayed: its stores are read
  bool careful = false;                                 // it has come too far once
  Tick began = 0;                                       // the last slice
  // What may be looked through in parts (search_sliced.cc).
  bool slicing = false;                   // which of them are worth it is being found out …
  Position whole_low, whole_high;         // … of all this
  Position kept;                          // where a checkpoint was made last
  std::vector<WindowSlices::Part> parts;  // that are to be looked through, in the order of time
  size_t at_once = 1;                     // of a search: so many of these that lie side by side are one
};

// Processes of ours that replay windows at the same time share the processors: while this lives, pools of
// those that are forked count together. Each may have one window whatever others have.
class SharedWindows {
 public:
  SharedWindows();
  ~SharedWindows();
  SharedWindows(const SharedWindows&) = delete;
  SharedWindows& operator=(const SharedWindows&) = delete;
};

class WindowPool {
 public:
  // At most so many at a time; 0: one on each processor.
  explicit WindowPool(size_t most = 0);
  ~WindowPool();
  WindowPool(const WindowPool&) = delete;
  WindowPool& operator=(const WindowPool&) = delete;
  std::list<Window>& windows() { return windows_; }
  bool full();
  // Has it replay the next `slice` ticks, at about this rate.
  void go_on(Window& window, Tick slice, double rate);
  // One whose slice is over; null: somebody wants to stop, or none is running.
  Window* wait(const Attention& attention);
  // It is done: its process is not needed any more.
  static void finish(Window& window);

 private:
  std::list<Window> windows_;  // in the order in which their results are wanted
  size_t most_;
  size_t counted_ = 0;  // in what is shared
};

}  // namespace backstep::timeline
