// Letters: what one recorded process wants another one to change in its memory (process_vm_writev, writes to
// /proc/PID/mem).
//
// Memory of a recorded process changes only where its log says so. So the writer does not write itself: it
// puts address and bytes into the other's *box*, a part of the file in which processes publish
// (published_file.h), and rings (a signal). The other one stops at its next instruction boundary, or wakes up
// from its wait in the kernel; makes the change as its own memory map allows; logs it there; and answers how
// many bytes it has written.
//
// A box has room for several letters. They are appended by those who hold its lock, for a moment, and
// answered in their order. A process that is stopped (SIGSTOP) cannot answer: its letters wait in the box
// until it goes on, before it executes another instruction.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "record/published.h"
#include "record/published_file.h"

namespace backstep::recorder {

struct Letter {
  uint64_t address, length;
  uint32_t life;    // the program that it is for (PublishedHead::lives)
  uint32_t force;   // 1: past the rights to the pages, as a debugger writes
  uint64_t result;  // the answer: bytes that were written
  const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
};

struct LetterBox {
  static constexpr uint64_t kHead = 64;
  uint64_t holder;            // of the lock: its pid, and the low half of its start above; 0: nobody
  uint32_t posted, served;    // letters so far; equal: there is none that has no answer
  uint32_t awaiting, resets;  // how many answers are still to be read; how often the box was emptied
  uint64_t head, tail;        // where the next letter to be served is, and the next to be posted
  uint64_t reserved[3];

  static constexpr uint64_t kRoom = kBoxSize - kHead;
  char* room() { return reinterpret_cast<char*>(this) + kHead; }
  bool has_mail() const {
    return __atomic_load_n(&posted, __ATOMIC_SEQ_CST) != __atomic_load_n(&served, __ATOMIC_SEQ_CST);
  }
  // The next letter, by who it is for; null: none.
  Letter* next();
  void answer(Letter& letter, uint64_t result);
};
static_assert(sizeof(LetterBox) == LetterBox::kHead);

LetterBox* map_box(int fd, uint64_t index);

// One process's box, for those who write to it.
class LettersTo {
 public:
  static constexpr uint64_t kMost = 64 << 10;  // bytes in one letter

  // `pid` may be that of a child of vfork: its memory is its parent's.
  LettersTo(const std::string& folder, int pid);
  ~LettersTo();
  LettersTo(const LettersTo&) = delete;
  LettersTo& operator=(const LettersTo&) = delete;

  enum class Target {
    Unknown,   // not of this recording
    Native,    // goes on without us: the kernel does it
    Starting,  // about to become another program
    Ready,
    Gone,
  };
  Target target() const;
  // The process whose memory it is.
  int owner() const { return static_cast<int>(pid_); }

  // False: the box is full, or cannot be had now.
  bool post(uint64_t address, std::span<const char> bytes, bool force);
  void ring();
  enum class Reply { None, Answered, Stopped, Gone };
  Reply look() const;
  void wait() const;  // until it is answered, for 2 ms at most
  uint64_t answer();  // … with this
  void leave();       // nobody reads the answer
  // What is to be changed and is not yet, in this order: address and bytes.
  std::vector<std::pair<uint64_t, std::vector<char>>> waiting();

 private:
  bool find(const std::string& folder, uint32_t pid);
  bool lock();
  void unlock();

  PublishedSlot* slot_ = nullptr;
  PublishedHead* head_ = nullptr;
  LetterBox* box_ = nullptr;
  uint64_t index_ = 0;  // of its slot
  uint32_t pid_ = 0;
  uint64_t started_ = 0;
  // The letter that was posted last.
  uint32_t number_ = 0, resets_ = 0, life_ = 0;
  uint64_t at_ = 0, length_ = 0;
};

}  // namespace backstep::recorder
