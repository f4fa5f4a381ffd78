// What a function of the program writes to the guest's memory when debug code calls it is put back
// afterwards.
#pragma once
#include <map>
#include <vector>

#include "engine/hooks.h"
#include "guest/process.h"

namespace backstep::replayer {

class UndoneWrites {
 public:
  explicit UndoneWrites(guest::Process& process) : process_(process) {}

  bool watching() const { return watching_; }
  // From here on the guest's memory is read-only …
  void begin();
  // … and a page is kept and opened when it is written to: by an instruction, which is begun again if this
  // was the reason of the fault, or by us. False: the guest has no writable memory there.
  bool open(const engine::FaultInfo& fault);
  bool open(Address start, uint64_t length);
  // All is as it was.
  void finish();

 private:
  bool open_page(Address page);
  void restore_protection();

  guest::Process& process_;
  bool watching_ = false;
  std::map<Address, std::vector<uint8_t>> kept_;
};

}  // namespace backstep::replayer
