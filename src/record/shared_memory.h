// Memory that several recorded processes share, kept exact by ownership.
//
// A page is readable by many processes or writable by one. While a process has a page, nobody else changes
// it, and everything it reads follows from what the page held when it was acquired and from its own stores.
// So what must be logged is what changed in the page since this process had it last: a difference to the copy
// that it kept when it gave the page back. Pages that are not held have no access rights in the guest, pages
// held for reading cannot be written; the fault of the first access acquires them, at an exact control point.
// Who holds a page and is asked for it (a signal) gives it back at its next instruction boundary, but not
// before the guest has had it for a moment, or two that quarrel about a page would do nothing else. A process
// that waits in the kernel is not asked: its pages are taken (`asleep`), and it is told when it wakes up.
// While only one process has the object mapped it owns all of it, without protection and at no cost.
//
// Who holds what is in a control file in the recording's folder, one per object, which all recorders map.
//
// None of this works with processes that are not recorded: they write when they like. An object that such an
// outsider may write is *open*: nobody holds its pages, the guest has a private view of it without access
// rights, and every access is made alone, between the view and the real memory (record_outsiders.cc).
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "engine/context.h"
#include "record/sparse_pages.h"

namespace backstep::recorder {

inline constexpr uint64_t kShareSignal = 0x6b63'6261'0000'0003;  // SIGTRAP's value, see body_hot.h

inline constexpr uint64_t kSegments = 0x5359'5356;  // "SYSV": what we call the device of System V segments

// How often a segment is attached, as the kernel tells.
struct Attached {
  uint64_t count = 0;
  int last = 0;  // who attached, detached or forked last
  friend bool operator==(const Attached&, const Attached&) = default;
};

// The low 40 bits say who reads (a bit for each Seat), those above it are the writer's pid. A writer that
// still waits for readers to leave is there already, so that no new ones come.
struct SharedPage {
  uint64_t state;
  uint32_t version;     // grows whenever a writer gives it back
  uint32_t changes;     // grows whenever anybody gives it back: who waits sleeps on this
  uint32_t waiting;     // how many wait for it
  uint32_t want_write;  // … of them to write
  uint32_t reserved[2];
};

// Somebody is about to stop a process (SIGSTOP), which could not be asked for its pages then: it falls asleep
// before.
enum Stopping : uint32_t { kNotStopping, kStopAsked, kStopAwaited };

// A process that takes part. Those that find no seat free hold pages as writers only.
struct Seat {
  static constexpr uint32_t kMail = 16;
  uint32_t pid;           // 0: free
  uint32_t asleep;        // 0: awake; 1: asleep, its pages can be taken; else the pid of who takes some
  uint64_t started;       // the process's start time: pids are used again
  uint32_t mail_count;    // more than kMail: look at all pages
  uint32_t pages[kMail];  // asked for; page + 1
  uint32_t viewing;       // it has changed over to a view of the open object
  uint32_t stopping;      // a Stopping
  // Taken while it slept; only by who has `asleep`. Not in one list with what is asked for: an asker that is
  // interrupted in the middle of ask() would write over it much later.
  uint32_t taken_count;   // more than kMail: look at all pages
  uint32_t taken[kMail];  // page + 1
  uint32_t user;          // whose signals it sends: 1 + its user id; 0: it may send them to everybody
  uint32_t reserved[7];
};
static_assert(sizeof(Seat) == 192);

// A control file is a SharedHeader, a byte for each chunk of pages (SharedHeader::kChunks), and a SharedPage
// for each page of the file. It has holes where nobody has touched a page so far; a byte that is not 0 says
// that somebody has.
struct SharedHeader {
  static constexpr int kSeats = 40;
  static constexpr uint64_t kMostPages = 1 << 30, kChunk = 512, kChunks = kMostPages / kChunk;
  static constexpr uint32_t kGivenUp = 1u << 31;  // the last one has left, and removes it
  uint32_t alone;        // pid of the one process that has it mapped and owns all of it; 0: pages have owners
  uint32_t attached;     // processes that have it mapped; or kGivenUp
  uint32_t open;         // 1: outsiders may write it; for ever
  uint32_t known_opens;  // how often recorded processes have opened the file
  // System V: attachments that recorded processes account for, with all that the kernel counts as such, and
  // how often that was corrected. Who changes it, or its own mappings, has the lock: its pid.
  uint32_t attachments, corrections, lock;
  uint32_t extent;  // pages from the start of the file to the last that anybody has ever mapped
  uint32_t reserved[24];
  Seat seats[kSeats];
};

std::string control_name(uint64_t dev, uint64_t inode);

// This process lives in another pid namespace than the recording's first one. Its pid means nothing to
// others, and theirs mean nothing to it: nobody can be asked for a page by a signal, and nobody knows who is
// alive. So it takes no seat, and what it shares with anybody is open. What it has alone is its own until
// somebody rings.
void live_in_foreign_namespace();
bool is_foreign();

// The control file of an object that this process has not mapped.
namespace shared_control {
struct Head;
void count_open(const std::string& path);
bool is_open(const std::string& path);     // outsiders may write it
uint64_t extent(const std::string& path);  // pages that have been mapped; 0: nobody has it
// A process that does not take part is about to write: opens the object, and waits for all who do to know.
void open_to_writer(const std::string& path);
// Before these processes are stopped: returns when they are asleep, or do not answer. The result says them
// that the signal is on its way.
class BeforeStop {
 public:
  BeforeStop(const std::string& folder, const std::function<bool(uint32_t pid)>& meant);
  ~BeforeStop();
  BeforeStop(const BeforeStop&) = delete;
  BeforeStop& operator=(const BeforeStop&) = delete;

