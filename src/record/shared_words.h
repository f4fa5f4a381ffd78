// The words of control files (shared_memory.h), as all recorders change them; and how they call each other.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <ctime>
#include <string>

#include "record/shared_memory.h"

namespace backstep::recorder {

inline constexpr uint32_t kOpen = 0x3f'ffff;  // as the writer of a page: it is open
inline constexpr uint64_t kReaders = (1ull << SharedHeader::kSeats) - 1;
// How long to wait for a process that cannot be looked at (live_in_foreign_namespace).
inline constexpr int64_t kForeignPatience = 3'000'000'000;

inline void wait_for_change(uint32_t* word, uint32_t value) {
  timespec most{0, 2'000'000};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &most, nullptr, 0);
}
inline void wake(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
template <class T>
T load(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
}
template <class T>
void store(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
}
template <class T>
bool swap(T& word, T expected, T wanted) {
  return __atomic_compare_exchange_n(&word, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
inline uint32_t writer_of(uint64_t state) {
  return static_cast<uint32_t>(state >> SharedHeader::kSeats);
}
inline uint64_t with_writer(uint64_t state, uint32_t pid) {
  return (state & kReaders) | static_cast<uint64_t>(pid) << SharedHeader::kSeats;
}

// To the thread that runs the guest, which is the first: a body could do nothing about it.
bool signal_runner(uint32_t pid);
// By a signal, or, if it is another user's, by the bell.
void call(uint32_t pid, const std::string& control);

}  // namespace backstep::recorder
