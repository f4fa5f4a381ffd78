// Interface of the shared library that throws and catches for exceptions.cc.
#pragma once
#include <stdexcept>

struct CustomError : std::runtime_error {
  explicit CustomError(int v) : std::runtime_error("custom error"), value(v) {}
  ~CustomError() override;
  int value;
};

void throw_from_library(int value);
int catch_in_library(void (*callback)(int));
void call_through_library(void (*callback)(int), int value);
