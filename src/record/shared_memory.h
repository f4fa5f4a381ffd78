// Memory that several recorded processes share, kept exact by ownership.
//
// A process may look at a shared page only while it owns it; then nobody else changes it, and everything it
// reads follows from what the page held when it was acquired and from its own stores. So what must be logged
// is the page's contents at each acquisition, and only if another process has owned the page in between.
// Pages that are not owned have no access rights in the guest; the fault of the first access acquires them,
// at an exact control point. An owner that is asked for a page (a signal) gives it back at its next
// instruction boundary. While only one process has the object mapped it owns all of it, without protection
// and at no cost.
//
// Who owns what is in a control file in the recording's folder, one per object, which all recorders map.
// Processes that are not recorded do not take part: what they change is seen by the recorded ones but not
// logged (and noted).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/context.h"

namespace backstep::recorder {

inline constexpr uint64_t kShareSignal = 0x6b63'6261'0000'0003;  // SIGTRAP's value, see body_hot.h

struct SharedPage {
  uint32_t owner;    // pid; 0: nobody
  uint32_t version;  // grows whenever an owner gives it back
  uint32_t wanted;   // how many wait for it
  uint32_t reserved;
};
struct SharedHeader {
  uint32_t alone;     // pid of the one process that has it mapped and owns all of it; 0: pages have owners
  uint32_t attached;  // processes that have it mapped
  uint32_t reserved[14];
};

class SharedObject {
 public:
  // `fd` is the file that is mapped; `bytes` how far into it. Or it is mapped already, at `alias`.
  SharedObject(const std::string& control_path, int fd, uint64_t bytes, void* alias = nullptr);
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  void extend(int fd, uint64_t bytes);  // a mapping reaches further
  bool alone() const { return alone_; }
  bool owns(uint64_t page) const { return alone_ || (page < owned_.size() && owned_[page]); }
  const std::vector<uint64_t>& owned_pages() const { return owned_list_; }
  bool wanted(uint64_t page) const;
  bool must_leave_alone() const;  // somebody else wants to map it
  const unsigned char* contents(uint64_t page) const { return alias_ + page * 4096; }
  // The same memory, always accessible: for futexes.
  uint64_t alias(uint64_t offset) const { return reinterpret_cast<uint64_t>(alias_) + offset; }

  // Gets the page; `meanwhile` is called now and then while its owner lets us wait. True: its contents may
  // have changed since this process had it.
  bool acquire(uint64_t page, const std::function<void()>& meanwhile);
  void release(uint64_t page);
  void release_all();
  void leave_alone();
  void attach_child();  // before fork, for the child; nothing is owned then
  void detach();

 private:
  bool take(uint32_t& word, uint32_t expected, uint32_t wanted);
  void ask(uint32_t pid) const;

  std::string path_;
  SharedHeader* header_ = nullptr;
  SharedPage* pages_ = nullptr;
  unsigned char* alias_ = nullptr;
  uint64_t bytes_ = 0;
  bool alone_ = false;
  std::vector<uint32_t> seen_;  // version that this process knows; kNone: none
  std::vector<bool> owned_;
  std::vector<uint64_t> owned_list_;
};

}  // namespace backstep::recorder
