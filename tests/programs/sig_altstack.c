// Stack overflow caught on an alternate stack: the handler runs there, sees SS_ONSTACK, leaves by longjmp;
// then sigaltstack is turned off again, and SA_ONSTACK without an alternate stack uses the normal one.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static sigjmp_buf back;
static char* alternate;
enum { kSize = 64 * 1024 };
static int on_alternate;

static void on_fault(int signo, siginfo_t* info, void* context) {
  (void)signo, (void)info;
  char here;
  on_alternate = &here >= alternate && &here < alternate + kSize;
  stack_t now;
  sigaltstack(0, &now);
  CHECK(!!(now.ss_flags & SS_ONSTACK) == on_alternate);
  CHECK(((ucontext_t*)context)->uc_stack.ss_sp == (on_alternate ? alternate : 0) || !on_alternate);
  siglongjmp(back, 1);
}

static __attribute__((noinline)) int recurse(int depth) {
  volatile char block[1024];
  block[0] = (char)depth;
  return recurse(depth + 1) + block[0];
}

int main(void) {
  alternate = mmap(0, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(alternate != MAP_FAILED);
  stack_t stack = {.ss_sp = alternate, .ss_size = kSize}, old;
  CHECK(sigaltstack(&stack, &old) == 0 && old.ss_flags == SS_DISABLE);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  CHECK(sigaction(SIGSEGV, &action, 0) == 0);
  int caught = 0;
  for (volatile int i = 0; i < 3; i++) {
    if (sigsetjmp(back, 1) == 0)
      recurse(0);
    else
      caught++;
    CHECK(on_alternate);
  }
  CHECK(caught == 3);
  stack.ss_size = 100;
  CHECK(sigaltstack(&stack, 0) == -1 && errno == ENOMEM);
  stack.ss_flags = SS_DISABLE;
  CHECK(sigaltstack(&stack, 0) == 0);
  if (sigsetjmp(back, 1) == 0) *(volatile int*)0 = 1;
  CHECK(!on_alternate);
  printf("altstack right\n");
}
