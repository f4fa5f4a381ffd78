// Dies in the manner its argument names; the exit status must be the same natively, recorded and replayed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static __attribute__((noinline)) int recurse(volatile char* above) {
  volatile char block[4096];
  block[0] = *above;
  return recurse(block) + block[0];
}

static volatile int zero = 0;

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const char* how = argv[1];
  printf("about to die of %s\n", how);
  fflush(stdout);
  void* no_exec = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(no_exec, 0xc3, 4096);
  if (!strcmp(how, "null")) *(volatile int*)0 = 1;
  if (!strcmp(how, "null-read")) return *(volatile int*)8;
  if (!strcmp(how, "wild-call")) ((void (*)(void))0x123456789)();
  if (!strcmp(how, "null-call")) ((void (*)(void))(intptr_t)zero)();
  if (!strcmp(how, "no-exec")) ((void (*)(void))no_exec)();
  if (!strcmp(how, "non-canonical")) *(volatile int*)0x8000deadbeef0000 = 1;
  if (!strcmp(how, "non-canonical-call")) ((void (*)(void))0x8000deadbeef0000)();
  if (!strcmp(how, "non-canonical-ret"))
    __asm__ volatile("movabs $0x8000deadbeef0000, %%rax; push %%rax; ret" ::: "rax", "memory");
  if (!strcmp(how, "read-only")) *(volatile char*)"constant" = 1;
  if (!strcmp(how, "stack-overflow")) return recurse("x");
  if (!strcmp(how, "divide")) return 7 / zero;
  if (!strcmp(how, "divide-overflow"))
    __asm__ volatile("mov $0x80000000, %%eax; cdq; mov $-1, %%ecx; idiv %%ecx" ::: "rax", "rcx", "rdx");
  if (!strcmp(how, "ud2")) __asm__ volatile("ud2");
  if (!strcmp(how, "bad-opcode")) __asm__ volatile(".byte 0x06");
  if (!strcmp(how, "lock-prefix")) __asm__ volatile(".byte 0xf0, 0x89, 0xc8");
  if (!strcmp(how, "hlt")) __asm__ volatile("hlt");
  if (!strcmp(how, "in")) __asm__ volatile("in $0x60, %%al" ::: "rax");
  if (!strcmp(how, "int3")) __asm__ volatile("int3");
  if (!strcmp(how, "int-0x42")) __asm__ volatile("int $0x42");
  if (!strcmp(how, "into-page-end")) {  // runs off the end of the last executable page
    char* code = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(code, 0x90, 4096);
    munmap(code + 4096, 4096);
    ((void (*)(void))(void*)(code + 4000))();
  }
  if (!strcmp(how, "cut-instruction")) {  // a valid prefix of an instruction, the rest of it is unmapped
    char* code = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    code[4095] = (char)0xe8;
    munmap(code + 4096, 4096);
    ((void (*)(void))(void*)(code + 4095))();
  }
  if (!strcmp(how, "misaligned")) {
    static _Alignas(16) char buffer[64];
    __asm__ volatile("movaps (%0), %%xmm0" ::"r"(buffer + 1) : "xmm0");
  }
  if (!strcmp(how, "alignment-check")) {
    static _Alignas(16) char buffer[64];
    __asm__ volatile("pushfq; orl $0x40000, (%%rsp); popfq; mov 1(%0), %%eax" ::"r"(buffer)
                     : "rax", "cc", "memory");
  }
  if (!strcmp(how, "bus")) {
    int fd = open("bus.dat", O_CREAT | O_TRUNC | O_RDWR, 0600);
    CHECK(fd >= 0 && unlink("bus.dat") == 0 && ftruncate(fd, 8192) == 0);
    volatile char* map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && map[5000] == 0 && ftruncate(fd, 4096) == 0);
    return map[5000];
  }
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "assert")) {
    signal(SIGABRT, SIG_IGN);  // abort() must get through this
    abort();
  }
  if (!strcmp(how, "raise-term")) raise(SIGTERM);
  if (!strcmp(how, "raise-kill")) raise(SIGKILL);
  if (!strcmp(how, "raise-rt")) raise(SIGRTMIN + 3);
  if (!strcmp(how, "sigpipe")) {
    int ends[2];
    CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
    return (int)write(ends[1], "x", 1);
  }
  if (!strcmp(how, "xcpu")) kill(getpid(), SIGXCPU);
  if (!strcmp(how, "blocked-fault")) {  // a blocked or ignored fault kills all the same
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, 0);
    signal(SIGSEGV, SIG_IGN);
    *(volatile int*)16 = 1;
  }
  if (!strcmp(how, "bad-altstack")) {  // the handler's frame has no place to go
    struct sigaction action = {.sa_handler = (void (*)(int))exit};
    sigaction(SIGSEGV, &action, 0);
    __asm__ volatile("mov $0x1000, %%rsp; push %%rax" ::: "memory");
  }
  if (!strcmp(how, "exit-high")) exit(300);
  fprintf(stderr, "still alive\n");
  return 99;
}
