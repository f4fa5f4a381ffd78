// A producer that hands its rows to a callback, turned into something that is asked for the next row.
//
// Sweeps tell what they find by calling back; SQLite asks for one row after the other, and stops asking when
// it has enough. So the producer gets a thread of its own, but never runs while its consumer does: each waits
// for the other. A session, which belongs to one thread at a time, can therefore be used by several producers
// and by their consumer, in turns. (What goes on meanwhile are the replaying processes of a sweep.) A
// consumer that goes away has `put` answer false, and waits until the producer has ended.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace backstep::trace {

template <class T>
class Pull {
 public:
  using Producer = std::function<void(Pull&)>;

  explicit Pull(Producer producer) : producer_(std::move(producer)) {}
  Pull(const Pull&) = delete;
  Pull& operator=(const Pull&) = delete;
  ~Pull() {
    if (!thread_.joinable()) return;
    closing_ = true;
    while (!ended_) let_produce();
    thread_.join();
  }

  // For the consumer. Nothing: that was the last one. Throws what the producer has thrown.
  std::optional<T> next() {
    while (ready_.empty()) {
      if (ended_) {
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
        return std::nullopt;
      }
      let_produce();
    }
    T row = std::move(ready_.front());
    ready_.pop_front();
    return row;
  }

  // For the producer. False: nobody wants more. The first row goes to the consumer at once, later ones in
  // larger and larger numbers, since changing over takes as long as finding many of them.
  bool put(T row) {
    if (closing_) return false;
    if (ready_.empty()) since_ = Clock::now();
    ready_.push_back(std::move(row));
    if (ready_.size() >= batch_ || Clock::now() - since_ > kLongest) pause();
    return !closing_;
  }
  // Hands over what there is: called now and then by producers that may find nothing for a long time.
  void pause() {
    if (ready_.empty() || closing_) return;
    batch_ = std::min<size_t>(2 * batch_, kMost);
    std::unique_lock lock(mutex_);
    hand_over(false);
    changed_.wait(lock, [this] { return producing_; });
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMost = 1024;
  static constexpr std::chrono::milliseconds kLongest{20};

  void hand_over(bool to_producer) {
    producing_ = to_producer;
    changed_.notify_all();
  }
  void let_produce() {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { produce(); });
    hand_over(true);
    changed_.wait(lock, [this] { return !producing_; });
  }
  void produce() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return producing_; });
    }
    try {
      producer_(*this);
    } catch (...) {
      failure_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    hand_over(false);
  }

  Producer producer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool producing_ = false;  // whose turn it is
  // These are used by the one that has the turn.
  std::deque<T> ready_;
  size_t batch_ = 1;
  Clock::time_point since_;
  bool closing_ = false, ended_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace backstep::trace
