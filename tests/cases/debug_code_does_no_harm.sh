#!/usr/bin/env bash
# Whatever debug code does that it must not: its call ends with a sentence that names its line, the next calls come, and the
# replay is exact.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/debug_module.bash"
cat >program.c <<'C'
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int shared = 5;
char keep[64];
__attribute__((noinline)) void inner(int i, char *p) {
  shared += i;
  p[i % 64]++;
}
int main(void) {
  char *heap = malloc(100);
  memset(heap, 1, 100);
  for (int i = 0; i < 300; i++) inner(i, heap);
  printf("%d %d\n", shared, heap[3]);
  return 0;
}
C
gcc -O1 -g -no-pie program.c -o program
cat >module.cc <<'C'
#include "debug_module.h"
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <immintrin.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
extern "C" {
extern int program_shared;
extern char program_keep[64];
void program_inner(int, char *);
}
static int calls, wrong;
static long zero;
static jmp_buf outside;
static int deep(int n) { volatile char room[1000]; room[n % 1000] = 1; return deep(n + 1) + room[0]; }
static void act(int i, char *heap) {
  volatile char *nowhere = nullptr;
  switch (i) {
    case 1: program_shared = 1; break;                                  // direct
    case 2: memset(program_keep, 1, 40); break;                         // line store_vector
    case 3: __asm__ volatile("rep stosb" ::"D"(heap), "c"(50L), "a"(3)); break;
    case 4: *nowhere = 1; break;
    case 5: wrong = *nowhere; break;
    case 6: deep(0); break;
    case 8: throw std::runtime_error("nobody");
    case 9: longjmp(outside, 1);
    case 10: exit(3);
    case 11: abort();
    case 12: raise(SIGTERM);
    case 13: kill(0, SIGKILL);
    case 14: wrong = fork(); break;
    case 15: execl("/bin/true", "true", nullptr); printf("no other program\n"); break;
    case 16: std::thread([] {}).detach(); break;
    case 17: close(1); break;
    case 18: signal(SIGSEGV, SIG_IGN); break;
    case 19: __asm__ volatile("xor %%ecx, %%ecx\n\tdiv %%ecx" ::: "eax", "ecx", "edx"); break;
    case 20: free(heap); printf("not ours\n"); break;
    case 21: __asm__ volatile("jmp *%0" ::"r"(program_inner)); break;
    case 22: __asm__ volatile("mov %0, %%rsp\n\tpush %%rax" ::"r"(heap + 64)); break;
    case 23: __asm__ volatile("int3"); break;
    case 24: __asm__ volatile("ud2"); break;
    case 25: reinterpret_cast<void (*)()>(0x12345678)(); break;
    case 26: reinterpret_cast<void (*)()>(0x8badf00d00001234)(); break;
    case 27: __asm__ volatile("lock incb (%0)" ::"r"(heap) : "memory"); break;
    case 28: __asm__ volatile("pcmpeqb %%xmm1, %%xmm1\n\tmaskmovdqu %%xmm1, %%xmm0" ::"D"(heap) : "xmm1", "memory"); break;
    case 29: __asm__ volatile("fxsave (%0)" ::"r"(reinterpret_cast<long>(program_keep) & ~63L) : "memory"); break;
    case 30: if (read(open("/proc/self/exe", O_RDONLY), heap, 8) < 0) printf("not read\n"); break;
    case 31: { int fd = open("/proc/self/mem", O_RDWR); if (fd < 0) printf("no way around\n"); break; }
    case 32: if (mmap(heap, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) printf("not mapped\n"); break;
    case 33: if (munmap(reinterpret_cast<void *>(reinterpret_cast<long>(program_keep) & ~4095L), 4096)) printf("not unmapped\n"); break;
    case 34: __asm__ volatile("vpaddq %%xmm16, %%xmm17, %%xmm18" ::); break;
    case 35: __asm__ volatile("lock cmpxchg16b (%0)" ::"r"(reinterpret_cast<long>(heap) & ~15L) : "memory", "rax", "rdx"); break;
    case 36: __asm__ volatile("bts %1, (%0)" ::"r"(&zero), "r"(reinterpret_cast<long>(&program_shared) * 8 - reinterpret_cast<long>(&zero) * 8) : "memory"); break;
    case 37: __asm__ volatile("std; rep stosb; cld" ::"D"(reinterpret_cast<char *>(&zero) + 7), "c"(1L << 40), "a"(0) : "memory"); break;
    case 38: __asm__ volatile("push $1; popf; stc; pushf; andq $~0xff, (%rsp); popf; std"); break;
  }
}
PLACE(at_inner) {
  calls++;
  int i = static_cast<int>(r->gpr[7]);
  int start = setjmp(outside);
  if (i % 10 == 9 && start == 0 && i > 250) outside[0] = {};
  if (!start) act(i >= 200 ? i - 200 : i, reinterpret_cast<char *>(r->gpr[6]));
  fflush(stdout);
}
extern "C" void module_finish(const backstep_registers *) { printf("calls %d\n", calls), fflush(stdout); }
C
make_module module.cc program
expect 0 "$BACKSTEP" record -q --check=deep -o recording "$T/program"
export BACKSTEP_DEBUG_SECONDS=0.3
probed recording module "$(address program inner)=$(address module at_inner)"
says '^calls 300$'
grep -q '^calls 300$' out || fail "the debug code was called less often: $(cat out)"
# said CASE WORDS: the failure of this case names its line and says so; twice, from a breakpoint and from translated code.
said() {
  local line
  line=$(grep -n "case $1:" module.cc | cut -d: -f1)
  [ "$(grep -c "failure module.cc:$line it .*$2" err)" = 2 ] ||
    fail "case $1 (line $line) does not say '$2' twice: $(grep "module.cc:$line " err || cat err)"
}
said 1 'writes to .* memory of the recorded program'
said 2 'writes to .* memory of the recorded program'
said 3 'writes to .* memory of the recorded program'
said 4 'writes to 0x0, a null pointer'
said 5 'reads from 0x0, a null pointer'
said 8 'exception that nobody catches'
said 10 'ends its program: exit(3)'
said 11 'calls abort'
said 12 'sends signal 15'
said 13 'sends signal 9'
said 14 'starts a thread or a process'
said 15 'starts another program'
# Twice for fork; the second thread ends at the lock that the first one has left behind.
[ "$(grep -c 'starts a thread or a process' err)" = 3 ] || fail "starting a thread is not refused: $(cat err)"
grep -q "failure module.cc:$(grep -n 'case 16:' module.cc | cut -d: -f1) it starts a thread" err || fail "case 16 does not name its line: $(cat err)"
said 17 'closes descriptor 1'
said 18 'signals'
said 19 'divides by zero'
said 23 'trap'
said 24 'instruction that it cannot use'
said 27 'memory of the recorded program'
said 34 'instruction that it cannot use'
said 35 'memory of the recorded program'
said 36 'memory of the recorded program'
[ "$(grep -c 'it has used up its stack' err)" = 2 ] || fail "no stack overflow: $(cat err)"
[ "$(grep -c 'it jumps to 0x12345678' err)" = 2 ] || fail "no wild jump: $(cat err)"
for text in 'not read' 'no way around' 'not mapped' 'not unmapped'; do
  [ "$(grep -c "^$text$" out)" = 2 ] || fail "'$text' was not said twice: $(cat out)"
done
ok
