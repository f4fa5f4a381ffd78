// What each process of a recording lets the others know about itself, so that they can see it in /proc as if
// we were not there: its mappings, threads and signals, and which descriptors are ours. Whoever reads needs
// no help from the process, which may be waiting, stopped, or busy.
//
// It is written into a *slot* of a file in the recording's folder that all of them share, which the process
// has mapped. A few words at its head are stored where they change; all else is a row of *records*, each of
// them a change ("this was mapped", "that thread has ended"), which a reader makes again one after the other.
// So a change costs the process some stores and no system call. When the room is used up, records that say
// how things stand are written into another place, which then takes over in one store: at no moment is that
// not true which others read, wherever the process is stopped or killed. Processes with many mappings move to
// a file of their own; one for each would cost more than all the rest, as file systems are slow at making and
// removing files (ext4: about a millisecond each when many were removed just before).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guest/image.h"
#include "guest/limits.h"
#include "guest/memory_map.h"
#include "record/record_hot.h"
#include "recording/library.h"

namespace backstep::recorder {

// A process as /proc should show it.
struct Shown {
  struct Thread {
    int tid = 0;
    uint64_t blocked = 0;  // signals
    uint64_t filters = 0;  // seccomp
    char state = 0;        // as in stat: R, S, t (stopped by a tracer); 0: what the kernel says
    std::string call;      // … as in syscall, of one that waits; empty: not known
    bool told_alike(const Thread& other) const {
      return tid == other.tid && blocked == other.blocked && filters == other.filters;
    }
  };
  int pid = 0;
  std::string folder;  // where the kernel's own text is: /proc/self or /proc/PID
  const guest::MemoryMap* map = nullptr;
  std::shared_ptr<guest::MemoryMap> copy;  // of another process's map: then `map` points there
  uint64_t ignored = 0, caught = 0;        // signals
  guest::Limits limits;
  uint64_t first_stack = 0;       // bytes that the initial stack has in any case …
  std::optional<uint64_t> stack;  // … and as it has grown, if that is known already
  std::vector<Thread> threads;    // the first first, if it is still there
  std::string exe;
  std::vector<uint64_t> auxv;
  guest::ProgramLayout layout;      // all 0: not known
  uint64_t program = 0;             // the log whose manifest has its arguments and environment …
  std::optional<std::string> argv;  // … but for these, each with a zero behind it (scripts)
  std::vector<int> our_fds;
  bool ended = false;  // killed and not collected: only signals and limits are left to be seen

  const Thread* thread(int tid) const;  // null: not one of the program's; 0: the one that stands for all
};

struct PublishedHead {
  enum State : uint32_t {
    Loading,  // execve: the next program is not there yet
    Ready,
    Elsewhere,  // in a file of its own
    Native,     // runs without us (ptrace), or cannot publish any more: others see what the kernel says
  };
  static constexpr unsigned kVforks = 4;
  uint32_t version;
  uint32_t state;
  uint64_t rewrites;  // grows before the other place is written, and again when it has taken over
  uint64_t where;     // upper half: page where the records are; lower half: bytes of them
  uint64_t program;   // the log whose manifest has its arguments and environment
  uint64_t ignored, caught;
  guest::Limits limits;
  uint64_t first_stack;
  uint64_t exe_file[2];  // device and inode of the program; only in the slot
  int32_t our_fds[kOurFds];
  uint32_t vforked[kVforks];  // children that run in its memory (vfork), by depth
  // Does this thread wait? The kernel shows what the thread does that runs them all. Only in the slot.
  struct ThreadState {
    int32_t tid;  // 0: free
    uint32_t waits;
  };
  static constexpr unsigned kStates = 256;
  ThreadState states[kStates];
  // Letters (letters.h); only in the slot.
  uint32_t lives;    // grows with each process and program that takes the slot
  uint32_t bell;     // who can be rung: its pid, or that of a child in its memory (vfork); 0: nobody
  uint32_t callers;  // how many are about to ring
  uint32_t letters;  // 1: its box is in use
};

struct LetterBox;

class Published final : public guest::MapListener {
 public:
  // `folder` is looked at whenever it is needed, as the way there may change; `rewrite` tells everything
  // anew, by the calls below.
  Published(const std::string& folder, std::function<void()> rewrite);
  ~Published() override;
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;

