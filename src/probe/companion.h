// Debug code that goes along with a session: built once, called as the present moves.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "probe/build.h"
#include "probe/notes.h"
#include "probe/toolchain.h"

namespace backstep::probe {

// What a user wants to go along.
struct CompanionCode {
  std::vector<Snippet> snippets;
  std::vector<SourceFile> sources;
  bool keep = false;  // its state stays what it is when the session moves to another moment
  bool any() const { return !snippets.empty() || !sources.empty(); }
};

class Companion {
 public:
  // For the program of this session's process. Throws Error, as build does.
  Companion(session::Session& session, const CompanionCode& code);

  const Built& built() const { return built_; }
  // Another process of that program can have it, too: one that was forked.
  bool fits(const session::Session& session) const;
  // From now on (Timeline::run_debug); the session must not outlive this.
  // `output`: what it prints is told, too, instead of going where the program's output goes.
  void go_along(session::Session& session, bool output, std::function<void(const Note&)> tell) const;

 private:
  TemporaryFolder folder_;
  Built built_;
  uint64_t image_;
  bool keep_;
};

}  // namespace backstep::probe
