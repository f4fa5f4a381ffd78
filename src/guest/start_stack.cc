// The kernel's layout, from the top down:
//
//   end - 8   a null word
//             the file name given to execve (AT_EXECFN)
//             environment strings, argument strings; argv[0] is the lowest, and there are no gaps: programs
//             that change their title (setproctitle) overwrite the whole stretch
//             "x86_64" (AT_PLATFORM), 16 random bytes (AT_RANDOM)
//             auxv, ends with AT_NULL
//             envp[], null
//             argv[], null
//   rsp ->    argc
//
// The kernel starts at a random distance from the end, in steps of 16 bytes. We start at none, and align rsp
// to 64 bytes: a fixed unlucky phase of the stack against cache lines costs up to 18 % in programs that keep
// vectors of doubles there; 64 is what the median native run behaves like.
#include "guest/start_stack.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace backstep::guest {
namespace {

constexpr uint64_t kStringMax = 32 * 4096;             // MAX_ARG_STRLEN, the NUL included
constexpr uint64_t kArgumentsMin = 32 * 4096;          // ARG_MAX: always allowed
constexpr uint64_t kArgumentsMax = (8 << 20) / 4 * 3;  // three quarters of the kernel's _STK_LIM
constexpr uint64_t kStackPhase = 64;
constexpr std::string_view kPlatform = "x86_64";

}  // namespace

bool arguments_fit(const std::vector<std::string>& argv, const std::vector<std::string>& env,
                   const std::string& execfn, uint64_t stack_limit) {
  uint64_t total = execfn.size() + 1;
  for (auto* strings : {&argv, &env}) {
    for (auto& s : *strings) {
      if (s.size() + 1 > kStringMax) return false;
      total += s.size() + 1 + sizeof(uint64_t);
    }
  }
  return total <= std::max(std::min(stack_limit / 4, kArgumentsMax), kArgumentsMin);
}

StartStack build_start_stack(uint64_t stack_end, const std::vector<std::string>& argv,
                             const std::vector<std::string>& env, const std::string& execfn,
                             std::span<const std::byte, 16> random, std::vector<uint64_t>& auxv) {
  // First the addresses of everything, from the top down ...
  uint64_t top = stack_end - sizeof(uint64_t);
  auto reserve = [&](uint64_t size) { return top -= size; };

  uint64_t execfn_at = reserve(execfn.size() + 1);
  StartStack stack;
  stack.env_end = top;
  std::vector<uint64_t> argv_at(argv.size()), env_at(env.size());
  for (size_t i = env.size(); i-- > 0;) env_at[i] = reserve(env[i].size() + 1);
  stack.env_start = top;
  for (size_t i = argv.size(); i-- > 0;) argv_at[i] = reserve(argv[i].size() + 1);
  stack.arg_start = top;
  top &= ~15ull;
  uint64_t platform_at = reserve(kPlatform.size() + 1);
  uint64_t random_at = reserve(random.size());

  for (size_t i = 0; i + 1 < auxv.size(); i += 2) {
    if (auxv[i] == AT_RANDOM) auxv[i + 1] = random_at;
    if (auxv[i] == AT_EXECFN) auxv[i + 1] = execfn_at;
    if (auxv[i] == AT_PLATFORM) auxv[i + 1] = platform_at;
  }

  std::vector<uint64_t> words;
  words.push_back(argv.size());
  words.insert(words.end(), argv_at.begin(), argv_at.end());
  words.push_back(0);
  words.insert(words.end(), env_at.begin(), env_at.end());
  words.push_back(0);
  words.insert(words.end(), auxv.begin(), auxv.end());

  // ... then the bytes, in one piece.
  stack.rsp = (top - words.size() * sizeof(uint64_t)) & ~(kStackPhase - 1);
  stack.bytes.resize(stack_end - stack.rsp);
  auto put = [&](uint64_t at, const void* from, size_t size) {
    if (size) memcpy(stack.bytes.data() + (at - stack.rsp), from, size);
  };
  put(stack.rsp, words.data(), words.size() * sizeof(uint64_t));
  put(random_at, random.data(), random.size());
  put(platform_at, kPlatform.data(), kPlatform.size());
  for (size_t i = 0; i < argv.size(); i++) put(argv_at[i], argv[i].data(), argv[i].size());
  for (size_t i = 0; i < env.size(); i++) put(env_at[i], env[i].data(), env[i].size());
  put(execfn_at, execfn.data(), execfn.size());
  return stack;
}

}  // namespace backstep::guest
