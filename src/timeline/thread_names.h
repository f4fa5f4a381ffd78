// How threads were called (prctl PR_SET_NAME, pthread_setname_np) at any moment.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "timeline/log_index.h"

namespace backstep::timeline {

class ThreadNames {
 public:
  // `program`: what the first thread is called at its start.
  ThreadNames(const LogIndex& log, const std::string& program);
  // Of the thread with this virtual name, when event `event` is the next one.
  std::string at(int thread, uint64_t event) const;

 private:
  struct Named {
    uint64_t event;  // from behind this one on
    std::string name;
  };
  std::map<int, std::vector<Named>> names_;
};

}  // namespace backstep::timeline
