// Ask a recording of Backstep from C++.
//
//     #include <backstep/session.h>
//
//     auto s = backstep::Session::open("parser-3");
//     std::cout << s.count("call malloc") << '\n';
//     for (const backstep::Hit& hit : s.log("parse.c:42", {"n", "s->name"}))
//       std::cout << hit.at << ' ' << hit.thread << ' ' << hit.values["n"] << '\n';
//     s.go_to("end");
//     for (const backstep::Frame& frame : s.stack()) std::cout << frame.function << '\n';
//
// A session is a process of its own (`backstep session`), which the library starts and talks to
// (docs/session-protocol.md), so nothing of the recorded program is ever in yours. What goes wrong is an
// Error with the sentence that the command line prints. Moments, events and expressions are written as there:
// docs/user-guide.md, docs/events.md, docs/expressions.md.
//
// A session, with the streams that it has given out, is used by one thread at a time; only cancel() may be
// called by others meanwhile. Different sessions have nothing to do with each other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <backstep/data.h>
#include <backstep/error.h>
#include <backstep/export.h>
#include <backstep/version.h>

namespace backstep {

// One function on a stack.
struct Frame {
  std::uint64_t pc = 0;
  std::string function, file;  // empty: not known
  int line = 0;                // 0: not known
  bool inlined = false;        // it is part of the code of the next one
};

// Where the session is, and why it is there.
struct Moment {
  std::string at;  // a control point, @TICK:0xPC, which go_to() takes
  std::uint64_t tick = 0, pc = 0, event = 0;
  int thread = 0;  // 1 is the first; `tid` is what the kernel called it
  int tid = 0;
  std::string function, file;  // empty: not known
  int line = 0;
  std::string why;  // of movements: there, event, step, signal, start, end, no such moment, cancelled
  int signal = 0;   // 0: none
};

// A match of an event.
struct Hit {
  std::string at;
  std::uint64_t tick = 0, pc = 0;
  int thread = 0;
  Data values;  // what the expressions were there, by their text: values["p->name"]
  std::map<std::string, std::string> texts;  // the same as people read them
  std::vector<Frame> stack;                  // if it was asked for; innermost first
  bool stack_complete = true;                // false: what called the last one is not known
  int process = 0, pid = 0;                  // of which process, if several were asked
  int event_id = 0;                          // of which event that stays, in a run
  std::string function, file;                // of query(): where it is; empty: not known
  int line = 0;
};

// What became of an assertion.
struct Verdict {
  // Where it does not hold for the first time.
  struct Violation {
    std::string at;
    std::uint64_t tick = 0, pc = 0;
    int thread = 0;
    std::string function, file;  // empty: not known
    int line = 0;
    std::string words;         // what is wrong there, with the values of both sides
    Data values;               // … by their expressions
    int process = 0, pid = 0;  // of which process, if several were asked
  };
  std::string assertion;
  int line = 0;  // of the text that was given
  bool holds = true;
  std::uint64_t checks = 0;      // how often there was something to look at …
  std::uint64_t violations = 0;  // … and it did not hold
  std::uint64_t failures = 0;    // conditions of its events that could not be evaluated
  std::optional<Violation> first;
};

struct Argument {
  std::string name;
  Data value;
  std::string text;
};

// All calls of a function by the same chain of callers.
struct CallNode {
  std::string function;
  std::uint64_t count = 0, ticks = 0;
  std::vector<CallNode> calls;  // what they called
};

// One call of a function.
struct Call {
  std::string at;
  std::uint64_t tick = 0;
  int thread = 0;
  std::string function;
  std::vector<Argument> args;
  Data ret;
  std::string end;  // returned, jumped (a tail call) or unknown
  Frame caller;
  std::string left;                    // when; empty: not known
  std::optional<std::uint64_t> ticks;  // how long it took
  std::vector<CallNode> tree;          // what it called, if that was asked for
  int process = 0, pid = 0;            // of which process, if several were asked
};

// One system call.
struct Syscall {
  std::string at;
  std::uint64_t tick = 0, event = 0;
  int process = 0, pid = 0, thread = 0;
  std::string name;
  int nr = 0;
  Data args, raw;     // by their names; and as they were in the registers (null: not in the log)
  Data ret;           // -1: it failed; null: it did not return
  std::string error;  // "ENOENT"; empty: it did not fail …
  int number = 0;     // … else errno
  std::string text;   // as strace would show it
  bool inexact = false;
  bool denied = false;  // not made: a filter of the program's own gave the result
};

// All system calls of one kind.
struct SyscallTotal {
  std::string name;
  int nr = 0;
  std::uint64_t calls = 0, errors = 0, bytes = 0;
  Data by_error;
};

// What an expression is at the current time.
struct Value {
  std::string expression, text;
  Data value;
  std::string type;  // empty: not known
  std::string why;   // not empty: it has no value, and this is the reason
};

// An event that stays in its session, and how it is doing.
struct Event {
  int event_id = 0;
  std::string spec;
  bool installed = false;
  bool spent = false;  // it has matched as often as it should, and lives again when time goes back
  std::uint64_t matches = 0, times = 0;
};

struct Thread {
  int thread = 0, tid = 0;
  bool has_turn = false;
  bool in_call = false;  // it waits in a system call
  std::uint64_t pc = 0;
};

struct Info {
  std::string recording;  // its folder
  int process = 0, pid = 0;
  std::uint64_t ticks = 0, events = 0;
  std::string end;   // how it ended, a sentence
  std::string last;  // the last moment whose state can be shown
};

struct Process {
  int process = 0;  // its number, which use_process() takes
  int pid = 0;
  std::string born;
  int parent = 0;
  std::vector<std::string> command;
};

// What of an answer is one process's.
struct Share {
  int process = 0, pid = 0;
  std::string program;        // of profiles: its name
  std::uint64_t count = 0;    // of events: matches
  std::uint64_t samples = 0;  // of profiles
};

// A moment with a name, which is kept in the recording.
struct Bookmark {
  std::string name, at;
  int process = 0;
  std::string note;
};

// A moment that the session can return to at once; gone when it is closed.
struct Checkpoint {
  int checkpoint = 0;  // its number
  std::string at;
  std::uint64_t tick = 0;
  std::string note;
};

// Where the ticks went.
struct Profile {
  struct Stack {
    std::vector<std::string> stack;  // outermost first
    std::uint64_t ticks = 0;
    std::uint64_t instructions = 0;  // with ProfileOptions::instructions, instead of ticks
  };
  std::uint64_t period = 0, samples = 0;
  std::vector<Stack> stacks;     // of several processes: the outermost entry is the program
  std::vector<Share> processes;  // … and what each of them has
};

// The lines of a source file that have code.
struct Coverage {
  std::string file;
  std::vector<int> executed, missed;
};

// The heap of a run.
struct Allocs {
  struct Totals {
    std::uint64_t blocks = 0, bytes = 0;
  };
  struct Peak {
    std::uint64_t bytes = 0;
    std::string at;
  };
  // Where a block was allocated or freed.
  struct Deed {
    std::string at;
    int thread = 0;
    std::string function;  // malloc, free, operator new, …
    std::vector<Frame> stack;
  };
  // Blocks that were not freed and were allocated with the same stack.
  struct Leak {
    std::string reach;  // lost, indirect (only lost blocks point to it) or reachable
    std::uint64_t blocks = 0, bytes = 0;
    std::uint64_t address = 0, size = 0;  // of the first
    Deed allocated;
  };
  struct Block {
    std::uint64_t address = 0, size = 0;
    Deed allocated, freed;  // freed.at is empty: it was not
  };
  struct Error {
    // double free, bad free, mismatched free, wrong size, use after free, overrun, underrun, uninitialised
    // read
    std::string kind;
    std::string at;
    int thread = 0;
    std::uint64_t address = 0, size = 0;
    std::string access;       // load or store; empty: it is about a call
    std::uint64_t count = 0;  // how often; this is the first
    std::vector<Frame> stack;
    Block block;  // that it is about; address 0: none
  };
  Totals allocated, freed, lost, indirect, reachable;
  Peak peak;
  std::vector<Leak> leaks;
  std::vector<Error> errors;
};

// Accesses of two threads to the same memory that nothing orders.
struct Race {
  struct Side {
    std::string at;
    int thread = 0;
    std::string access;  // load or store
    std::uint64_t size = 0;
    std::vector<Frame> stack;
  };
  std::uint64_t address = 0;
  std::string variable;  // empty: it has no symbol
  std::uint64_t count = 0;
  Side first, second;  // as they happened in this run
};

// The answer to a query.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Data>> rows;
  bool complete = true;  // there were no more rows
};

