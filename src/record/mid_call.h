// The current thread is in a system call that the recorder is still at, before it waits or has a result: a
// signal that ends the process now ends it in that call, at its instruction, and not behind it.
#pragma once

namespace backstep::recorder {

class MidCall {
 public:
  MidCall() : before_(now) { now = true; }
  ~MidCall() { now = before_; }
  MidCall(const MidCall&) = delete;
  MidCall& operator=(const MidCall&) = delete;

  static inline bool now = false;

 private:
  const bool before_;
};

}  // namespace backstep::recorder
