// An interpreter for the classic BPF that seccomp filters are written in: an accumulator, an index register,
// sixteen words of memory, jumps forward only. What is allowed, and what odd programs mean (a division by
// zero, a shift by 40), is the kernel's (kernel/seccomp.c, net/core/filter.c);
// tests/unit/seccomp_test.cc compares with it.
#include "guest/seccomp.h"

#include <linux/bpf_common.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace backstep::guest {
namespace {

constexpr uint32_t kDataSize = sizeof(seccomp_data);
constexpr size_t kMostSteps = BPF_MAXINSNS;
constexpr size_t kMostInAll = (1 << 18) / sizeof(sock_filter);  // of all filters of a thread

bool is_allowed(uint16_t code) {
  switch (code) {
    case BPF_LD | BPF_W | BPF_ABS:
    case BPF_LD | BPF_W | BPF_LEN:
    case BPF_LDX | BPF_W | BPF_LEN:
    case BPF_LD | BPF_IMM:
    case BPF_LDX | BPF_IMM:
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
    case BPF_ST:
    case BPF_STX:
    case BPF_RET | BPF_K:
    case BPF_RET | BPF_A:
    case BPF_MISC | BPF_TAX:
    case BPF_MISC | BPF_TXA:
    case BPF_ALU | BPF_NEG:
    case BPF_JMP | BPF_JA:
      return true;
    default:
      break;
  }
  if (code & ~0xffu) return false;
  const auto op = static_cast<uint16_t>(code & ~BPF_X);
  switch (op) {
    case BPF_ALU | BPF_ADD:
    case BPF_ALU | BPF_SUB:
    case BPF_ALU | BPF_MUL:
    case BPF_ALU | BPF_DIV:
    case BPF_ALU | BPF_AND:
    case BPF_ALU | BPF_OR:
    case BPF_ALU | BPF_XOR:
    case BPF_ALU | BPF_LSH:
    case BPF_ALU | BPF_RSH:
    case BPF_JMP | BPF_JEQ:
    case BPF_JMP | BPF_JGE:
    case BPF_JMP | BPF_JGT:
    case BPF_JMP | BPF_JSET:
      return true;
    default:
      return false;
  }
}

bool has_good_operands(const std::vector<sock_filter>& program, size_t at) {
  const sock_filter& f = program[at];
  const size_t left = program.size() - at - 1;
  switch (f.code) {
    case BPF_LD | BPF_W | BPF_ABS:
      return f.k % 4 == 0 && f.k < kDataSize;
    case BPF_ALU | BPF_DIV | BPF_K:
      return f.k != 0;
    case BPF_ALU | BPF_LSH | BPF_K:
    case BPF_ALU | BPF_RSH | BPF_K:
      return f.k < 32;
    case BPF_LD | BPF_MEM:
    case BPF_LDX | BPF_MEM:
    case BPF_ST:
    case BPF_STX:
      return f.k < BPF_MEMWORDS;
    case BPF_JMP | BPF_JA:
      return f.k < left;
    default:
      return BPF_CLASS(f.code) != BPF_JMP || (f.jt < left && f.jf < left);
  }
}

// No word of memory may be read on a way on which it was not written.
bool writes_before_it_reads(const std::vector<sock_filter>& program) {
  std::vector<uint16_t> written(program.size(), 0xffff);
  uint16_t now = 0;
  for (size_t at = 0; at < program.size(); at++) {
    const sock_filter& f = program[at];
    now &= written[at];
    switch (f.code) {
      case BPF_ST:
      case BPF_STX:
        now |= static_cast<uint16_t>(1 << f.k);
        break;
      case BPF_LD | BPF_MEM:
      case BPF_LDX | BPF_MEM:
        if (!(now >> f.k & 1)) return false;
        break;
      case BPF_JMP | BPF_JA:
        written[at + 1 + f.k] &= now;
        now = 0xffff;
        break;
      default:
        if (BPF_CLASS(f.code) != BPF_JMP) break;
        written[at + 1 + f.jt] &= now;
        written[at + 1 + f.jf] &= now;
        now = 0xffff;
        break;
    }
  }
  return true;
}

bool jumps(uint16_t code, uint32_t a, uint32_t operand) {
  switch (BPF_OP(code)) {
    case BPF_JEQ:
      return a == operand;
    case BPF_JGT:
      return a > operand;
    case BPF_JGE:
      return a >= operand;
    default:
      return a & operand;
  }
}

uint32_t compute(uint16_t code, uint32_t a, uint32_t operand) {
  switch (BPF_OP(code)) {
    case BPF_ADD:
      return a + operand;
    case BPF_SUB:
      return a - operand;
    case BPF_MUL:
      return a * operand;
    case BPF_DIV:
      return operand ? a / operand : 0;  // never 0: check_filter and run_filter see to that
    case BPF_AND:
      return a & operand;
    case BPF_OR:
      return a | operand;
    case BPF_XOR:
      return a ^ operand;
    case BPF_LSH:
      return a << (operand & 31);
    case BPF_RSH:
      return a >> (operand & 31);
    default:
      return -a;
  }
}

}  // namespace

