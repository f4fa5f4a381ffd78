// What is to be put into a run's event database, as one writes it: the commands of Krawczuk's cdb (appendix C
// of his thesis), with the words of today beside his.
//
//   record WHO [NAME] EVENT          forget WHO [NAME] EVENT
//
// WHO is a process, one of its threads ("A/server:2") or a pattern ("*", "A/*"); NAME restricts the event to
// a channel, a variable, a label, a user event. What is no EVENT of the list is one of docs/events.md.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace backstep::cluster {

struct EventRequest {
  enum Verb : uint8_t { Record, Forget } verb = Record;
  std::string who;            // pattern of a process's name
  std::optional<int> thread;  // virtual name; none: any
  std::string name;           // empty: any
  std::string kind;           // as the table `events` has it
  // Local: found by replaying. Else the logs say it, and it is there without being recorded.
  bool local = false;
};

// Throws Error, which says what is wrong.
EventRequest parse_event_request(const std::string& text);
bool is_event_request(const std::string& text);

// Kinds that are recorded by replaying.
inline constexpr const char* kAssignment = "assignment-to-variables";
inline constexpr const char* kPointerAssignment = "assignment-to-pointers";
inline constexpr const char* kLabel = "reaching-a-label";
inline constexpr const char* kUserEvent = "user-event";
inline constexpr const char* kUserEventBegun = "user-event-begun";
inline constexpr const char* kUserEventEnded = "user-event-ended";
inline constexpr const char* kAnyEvent = "event";

}  // namespace backstep::cluster
