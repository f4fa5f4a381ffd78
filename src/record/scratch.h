// Copies of a call's buffers, for a body to wait with while other threads use the guest's memory.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "guest/process.h"
#include "guest/syscall_table.h"

namespace backstep::recorder {

class Scratch {
 public:
  // Copies what the call reads and makes room for what it writes. Where the guest's memory ends or has no
  // rights, so do the copies: the kernel answers bad pointers as it would answer the guest's. False: the
  // meaning of a pointer is not known; the call is then made as it is.
  bool make(const guest::Syscall& row, uint64_t nr, const uint64_t args[6], guest::Process& process);
  // The arguments, with pointers to the copies.
  uint64_t* args() { return args_; }
  // Copies what the kernel wrote into guest memory.
  void give_back(const guest::Syscall& row, uint64_t nr, int64_t result, const uint64_t counts[6],
                 guest::Process& process) const;
  void clear();

 private:
  struct Unmap {
    size_t size;
    void operator()(unsigned char* at) const;
  };
  struct Part {
    uint64_t guest, size;                         // what there is of it
    std::unique_ptr<unsigned char[]> bytes;       // the copy, or …
    std::unique_ptr<unsigned char, Unmap> pages;  // … whole pages with the rights that the guest's have
    uint64_t at;                                  // where the copy begins
    bool covers(uint64_t addr, uint64_t n) const {
      return addr >= at && addr - at <= size && n <= size - (addr - at);
    }
  };
  // kOut: what is given back is what the kernel wrote, unless it met a bad pointer.
  enum Use { kIn, kOut, kInOut };
  uint64_t add(uint64_t guest, uint64_t size, Use use, guest::Process& process);  // 0: not possible
  uint64_t mirror(uint64_t guest, uint64_t size, Use use, const guest::Process& process);
  uint64_t add_iovecs(uint64_t iov, uint64_t count, Use use, guest::Process& process);
  bool fix_message(uint64_t copy, Use use, guest::Process& process);
  bool covered(uint64_t copy, uint64_t n) const;

  std::vector<Part> parts_;
  std::vector<std::pair<unsigned char*, size_t>> constant_;  // copies of pages that are read-only
  uint64_t args_[6] = {};
};

}  // namespace backstep::recorder
