// gdb's `monitor` commands: moving to any moment, checkpoints, bookmarks, the last write to an address.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recording/library.h"
#include "session/session.h"
#include "timeline/moments.h"
#include "timeline/timeline.h"
#include "timeline/wall_clock.h"

namespace backstep::serve {

class Monitor {
 public:
  Monitor(session::Session& session, recording::Recording recording);

  struct Answer {
    std::string text;
    // The present is another one: gdb must be told.
    std::optional<timeline::Arrival> moved;
  };
  // Never throws for what the user typed: the answer says what is wrong.
  Answer run(const std::string& line);

  std::string where() const;  // "@TICK:0xPC, event N, 12.3 %"
  std::string when();         // … and the time of the day

 private:
  Answer go_to(const std::vector<std::string>& words, const std::string& rest);
  Answer go_to_moment(const timeline::MomentName& moment, const std::string& name);
  Answer go_to_kind(bool forward, const std::vector<std::string>& words);
  Answer go_to_quantum(bool forward);
  Answer go_to_time(int64_t ns);
  Answer go_to_query(const std::string& query);
  Answer go_to_output(const std::string& text);
  const timeline::WallClock& clock();
  timeline::Arrival at_end();
  Answer arrived(const timeline::Arrival& arrival);
  Answer last_write(const std::vector<std::string>& words);  // or change
  Answer bookmark(const std::vector<std::string>& words, const std::string& rest);
  Answer bookmarks() const;

  Answer event(const std::string& spec, bool forward);
  Answer count(const std::string& spec);
  Answer log(const std::string& rest);

  session::Session& session_;
  timeline::Timeline& timeline_ = session_.timeline();
  recording::Recording recording_;
  std::optional<timeline::WallClock> clock_;  // made when first asked for
};

// What blanks separate.
std::vector<std::string> words_of(const std::string& line);

}  // namespace backstep::serve
