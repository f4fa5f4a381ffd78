// How the translator is to work. None of this changes what a program computes or at which tick: the tests
// run the same program under extreme settings and compare.
#pragma once
#include <cstdint>
#include <string>

namespace backstep {

struct EngineOptions {
  enum class Counter {
    Auto,    // Vector where the CPU has AVX-512, else Memory
    Vector,  // ticks are counted in a vector register that the guest does not see
    Memory,  // ticks are counted in memory
  };

  uint64_t cache_size = 256ull << 20;  // bytes of code cache before it is flushed
  bool links = true;                   // direct branches jump to each other without going through dispatch
  unsigned max_block = 64;             // instructions per block at most
  Counter counter = Counter::Auto;
  std::string translations;  // folder to keep translations in; empty: they end with the process
  bool statistics = false;   // say at the end what the translator did
  bool check_ticks = false;  // instrument every block to check the counter against the dispatcher's own count
};

}  // namespace backstep
