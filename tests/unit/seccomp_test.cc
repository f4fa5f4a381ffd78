// The interpreter of seccomp filters against the kernel's own: the same programs are accepted, and say the
// same.
#include "guest/seccomp.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/bpf_common.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <random>

namespace backstep::guest {
namespace {

using Program = std::vector<sock_filter>;

constexpr long kAsked = SYS_getpriority;  // the call that the filters are asked about

// What the kernel answers for kAsked with these arguments: 0 to 4094, or -errno if it refuses the program.
// In a child, as a filter is for ever. All other calls are allowed, by a jump in front of the program; what
// it returns becomes the error number, by a tail behind it.
int kernel_answer(Program program, const uint64_t args[6]) {
  int ends[2];
  if (pipe(ends) != 0) return -1000;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    sock_fprog given{static_cast<unsigned short>(program.size()), program.data()};
    int answer = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &given) == 0 ? 0 : -errno;
    if (answer == 0) {
      errno = 0;
      syscall(kAsked, args[0], args[1], args[2], args[3], args[4], args[5]);
      answer = errno;
    }
    if (write(ends[1], &answer, sizeof answer) != sizeof answer) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  int answer = -1001;
  if (read(ends[0], &answer, sizeof answer) != sizeof answer) answer = -1002;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return answer;
}

sock_filter stmt(unsigned code, uint32_t k) {
  return {static_cast<uint16_t>(code), 0, 0, k};
}
sock_filter jump(unsigned code, uint32_t k, unsigned yes, unsigned no) {
  return {static_cast<uint16_t>(code), static_cast<uint8_t>(yes), static_cast<uint8_t>(no), k};
}

// `work` leaves a number in the accumulator; the program answers kAsked with it as an error.
Program around(const Program& work) {
  Program p = {stmt(BPF_LD | BPF_W | BPF_ABS, 0), jump(BPF_JMP | BPF_JEQ | BPF_K, kAsked, 1, 0),
               stmt(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  p.insert(p.end(), work.begin(), work.end());
  p.push_back(stmt(BPF_ALU | BPF_AND | BPF_K, 0x7ff));
  p.push_back(stmt(BPF_ALU | BPF_OR | BPF_K, SECCOMP_RET_ERRNO));
  p.push_back(stmt(BPF_RET | BPF_A, 0));
  return p;
}

int our_answer(const Program& program, const uint64_t args[6]) {
  if (int err = check_filter(program)) return -err;
  seccomp_data data{kAsked, AUDIT_ARCH_X86_64, 0, {}};
  std::copy(args, args + 6, data.args);
  return static_cast<int>(run_filter(program, data) & SECCOMP_RET_DATA);
}

class RandomPrograms : public ::testing::Test {
 protected:
  std::mt19937 random{20};
  uint32_t below(uint32_t n) { return random() % n; }
  template <size_t N>
  unsigned any(const unsigned (&list)[N]) {
    return list[below(N)];
  }
  sock_filter instruction(unsigned left) {
    constexpr unsigned kAlu[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_AND,
                                 BPF_OR,  BPF_XOR, BPF_LSH, BPF_RSH};
    constexpr unsigned kJump[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
    const unsigned source = below(2) ? BPF_X : BPF_K;
    const uint32_t number = below(2) ? below(40) : static_cast<uint32_t>(random());
    switch (below(10)) {
      case 0:
      case 1:
        return stmt(BPF_LD | BPF_W | BPF_ABS, 16 + 4 * below(12));
      case 2:
        return stmt(below(2) ? BPF_MISC | BPF_TAX : BPF_MISC | BPF_TXA, 0);
      case 3:
        return stmt(below(2) ? BPF_ST : BPF_STX, below(4));
      case 4:
        return stmt((below(2) ? BPF_LD : BPF_LDX) | BPF_MEM, below(4));
      case 5:
        return stmt((below(2) ? BPF_LD : BPF_LDX) | (below(2) ? BPF_IMM : BPF_W | BPF_LEN), number);
      case 6:
        return jump(BPF_JMP | any(kJump) | source, number, below(left), below(left));
      case 7:
        return below(3) ? stmt(BPF_ALU | BPF_NEG, 0) : stmt(BPF_JMP | BPF_JA, below(left));
      default:
        return stmt(BPF_ALU | any(kAlu) | source, below(3) ? number : below(34));
    }
  }
};

TEST_F(RandomPrograms, MeanWhatTheKernelSays) {
  int refused = 0;
  for (int i = 0; i < 300; i++) {
    Program work;
    const unsigned length = 1 + below(12);
    // Memory words are set on half of the programs, or nearly all would be refused for reading them.
    if (below(2))
      for (uint32_t k = 0; k < 4; k++) work.push_back(stmt(BPF_ST, k));
    for (unsigned k = 0; k < length; k++) work.push_back(instruction(length - k));
    const Program program = around(work);
    uint64_t args[6];
    for (uint64_t& a : args) a = below(2) ? below(50) : random() * 0x1'0000'0001ull;
    const int expected = kernel_answer(program, args);
    // A division by zero ends the filter with 0, which kills: the child has no answer then.
    if (expected == -1002) {
      seccomp_data data{kAsked, AUDIT_ARCH_X86_64, 0, {}};
      std::copy(args, args + 6, data.args);
      EXPECT_EQ(run_filter(program, data), 0u) << "program " << i;
      continue;
    }
    EXPECT_EQ(our_answer(program, args), expected) << "program " << i;
    refused += expected < 0;
  }
  EXPECT_GT(refused, 10);
  EXPECT_LT(refused, 250);
}

TEST_F(RandomPrograms, OfAnyBytesAreRefusedAsByTheKernel) {
  for (int i = 0; i < 300; i++) {
    Program program = around({stmt(BPF_LD | BPF_IMM, 1)});
    sock_filter& changed = program[below(static_cast<uint32_t>(program.size()))];
    switch (below(3)) {
      case 0:
        changed.code = static_cast<uint16_t>(below(0x180));
        break;
      case 1:
        changed.jt = static_cast<uint8_t>(below(10));
        changed.jf = static_cast<uint8_t>(below(10));
        break;
      default:
        changed.k = below(70);
        break;
    }
    int ours = check_filter(program);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      sock_fprog given{static_cast<unsigned short>(program.size()), program.data()};
      int err = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &given) == 0
                    ? 0
                    : errno;
      if (err) (void)!write(ends[1], &err, sizeof err);
      _exit(0);
    }
    close(ends[1]);
    int err = 0;
    if (read(ends[0], &err, sizeof err) != sizeof err) err = 0;
    close(ends[0]);
    waitpid(child, nullptr, 0);
    EXPECT_EQ(ours, err) << "code " << changed.code << " k " << changed.k;
  }
}

TEST(SeccompFilters, TheStrictestWinsAndTheNewestOfEquals) {
  auto filter = [](uint32_t value, SeccompFilters before) {
    return std::make_shared<const SeccompFilter>(SeccompFilter{{stmt(BPF_RET | BPF_K, value)}, before});
  };
  const seccomp_data data{};
  auto first = filter(SECCOMP_RET_ERRNO | 1, nullptr);
  EXPECT_EQ(run_filters(nullptr, data), SECCOMP_RET_ALLOW);
  EXPECT_EQ(run_filters(filter(SECCOMP_RET_ERRNO | 2, first), data), SECCOMP_RET_ERRNO | 2u);
  EXPECT_EQ(run_filters(filter(SECCOMP_RET_ALLOW, first), data), SECCOMP_RET_ERRNO | 1u);
  EXPECT_EQ(run_filters(filter(SECCOMP_RET_KILL_PROCESS, first), data), SECCOMP_RET_KILL_PROCESS);
  EXPECT_EQ(run_filters(filter(SECCOMP_RET_TRACE, first), data), SECCOMP_RET_ERRNO | 1u);
  EXPECT_EQ(count(filter(0, first)), 2u);
  EXPECT_TRUE(is_ancestor(first, filter(0, first)));
  EXPECT_FALSE(is_ancestor(filter(0, first), first));
}

TEST(SeccompFilters, SurviveSaving) {
  auto first = std::make_shared<const SeccompFilter>(SeccompFilter{{stmt(BPF_RET | BPF_K, 1)}, nullptr});
  auto second = std::make_shared<const SeccompFilter>(
      SeccompFilter{{stmt(BPF_LD | BPF_IMM, 5), stmt(BPF_RET | BPF_A, 0)}, first});
  auto loaded = load_filters(save_filters(second));
  ASSERT_EQ(count(loaded), 2u);
  EXPECT_EQ(loaded->program.size(), 2u);
  EXPECT_EQ(loaded->before->program[0].k, 1u);
}

}  // namespace
}  // namespace backstep::guest