  // Takes a slot, or that of the program that this process was before; `state` is Loading.
  // Without it (no rights, no space) nothing is published.
  void begin();
  void set_state(PublishedHead::State state);
  void end();  // the process ends
  // In a forked child, to which all of this is its parent's: begins, and tells everything.
  void become_child();
  void tell_all();

  void program(uint64_t number);
  void signals(uint64_t ignored, uint64_t caught);
  void our_fds(const int (&fds)[kOurFds]);
  void limits(const guest::Limits& limits);
  void first_stack(uint64_t bytes);
  void vforked(size_t depth, int pid);  // 0: none
  void thread(const Shown::Thread& thread);
  void thread_ended(int tid);
  // The word that says whether it waits, valid until become_child(); null: others see what the kernel says.
  uint32_t* thread_word(int tid);
  void exe(const std::string& path);
  void exe_file(const std::pair<uint64_t, uint64_t>& file);  // device, inode
  void auxv(const std::vector<uint64_t>& words);
  void layout(const guest::ProgramLayout& layout);
  void argv(const std::string& words);  // only if it is not what the manifest says
  // Letters to us; null: nobody has ever sent one. Who has sent us one since we took the slot writes lives().
  LetterBox* letters();
  const uint32_t* letters_flag() const { return slot_head_ ? &slot_head_->letters : nullptr; }
  uint32_t lives() const { return slot_head_ ? slot_head_->lives : 0; }
  // The process whose memory this is, for a child of vfork its parent; 0: not published.
  int owner() const;
  void on_add(const guest::Region& r) override;
  void on_remove(uint64_t start, uint64_t end) override;
  void on_protect(uint64_t start, uint64_t end, int prot) override;

 private:
  struct Place {
    uint64_t page = 0, size = 0;
  };
  void append(uint32_t kind, const void* fixed, size_t size, std::string_view text = {});
  void use_place(uint64_t bytes);
  void give_up();
  bool add_place(Place& place, uint64_t bytes);
  bool move_out();
  void forget();
  void set_bell(uint32_t pid);
  std::string path() const { return folder_ + "/" + name_; }
  char* base() const { return reinterpret_cast<char*>(head_); }

  const std::string& folder_;
  std::string name_;                       // of the file of its own, in the folder; empty: none
  struct PublishedSlot* table_ = nullptr;  // of all processes
  struct PublishedSlot* slot_ = nullptr;   // … ours
  PublishedHead* slot_head_ = nullptr;     // mapped as long as we have a slot
  std::function<void()> rewrite_;
  PublishedHead* head_ = nullptr;  // null: not published
  LetterBox* box_ = nullptr;       // null: not mapped yet
  uint64_t mapped_ = 0;
  Place places_[2];
  int used_ = 0;
  uint64_t length_ = 0;
  bool rewriting_ = false, overflow_ = false;
  std::map<int, Shown::Thread> told_;
};

// What a process of the recording has published; nullopt: it is none of its, or runs natively. Waits for
// those that are being started. `records` false: only what the head has (signals, our descriptors).
std::optional<Shown> published_by(const recording::Recording& recording, int pid, bool records = true);
// Is this file (device, inode) the program of a process of the recording? Its descriptors are busy then for
// those who want to write (ETXTBSY), which the kernel cannot know: it executes us.
bool is_executed(const std::string& folder, const std::pair<uint64_t, uint64_t>& file);
// The processes of the recording that have published anything and not ended.
std::vector<int> published_pids(const std::string& folder);
// This process goes on without us.
void unpublish(const std::string& folder);
// The last one of the recording ends, or at least the first: what nobody needs any more is removed.
void clean_published(const std::string& folder);

// The process that a thread belongs to; 0: there is none.
int process_of(int tid);
// Does this process run our program?
bool is_recorded(int pid);

}  // namespace backstep::recorder
