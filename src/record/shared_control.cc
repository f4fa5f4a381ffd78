// Control files of shared memory that this process has not mapped (shared_memory.h): who else has the object,
// and how they are told what happens to it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/fd.h"
#include "record/life.h"
#include "record/shared_words.h"
#include "record/turns.h"
#include "recording/shared_folder.h"

namespace backstep::recorder::shared_control {

// Maps the head of a control file for a scope; null: there is none, or nobody is attached (unless `any`).
struct Head {
  SharedHeader* header = nullptr;
  explicit Head(const std::string& path, bool any = false) {
    Fd file(recording::open_file(path, O_RDWR | O_CLOEXEC));
    // Who makes one has made the file before it has its size.
    struct stat st {};
    if (!file || fstat(file.get(), &st) != 0 || static_cast<size_t>(st.st_size) < sizeof(SharedHeader))
      return;
    void* p = mmap(nullptr, sizeof(SharedHeader), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (p == MAP_FAILED) return;
    header = static_cast<SharedHeader*>(p);
    const uint32_t attached = load(header->attached);
    if (any || (attached != 0 && attached != SharedHeader::kGivenUp)) return;
    munmap(header, sizeof *header);
    header = nullptr;
  }
  ~Head() {
    if (header) munmap(header, sizeof *header);
  }
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;
};

void count_open(const std::string& path) {
  if (Head head(path); head.header) __atomic_fetch_add(&head.header->known_opens, 1, __ATOMIC_SEQ_CST);
}

uint64_t extent(const std::string& path) {
  const Head head(path);
  return head.header ? load(head.header->extent) : 0;
}

bool is_open(const std::string& path) {
  const Head head(path);
  return head.header && load(head.header->open);
}

void open_to_writer(const std::string& path) {
  Head head(path);
  if (!head.header) return;
  __atomic_store_n(&head.header->open, 1, __ATOMIC_SEQ_CST);
  const auto me = static_cast<uint32_t>(getpid());
  const int64_t until = monotonic_ns() + kForeignPatience;
  for (Seat& seat : head.header->seats) {
    for (int i = 0;; i++) {
      const uint32_t pid = load(seat.pid);
      // Who sleeps looks at the flag when it wakes up.
      if (pid == 0 || (!is_foreign() && pid == me) || load(seat.viewing) || load(seat.asleep)) break;
      if (i % 100 == 0) {
        if (is_foreign() ? monotonic_ns() > until : is_dead(pid, load(seat.started))) break;
        call(pid, path);
      }
      usleep(20);
    }
  }
}

namespace {

std::vector<std::string> control_files(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with("shared-")) paths.push_back(entry.path());
  return paths;
}

}  // namespace

// True: all that are meant and can answer have answered. `remind`: signals can get lost behind others.
bool BeforeStop::ask(const std::function<bool(uint32_t)>& meant, bool remind, bool patient) {
  const auto me = static_cast<uint32_t>(getpid());
  bool all = true;
  for (const auto& head : heads_)
    for (Seat& seat : head->header->seats) {
      const uint32_t pid = load(seat.pid);
      if (pid == 0 || pid == me || load(seat.stopping) == kStopAwaited || !meant(pid)) continue;
      const Life life = life_of(pid);
      if (life.state == 'T' || is_dead(pid, 0)) continue;
      // Not the one that has the seat, or that one is just sitting down.
      if (life.started != load(seat.started)) {
        all &= !patient;
        continue;
      }
      all = false;
      const bool fresh = swap(seat.stopping, uint32_t{kNotStopping}, uint32_t{kStopAsked});
      if (fresh) seats_.emplace_back(&seat, pid);
      if (fresh || remind) signal_runner(pid);
    }
  return all;
}

BeforeStop::BeforeStop(const std::string& folder, const std::function<bool(uint32_t)>& meant) {
  if (is_foreign()) return;
  for (const std::string& path : control_files(folder))
    if (auto head = std::make_unique<Head>(path); head->header) heads_.push_back(std::move(head));
  constexpr int64_t kMost = 2'000'000'000, kRemind = 1'000'000, kSitDown = 10'000'000;
  const int64_t start = monotonic_ns();
  // Again and again: others may have been forked meanwhile.
  for (int64_t now = start, last = start; now < start + kMost; now = monotonic_ns()) {
    const bool remind = now > last + kRemind;
    if (ask(meant, remind, now < start + kSitDown)) break;
    if (remind) last = now;
    usleep(20);
  }
}

BeforeStop::~BeforeStop() {
  for (auto [seat, pid] : seats_) {
    if (load(seat->pid) != pid) continue;
    __atomic_store_n(&seat->stopping, kNotStopping, __ATOMIC_SEQ_CST);
    wake(&seat->stopping);
  }
}

void clean(const std::string& folder) {
  for (const std::string& path : control_files(folder)) {
    const Head head(path, true);
    if (!head.header) continue;
    const uint32_t attached = load(head.header->attached);
    const bool used = std::any_of(
        std::begin(head.header->seats), std::end(head.header->seats),
        [](const Seat& seat) { return load(seat.pid) != 0 && !is_dead(load(seat.pid), load(seat.started)); });
    if (!used && swap(head.header->attached, attached, SharedHeader::kGivenUp)) unlink(path.c_str());
  }
}

}  // namespace backstep::recorder::shared_control
