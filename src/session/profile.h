// Where the ticks of a run went: stacks at every so many ticks, the same ones each time. Or where its
// instructions did: each one, counted.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "session/session.h"

namespace backstep::session {

struct Profile {
  Tick period = 0;       // 1 of instructions
  uint64_t samples = 0;  // or instructions
  uint64_t cut = 0;      // whose stack could not be followed to its end
  // Stacks, outermost first, and how many samples had them. An entry is a function or, with lines,
  // "function (file:line)". Of instructions these are only the function that has them in its code, and what
  // was inlined into that.
  std::map<std::vector<std::string>, uint64_t> stacks;
};

struct ProfileRequest {
  Tick period = 100'000;
  bool instructions = false;  // count those instead; the period does not matter then
  bool lines = false;
  Stretch stretch;
};

Profile profile(Session& session, const ProfileRequest& request, const Watcher& watcher);

struct ProfileRow {
  std::string name;
  uint64_t self = 0, total = 0;  // samples in it; in it or in what it called
};
// Most ticks of its own first.
std::vector<ProfileRow> rows_of(const Profile& profile);

}  // namespace backstep::session
