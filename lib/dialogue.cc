// One request is under way at a time: the session answers in the order of the requests anyway, and so a
// cancellation always finds what it means. A request that comes while a stream is still open first reads what
// is left of that, into the stream's own queue; one whose asker has gone is cancelled, and what is left of it
// dropped, by whoever asks next. (Nobody waits for that in a destructor.)
#include "dialogue.h"

#include <utility>

#include <backstep/error.h>

namespace backstep {

Request::Request(std::shared_ptr<Dialogue> dialogue, std::uint64_t id, std::string kind)
    : dialogue_(std::move(dialogue)), id_(id), kind_(std::move(kind)) {}

Request::~Request() {
  dialogue_->give_up(*this);
}

std::optional<Data> Request::next() {
  while (waiting_.empty() && !answer_) dialogue_->receive();
  if (!waiting_.empty()) {
    std::optional<Data> first(std::move(waiting_.front()));
    waiting_.pop_front();
    return first;
  }
  const Data* found = answer_->find("error");
  if (!found) return std::nullopt;
  const Data error = *found;
  answer_ = Data::Structure{{"result", {}}};
  const std::string& sentence = error["message"].text();
  const auto code = static_cast<int>(error["code"].number());
  if (code == Cancelled::kCode) throw Cancelled(sentence);
  throw Error(sentence, code);
}

Data Request::result() {
  while (next()) continue;
  return (*answer_)["result"];
}

std::unique_ptr<Request> Dialogue::begin(const std::string& method, const Data::Structure& params,
                                         const std::string& kind) {
  bool cancelled_before;
  {
    const std::lock_guard lock(mutex_);
    cancelled_before = cancelled_;
  }
  while (under_way_) receive();
  if (!over_.empty()) throw Error(over_);
  auto request = std::make_unique<Request>(shared_from_this(), ++last_id_, kind);
  const std::lock_guard lock(mutex_);
  if (cancelled_ && !cancelled_before) {  // while this one waited for its turn
    cancelled_ = false;
    throw Cancelled();
  }
  cancelled_ = false;
  asker_ = request.get();
  under_way_ = request->id_;
  child_.put(
      Data(Data::Structure{{"jsonrpc", "2.0"}, {"id", request->id_}, {"method", method}, {"params", params}})
          .json());
  return request;
}

void Dialogue::receive() {
  if (!over_.empty()) throw Error(over_);
  const auto line = child_.next();
  if (!line) over(child_.last_words());
  Data message;
  try {
    message = Data::from_json(*line);
    const Data* method = message.find("method");
    if (!method) {
      const Data& id = message["id"];
      const std::lock_guard lock(mutex_);
      if (id != under_way_) return;
      under_way_ = 0;
      if (asker_) std::exchange(asker_, nullptr)->answer_ = std::move(message);
      return;
    }
    if (message["params"]["id"] != under_way_ || !asker_) return;
  } catch (const Error&) {
    over("what was started is no session of Backstep; it says: " + line->substr(0, 200));
  }
  notified(message["method"].text(), message["params"]);
}

void Dialogue::notified(const std::string& method, const Data& params) {
  if (method == asker_->kind_) {
    asker_->waiting_.push_back(params);
  } else if (method == "progress" && on_progress) {
    on_progress(params["done"].real());
  } else if (method == "note" && on_note) {
    on_note(params["text"].text());
  } else if (method == "debug" && on_debug) {
    on_debug(params);
  }
}

void Dialogue::put_cancel() {
  // It has no id of its own, so it is not answered.
  child_.put(
      Data(Data::Structure{
               {"jsonrpc", "2.0"}, {"method", "cancel"}, {"params", Data::Structure{{"id", under_way_}}}})
          .json());
}

void Dialogue::cancel() {
  const std::lock_guard lock(mutex_);
  if (!under_way_ || cancelled_) return;
  cancelled_ = true;
  put_cancel();
}

void Dialogue::give_up(const Request& request) noexcept try {
  if (asker_ != &request) return;
  asker_ = nullptr;
  const std::lock_guard lock(mutex_);
  if (under_way_ && !cancelled_) put_cancel();
} catch (const std::exception&) {
  // Then it is not cancelled, and only takes longer.
}

void Dialogue::over(const std::string& sentence) {
  over_ = sentence;
  close();
  throw Error(sentence);
}

void Dialogue::close() {
  if (over_.empty()) over_ = "the session is closed";
  const std::lock_guard lock(mutex_);
  under_way_ = 0;
  asker_ = nullptr;
  child_.end();
}

}  // namespace backstep
