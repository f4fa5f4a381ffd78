// r11 through returns and indirect branches of all kinds: where they lead, where they fault, and for a signal
// that comes in the middle of one. A translator that borrows r11 for them must not be seen.
//   isa_branches            faults are printed, with the registers that a handler sees
//   isa_branches signals    the same branches in a loop, with a timer
//   isa_branches vectors    and then AVX-512 without asking: nothing of what was borrowed is in there
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

#include "check.h"

#define KEPT 0x1122334455667788ul
__asm__(".set kept, 0x1122334455667788");

// For the assembler.
uint64_t bs_go_on, bs_site, bs_stack, bs_pointer, bs_far;
static const char* name;

// Addresses differ from run to run; what is near a known one is told by its distance.
static void tell(const char* what, uint64_t value, uint64_t known) {
  const int64_t distance = (int64_t)(value - known);
  if (distance >= -4096 && distance <= 4096)
    printf(" %s%+ld", what, (long)distance);
  else
    printf(" %s at %#lx", what, (unsigned long)value);
}

static void on_fault(int signo, siginfo_t* info, void* frame) {
  greg_t* r = ((ucontext_t*)frame)->uc_mcontext.gregs;
  printf("%s: signal %d code %d address %p r11 %#llx", name, signo, info->si_code, info->si_addr, r[REG_R11]);
  tell("branch", (uint64_t)r[REG_RIP], bs_site);
  tell("stack", (uint64_t)r[REG_RSP], bs_stack);
  puts("");
  r[REG_RIP] = (greg_t)bs_go_on;
  r[REG_RSP] = (greg_t)bs_stack;
  r[REG_R11] = 0;
}

#define FAULTS(text, setup, branch)                                                                     \
  do {                                                                                                  \
    name = text;                                                                                        \
    __asm__ volatile(                                                                                   \
        "mov %%rsp, bs_stack(%%rip)\n lea 1f(%%rip), %%rax\n mov %%rax, bs_go_on(%%rip)\n"              \
        "lea 2f(%%rip), %%rax\n mov %%rax, bs_site(%%rip)\n movabs $kept, %%r11\n" setup "\n2: " branch \
        "\n ud2\n 1:\n" ::                                                                              \
            : "rax", "rcx", "rdx", "r11", "memory", "cc");                                              \
  } while (0)

#define NO_ADDRESS "movabs $0x1234567812345678, %%rax\n"
#define NOTHING_LOW "mov $0x123000, %%eax\n"
#define NOTHING_HIGH "movabs $0x234567891000, %%rax\n"

static void all_faults(void) {
  FAULTS("ret, no stack", "mov $0x3000, %%esp", "ret");
  FAULTS("ret to no address", NO_ADDRESS "push %%rax", "ret");
  FAULTS("ret 16 to no address", NO_ADDRESS "push %%rax", "ret $16");
  FAULTS("ret to nothing", NOTHING_LOW "push %%rax", "ret");
  FAULTS("ret to nothing, far", NOTHING_HIGH "push %%rax", "ret");
  FAULTS("ret 16 to nothing, far", NOTHING_HIGH "push %%rax", "ret $16");
  FAULTS("jmp, no pointer", "mov $0x3000, %%eax", "jmp *(%%rax)");
  FAULTS("jmp to no address", NO_ADDRESS, "jmp *%%rax");
  FAULTS("jmp to nothing", NOTHING_LOW, "jmp *%%rax");
  FAULTS("jmp to nothing, far", NOTHING_HIGH, "jmp *%%rax");
  FAULTS("call, no pointer", "mov $0x3000, %%eax", "call *(%%rax)");
  FAULTS("call, no stack", "lea 1f(%%rip), %%rax\n mov $0x3000, %%esp", "call *%%rax");
  FAULTS("call to no address", NO_ADDRESS, "call *%%rax");
  FAULTS("call to nothing", NOTHING_LOW, "call *%%rax");
  FAULTS("call to nothing, far", NOTHING_HIGH, "call *%%rax");
  FAULTS("jmp gs:, no pointer", "mov $0x3000, %%eax", "jmp *%%gs:(%%rax)");
  FAULTS("call r11 to nothing", "mov $0x321000, %%r11d", "call *%%r11");
  FAULTS("jmp r11 to no address", NO_ADDRESS "mov %%rax, %%r11", "jmp *%%r11");
}

