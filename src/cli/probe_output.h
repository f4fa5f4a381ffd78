// What debug code says while it runs, as `backstep probe` prints it.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cli/asking.h"
#include "probe/run.h"

namespace backstep::cli {

class ProbeOutput {
 public:
  struct Options {
    bool json = false;  // one object per line
    bool tag = false;   // the control point and the thread in front of each line
    std::optional<session::AskedProcess> process = {};  // one of several: its name is said first
  };
  ProbeOutput(Options options, session::Session& session, recording::Recording recording, ProgressBar& bar)
      : options_(options), session_(session), recording_(std::move(recording)), bar_(bar) {}

  // False: enough; the debug code wants to stop, or nobody reads what we print.
  bool tell(const probe::Note& note);
  // How many calls have failed.
  void sum_up() const;
  bool failed() const { return failures_ > 0; }

 private:
  bool tell_title();
  bool tell_json(const probe::Note& note) const;
  bool tell_text(const probe::Note& note, FILE* to, bool& at_begin) const;
  void tell_failure(const probe::Note& note);
  void mark(const probe::Note& note) const;

  Options options_;
  session::Session& session_;
  recording::Recording recording_;
  ProgressBar& bar_;
  bool out_at_begin_ = true, errors_at_begin_ = true;  // of a line
  bool titled_ = false;
  uint64_t failures_ = 0;
  std::map<std::string, uint64_t> told_;  // how often calls were ended at each line
};

}  // namespace backstep::cli
