// The recorder: one guest process, its log, and everything about it that the hot half does not do.
#pragma once
#include <array>
#include <climits>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/fd.h"
#include "engine/host_ops.h"
#include "guest/image.h"
#include "guest/process.h"
#include "guest/syscall_table.h"
#include "record/chaos.h"
#include "record/letters.h"
#include "record/proc_files.h"
#include "record/published.h"
#include "record/record.h"
#include "record/record_hot.h"
#include "record/shared_memory.h"
#include "record/turns.h"
#include "recording/checkpoint_series.h"
#include "recording/library.h"
#include "recording/log_writer.h"
#include "recording/manifest.h"
#include "recording/tree.h"

namespace backstep::recorder {

struct Succession;

// The limits on memory that this process was started with; before anything raises them.
guest::Limits inherited_limits();
// For programs that go on without us.
void hand_to_kernel(const guest::Limits& limits);

inline constexpr int kGetAuxv = 0x41555856;  // PR_GET_AUXV, since Linux 6.4

isa::Insn next_instruction();  // the one at rip, as far as it can be read

class Recorder final : public guest::Placer {
 public:
  Recorder(const RecordOptions& options, const guest::Limits& limits, const recording::Library& library,
           recording::Recording recording);
  // The program that this process was before called execve.
  Recorder(const Succession& before, const recording::Library& library, recording::Recording recording);

  ~Recorder() override;

  // Loads the program; throws guest::LoadError with nothing started.
  void load();
  // Runs it. Ends the process itself, as the program ended.
  [[noreturn]] void run();

  // Placer: what loading does to memory is logged, so that a replay needs no loader.
  void map(const guest::Region& region, int fd) override;
  void write(uint64_t addr, std::span<const std::byte> bytes) override;
  guest::MemoryMap& memory() override { return process_.map; }

 private:
  // recorder.cc
  void prepare(guest::CpuLevel level);
  void react(const engine::Stop& stop);
  void end_budget();
  void on_syscall();
  void on_host_op(const isa::Insn& insn);
  void on_fault(const engine::FaultInfo& fault);
  void on_guest_fault(const engine::FaultInfo& fault);
  void before_guest();  // what must be settled before guest code runs on
  // Behind a call: memory checksums, signals.
  void after_call(uint64_t nr, const uint64_t args[6], int64_t result);
  void deliver_pending(uint64_t nr, int64_t result);
  std::optional<siginfo_t> next_signal();
  void give_back_signals();
  void log_signal(const siginfo_t& info, uint8_t flags);
  void enter_handler(const siginfo_t& info, const guest::TrapInfo& trap);
  [[noreturn]] void finish(recording::EndKind kind, int64_t status, Address pc);
  // `asynchronous`: a signal from outside; pc 0: somewhere in the quantum of the current tick.
  // `all`: a lodger that has the turn is not meant alone.
  [[noreturn]] void die(int signo, Address pc, bool asynchronous = false, bool all = false);
  // record_core.cc
  bool leaves_core(int signo) const;
  void send_bodies_off(int signo);
  void describe_program() const;
  void leave_out_our_memory() const;
  void end_with_core(int signo, uint64_t mask);
  std::unique_ptr<Context> state_of_thread(const guest::Thread& thread) const;
  std::optional<siginfo_t> cause_;        // of the end that is near …
  const guest::Thread* dying_ = nullptr;  // … and who meets it; null: the current thread
  struct LodgerEnded {};                  // thrown by die() when another thread has the turn
  uint64_t leave_real_state(int deadly);
  void close_recording(recording::EndKind kind, int64_t status, Address pc, bool asynchronous = false);
  void note_once(const std::string& text);
  void say(const std::string& text) const;  // to the user, on what was stderr at the start; not when quiet
  // What others see of us in /proc (published.h).
  void tell_all();
  void tell_start();
  void tell_signals();
  void tell_thread(const guest::Thread& thread);
  void tell_threads();
  void tell_fds();
  void tell_limits();
  void inherit_signals();
  // What a signal that is not the program's own fault does to it.
  guest::Fate fate(int signo) const;
  void set_real_action(int signo);
  void set_real_actions();
  void set_real_mask();
  void take_memory_checksum();

