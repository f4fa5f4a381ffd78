#include "record/letters.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/fd.h"
#include "base/room_for_fds.h"
#include "record/life.h"
#include "record/shared_words.h"
#include "record/turns.h"
#include "recording/shared_folder.h"

namespace backstep::recorder {

namespace {

uint64_t space_of(uint64_t length) {
  return (sizeof(Letter) + length + 7) & ~7ull;
}

uint64_t key_of(uint32_t pid, uint64_t started) {
  return pid | started << 32;
}

// An existing part of the file.
void* map_there(int fd, uint64_t offset, uint64_t size) {
  struct stat st {};
  if (fstat(fd, &st) != 0 || static_cast<uint64_t>(st.st_size) < offset + size) return nullptr;
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  return p == MAP_FAILED ? nullptr : p;
}

}  // namespace

// --- who is written to ---

LetterBox* map_box(int fd, uint64_t index) {
  return static_cast<LetterBox*>(map_there(fd, box_offset(index), kBoxSize));
}

// Others write the box: what it says is looked at before it is believed.
Letter* LetterBox::next() {
  if (!has_mail()) return nullptr;
  const uint64_t at = load(head);
  if (at <= kRoom - sizeof(Letter) && at % 8 == 0) {
    auto* letter = reinterpret_cast<Letter*>(room() + at);
    if (letter->length <= LettersTo::kMost && space_of(letter->length) <= kRoom - at) return letter;
  }
  store(served, load(posted));
  return nullptr;
}

void LetterBox::answer(Letter& letter, uint64_t result) {
  letter.result = result;
  head = head + space_of(letter.length);
  __atomic_fetch_add(&served, 1, __ATOMIC_SEQ_CST);
  wake(&served);
}

// --- who writes ---

LettersTo::LettersTo(const std::string& folder, int pid) {
  RoomForFds room;
  auto of = static_cast<uint32_t>(pid);
  if (find(folder, of)) return;
  for (unsigned depth = 0; depth < PublishedHead::kVforks; depth++) {
    of = life_of(of).parent;
    if (of <= 1) return;
    if (!find(folder, of)) continue;
    const auto& children = head_->vforked;
    if (std::find(std::begin(children), std::end(children), static_cast<uint32_t>(pid)) == std::end(children))
      pid_ = 0;
    return;
  }
}

bool LettersTo::find(const std::string& folder, uint32_t pid) {
  Fd fd(recording::open_file(table_path(folder), O_RDWR | O_CLOEXEC));
  const Life life = life_of(pid);
  if (!fd || !life.started) return false;
  if (!slot_) slot_ = static_cast<PublishedSlot*>(map_there(fd.get(), 0, kTable));
  if (!slot_) return false;
  for (uint64_t i = 0; i < kSlots; i++) {
    if (load(slot_[i].pid) != pid || load(slot_[i].started) != life.started) continue;
    head_ = static_cast<PublishedHead*>(map_there(fd.get(), slot_offset(i), layout::kPage));
    box_ = static_cast<LetterBox*>(map_part(fd.get(), box_offset(i), kBoxSize));
    if (!head_ || !box_) return false;
    index_ = i;
    pid_ = pid;
    started_ = life.started;
    return true;
  }
  return false;
}

LettersTo::~LettersTo() {
  if (slot_) munmap(slot_, kTable);
  if (head_) munmap(head_, layout::kPage);
  if (box_) munmap(box_, kBoxSize);
}

LettersTo::Target LettersTo::target() const {
  if (!pid_) return Target::Unknown;
  if (load(slot_[index_].pid) != pid_ || load(slot_[index_].started) != started_) return Target::Gone;
  if (load(head_->bell)) return Target::Ready;
  return load(head_->state) == PublishedHead::Native ? Target::Native : Target::Starting;
}

// For a moment only. Who holds it may have been killed, or (µs) stopped: then nobody waits for it.
bool LettersTo::lock() {
  const auto me = static_cast<uint32_t>(getpid());
  static thread_local uint64_t own = 0;
  if (static_cast<uint32_t>(own) != me) own = key_of(me, life_of(me).started);
  constexpr int kSpins = 100, kMost = 2000;
  for (int i = 0; i < kMost; i++) {
    uint64_t holder = 0;
    if (__atomic_compare_exchange_n(&box_->holder, &holder, own, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      return true;
    if (i < kSpins) continue;
    const auto pid = static_cast<uint32_t>(holder);
    if (i % kSpins == 0 && (is_dead(pid, 0) || key_of(pid, life_of(pid).started) != holder) &&
        swap(box_->holder, holder, own))
      return true;
    usleep(50);
  }
  return false;
}

void LettersTo::unlock() {
  store(box_->holder, uint64_t{0});
}

bool LettersTo::post(uint64_t address, std::span<const char> bytes, bool force) {
  if (!lock()) return false;
  if (!box_->has_mail() && load(box_->awaiting) == 0) {
    box_->head = box_->tail = 0;
    box_->resets++;
  }
  const uint64_t at = box_->tail, space = space_of(bytes.size());
  const bool fits = at <= LetterBox::kRoom && space <= LetterBox::kRoom - at;
  if (fits) {
    auto* letter = reinterpret_cast<Letter*>(box_->room() + at);
    *letter = {address, bytes.size(), load(head_->lives), force, 0};
    std::memcpy(letter + 1, bytes.data(), bytes.size());
    at_ = at, length_ = bytes.size();
    number_ = box_->posted + 1, resets_ = box_->resets, life_ = letter->life;
    box_->tail = at + space;
    __atomic_fetch_add(&box_->awaiting, 1, __ATOMIC_SEQ_CST);
    store(box_->posted, number_);
  } else if (!box_->has_mail()) {
    // Those who should have read their answers were killed: it is emptied next time. (Who is only slow
    // notices that it was.)
    store(box_->awaiting, 0u);
  }
  unlock();
  if (fits) store(head_->letters, 1u);
  return fits;
}

void LettersTo::ring() {
  __atomic_fetch_add(&head_->callers, 1, __ATOMIC_SEQ_CST);
  if (load(slot_[index_].pid) == pid_ && load(slot_[index_].started) == started_)
    if (const uint32_t bell = load(head_->bell)) signal_runner(bell);
  __atomic_fetch_sub(&head_->callers, 1, __ATOMIC_SEQ_CST);
}

LettersTo::Reply LettersTo::look() const {
  if (load(box_->resets) != resets_ || static_cast<int32_t>(load(box_->served) - number_) >= 0)
    return Reply::Answered;
  const Life life = life_of(pid_);
  if (life.state == 'T') return Reply::Stopped;
  if (life.started != started_ || life.state == 'Z' || life.state == 'X') return Reply::Gone;
  return load(head_->lives) != life_ ? Reply::Gone : Reply::None;
}

void LettersTo::wait() const {
  const uint32_t served = load(box_->served);
  if (static_cast<int32_t>(served - number_) < 0) wait_for_change(&box_->served, served);
}

uint64_t LettersTo::answer() {
  const auto* letter = reinterpret_cast<const Letter*>(box_->room() + at_);
  const uint64_t result = std::min(letter->result, length_);
  const bool there = load(box_->resets) == resets_;
  leave();
  return there ? result : length_;
}

void LettersTo::leave() {
  if (load(box_->resets) == resets_ && load(box_->awaiting))
    __atomic_fetch_sub(&box_->awaiting, 1, __ATOMIC_SEQ_CST);
}

std::vector<std::pair<uint64_t, std::vector<char>>> LettersTo::waiting() {
  std::vector<std::pair<uint64_t, std::vector<char>>> letters;
  if (!box_->has_mail() || !lock()) return letters;
  uint64_t at = load(box_->head);
  for (uint32_t n = load(box_->served); n != load(box_->posted); n++) {
    if (at > LetterBox::kRoom - sizeof(Letter) || at % 8) break;
    const auto* letter = reinterpret_cast<const Letter*>(box_->room() + at);
    if (letter->length > kMost || space_of(letter->length) > LetterBox::kRoom - at) break;
    if (letter->life == load(head_->lives))
      letters.emplace_back(letter->address,
                           std::vector<char>(letter->bytes(), letter->bytes() + letter->length));
    at += space_of(letter->length);
  }
  unlock();
  return letters;
}

}  // namespace backstep::recorder