// --- what a question may say in addition: log("call f", {"n"}, {.limit = 5}) ---

struct OpenOptions {
  std::string process = {};  // a pid, or #N as in `backstep ps`; empty: the first one
  // The backstep to start; empty: $BACKSTEP, else the one of the search path, else the one that was installed
  // with this library.
  std::string program = {};
};

// Which processes a question is about: that of the session if nothing is said, those with these numbers
// ({2, 5}), or all of them. A process whose program does not know what is asked for is left out. Answers come
// process by process, in the order in which these were born.
class BACKSTEP_API Processes {
 public:
  Processes() = default;
  Processes(std::vector<int> numbers) : numbers_(std::move(numbers)) {}
  Processes(std::initializer_list<int> numbers) : numbers_(numbers) {}
  static Processes all() {
    Processes every;
    every.all_ = true;
    return every;
  }
  bool is_all() const { return all_; }
  const std::vector<int>& numbers() const { return numbers_; }

 private:
  bool all_ = false;
  std::vector<int> numbers_;
};

// A stretch of the run. Both are moments, the end does not count; empty: from the beginning, to the end.
struct Stretch {
  std::string start = {}, end = {};
  Processes processes = {};
};

struct LogOptions {
  bool stack = false;                       // with the stack of calls at each match
  std::optional<std::uint64_t> limit = {};  // the first so many (of each process)
  std::optional<std::uint64_t> last = {};   // the last so many
  std::string start = {}, end = {};
  Processes processes = {};
};

