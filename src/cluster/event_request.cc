#include "cluster/event_request.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace backstep::cluster {
namespace {

struct EventWord {
  const char* word;
  const char* kind;
  bool local;
};

// The thesis's words, and ours for the same.
constexpr EventWord kEventWords[] = {
    {"create-task", "process-begins", false},
    {"process-begins", "process-begins", false},
    {"destroy-task", "process-[ad]*", false},
    {"task-done", "process-done", false},
    {"process-done", "process-done", false},
    {"task-aborted", "process-aborted", false},
    {"process-aborted", "process-aborted", false},
    {"create-thread", "thread-begins", false},
    {"thread-begins", "thread-begins", false},
    {"destroy-thread", "thread-done", false},
    {"thread-done", "thread-done", false},
    {"port-creation", "channel-creation", false},
    {"channel-creation", "channel-creation", false},
    {"port-destruction", "channel-destruction", false},
    {"channel-destruction", "channel-destruction", false},
    {"message-transmission", "message-transmission", false},
    {"message-reception", "message-reception", false},
    {"port-set-create", "set-creation", false},
    {"port-set-delete", "set-destruction", false},
    {"port-set-add-port", "set-adds", false},
    {"port-set-remove-port", "set-removes", false},
    {"user-event", kUserEvent, true},
    {"user-event-begun", kUserEventBegun, true},
    {"user-event-end", kUserEventEnded, true},
    {"user-event-ended", kUserEventEnded, true},
    {"assignment-to-variables", kAssignment, true},
    {"assignment-to-pointers", kPointerAssignment, true},
    {"reaching-a-label", kLabel, true},
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find_first_not_of(" \t\n", at);
    if (begin == std::string::npos) break;
    at = std::min(text.find_first_of(" \t\n", begin), text.size());
    words.push_back(text.substr(begin, at - begin));
  }
  return words;
}

std::string joined(const std::vector<std::string>& words, size_t from, size_t to) {
  std::string text;
  for (size_t i = from; i < to; i++) text += (text.empty() ? "" : " ") + words[i];
  return text;
}

// "A/server:2" is a thread of it.
void take_who(EventRequest& request, const std::string& word) {
  request.who = word;
  const size_t colon = word.rfind(':');
  if (colon == std::string::npos || colon + 1 == word.size() || word.size() - colon > 7 ||
      !std::all_of(word.begin() + static_cast<ptrdiff_t>(colon) + 1, word.end(),
                   [](unsigned char c) { return std::isdigit(c); }))
    return;
  request.who = word.substr(0, colon);
  request.thread = std::stoi(word.substr(colon + 1));
}

}  // namespace

bool is_event_request(const std::string& text) {
  return text == "record" || text == "forget" || text.starts_with("record ") || text.starts_with("forget ");
}

EventRequest parse_event_request(const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  if (words.size() < 3 || !is_event_request(words[0]))
    throw Error(
        "what is to be recorded, and of whom? For example: 'record A/server balance "
        "assignment-to-variables', "
        "'record * user-event'",
        kExitUsage);
  EventRequest request;
  request.verb = words[0] == "record" ? EventRequest::Record : EventRequest::Forget;
  take_who(request, words[1]);
  const auto* known = std::find_if(std::begin(kEventWords), std::end(kEventWords),
                                   [&](const EventWord& w) { return words.back() == w.word; });
  if (known == std::end(kEventWords)) {
    request.kind = kAnyEvent, request.local = true;
    request.name = joined(words, 2, words.size());
    return request;
  }
  request.kind = known->kind, request.local = known->local;
  request.name = joined(words, 2, words.size() - 1);
  const bool needs_name =
      request.verb == EventRequest::Record &&
      (request.kind == kAssignment || request.kind == kPointerAssignment || request.kind == kLabel);
  if (request.name.empty() && needs_name)
    throw Error(fmt::format("{0} of what? For example: 'record {1} {2} {0}'", words.back(), words[1],
                            request.kind == kLabel ? "server.c:120" : "balance"),
                kExitUsage);
  return request;
}

}  // namespace backstep::cluster
