// What the recorded program did with its heap: each block that it was given, when it gave it back, and where
// the two do not fit.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "session/known_calls.h"

namespace backstep::session {

// What has to be given back how: memory of `new` to `delete`.
enum class HeapFamily : uint8_t { Malloc, New, NewArray };

struct HeapFunction {
  enum Kind : uint8_t { Allocate, Resize, Free } kind;
  const char* symbol;
  const char* name;  // as people write it
  HeapFamily family;
  // Allocate, Resize: the product of these arguments is the size. Free: the one that says it, if any does.
  int size_arg = -1, count_arg = -1;
  bool by_pointer = false;  // the result is where its first argument points to (posix_memalign)
  bool local = false;       // ld.so's own, for as long as there is no libc
  bool cleared = false;     // what it gives is 0
};
const std::vector<HeapFunction>& heap_functions();

// Where and by whom something was done.
struct HeapDeed {
  Position at;    // the first instruction of the function
  Tick done = 0;  // the tick in which it returned; of one that frees, the same as that of `at`
  int thread = 1;
  const HeapFunction* function = nullptr;
  Address caller = 0;  // the return address
};

struct HeapBlock {
  uint64_t number = 0;  // in the order in which they were allocated, from 1 on
  Address address = 0;  // 0: the call failed
  uint64_t size = 0;
  HeapDeed allocated;
  std::optional<HeapDeed> freed;
  uint64_t resized_from = 0, resized_to = 0;  // numbers: realloc
  bool reused = false;  // not freed by any function that we know, but its memory was given out again
  bool failed() const { return address == 0; }
  // Counts `size` 0 as one byte, so that no two blocks are at the same place.
  bool holds(Address a) const { return a >= address && a - address < std::max<uint64_t>(size, 1); }
};

struct HeapError {
  enum Kind : uint8_t { DoubleFree, BadFree, Mismatch, WrongSize } kind = BadFree;
  HeapDeed deed;
  Address address = 0;
  uint64_t size = 0;  // WrongSize: that was said
  std::optional<HeapBlock>
      block;  // the one that it is or was; BadFree: the one that the address is inside of
};
const char* heap_error_name(HeapError::Kind kind);

struct HeapListener {
  // Each block when nothing more is to be known of it: when it has been freed, or at the end. Those come
  // last, in the order in which they were allocated. False: enough.
  std::function<bool(const HeapBlock&)> block;
  std::function<void(const HeapError&)> error;
  // Bytes that are allocated, whenever there are more of them than ever before.
  std::function<void(uint64_t bytes, const Position& at)> peak;
  // A call of one of the functions is over, on this thread: [enter, leave] in ticks, both ends included.
  std::function<void(int thread, Tick enter, Tick leave)> inside;
};

struct HeapRequest {
  std::optional<Position> to;  // up to where; the beginning is always that of the first ancestor by fork
  std::optional<Tick> last;    // calls of later ticks do not matter, unless they free
  bool frees = true;           // … and those do not either
  bool failures = false;       // calls that failed are blocks at 0
};

// False: it was not gone through to the end. A program that has none of the functions has no heap.
bool heap(Session& session, const HeapRequest& request, const HeapListener& listener, const Watcher& watcher);

}  // namespace backstep::session