struct QueryOptions {
  bool stack = false;  // with the stack of calls there
  bool move = true;    // the session goes there
};

struct CallsOptions {
  std::optional<std::uint64_t> limit = {};
  bool tree = false;                        // with what each called …
  std::optional<std::uint64_t> depth = {};  // … so many below each other at most
  bool system = false;                      // … also what the system's libraries call among themselves
  std::string start = {}, end = {};
  Processes processes = {};
};

struct SyscallsOptions {
  bool failed = false;                        // only calls that failed
  std::optional<std::uint64_t> limit = {};    // the first so many
  std::optional<std::uint64_t> last = {};     // the last so many
  std::optional<std::uint64_t> strings = {};  // bytes of each text, at most; 4096
  std::string start = {}, end = {};
  Processes processes = {};
};

struct ProfileOptions {
  std::uint64_t period = 100'000;  // ticks
  bool instructions = false;       // count all instructions instead
  bool lines = false;
  std::string start = {}, end = {};
  Processes processes = {};
};

struct CoverageOptions {
  bool system = false;  // libraries of the system, too
  std::string start = {}, end = {};
  Processes processes = {};
};

// What is to happen when an event that stays matches: the run stops there; a function is called with the
// match, at its moment, may ask the session whatever it likes and install other events, and stops the run by
// returning true; or, without moving the session there, a function hears of the match.
struct EventOptions {
  std::function<bool(const Hit&)> action = {};
  std::function<void(const Hit&)> log = {};
  bool count = false;       // only count
  std::uint64_t times = 0;  // it is spent after so many matches; 0: never
  std::vector<std::string> values = {};
  bool stack = false;
  bool install = true;
};

struct AllocsOptions {
  bool leaks = true;           // what was not freed
  bool errors = false;         // what was done wrong: frees, loads and stores
  bool frees = false;          // … frees only, which takes far less time
  bool uninitialised = false;  // errors, and loads of what nobody has written
  std::string end = {};        // the heap at this moment; empty: at the end
};

// C and C++ to be run inside of the recorded run (docs/user-guide.md, "Your own code").
struct DebugCode {
  std::vector<std::pair<std::string, std::string>> at = {};  // snippets: a place, and what is to run there
  std::vector<std::string> sources = {};                     // with debug regions
  std::vector<std::string> flags = {};  // of their compiler; none: compile_commands.json has them
  bool parallel = false;                // probe: it keeps nothing from one time to the next
  bool keep = false;                    // debug: its variables do not go back with the session
};

