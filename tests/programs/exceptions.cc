// C++ exceptions: through several frames with destructors, rethrown, nested, caught across a shared library
// in both directions, and one caught by a base-class reference after dynamic_cast decisions.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "thrower.h"

namespace {

int alive = 0;

struct Tracker {
  Tracker() { alive++; }
  ~Tracker() { alive--; }
};

__attribute__((noinline)) int descend(int depth) {
  Tracker tracker;
  std::string text(depth, 'x');
  if (depth == 0) throw std::out_of_range("bottom");
  return descend(depth - 1) + static_cast<int>(text.size());
}

__attribute__((noinline)) int middle(int depth) {
  try {
    return descend(depth);
  } catch (const std::logic_error& error) {
    if (depth % 2) throw;
    throw std::runtime_error(std::string("translated: ") + error.what());
  }
}

void callback(int value) {
  Tracker tracker;
  if (value == 3) throw CustomError(value);
}

}  // namespace

int main() {
  int runtime = 0, range = 0;
  for (int i = 0; i < 40; i++) {
    try {
      middle(i);
    } catch (const std::out_of_range&) {
      range++;
    } catch (const std::runtime_error& error) {
      runtime++;
      if (i == 10) std::puts(error.what());
    }
  }
  std::printf("out_of_range %d runtime_error %d alive %d\n", range, runtime, alive);

  try {
    throw_from_library(7);
  } catch (const CustomError& error) {
    std::printf("from the library: %d\n", error.value);
  }
  std::printf("library caught: %d\n", catch_in_library(callback));
  try {
    call_through_library(callback, 3);
  } catch (const std::exception& error) {
    std::printf("through the library: %s, alive %d\n", error.what(), alive);
  }
  std::vector<std::exception_ptr> kept;
  for (int i = 0; i < 3; i++) {
    try {
      throw_from_library(i);
    } catch (...) {
      kept.push_back(std::current_exception());
    }
  }
  for (auto& pointer : kept) {
    try {
      std::rethrow_exception(pointer);
    } catch (const CustomError& error) {
      std::printf("kept %d\n", error.value);
    }
  }
  return alive;
}