  // record_threads.cc, record_signals.cc, record_futexes.cc, record_waiting.cc: threads and their turns
  enum class Begun { NotMine, Done, Blocked };
  // A call of a program with threads. NotMine: as in a program with one; Done: `result` is there and logged;
  // Blocked: another thread has the turn, or this one had to wait and has its result.
  Begun thread_call(const guest::Syscall& row, uint64_t nr, const uint64_t args[6], int64_t& result);
  Begun blocking_call(const guest::Syscall& row, uint64_t nr, const uint64_t args[6], int64_t& result);
  Begun probed_call(const guest::Syscall& row, uint64_t nr, const uint64_t args[6], int64_t& result);
  Begun wait_in_kernel(const guest::Syscall& row, uint64_t nr, const uint64_t args[6], int64_t& result);
  int64_t execute_here(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  Begun blocked(uint64_t nr, const uint64_t args[6]);
  Begun do_futex(const uint64_t args[6], int64_t& result);
  Begun futex_in_kernel(const uint64_t args[6], int64_t& result);
  Begun do_sleep(uint64_t nr, const uint64_t args[6], int64_t& result);
  Begun do_sigtimedwait(const uint64_t args[6], int64_t& result);
  Begun do_pause(uint64_t nr, const uint64_t args[6], int64_t& result);
  void do_exit_thread(int status);
  int64_t do_clone(const uint64_t args[6]);
  std::optional<int64_t> do_thread_kill(uint64_t nr, const uint64_t args[6]);
  std::optional<int64_t> do_timer_create(const uint64_t args[6]);
  std::optional<int64_t> do_thread_name(const uint64_t args[6]);
  void lock_pi(uint64_t addr, int64_t deadline, bool try_only, std::optional<int64_t>& result);
  int64_t unlock_pi(uint64_t addr, bool look_only);
  int futex_error(uint64_t addr, uint64_t op, bool written);  // 0: none
  int64_t requeue_pi(uint64_t addr, uint64_t lock, int most);
  void leave_robust_list(guest::Thread& thread);
  void release_lock(uint64_t addr, int tid, bool pi, bool pending);
  int wake_futex(uint64_t addr, int most, uint32_t bitset);
  // A timer of ours whose signal to this thread has this value; asks for an id that the guest has no use for.
  int make_timer(int clock, uint64_t value, int id);
  void start_threads();
  void end_threads();  // fork: the child has one
  // `between`: between two instructions, not in a call.
  void pass_turn(recording::TurnReason reason, bool between);
  void pass_turn(recording::TurnReason reason) {
    pass_turn(reason, reason == recording::TurnReason::Preempted);
  }
  void preempt();
  void finish_call(Task& task);
  void arm_timer();
  void set_alarm(int64_t when);
  std::optional<size_t> choose_next(int64_t& until);  // none: nobody before this time
  void forget_timer(int id);
  // Chaos: how many of `count` bytes to ask for.
  uint64_t fewer(uint64_t nr, const uint64_t args[6]);
  bool may_be_interrupted() const;
  bool signal_waits(Task& task);
  void send_to(Task& task, const siginfo_t& info);
  void route_signals();
  void take_signal(Task& target, const siginfo_t& info);
  bool has_passed() const;
  bool add_pending(const siginfo_t& info);
  void take_passed_signals();
  void forget_signal(int signo);  // that is ignored now: those that are pending go
  int64_t do_send_signal(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  bool poke(uint64_t addr, uint32_t value);  // writes guest memory for the call under way, logged

  // record_checkpoints.cc
  static bool cpu_timers_spare_calls();
  void start_checkpoints();
  void end_checkpoints(const std::string& why);
  void await_checkpoint(double seconds) const;
  bool step_away();
  void make_checkpoint();

  // record_lodgers.cc: processes in this one's memory
  static constexpr const char* kLodgers = "a process that shares its parent's memory (clone with CLONE_VM)";
  std::optional<Begun> lodger_call(const guest::Syscall& row, uint64_t nr, const uint64_t args[6],
                                   int64_t& result);
  bool lodger_action(int signo);
  void lodger_mask(uint64_t mask);
  void end_lodger(int status, bool between);
  void release_traced(const Task& tracer);
  void drop_lost_lodgers();
  void kill_lodgers();
  Fd file_of_lodger(int fd);
  bool has_own_files_as_lodger() const;
  std::optional<int64_t> trace_thread(const uint64_t args[6]);
  std::optional<int64_t> wait_for_traced(const uint64_t args[6]);

  // record_seats.cc: threads with descriptors, a working directory or namespaces of their own
  Table table_now() const;
  void use_table(Task& from, Task& next);
  void sit_for(const Task& next);
  void leave_to_first(Body& left);
  void go_home();
  void take_timers_along();
  Body* kernel_thread_of(const Task& task) const;
  uint64_t mask_of(const Task& task) const;
  void show_mask(Task& task);
  void show_masks();
  void settle_mask();
  void quiet_bodies();
  void rouse_bodies();
  void change_home(std::unique_ptr<Body>& left, std::unique_ptr<Body> home);
  bool leave_first();
  bool leave_first_to_wait(uint64_t nr);
  bool has_own_body() const { return kernel_thread_of(turns_.current()); }
  void return_to_first();
  int64_t do_own_world(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  int64_t own_world_alone(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  void open_all_of_ours();
  bool take_own_seat(Task& task, bool own_files);
  void start_in_own_world(Task& task, uint64_t flags);
  void leave_own_files();

  // record_seccomp.cc
  bool filtered_call(uint64_t nr, const uint64_t args[6]);
  void deny(uint64_t nr, const uint64_t args[6], int64_t result);
  void trap(int nr, int detail);
  int64_t do_seccomp(uint64_t operation, uint64_t flags, uint64_t address, const guest::Syscall& row,
                     const uint64_t args[6]);
  int64_t add_filter(uint64_t flags, uint64_t address);

  // record_ptrace.cc
  int64_t do_ptrace(const guest::Syscall& row, const uint64_t args[6]);
  int64_t do_traceme(const guest::Syscall& row, const uint64_t args[6]);
  [[noreturn]] void go_native();

  // record_rights.cc
  int64_t do_namespaces(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  int64_t do_rights(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  void call_in_body(uint64_t nr, const uint64_t args[6]);
  void keep_folder();
  void use_folder(int fd);
  int folder_fd() const;  // -1: not needed so far
  void let_in(uid_t user);
  void choose_store();
  bool can_succeed() const;
  void announce_change();
  void hang_bells();

  // record_descriptors.cc
  void watch_descriptors();
  void name_channels();  // those that the program begins with
  bool move_descriptors(int least);
  void stay_ahead();
  void make_way(uint64_t number, bool exactly);

  // record_processes.cc
  struct VforkState;
  struct VforkEnd {
    uint8_t flags;  // of the Turn event
    Address pc;
  };
  int64_t do_fork(uint64_t nr, const uint64_t args[6]);
  int64_t do_vfork(uint64_t nr, const uint64_t args[6], uint64_t flags);
  static void live_as_vfork_child(void* recorder);
  std::string thread_name();
  void hold_signals();
  void become_child(uint64_t number, uint64_t parent_event, bool shares_files);
  int64_t do_exec(uint64_t nr, const uint64_t args[6]);
  bool follows(const std::string& path) const;
  void log_turn(recording::TurnReason reason, uint8_t flags, Address pc, int next);
  void save_manifest();
  void say_crash();

  // record_shared.cc
  SharedObject* shared_object(const guest::Region& region);
  bool attach(const guest::Region& region, int fd, void* alias = nullptr);
  void share(const guest::Region& region, bool outsiders);
  void start_sharing();
  bool protect(SharedObject& object, uint64_t at, uint64_t size, int prot);
  void protect_shared(SharedObject& object, uint64_t start, uint64_t end);
  void keep_apart(SharedObject& object, uint64_t page, uint64_t at);
  void set_page_rights(SharedObject& object, uint64_t page);
  void check_shared(uint64_t start, uint64_t end);
  void drop_unmapped();
  void let_go(SharedObject& object);
  bool own_page(uint64_t addr, SharedObject::Hold wanted, bool in_call);
  struct Window {
    uint64_t start, end, offset;
    int prot;
  };
  const std::vector<Window>& windows(SharedObject& object);
  bool own_alone(SharedObject& object);
  std::optional<uint64_t> address_of(SharedObject& object, uint64_t page);
  std::optional<bool> get_page(SharedObject& object, uint64_t page, SharedObject::Hold wanted);
  void own_object_page(SharedObject& object, uint64_t page);
  bool own_code(uint64_t first, uint64_t last);
  void own_range(uint64_t addr, uint64_t size, SharedObject::Hold wanted);
  void own_arguments(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  bool log_existence(SharedObject& object, uint64_t page, bool in_call);
  void log_resize(SharedObject& object, uint64_t pages, bool in_call);
  void log_shared(uint64_t addr, const unsigned char* contents, const SharedObject::Page* before,
                  bool in_call);
  void serve_shared();
  void serve_shared_at(int64_t when);
  void begin_holds();
  void grant_requests(int64_t now);
  void fall_asleep();
  void wake_up();
  void fall_asleep_for_stop();
  void serve_stop();
  void share_with_child(bool foreign_child);
  void open_to_foreigners(SharedObject& object);
  void leave_shared();
  std::string control_path(uint64_t dev, uint64_t inode) const;

  // record_outsiders.cc: shared memory that processes write which are not recorded
  struct OpenPage {
    SharedObject* object = nullptr;
    uint64_t page = 0, at = 0;                   // of the object; in the guest
    std::unique_ptr<SharedObject::Page> before;  // what it held before the guest or the kernel wrote to it
  };
  void open_object(SharedObject& object);
  void show_view(SharedObject& object);
  void open_view(SharedObject& object, const guest::Region& r, uint64_t at);
  bool refresh(OpenPage& open, uint64_t from, uint64_t to, bool in_call);
  static void keep_before(OpenPage& open);
  void refresh_last(bool in_call);
  void close_code(SharedObject& object, uint64_t page);
  void close_views();
  void open_range(SharedObject& object, const guest::Region& r, uint64_t addr, uint64_t end);
  void own_for_host(uint64_t start, uint64_t end, bool write);
  void own_operands();
  void own_frame();
  bool access_open(const engine::FaultInfo& fault);
  std::optional<engine::Stop> step_alone();
  bool takes_part(int pid) const;
  bool outsider_has(uint64_t dev, uint64_t inode) const;
  bool outsider_has_segment(int id) const;
  bool listen_to(int queue);
  void stop_listening();
  void listen_again();
  bool open_queue();
  void note_deafness();
  std::string way_to(SharedObject& object);
  void listen_for_child();
  void listen_as_child(bool shares_files);
  void forget_child();
  bool watch_opens(SharedObject& object, int fd);
  void look_for_outsiders();
  bool was_recorded(int pid);
  void let_outsiders_in(SharedObject& object);
  void become_outsider();
  void hand_out(int fd);
  void hand_out_inherited();
  void hand_out_sent(int socket, uint64_t messages, uint64_t count);
  void tell_opened(int fd);

  // record_segments.cc: System V shared memory
  struct Place {
    Tick tick;
    Address pc;
    uint32_t digest;
  };
  int64_t do_shmat(const uint64_t args[6]);
  int64_t do_shmdt(const uint64_t args[6]);
  void show_attachments(const uint64_t args[6], int64_t result);
  void change_mappings(SharedObject& object, const std::function<void()>& change);
  static void expect_attachments(const SharedObject& object, int more);
  bool has_company(SharedObject& object, Attached& last);
  bool concerns_segments(const guest::Syscall& row, const uint64_t args[6]) const;
  void watch_segment(int id);
  void look_regularly();
  void leave_for_guest();
  void look_after_guest(const std::optional<engine::Stop>& stop);
  bool look_at_segments(unsigned behind = 0);
  std::vector<std::pair<uint64_t, uint64_t>> changeable_memory();
  void log_gap(unsigned behind);

  // record_memory.cc
  int64_t do_mmap(const uint64_t args[6]);
  int64_t do_munmap(const uint64_t args[6]);
  int64_t do_mprotect(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  int64_t do_madvise(const guest::Syscall& row, const uint64_t args[6]);
  int64_t do_mremap(const uint64_t args[6]);
  void leave_behind();
  int64_t write_own_memory(const guest::Syscall& row, const uint64_t args[6]);
  bool grow_down(const engine::FaultInfo& fault);
  int descriptor_of(const guest::Region& region, Fd& opened);
  void keep_growth(const guest::Region& part, int fd);
  void log_bytes(uint64_t addr, std::span<const unsigned char> bytes);
  void log_discarded(uint64_t start, uint64_t end);
  void log_map(const guest::Region& region, const std::string& key, uint8_t event_flags = 0);
  // File contents into the store, those that are mapped at least; the key. `times_tell`: unless its times
  // have changed it has not.
  std::string keep(int fd, const recording::Extent& mapped, bool times_tell = true);

  // record_letters.cc: memory of other processes
  using Parts = std::vector<std::pair<uint64_t, uint64_t>>;  // address, length
  using Source = std::function<std::vector<char>(uint64_t from, uint64_t most)>;
  void serve_letters(bool in_call);
  uint64_t receive(uint64_t addr, std::span<const char> bytes, bool force, bool in_call);
  bool receive_in_page(uint64_t addr, std::span<const char> bytes, bool force, bool in_call);
  void log_letter(uint64_t addr, std::span<const char> bytes, bool in_call);
  bool is_dying() const;
  void let_others_work(const std::function<void()>& wait);
  std::optional<LettersTo*> letters_to(int pid);
  std::optional<uint64_t> send_letter(LettersTo& to, int pid, uint64_t addr, std::span<const char> bytes,
                                      bool force);
  int64_t write_other(LettersTo* to, int pid, uint64_t addr, const Source& bytes, uint64_t length,
                      bool force);
  bool is_own_memory(int pid) const;
  int64_t do_process_vm(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  int64_t write_process(const guest::Syscall& row, const uint64_t args[6], int pid, const Parts& local,
                        const Parts& remote);
  std::optional<int64_t> read_process(int pid, const Parts& local, const Parts& remote);
  using Letters = std::vector<std::pair<uint64_t, std::vector<char>>>;  // address, bytes
  static void show_letters(const Letters& letters, const Parts& local, const Parts& remote, uint64_t done);
  int memory_behind(int fd) const;
  std::optional<int64_t> write_memory_of(int pid, uint64_t nr, const uint64_t args[6]);
  std::map<int, std::unique_ptr<LettersTo>> letters_;  // those that were written to, by pid

  // record_live.cc: files that are mapped privately and that the program changes
  using FileId = std::pair<uint64_t, uint64_t>;  // device, inode
  struct Kept {
    uint64_t from, to;
    std::string key;
  };
  struct Live {
    std::string path;
  };
  void note_kept(const guest::Region& region, const std::string& key);
  void note_writable(int fd);
  void note_inherited_files();
  std::string new_live_name();
  void thaw(const FileId& file);
  void fill_live(int copy, const Kept& kept);
  void log_live_size(const FileId& file, uint64_t size, uint64_t offset, std::span<const char> bytes);
  static std::optional<std::vector<char>> bytes_written(uint64_t nr, const uint64_t args[6], uint64_t n);
  void change_live(const FileId& file, int fd, uint64_t size, uint64_t first, uint64_t last,
                   const std::optional<std::vector<char>>& data);
  bool map_live(const guest::Region& region, const std::string& key);
  void drop_live(const FileId& file);
  void drop_all_live();
  void copy_live_for_child();
  void use_live_as_child();
  void forget_child_live(bool born);

  // record_calls.cc: system calls that need more than the table
  int64_t special(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  void log_call(const guest::Syscall& row, uint64_t nr, const uint64_t args[6], int64_t result,
                bool buffers = true);
  int64_t execute(const guest::Syscall& row, uint64_t nr,
                  const uint64_t args[6]);  // plain, with write watches off
  int64_t unknown_call(uint64_t nr, const uint64_t args[6]);
  int64_t do_prctl(const guest::Syscall& row, const uint64_t args[6]);
  int64_t do_arch_prctl(const guest::Syscall& row, const uint64_t args[6]);
  int64_t do_set_mm(const guest::Syscall& row, const uint64_t args[6]);
  int64_t do_get_auxv(const uint64_t args[6]);
  int64_t do_set_mdwe(const uint64_t args[6]);
  bool may_be_executable(uint64_t start, uint64_t end, uint64_t prot) const;  // PR_SET_MDWE
  int64_t do_get_robust_list(const uint64_t args[6]);
  void trap(uint8_t what, bool on);  // Thread::trapped, of the current one
  bool is_trapped(engine::HostOp op);
  // The result of a sleep that a signal has ended, whose remaining time is told.
  int64_t interrupted_sleep(uint64_t nr, const uint64_t args[6], int64_t deadline);
  int64_t do_suspend(uint64_t nr, const uint64_t args[6]);
  // After a call that may have changed a file which is mapped shared: logs what the mappings show now.
  struct ChangedFile {
    int fd;
    std::pair<uint64_t, uint64_t> id;  // device, inode
    uint64_t size;
  };
  std::optional<ChangedFile> changed_file(uint64_t nr, const uint64_t args[6], int64_t result);
  static std::pair<uint64_t, uint64_t> changed_range(const ChangedFile& file, uint64_t nr,
                                                     const uint64_t args[6], int64_t result);
  bool take_part_to_write(const ChangedFile& file);
  void own_changed_file(uint64_t nr, const uint64_t args[6]);
  void log_file_change(uint64_t nr, const uint64_t args[6], int64_t result);
  void log_memory(uint64_t addr, uint64_t size, uint8_t flags = 0);

  // record_limits.cc
  int64_t do_rlimit(const guest::Syscall& row, uint64_t nr, const uint64_t args[6]);
  int64_t set_limit(uint64_t resource, guest::Limit& kept, uint64_t address);
  void fit_stack();  // makes the initial stack as large as the limits allow

  // record_files.cc
  std::string whole_path(uint64_t dirfd, const std::string& path) const;
  struct ShownFile {
    ProcFile file;
    Shown process;
    bool own = false, hidden = false;
    bool is(std::string_view name) const { return file.name == name; }
  };
  Shown shown() const;
  bool is_hidden_fd(const Shown& process, uint64_t fd) const;
  std::optional<ShownFile> shown_file(const std::string& path) const;
  std::optional<std::string> exe_behind(const std::string& path) const;
  std::optional<std::string> proc_text(const ShownFile& file) const;
  bool is_busy_program(uint64_t folder, uint64_t path, uint64_t flags) const;
  int64_t do_open(uint64_t nr, const uint64_t args[6]);
  int64_t do_readlink(uint64_t nr, const uint64_t args[6]);
  int64_t do_close_range(const uint64_t args[6]);
  std::optional<int64_t> do_stat(uint64_t nr, const uint64_t args[6]);
  int64_t shown_entries(const uint64_t args[6], int64_t size, const std::vector<char>& before);
  std::optional<int64_t> write_memory(uint64_t nr, const uint64_t args[6]);
  std::optional<std::string> words_in(const ShownFile& file) const;

  // record_map_query.cc
  int map_behind(int fd) const;
  std::optional<int64_t> query_map(const uint64_t args[6]);
  int64_t answer_query(int pid, uint64_t at, void* to, size_t size, std::vector<char>& name,
                       std::vector<char>& id);

  // record_set_mm.cc: what the program tells about its memory
  int64_t set_mm_map(uint64_t address);
  int64_t set_mm_field(uint64_t what, uint64_t address);
  int64_t set_mm_auxv(uint64_t address, uint64_t size, uint64_t copied);
  int64_t set_mm_exe(int fd);
  guest::ProgramLayout program_layout() const;

  // --- record_packing.cc ---
  void look_after_space();
  void start_packing();
  void pack_at_end();
  std::string take_space(uint64_t bytes);
  void announce(const std::string& text) const;

  RecordOptions options_;
  recording::Library library_;
  recording::Recording recording_;
  recording::Store store_;  // that of all recordings or, without the right to write that, the recording's own
  recording::Manifest manifest_;
  guest::Process process_;
  recording::Origin origin_;
  recording::Tree tree_;
  recording::LogWriter log_;
  guest::StartState start_;
  Published published_;
  uint64_t program_ =
      1;  // the log that the program began with, if this process is a fork of the one that did
  std::set<std::string> keys_, notes_;
  std::map<int, std::string> proc_folders_;                   // what was opened in /proc, by descriptor
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> shared_;  // files mapped shared: (device, inode) -> size
  std::map<FileId, std::vector<Kept>> kept_;  // of files that are or were mapped privately, oldest first
  std::set<FileId> written_files_;            // that the program has had open for writing
  std::map<FileId, Live> live_, child_live_;
  unsigned live_names_ = 0;
  std::set<std::pair<uint64_t, uint64_t>> partly_kept_;  // files of which only mapped parts are in the store
  int stderr_ = -1;                                      // our copy of it; -1: it was closed
  bool detached_ = false;                                // a forked child: runs on, unrecorded
  bool shares_files_ = false;                            // descriptors are those of another process, too
  bool files_shared_ = false;                            // … of its parent, or of a child
  bool leader_ = true;                  // the process that `record` was started for: it says the last word
  std::unique_ptr<Succession> before_;  // what execve left us
  bool pids_unshared_ = false;          // children live in another pid namespace
  bool vfork_ = false;                  // we are the child of a vfork, in our parent's memory
  std::optional<VforkEnd> vfork_end_;   // … and this is how it came to its end
  std::vector<void*> vfork_stacks_;     // by depth: a child of vfork may call it, too
  size_t vfork_depth_ = 0;
  std::string vfork_name_;              // of the next child, if it is not its parent's …
  std::array<uint64_t, 2> vfork_ids_;   // … and where the kernel writes its ids; 0: nowhere
  std::pair<uint64_t, uint64_t> root_;  // "/" when the folder was kept open
  bool watch_stack_ = false;     // limits are such that changes of the map may leave less room for the stack
  uint64_t stack_fits_ = ~0ull;  // version of the map that it was made to fit
  bool traced_ = false;          // PTRACE_TRACEME was answered with success
  int64_t started_ns_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, std::unique_ptr<SharedObject>> objects_;  // shared memory, by file
  std::vector<std::pair<SharedObject*, uint64_t>> requests_;                        // pages that others want
  std::vector<std::pair<SharedObject*, uint64_t>> fresh_;  // … that the guest got since it stopped
  uint8_t mdwe_ = 0;             // PR_SET_MDWE: memory that was writable does not become executable
  bool stop_asked_ = false;      // we are about to be stopped: between two instructions we fall asleep
  int64_t alone_again_ns_ = 0;   // when own_alone() looks again
  std::vector<Window> windows_;  // of the object that was asked for last
  const SharedObject* windows_of_ = nullptr;
  uint64_t windows_version_ = 0;
  std::vector<OpenPage> opened_;  // pages of views that the kernel, or one instruction, may touch now
  struct Watch {                  // inotify
    SharedObject* object = nullptr;
    uint32_t explained = 0;  // opens that are accounted for
    bool fresh = true;       // nobody has looked yet who had the file before
  };
  std::map<int, Watch> watches_;
  int child_queue_ = -1;  // … of the child that is being forked
  std::map<int, Watch> child_watches_;
  std::map<int, Attached> segments_;  // System V segments without outsiders, by id, as they were last
  // Where the guest was when these had no outsiders, if it has run since.
  std::optional<Place> alone_until_;
  uint64_t looked_ = 0;          // time stamp counter when we last did
  int look_timer_ = -1;          // stops the guest for another look
  std::set<int> recorded_pids_;  // of all logs up to …
  uint64_t recorded_logs_ = 0;

  std::optional<recording::CheckpointSeries> series_;  // record --checkpoints
  static constexpr int kTurnTimer = INT_MAX, kCheckpointTimer = INT_MAX - 1, kLookTimer = INT_MAX - 2;
  int checkpoint_timer_ = -1;
  double checkpoint_cpu_ = 0;            // CPU time of this thread when the last one was made
  uint64_t forks_ = 0, event_base_ = 0;  // of this process since it last became another program

  Turns turns_;
  Table table_;                 // of the threads that have none of their own, while another one has the turn
  std::unique_ptr<Body> home_;  // where the runner is usually …
  Body* seat_ = nullptr;        // … and now
  Chaos chaos_;
  uint64_t handled_ = 0;         // signals whose handlers have run
  int64_t armed_ = 0;            // when the timer fires that asks for a turn; 0: not armed
  int timer_ = -1;               // that timer; -1: none
  std::unique_ptr<Body> alarm_;  // … if the kernel makes us none
  timespec alarm_time_{};
  bool yielded_ = false;  // sched_yield: the turn goes to the next thread
  struct ThreadTimer {    // timer_create with SIGEV_THREAD_ID
    int tid, signo, id;
    uint64_t value;
  };
  std::vector<ThreadTimer> thread_timers_;
};

}  // namespace backstep::recorder