 private:
  bool ask(const std::function<bool(uint32_t pid)>& meant, bool remind, bool patient);

  std::vector<std::unique_ptr<Head>> heads_;
  std::vector<std::pair<Seat*, uint32_t>> seats_;  // and whose they are
};
// Control files that are left by processes which became others, or were killed, and that nobody uses.
void clean(const std::string& folder);
}  // namespace shared_control

class SharedObject {
 public:
  enum class Hold : uint8_t { None, Read, Write };
  static constexpr uint64_t kPageSize = 4096;
  using Page = std::array<unsigned char, kPageSize>;

  // The control file is `name` in `folder`, which is looked at whenever it is needed, as the way there may
  // change. `fd` is the file that is mapped, from `from` to `bytes`. Or it is mapped already, at `alias`.
  SharedObject(const std::string& folder, std::string name, int fd, uint64_t from, uint64_t bytes,
               void* alias = nullptr);
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  // There is a mapping from `from` to `bytes`. fd -1: it is one that the program made longer (mremap).
  void extend(int fd, uint64_t from, uint64_t bytes);
  uint64_t extent() const { return __atomic_load_n(&header_->extent, __ATOMIC_SEQ_CST); }  // that of anybody
  bool alone() const { return alone_; }
  uint64_t pages() const { return local_.size(); }
  Hold hold(uint64_t page) const {
    if (alone_) return Hold::Write;
    const Local* mine = local_.find(page);
    return mine ? mine->hold : Hold::None;
  }
  // Calls f(page) for the pages of a range. Where nobody has ever touched a page those of a chunk are left
  // out, if the range is too long to go through all.
  void for_each_page(uint64_t first, uint64_t last, const std::function<void(uint64_t page)>& f) const;
  const std::vector<uint64_t>& held_pages() const { return held_; }
  bool must_leave_alone() const;  // somebody else wants to map it
  void open_to_all();             // … and all others know
  const unsigned char* contents(uint64_t page) const { return alias_ + page * kPageSize; }
  // Files can be shorter than what is mapped of them: is there such a page?
  bool exists(uint64_t page) const;
  uint64_t existing_pages() const;
  // The same memory, always accessible: for futexes.
  uint64_t alias(uint64_t offset) const { return reinterpret_cast<uint64_t>(alias_) + offset; }

  // Gets the page; `meanwhile` is called now and then while others let us wait. True: its contents may have
  // changed since this process had it. before(): what it held then; null: not known. If the object is opened
  // meanwhile, hold() is not what was wanted.
  bool acquire(uint64_t page, Hold wanted, const std::function<void()>& meanwhile);
  const Page* before() const { return before_; }
  void forget(uint64_t page) { local(page).seen = kNone; }  // what was acquired is logged another time
  void forget_all();                                        // … but for what is held
  void forget_from(uint64_t page);                          // a replay has nothing there any more
  // Until when a page is not given to others, unless we wait for something ourselves.
  int64_t kept_until(uint64_t page) const { return local_.find(page) ? local_.find(page)->kept_until : 0; }
  void keep_until(uint64_t page, int64_t when) { local(page).kept_until = when; }
  bool contested(uint64_t page) const;  // others wait for it, or for parts of our rights

  // True: from here on the page is one that is kept apart (recorder.h); not more than `most` are.
  bool set_apart(uint64_t page, uint64_t most) {
    if (local(page).apart || apart_ >= most) return false;
    apart_++;
    return local(page).apart = true;
  }

  // What we were asked for since the last call.
  std::vector<uint64_t> asked();
  // How much of it others want us to leave: Write: nothing, Read: we may go on reading, None: all of it.
  Hold leaves(uint64_t page) const;
  // `meanwhile` takes the guest's rights away, when hold() is lower already and nobody else has the page yet.
  void lower(uint64_t page, Hold to, const std::function<void()>& meanwhile);
  void release_all();
  void leave_alone();
  // All others have left: it is ours alone again. False: no. Pages that others have changed since must be
  // logged at once: stale() says which.
  bool others() const { return __atomic_load_n(&header_->attached, __ATOMIC_SEQ_CST) != 1; }
  bool return_alone();
  std::vector<uint64_t> stale(size_t most) const;