// What debug code has said.
struct DebugNote {
  enum Kind { Output, Errors, Log, Mark, Stop, Failure, Complaint };
  std::string at;
  std::uint64_t tick = 0, pc = 0;
  int thread = 0;
  Kind kind = Output;
  std::string text;  // Failure and Complaint: a sentence whose subject is "it"
  Data value;        // Log: what that is
  std::string code;  // whose it is: a snippet's or region's place
  std::string file;
  int line = 0;  // Failure and Complaint: of the debug code
};

class Dialogue;  // with the process of a session
class Request;

// Hits, calls or system calls, which come while the session still looks for more. Whoever leaves the loop
// does not want the rest: the stream cancels the search when it goes. A session answers one thing after the
// other: what it is asked while a stream is open waits until the search is over, and what the search finds
// meanwhile is kept for the stream.
template <class T>
class Stream {
 public:
  explicit Stream(std::shared_ptr<Request> request);
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&&) noexcept = default;

  std::optional<T> next();  // waits for it; none: that was the last one

  class Iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    explicit Iterator(Stream* stream) : stream_(stream), current_(stream->next()) {}
    const T& operator*() const { return *current_; }
    const T* operator->() const { return &*current_; }
    Iterator& operator++() {
      current_ = stream_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !current_; }

   private:
    Stream* stream_;
    std::optional<T> current_;
  };
  Iterator begin() { return Iterator(this); }  // at what comes next: a stream is read once
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<Request> request_;
};

// A recording that is being asked, at one moment of its history.
class BACKSTEP_API Session {
 public:
  // A recording: a name, a path, or (empty) the latest one.
  static Session open(const std::string& recording = {}, const OpenOptions& options = {});

  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();    // closes it
  void close();  // ends the session; its process is gone then

  std::string version() const;  // of the program that answers

  // Called, by the thread that waits for an answer, with what is done of it (0 to 1), and with remarks about
  // the question.
  void on_progress(std::function<void(double done)> callback);
  void on_note(std::function<void(const std::string& text)> callback);

  // Called likewise with what debug code says that runs along (debug()).
  void on_debug(std::function<void(const DebugNote& note)> callback);

  // Ends what is under way, which then throws Cancelled; whatever it has given before counts. Without
  // anything under way it does nothing. Any thread may call it, also on_progress; not a signal handler.
  void cancel();

  // Any method of the protocol, by its name: ask("goto", {{"to", "end"}}).
  Data ask(const std::string& method, const Data::Structure& params = {});
  std::vector<std::string> methods();  // their names

  // --- about the recording ---

  Info info();
  std::vector<Process> processes();
  // From now on the session is about this process, at its beginning.
  Info use_process(int process);

  // --- questions about the run; they do not move the session ---

  // How often an event matches.
  std::uint64_t count(const std::string& spec, const Stretch& stretch = {});
  // … in each process that knows it, all of them if the stretch names none.
  std::vector<Share> count_by_process(const std::string& spec, const Stretch& stretch = {});
  // … of several, in one go.
  std::vector<std::uint64_t> counts(const std::vector<std::string>& specs, const Stretch& stretch = {});
  // Each match of an event in the order of time, with the values of expressions there.
  Stream<Hit> log(const std::string& spec, const std::vector<std::string>& values = {},
                  const LogOptions& options = {});
  // Whether assertions hold: one on each line, or behind each `;` (docs/query.md).
  std::vector<Verdict> check(const std::string& assertions, const Stretch& stretch = {});
  // Every call of a function, in the order in which they began.
  Stream<Call> calls(const std::string& function, const CallsOptions& options = {});
  // The system calls, from the log alone: "write if ret < 0".
  Stream<Syscall> syscalls(const std::string& filter = {}, const SyscallsOptions& options = {});
  // … how many of each there were, the most frequent first.
  std::vector<SyscallTotal> syscall_totals(const std::string& filter = {}, const Stretch& stretch = {});
  Profile profile(const ProfileOptions& options = {});
  std::vector<Coverage> coverage(const CoverageOptions& options = {});

  // Where a value came from, at a moment or (an empty one) now; a structure as docs/why.md has it.
  Data why(const std::string& expression, const std::string& at = "", std::uint64_t depth = 10);
  // Where this recording and another one of the same program part; likewise.
  Data diff(const std::string& other, bool exact = false);

