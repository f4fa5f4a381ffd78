// What goes wrong is an exception with a sentence that says why; where the command line would say it, too, it
// is the same.
#pragma once
#include <stdexcept>
#include <string>

#include <backstep/export.h>

namespace backstep {

class BACKSTEP_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& sentence, int code = 0);
  ~Error() override;

  // That of the protocol (docs/session-protocol.md), such as -32000: it cannot be done. 0: the session itself
  // could not be started, has ended, or an answer was asked for something that it does not have.
  int code() const { return code_; }

 private:
  int code_;
};

// What was under way was cancelled.
class BACKSTEP_API Cancelled : public Error {
 public:
  static constexpr int kCode = -32001;

  explicit Cancelled(const std::string& sentence = "cancelled");
  ~Cancelled() override;
};

}  // namespace backstep
