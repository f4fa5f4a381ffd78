// Replaying processes. A worker holds the state of the guest at one moment; the controller talks to it over a
// socket. A checkpoint is a worker that nobody moves: it is forked to go on from there.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "recording/checkpoint_file.h"
#include "recording/contents.h"
#include "recording/library.h"
#include "replay/debug_questions.h"
#include "replay/replay.h"
#include "replay/steps.h"
#include "replay/taps.h"
#include "replay/until.h"
#include "timeline/message.h"
#include "timeline/registers.h"

namespace backstep::timeline {

using replayer::Arrival;
using replayer::Position;
using replayer::Tap;
using replayer::Taps;
using replayer::Until;

struct ThreadState {
  int tid = 0;
  int name = 0;
  bool in_call = false;
  uint64_t call = 0;  // its number
  uint64_t fs_base = 0;
};

struct WorkerState {
  Position at;
  int tid = 0;  // of the thread that has the turn
  std::vector<ThreadState> threads;
};

// The last match of a search, and how the search ended.
struct Found {
  Arrival end;
  Arrival last{.why = Arrival::None};  // why None: nothing was met
  uint64_t count = 0;
};

// While a worker runs, the controller listens: to what the guest writes, and to somebody who wants a stop.
struct Attention {
  int fd = -1;                              // looked at when readable
  std::function<bool()> stop_wanted;        // … by this
  std::function<void(std::string)> output;  // what the program wrote
  mutable bool stop_asked = false;          // stop_wanted has said yes
};

// "Exit code" of the error that says that another session is writing checkpoints.
inline constexpr int kBusy = 75;

class Worker {
 public:
  Worker() = default;
  // Starts the first one, at the start of the recording. `forking_threads`: as LogIndex has them.
  static Worker start(const ReplayOptions& options, const recording::Library& library,
                      const recording::Recording& recording, const std::vector<int>& forking_threads);
  Worker(Worker&&) noexcept = default;
  Worker& operator=(Worker&&) noexcept;
  ~Worker();
  explicit operator bool() const { return static_cast<bool>(socket_); }

  Worker fork();
  WorkerState state();
  Registers registers(int tid);
  void set_registers(int tid, const Registers& registers);
  std::vector<uint8_t> read(Address address, uint64_t length);
  bool write(Address address, const std::vector<uint8_t>& bytes);
  void install(const Taps& taps);
  // Debug code, for taps that call it; once. `answers`: what it asks in the middle of a run; forks of this
  // worker ask likewise. `state`: it goes on with what another worker's was (debug_state); -1: it begins.
  // Throws Error.
  void admit_debug(const std::string& elf, replayer::DebugAnswers answers, replayer::DebugMode mode,
                   int state = -1);
  bool has_debug() const { return has_debug_; }
  Fd debug_state();
  void leave_debug();
  // What taps log goes to the end of this file from now on.
  void log_to(int file);
  struct Collected {
    uint64_t logged = 0;                     // bytes in the file
    std::vector<replayer::TapCount> counts;  // at the end
  };
  // How many were installed; `end`: the window has been replayed.
  Collected collect(size_t taps, bool end, const Attention* attention = nullptr);
  // run() in two steps, so that several can run at the same time; without output.
  void begin_run(const Until& until);
  Arrival end_run();
  Arrival run(const Until& until, bool output, const Attention* attention);
  // Seconds of CPU that the last run or search took, or the last look at what was written to.
  double took() const { return took_; }
  // `count` instructions of a thread; with a range, as many as it takes to leave it.
  Arrival step(int tid, Address range_start, Address range_end, const Until& until, bool output,
               const Attention* attention);
  // Runs to `until`, over all matches on the way. In two steps, so that several can search at the same time.
  void begin_search(const Until& until);
  Found end_search();
  // Waits until one of them has an answer, or somebody wants a stop (then null).
  static Worker* wait_for(const std::vector<Worker*>& workers, const Attention* attention);
  std::optional<Position> last_step_before(int tid, const Position& end, const Attention* attention);
  // Every step from its present up to `end`, the last `most` of them.
  struct Steps {
    std::vector<replayer::StepRecord> list;
    uint64_t dropped = 0;  // before them
    Position end;          // where it has come to
  };
  Steps steps(const Position& end, uint64_t most, const Attention* attention);
  // With a tap of the kind Words: what was written to since the last time, or since it was installed.
  // Nullopt: not known.
  std::optional<recording::Contents> written_words();
  void divert(int tid = 0);
  bool break_here();
  std::vector<uint8_t> siginfo();
  std::string maps();
  uint32_t checksum();

  // Writes a checkpoint file (recording/checkpoint_file.h); for a fork that is used for nothing else. The
  // answer can be waited for later, as it takes a while.
  void begin_store(const recording::Recording& recording, uint64_t process, uint64_t earlier,
                   const std::optional<recording::Written>& written, bool patient);
  struct Storage {
    uint64_t number = 0, size = 0;
    double seconds = 0;
  };
  Storage end_store();
  // Is there an answer, or the end of the process?
  bool answered() const;
  // Goes to the moment of a checkpoint file. Throws Error; then this worker is of no use any more.
  void restore(const recording::Recording& recording, uint64_t process, uint64_t number);
  // What may have been written to since the last call; nullopt: not known, or this is the first one.
  std::optional<recording::Written> written();
  bool counts_written() const { return counts_written_; }

  static int output_pipe();  // where guests' output can be read; non-blocking
  // A process that was forked from this one has guests of its own.
  static void forget_output_pipe();

 private:
  explicit Worker(Fd socket) : socket_(std::move(socket)) {}
  Unpacker ask(Command command, const Packer& arguments, const Attention* attention = nullptr,
               int send_fd = -1);
  void send(Command command, const Packer& arguments, int send_fd = -1);
  Unpacker receive(const Attention* attention);
  Arrival halted(Unpacker answer);                  // of a run
  bool stop_if_wanted(const Attention& attention);  // tells the worker, and says whether it has
  bool take_message();                              // false: that was a question, which is answered
  void close();

  Fd socket_;
  std::optional<std::vector<uint8_t>> arrived_;  // a message that has been taken out of it
  replayer::DebugAnswers answers_;
  bool counts_written_ = false, has_debug_ = false;
  double took_ = 0;
};

}  // namespace backstep::timeline