// One of everything, `n` times; the far code is `ret` and `jmp *%rax`.
void bs_round(uint64_t n);
extern char bs_round_start[], bs_round_end[];
__asm__(
    ".text\n .globl bs_round, bs_round_start, bs_round_end\n .type bs_round, @function\n"
    "bs_round: push %rbx\n push %rbp\n mov %rdi, %rbx\n movabs $kept, %r11\n"
    "bs_round_start:\n"
    "1: call 20f\n"
    "lea 20f(%rip), %rax\n call *%rax\n"
    "mov %rax, bs_pointer(%rip)\n call *bs_pointer(%rip)\n"
    "lea bs_pointer(%rip), %rcx\n mov $1, %edx\n call *-8(%rcx,%rdx,8)\n"
    "push %rdx\n push %rdx\n call 21f\n"
    "lea 2f(%rip), %rax\n jmp *%rax\n ud2\n"
    "2: lea 3f(%rip), %rax\n mov %rax, bs_pointer(%rip)\n jmp *bs_pointer(%rip)\n ud2\n"
    "3: mov bs_far(%rip), %rax\n call *%rax\n"
    "lea 4f(%rip), %rax\n mov bs_far(%rip), %rcx\n inc %rcx\n jmp *%rcx\n ud2\n"
    "4: lea 5f(%rip), %rax\n push %rax\n mov bs_far(%rip), %rcx\n push %rcx\n ret\n ud2\n"
    "5: movabs $kept, %rax\n cmp %rax, %r11\n jne 9f\n dec %rbx\n jnz 1b\n"
    "bs_round_end:\n"
    "pop %rbp\n pop %rbx\n ret\n"
    "9: ud2\n"
    "20: ret\n"
    "21: ret $16\n"
    ".size bs_round, . - bs_round\n");

static volatile sig_atomic_t seen, wrong;
static void on_timer(int signo, siginfo_t* info, void* frame) {
  (void)signo, (void)info;
  const greg_t* r = ((ucontext_t*)frame)->uc_mcontext.gregs;
  if (r[REG_RIP] < (greg_t)bs_round_start || r[REG_RIP] >= (greg_t)bs_round_end) return;
  seen++;
  if ((uint64_t)r[REG_R11] != KEPT) wrong++;
}

static void make_far_code(void) {
  const size_t size = 80ul << 20;  // too large to lie low
  unsigned char* code = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(code != MAP_FAILED);
  static const unsigned char kCode[] = {0xc3, 0xff, 0xe0};  // ret; jmp *%rax
  memcpy(code, kCode, sizeof kCode);
  bs_far = (uint64_t)code;
}

int main(int argc, char** argv) {
  make_far_code();
  static char stack[1 << 16];
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  CHECK(sigaltstack(&alternate, NULL) == 0);
  const struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  CHECK(sigaction(SIGSEGV, &fault, NULL) == 0 && sigaction(SIGBUS, &fault, NULL) == 0);
  const int signals = argc > 1 && !strcmp(argv[1], "signals"),
            vectors = argc > 1 && !strcmp(argv[1], "vectors");
  if (signals) {
    const struct sigaction timer = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
    CHECK(sigaction(SIGALRM, &timer, NULL) == 0);
    const struct itimerval often = {{0, 500}, {0, 500}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (seen < 100) bs_round(1000);
    const struct itimerval never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(wrong == 0);
    puts("r11 was always right");
    return 0;
  }
  bs_round(3);
  for (int i = 0; i < 2; i++) all_faults();
  bs_round(1000);
  if (vectors) {
    static uint64_t found[3 * 8];
    __asm__ volatile(
        "vmovdqu64 %%zmm29, (%0)\n vmovdqu64 %%zmm30, 64(%0)\n vmovdqu64 %%zmm31, 128(%0)\n" ::"r"(found)
        : "memory");
    for (int i = 0; i < 3 * 8; i++) CHECK(found[i] == 0);
    bs_round(1000);
    all_faults();
  }
}
