// Copies of a call's buffers, for a body to wait with while other threads use the guest's memory.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "guest/process.h"
#include "guest/syscall_table.h"

namespace backstep::recorder {

class Scratch {
 public:
  // Copies what the call reads and makes room for what it writes. False: a pointer is bad or its meaning not
  // known; the call is then made as it is.
  bool make(const guest::Syscall& row, uint64_t nr, const uint64_t args[6], guest::Process& process);
  // The arguments, with pointers to the copies.
  uint64_t* args() { return args_; }
  // Copies what the kernel wrote into guest memory.
  void give_back(const guest::Syscall& row, uint64_t nr, int64_t result, const uint64_t counts[6],
                 guest::Process& process) const;
  void clear();

 private:
  struct Part {
    uint64_t guest, size;
    std::unique_ptr<unsigned char[]> bytes;
    uint64_t copy() const { return reinterpret_cast<uint64_t>(bytes.get()); }
  };
  enum Use { kIn, kOut, kInOut };
  uint64_t add(uint64_t guest, uint64_t size, Use use, guest::Process& process);  // 0: not possible
  uint64_t add_iovecs(uint64_t iov, uint64_t count, Use use, guest::Process& process);
  bool fix_message(uint64_t copy, Use use, guest::Process& process);

  std::vector<Part> parts_;
  uint64_t args_[6] = {};
};

}  // namespace backstep::recorder
