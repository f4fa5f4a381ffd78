// The first stack of a program: what execve leaves at the stack pointer for the program's first instruction.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace backstep::guest {

struct StartStack {
  uint64_t rsp = 0;
  uint64_t arg_start = 0, env_start = 0, env_end = 0;  // the strings; arguments end where the environment is
  std::vector<std::byte> bytes;                        // [rsp, end of the stack)
};

// E2BIG as the kernel decides it: each string up to 128 KB, all of them and their pointers up to a quarter of
// the stack limit (at least 128 KB, at most 6 MB).
bool arguments_fit(const std::vector<std::string>& argv, const std::vector<std::string>& env,
                   const std::string& execfn, uint64_t stack_limit);

// `auxv` are pairs ending in AT_NULL; the values of AT_RANDOM, AT_EXECFN and AT_PLATFORM are filled in here,
// because their bytes are placed here.
StartStack build_start_stack(uint64_t stack_end, const std::vector<std::string>& argv,
                             const std::vector<std::string>& env, const std::string& execfn,
                             std::span<const std::byte, 16> random, std::vector<uint64_t>& auxv);

}  // namespace backstep::guest