  // What was wrong with the heap: what was not freed, what was freed as it must not be.
  Allocs allocs(const AllocsOptions& options = {});

  // Debug code over the run, or a stretch of it: what it says, in the order of time.
  Stream<DebugNote> probe(const DebugCode& code, const Stretch& stretch = {});

  // Accesses of two threads that nothing orders, one for each pair of lines; of the session's process.
  std::vector<Race> races(const Stretch& stretch = {});

  // SQL over the recorded history (docs/sql.md): `limit` rows at most, or 10,000.
  Table sql(const std::string& query, std::optional<std::uint64_t> limit = {});

  // --- movement ---

  Moment now();
  // start, end, a tick, @TICK:0xPC, 50%, 14:03:22, event 106, a bookmark. (Python's `goto`.)
  Moment go_to(const std::string& moment);
  // To the next match of one of the events, or the end.
  Moment forward(const std::vector<std::string>& events = {});
  // To the last match before now of one of the events, or the start.
  Moment backward(const std::vector<std::string>& events = {});
  // To where something happens for the n-th time: "goto current backward store 2 where addr=&total"
  // (docs/query.md); the session does not move if there is no such moment.
  std::optional<Hit> query(const std::string& query, const std::vector<std::string>& values = {},
                           const QueryOptions& options = {});
  // Instructions of a thread, forwards or backwards.
  Moment step(std::uint64_t count = 1, bool back = false, int tid = 0);
  // … by "line" (into functions), "over" (to another line of this function), "out" (to the caller), "quantum"
  // (to another tick) or "instruction".
  Moment step(const std::string& by, std::uint64_t count = 1, bool back = false, int tid = 0);

  // Debug code that runs along, whenever the session goes forward (forward, step, run), until another one
  // takes its place; `on_debug` hears what it says. Without code: none does. How many places it has in the
  // program.
  std::size_t debug(const DebugCode& code = {});

  // --- events that stay; they are named by their `event_id` ---

  int create_event(const std::string& spec, const EventOptions& options = {});
  void install(int event_id);
  void uninstall(int event_id);
  void destroy(int event_id);
  std::vector<Event> events();
  // Goes on, forwards or backwards, with all installed events, until one of them stops or the run is over. If
  // several match at one moment, all get their action.
  Moment run(bool back = false);

  // --- bookmarks: moments with names, which are kept in the recording; go_to() takes the names ---

  // Keeps the current time; a name that is there already gets this moment.
  Bookmark bookmark(const std::string& name, const std::string& note = {});
  std::vector<Bookmark> bookmarks();
  void remove_bookmark(const std::string& name);

  // --- checkpoints: to return to at once, as long as the session lasts ---

  Checkpoint checkpoint(const std::string& note = {});  // of the current time
  std::vector<Checkpoint> checkpoints();
  Moment restart(int checkpoint);
  void remove_checkpoint(int checkpoint);

  // --- the state at the current time; `tid` 0: the thread that has the turn ---

  // Innermost first.
  std::vector<Frame> stack(int tid = 0);
  // What an expression is, in the `frame`-th real function of the stack; nothing if it has no value here
  // (explain() says why).
  Data value(const std::string& expression, std::size_t frame = 0, int tid = 0);
  Value explain(const std::string& expression, std::size_t frame = 0, int tid = 0);
  std::vector<Value> locals(std::size_t frame = 0, int tid = 0);
  std::vector<Thread> threads();
  std::map<std::string, std::uint64_t> registers(int tid = 0);
  // As many bytes as can be read.
  std::vector<std::uint8_t> memory(std::uint64_t address, std::uint64_t size);

 private:
  explicit Session(std::shared_ptr<Dialogue> dialogue);
  Dialogue& dialogue() const;

  std::shared_ptr<Dialogue> dialogue_;
  std::map<int, EventOptions> events_;  // what they do
};

extern template class BACKSTEP_API Stream<Hit>;
extern template class BACKSTEP_API Stream<Call>;
extern template class BACKSTEP_API Stream<Syscall>;
extern template class BACKSTEP_API Stream<DebugNote>;

}  // namespace backstep
