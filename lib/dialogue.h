// Questions to a session and their answers, as docs/session-protocol.md has them.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <backstep/data.h>

#include "child.h"

namespace backstep {

class Dialogue;

// One question. What goes before it has been answered cancels it.
class Request {
 public:
  Request(std::shared_ptr<Dialogue> dialogue, std::uint64_t id, std::string kind);
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request();

  // The next notification of its kind (`hit`, `call`), waited for; none: that was the last one. The request's
  // error is thrown, once, behind all that came before it.
  std::optional<Data> next();
  // Without looking at notifications.
  Data result();

 private:
  friend class Dialogue;
  std::shared_ptr<Dialogue> dialogue_;
  std::uint64_t id_;
  std::string kind_;
  std::deque<Data> waiting_;
  std::optional<Data> answer_;  // with "result" or "error"
};

class Dialogue : public std::enable_shared_from_this<Dialogue> {
 public:
  Dialogue(const std::string& program, const std::vector<std::string>& args) : child_(program, args) {}

  // `kind`: the notifications that are wanted. Whatever is under way comes to its end first.
  std::unique_ptr<Request> begin(const std::string& method, const Data::Structure& params,
                                 const std::string& kind = {});
  Data ask(const std::string& method, const Data::Structure& params = {}) {
    return begin(method, params)->result();
  }
  void cancel();  // by any thread
  void close();

  std::function<void(double)> on_progress;
  std::function<void(const std::string&)> on_note;
  std::function<void(const Data&)> on_debug;
  std::string version;

 private:
  friend class Request;
  void receive();  // one message, which goes to whom it belongs
  void notified(const std::string& method, const Data& params);
  void give_up(const Request& request) noexcept;
  void put_cancel();
  [[noreturn]] void over(const std::string& sentence);

  Child child_;
  std::string over_;  // not empty: it has ended, and this is why
  std::uint64_t last_id_ = 0;
  Request* asker_ = nullptr;  // of what is under way; null: nothing is, or nobody wants it any more

  std::mutex mutex_;             // of what follows, and of what is written to the child
  std::uint64_t under_way_ = 0;  // 0: nothing
  bool cancelled_ = false;       // what is under way, by cancel()
};

}  // namespace backstep
