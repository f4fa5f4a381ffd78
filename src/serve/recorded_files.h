// The program's files as they were: what gdb opens "on the target" comes from the recording's store.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/fd.h"
#include "recording/library.h"
#include "timeline/log_index.h"

namespace backstep::serve {

class RecordedFiles {
 public:
  RecordedFiles(recording::Library library, recording::Recording recording);
  // From now on it is about the files that this process mapped. What is open stays open.
  void of(const timeline::LogIndex& log);

  // Answers a packet that starts with "vFile:"; `request` is what follows.
  std::string answer(std::string_view request);
  // Path of the stored contents; empty: that file was not mapped.
  std::string stored(const std::string& path) const;
  void close_all() { open_.clear(); }
  // Files that exist only while they are asked for: their contents by path, nullopt where there is none.
  std::function<std::optional<std::string>(const std::string& path)> made_up;
  std::function<std::optional<std::string>(const std::string& path)> made_up_link;

 private:
  recording::Library library_;
  recording::Recording recording_;
  std::map<std::string, std::string> keys_;        // path -> key
  std::multimap<std::string, std::string> names_;  // last part of the path -> key
  std::map<int, Fd> open_;
  int next_ = 3;
};

}  // namespace backstep::serve
