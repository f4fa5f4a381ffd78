// C++: threads, futures, promises, condition variables, shared locks, latches, atomic waits, thread-local
// objects with destructors, and exceptions that are thrown in one thread and caught in another.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> destroyed;
struct Local {
  std::string name = "fresh";
  ~Local() { destroyed++; }
};
static thread_local Local local;

static long sum_of(const std::vector<int>& numbers, size_t from, size_t to) {
  if (to - from < 2000) return std::accumulate(numbers.begin() + from, numbers.begin() + to, 0l);
  auto left = std::async(std::launch::async, sum_of, std::ref(numbers), from, (from + to) / 2);
  long right = sum_of(numbers, (from + to) / 2, to);
  return left.get() + right;
}

static int thrower(int n) {
  if (n == 0) throw std::runtime_error("thrown in a thread");
  return thrower(n - 1) + 1;
}

template <class T>
class Queue {
 public:
  void put(T value) {
    std::lock_guard lock(mutex_);
    items_.push_back(std::move(value));
    changed_.notify_one();
  }
  T take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !items_.empty(); });
    T value = std::move(items_.front());
    items_.pop_front();
    return value;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
};

int main() {
  std::vector<int> numbers(10000);
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<int>(i * 7919 % 10007);
  printf("sum %ld\n", sum_of(numbers, 0, numbers.size()));

  for (int i = 0; i < 3; i++) {
    auto future = std::async(std::launch::async, thrower, 10 + i);
    try {
      future.get();
      printf("not thrown\n");
    } catch (const std::exception& e) {
      printf("caught: %s\n", e.what());
    }
  }

  Queue<std::unique_ptr<std::string>> queue;
  std::thread consumer([&] {
    std::map<char, int> counts;
    while (auto text = queue.take())
      if (!text->empty()) counts[text->back()]++;
    for (auto [letter, count] : counts) printf("%c %d\n", letter, count);
  });
  {
    std::vector<std::thread> producers;
    for (int p = 0; p < 3; p++)
      producers.emplace_back([&, p] {
        for (int i = 0; i < 300; i++)
          queue.put(std::make_unique<std::string>(std::to_string(i) + char('a' + p)));
      });
    for (auto& producer : producers) producer.join();
  }
  queue.put(nullptr);
  consumer.join();

  std::shared_mutex shared;
  long a = 0, b = 0;
  std::atomic<long> mismatches{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; t++)
      threads.emplace_back([&] {
        for (int i = 0; i < 500; i++) {
          std::unique_lock lock(shared);
          a++, b++;
        }
      });
    for (int t = 0; t < 2; t++)
      threads.emplace_back([&] {
        for (int i = 0; i < 500; i++) {
          std::shared_lock lock(shared);
          if (a != b) mismatches++;
        }
      });
  }
  printf("shared %ld %ld mismatches %ld\n", a, b, mismatches.load());

  std::atomic<int> ball{0};
  std::latch all_done(2);
  std::counting_semaphore<4> semaphore(0);
  auto player = [&](int me) {
    for (int i = 0; i < 200; i++) {
      int seen;
      while ((seen = ball.load()) % 2 != me) ball.wait(seen);
      ball++;
      ball.notify_all();
    }
    semaphore.release();
    all_done.count_down();
  };
  std::thread p0(player, 0), p1(player, 1);
  all_done.wait();
  semaphore.acquire();
  semaphore.acquire();
  p0.join(), p1.join();
  printf("ball %d\n", ball.load());

  std::once_flag once;
  std::atomic<int> times{0};
  std::barrier together(4);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; t++)
      threads.emplace_back([&] {
        local.name += "!";
        together.arrive_and_wait();
        std::call_once(once, [&] { times++; });
        if (local.name != "fresh!") times += 100;
      });
  }
  printf("once %d destroyed %d\n", times.load(), destroyed.load());

  std::condition_variable_any waiting;
  std::mutex mutex;
  std::jthread stopped([&](std::stop_token token) {
    std::unique_lock lock(mutex);
    bool woken = waiting.wait(lock, token, [] { return false; });
    printf("stopped %d\n", woken);
  });
  stopped.request_stop();
  stopped.join();
  std::promise<int> promise;
  auto future = promise.get_future();
  printf("ready %d\n", future.wait_for(std::chrono::milliseconds(2)) == std::future_status::ready);
  std::jthread([&] { promise.set_value(5); }).join();
  printf("promised %d\n", future.get());
}
