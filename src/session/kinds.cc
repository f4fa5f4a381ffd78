// The table of all kinds of events, and what they make taps with.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "session/kind.h"
#include "session/session.h"

namespace backstep::session {

extern const KindOfEvent kPlainPlace, kPlace, kCall, kReturn, kWrite, kChange, kRead, kAccess, kSyscall,
    kSignal, kThread, kFork, kExec, kOutput, kTick, kPoint, kMoment, kEvery;

namespace {

using timeline::Tap;

constexpr size_t kMostPlaces = 100'000;  // of one event

const std::array kKinds{
    &kPlainPlace, &kPlace,                       // kind_place.cc
    &kCall,       &kReturn,                      // kind_function.cc
    &kWrite,      &kChange, &kRead,   &kAccess,  // kind_data.cc
    &kSyscall,                                   // kind_syscall.cc
    &kSignal,                                    // kind_signal.cc
    &kThread,     &kFork,   &kExec,              // kind_process.cc
    &kOutput,                                    // kind_output.cc
    &kTick,       &kPoint,  &kMoment,            // kind_moment.cc
    &kEvery,                                     // kind_every.cc
};

}  // namespace

events::Forms event_forms() {
  static const auto forms = [] {
    std::array<const events::Form*, kKinds.size()> list;
    std::copy(kKinds.begin(), kKinds.end(), list.begin());
    return list;
  }();
  return forms;
}

const KindOfEvent& kind_of(const events::Spec& spec) {
  return static_cast<const KindOfEvent&>(*spec.kind);
}

events::Event parse_event(const std::string& text) {
  return events::parse(text, event_forms());
}

const timeline::LogIndex& Resolving::log() const {
  return session.timeline().log();
}

const symbols::Program& Resolving::program() const {
  return session.program();
}

ResolvedTap& Resolving::tap(Tap::Kind kind) {
  ResolvedTap& r = result.taps.emplace_back();
  r.tap.kind = kind;
  return r;
}

ResolvedTap& Resolving::code(Address pc) {
  if (result.taps.size() >= kMostPlaces)
    throw Error(fmt::format("'{}' is more than {} places in the code", text, kMostPlaces), kExitUsage);
  ResolvedTap& r = tap(Tap::Pc);
  r.tap.start = r.pc = pc;
  return r;
}

ResolvedTap& Resolving::at(const std::vector<timeline::Moment>& moments) {
  ResolvedTap& r = tap(Tap::Moment);
  for (const timeline::Moment& m : moments) r.tap.moments.push_back({m.position(), m.event});
  return r;
}

ResolvedTap& Resolving::at(const timeline::Position& position) {
  ResolvedTap& r = tap(Tap::Moment);
  r.tap.moments = {{position, 0}};
  return r;
}

ResolvedTap& Resolving::of_log(Tap::Kind kind) {
  ResolvedTap& r = tap(kind);
  r.tap.since = log().own();
  return r;
}

std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); i++)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

std::string did_you_mean(const std::vector<std::string>& near) {
  return near.empty() ? "" : "; did you mean " + alternatives(near) + "?";
}

}  // namespace backstep::session