int check_filter(const std::vector<sock_filter>& program) {
  if (program.empty() || program.size() > kMostSteps) return EINVAL;
  for (size_t at = 0; at < program.size(); at++)
    if (!is_allowed(program[at].code) || !has_good_operands(program, at)) return EINVAL;
  if (BPF_CLASS(program.back().code) != BPF_RET) return EINVAL;
  return writes_before_it_reads(program) ? 0 : EINVAL;
}

int check_stack(const std::vector<sock_filter>& program, const SeccompFilters& before) {
  constexpr size_t kPenalty = 4;  // instructions that each filter counts on top of its own
  size_t total = program.size();
  for (const SeccompFilter* f = before.get(); f; f = f->before.get()) total += f->program.size() + kPenalty;
  return total > kMostInAll ? ENOMEM : 0;
}

uint32_t run_filter(const std::vector<sock_filter>& program, const seccomp_data& data) {
  uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {};
  for (size_t at = 0; at < program.size(); at++) {
    const sock_filter& f = program[at];
    const uint32_t operand = f.code & BPF_X ? x : f.k;
    switch (f.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        std::memcpy(&a, reinterpret_cast<const char*>(&data) + f.k, 4);
        break;
      case BPF_LD | BPF_W | BPF_LEN:
        a = kDataSize;
        break;
      case BPF_LDX | BPF_W | BPF_LEN:
        x = kDataSize;
        break;
      case BPF_LD | BPF_IMM:
        a = f.k;
        break;
      case BPF_LDX | BPF_IMM:
        x = f.k;
        break;
      case BPF_LD | BPF_MEM:
        a = memory[f.k];
        break;
      case BPF_LDX | BPF_MEM:
        x = memory[f.k];
        break;
      case BPF_ST:
        memory[f.k] = a;
        break;
      case BPF_STX:
        memory[f.k] = x;
        break;
      case BPF_RET | BPF_K:
        return f.k;
      case BPF_RET | BPF_A:
        return a;
      case BPF_MISC | BPF_TAX:
        x = a;
        break;
      case BPF_MISC | BPF_TXA:
        a = x;
        break;
      case BPF_JMP | BPF_JA:
        at += f.k;
        break;
      case BPF_ALU | BPF_DIV | BPF_X:
        if (x == 0) return 0;
        a /= x;
        break;
      default:
        if (BPF_CLASS(f.code) == BPF_JMP) {
          at += jumps(f.code, a, operand) ? f.jt : f.jf;
        } else {
          a = compute(f.code, a, operand);
        }
        break;
    }
  }
  return SECCOMP_RET_KILL_PROCESS;  // not reached: the last one returns
}

uint32_t run_filters(const SeccompFilters& filters, const seccomp_data& data) {
  auto action = [](uint32_t value) { return static_cast<int32_t>(value & SECCOMP_RET_ACTION_FULL); };
  uint32_t verdict = SECCOMP_RET_ALLOW;
  for (const SeccompFilter* f = filters.get(); f; f = f->before.get())
    if (uint32_t own = run_filter(f->program, data); action(own) < action(verdict)) verdict = own;
  return verdict;
}

size_t count(const SeccompFilters& filters) {
  size_t n = 0;
  for (const SeccompFilter* f = filters.get(); f; f = f->before.get()) n++;
  return n;
}

bool is_ancestor(const SeccompFilters& ancestor, const SeccompFilters& filters) {
  if (!ancestor) return true;
  for (const SeccompFilter* f = filters.get(); f; f = f->before.get())
    if (f == ancestor.get()) return true;
  return false;
}

std::vector<std::string> save_filters(const SeccompFilters& filters) {
  std::vector<std::string> saved;
  for (const SeccompFilter* f = filters.get(); f; f = f->before.get())
    saved.emplace(saved.begin(), reinterpret_cast<const char*>(f->program.data()),
                  f->program.size() * sizeof(sock_filter));
  return saved;
}

SeccompFilters load_filters(const std::vector<std::string>& saved) {
  SeccompFilters filters;
  for (const std::string& bytes : saved) {
    SeccompFilter f{std::vector<sock_filter>(bytes.size() / sizeof(sock_filter)), filters};
    std::memcpy(f.program.data(), bytes.data(), f.program.size() * sizeof(sock_filter));
    filters = std::make_shared<const SeccompFilter>(std::move(f));
  }
  return filters;
}

void hand_to_kernel(const SeccompFilters& filters) {
  if (!filters) return;
  hand_to_kernel(filters->before);
  sock_fprog program{static_cast<unsigned short>(filters->program.size()),
                     const_cast<sock_filter*>(filters->program.data())};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0) return;
  // The right to install filters has gone since; no_new_privs gives it back, and better that than no filter.
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

}  // namespace backstep::guest
