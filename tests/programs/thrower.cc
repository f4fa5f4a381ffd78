// The library side of exceptions.cc: exceptions leave it, are caught in it, and pass through it.
#include "thrower.h"

#include <string>

CustomError::~CustomError() = default;

void throw_from_library(int value) {
  std::string text = "on the way";
  throw CustomError(value + static_cast<int>(text.size()) - 10);
}

int catch_in_library(void (*callback)(int)) {
  for (int i = 0; i < 10; i++) {
    try {
      callback(i);
    } catch (const CustomError& error) {
      return error.value * 100 + i;
    }
  }
  return -1;
}

void call_through_library(void (*callback)(int), int value) {
  std::string guard(64, 'g');
  callback(value);
}