  // Open objects. set_open() tells all who take part; each changes over with make_view(), after which nothing
  // is held any more. open_page() waits until the others have given the page up.
  bool is_open() const { return __atomic_load_n(&header_->open, __ATOMIC_SEQ_CST) != 0; }
  void set_open();
  bool has_view() const { return view_ != nullptr; }
  void make_view();
  // Maps it into the guest, without access rights.
  bool show_view(uint64_t at, uint64_t offset, uint64_t bytes) const;
  unsigned char* view(uint64_t page) const { return view_ + page * kPageSize; }
  bool& known(uint64_t page) { return local(page).known; }  // the view has what a replay would have
  void open_page(uint64_t page, const std::function<void()>& meanwhile);
  unsigned char* real(uint64_t page) const { return alias_ + page * kPageSize; }
  uint32_t known_opens() const { return __atomic_load_n(&header_->known_opens, __ATOMIC_SEQ_CST); }

  std::pair<uint64_t, uint64_t> file;  // device, inode
  bool only_written = false;           // by calls; this process has not mapped it

  // System V segments: the kernel's id, and what is in SharedHeader for who has the lock.
  std::optional<int> segment;
  uint32_t& attachments() const { return header_->attachments; }
  uint32_t& corrections() const { return header_->corrections; }
  void lock() const;
  void unlock() const { __atomic_store_n(&header_->lock, 0, __ATOMIC_SEQ_CST); }

  // Users. Who may not send us a signal changes the times of the control file instead, which we hear by
  // inotify: that is our bell.
  std::string path() const { return folder_ + "/" + name_; }
  void tell_change();       // to all: our rights are about to change, so you may need a bell
  void tell_user();         // … this is what they are now
  bool needs_bell() const;  // there are some who may not send us a signal
  void pass_on() const;     // the bell has rung: it may be for others who have none

  // Around waits in the kernel. awake() says of which pages we have less than before, or were asked for.
  void fall_asleep();
  std::vector<uint64_t> awake();
  // We are about to be stopped: when we are asleep we say so, and then wait for that to be over.
  bool is_stopping() const { return seat_ >= 0 && __atomic_load_n(&seat().stopping, __ATOMIC_SEQ_CST); }
  void expect_stop();
  void await_stop();

  void attach_child();  // before fork, for the child; nothing is held then
  void no_child();      // … which then did not come
  void become_child();  // in the child
  // Before execve, after which nobody is there to be asked; if it fails, we are back.
  void leave();
  void return_to();
  void detach();

 private:
  static constexpr uint32_t kNone = ~0u;
  struct Local {
    uint32_t seen = kNone;    // the version that this process knows
    uint32_t copied = kNone;  // the version that `copy` is
    uint32_t place = 0;       // in held_
    Hold hold = Hold::None;
    bool known = false;
    bool apart = false;
    bool migrates = false;  // who reads it writes it soon: then it is acquired for that at once
    bool hinted = false;    // … as it was this time, with these contents:
    uint32_t sum = 0;
    bool robbed = false;  // it was taken while we slept: then we keep a copy when we fall asleep
    int64_t kept_until = 0;
    std::unique_ptr<Page> copy;  // contents when it was given back
  };

  Local& local(uint64_t page);
  SharedPage& entry(uint64_t page);  // for who will change it
  // Its version; of a page that nobody has touched without touching it.
  uint32_t version(uint64_t page) const;
  void join(uint64_t from, uint64_t bytes);
  bool open_control(uint64_t from, uint64_t bytes);
  bool count_in();
  void sit_down();
  bool take(SharedPage& p, bool write);
  bool wait_for(uint64_t page, bool write, const std::function<void()>& meanwhile);
  void ask(uint64_t page, uint32_t pid);
  bool rob(uint64_t page, SharedPage& p, uint32_t pid, bool write);
  Seat* seat_of(uint32_t pid) const;
  bool is_gone(uint32_t pid) const;
  void bury(SharedPage& p);
  void keep_copy(uint64_t page);
  void set_hold(uint64_t page, Hold hold);
  void tell_extent();
  uint32_t sum_of(uint64_t page) const;
  Seat& seat() const { return header_->seats[seat_]; }
  uint64_t bit() const { return seat_ < 0 ? 0 : 1ull << seat_; }

  const std::string& folder_;
  std::string name_;
  uint32_t me_ = 0;
  int seat_ = -1;
  SharedHeader* header_ = nullptr;
  uint64_t control_bytes_ = 0;  // that are mapped from there
  uint8_t* used_ = nullptr;     // chunks that somebody has touched
  SharedPage* pages_ = nullptr;
  unsigned char* alias_ = nullptr;
  uint64_t bytes_ = 0;
  bool alone_ = false;
  uint64_t view_most_ = 0;  // bytes that it can grow to
  unsigned char* view_ = nullptr;
  uint64_t view_bytes_ = 0;
  SparsePages<Local> local_;
  // What is known of pages that have no Local yet: this version, up to there.
  uint32_t others_seen_ = kNone;
  uint64_t others_until_ = ~0ull;
  std::vector<uint64_t> held_;
  std::vector<uint64_t> robbed_;  // pages with Local::robbed
  const Page* before_ = nullptr;
  uint64_t apart_ = 0;
  bool copies_ = true;                              // pages that are given back are copied
  std::map<uint32_t, int64_t> alive_until_;         // pids that are known to be who they were
  mutable std::map<uint32_t, int64_t> waited_for_;  // since when, if they cannot be looked at
};

}  // namespace backstep::recorder
