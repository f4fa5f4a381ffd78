#!/usr/bin/env bash
# Loads and stores that translated code reports are those that single steps show, in the same order, with the same values: of
# every form of operand, string instructions, masks and gathers, faults in the middle, signals, code that changes itself, threads;
# in one window or in many, and asked of some memory, some code or one thread only. What the kernel writes is among them.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
cat >forms.c <<'C'
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <immintrin.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#define WAY __attribute__((noinline))
static uint64_t words[64] __attribute__((aligned(64)));
static uint8_t bytes[256] __attribute__((aligned(64)));
static char* page;
static volatile int sink;
static __thread int own = 3;
WAY void integers(void) {
  uint64_t a = 5, b = 7, c = 1;
  __asm__ volatile(
      "addq %0, 8(%3); adcb $3, (%3); subl %k1, 16(%3,%2,8); xchgq %0, 24(%3); lock xaddq %1, 32(%3)\n\t"
      "movq %3, %%rdx; xchgq %%rdx, (%%rdx); movq %%rdx, (%3)\n\t"
      "lock cmpxchgq %1, 40(%3); cmpxchg %%eax, 40(%3); notw 48(%3); negb 50(%3); incl 52(%3); decq 56(%3)\n\t"
      "btsq %2, 64(%3); btq $5, 64(%3); movl $130, %%eax; btcl %%eax, 64(%3); shlq $3, 72(%3); rolb %%cl, 80(%3); shldq $4, %0, 88(%3)\n\t"
      "cmoveq 96(%3), %0; setc 104(%3); movzbl 104(%3), %k0; movsbq 105(%3), %0; movswl 106(%3), %k0; movslq 108(%3), %0\n\t"
      "imulq $3, 8(%3), %0; imulq 16(%3), %0; testb $1, 8(%3); cmpq $4, 8(%3); cmpb %b0, 9(%3); movb $9, 112(%3); movw $300, 114(%3)\n\t"
      "movl $-2, 116(%3); movq $-3, 120(%3); movbeq %0, 128(%3); movbel 128(%3), %k0; popcntq 8(%3), %0; bsfq 120(%3), %0\n\t"
      "pushq 8(%3); popq 136(%3); pushq $77; popq %0; pushfq; popq %0; pushq %%rsp; popq %0; pushw $3; popw %w0\n\t"
      "movb %%ah, 144(%3); movb 145(%3), %%ch; movw %w0, 146(%3); movl %k0, 148(%3)\n\t"
      "andn 8(%3), %0, %1; mulx 16(%3), %0, %1; sarx %2, 24(%3), %0; pextrq $1, %%xmm0, 152(%3); rorx $3, 8(%3), %0\n\t"
      "enter $32, $0; movq %%rbx, -8(%%rbp); leave\n\t"
      : "+r"(a), "+r"(b), "+c"(c) : "b"(words) : "rax", "rdx", "memory", "cc");
  sink += (int)(a + b);
}
WAY void far_and_local(void) {
  own += 4;
  sink += own;
  uint64_t base = (uint64_t)words, v;
  syscall(SYS_arch_prctl, ARCH_SET_GS, base);
  __asm__ volatile("movq %%gs:8, %0; addq $2, %%gs:16; movq %0, %%gs:24(,%1,8); pushq %%gs:8; popq %0" : "=&r"(v) : "r"(1ul) : "memory");
  __asm__ volatile("movl (%k1), %k0; addl $1, 4(%k1)" : "=&r"(v) : "r"(words) : "memory");  // 32-bit addresses
  // The segment's base and two registers.
  __asm__ volatile("movq %%fs:0, %0; movq %%fs:(%1,%1), %0; movq %%fs:(,%1,8), %0" : "=&r"(v) : "r"(0ul));
}
WAY void vectors(void) {
  __asm__ volatile(
      "movups (%0), %%xmm0; movaps %%xmm0, 16(%0); movss 4(%0), %%xmm1; movsd %%xmm1, 8(%0); movq 16(%0), %%xmm2; movd %%xmm2, 20(%0)\n\t"
      "addps 16(%0), %%xmm0; addsd 8(%0), %%xmm1; cvtsi2sdl 4(%0), %%xmm1; cvtps2pd 8(%0), %%xmm1; pmovzxbw 8(%0), %%xmm3; pinsrb $3, 9(%0), %%xmm3\n\t"
      "vmovdqu (%0), %%ymm4; vpaddd 32(%0), %%ymm4, %%ymm4; vmovdqa %%ymm4, 64(%0); vbroadcastss 4(%0), %%ymm5; vextracti128 $1, %%ymm4, 96(%0)\n\t"
      "vfmadd231sd 8(%0), %%xmm1, %%xmm2; vpmovsxbd 8(%0), %%ymm6; vinserti128 $1, 16(%0), %%ymm4, %%ymm4; movhps %%xmm0, 112(%0); vpsrlw 16(%0), %%ymm4, %%ymm4\n\t"
      "fldt 128(%0); fldl 8(%0); faddp; fstpt 144(%0); fildl 4(%0); fistpq 160(%0); fldcw 170(%0); fnstcw 172(%0); stmxcsr 176(%0); ldmxcsr 176(%0)\n\t"
      "fnstenv 192(%0); fldenv 192(%0)\n\t"
      :: "r"(bytes) : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "memory");
  __m256i index = _mm256_setr_epi32(0, 3, 5, 7, 2, 1, 9, 4), mask = _mm256_setr_epi32(-1, 0, -1, -1, 0, 0, -1, 0);
  __m256i got = _mm256_mask_i32gather_epi32(index, (int*)words, index, mask, 4);
  _mm256_maskstore_epi32((int*)words + 40, mask, got);
  sink += _mm256_extract_epi32(_mm256_maskload_epi32((int*)words + 40, mask), 2);
  __m128i far = _mm_setr_epi8(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
  _mm_maskmoveu_si128(far, _mm_set1_epi16((short)0x80ff), (char*)bytes + 200);
  static uint8_t area[4096] __attribute__((aligned(64)));
  __asm__ volatile("xsave (%0); fxsave 1024(%0); fxrstor 1024(%0); xrstor (%0)" :: "r"(area), "a"(7), "d"(0) : "memory");
}
WAY void strings(void) {
  char from[300], *d = from, *s = (char*)bytes;
  size_t n = sizeof from;
  __asm__ volatile("rep stosb" : "+D"(d), "+c"(n) : "a"(7) : "memory");
  d = from, n = 20;
  __asm__ volatile("rep movsq" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
  d = from + 100, s = from + 99, n = 50;
  __asm__ volatile("std; rep movsb; cld" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
  d = from, s = (char*)bytes, n = 30;
  __asm__ volatile("repe cmpsb; movsb; stosl; lodsw; scasb; cmpsl" : "+D"(d), "+S"(s), "+c"(n) : : "memory", "rax");
  uint64_t al = 3;
  __asm__ volatile("xlatb" : "+a"(al) : "b"(bytes));
  sink += (int)al;
}
// The page has no access when these come to it; the handler opens it.
static void allow(int s, siginfo_t* i, void* c) {
  static int times;
  (void)s, (void)i, (void)c;
  if (++times > 100) _exit(3);  // it was another place
  mprotect(page, 8192, PROT_READ | PROT_WRITE);
}
WAY void faults(void) {
  uint64_t v;
  mprotect(page, 4096, PROT_NONE);
  __asm__ volatile("movq 8(%1), %0; movq %0, 16(%1); movq $1, (%2); movq (%2), %0; movq %0, 24(%1)" : "=&r"(v) : "r"(words), "r"(page) : "memory");
  mprotect(page, 4096, PROT_NONE);
  __asm__ volatile("movq 8(%1), %0; addq %0, 8(%2); movq 8(%2), %0" : "=&r"(v) : "r"(words), "r"(page) : "memory");
  mprotect(page, 4096, PROT_READ);
  __asm__ volatile("movq 8(%1), %0; movq %0, 16(%2); pushq %0; popq %0" : "=&r"(v) : "r"(words), "r"(page) : "memory");
  mprotect(page + 4096, 4096, PROT_NONE);
  char *d = page + 4000, *s = (char*)bytes;
  size_t n = 200;
  __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");  // half of it
  mprotect(page, 4096, PROT_NONE);
  d = page + 4200, s = page + 4199, n = 180;
  __asm__ volatile("std; rep movsb; cld" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
  mprotect(page, 4096, PROT_NONE);
  // A call and a push whose stack is not there.
  __asm__ volatile("movq %%rsp, %0; leaq 64(%1), %%rsp; pushq $5; popq %%rdx; movq %0, %%rsp" : "=&r"(v) : "r"(page) : "rdx", "memory");
}
WAY void changing_code(void) {
  uint8_t* code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // mov [rdi], rsi; mov byte [rip+1], 0x55; mov eax, 1; mov rax, [rdi]; ret
  static const uint8_t text[] = {0x48, 0x89, 0x37, 0xc6, 0x05, 1, 0, 0, 0, 0x55, 0xb8, 1, 0, 0, 0, 0x48, 0x8b, 0x17, 0xc3};
  for (int i = 0; i < 4; i++) {
    memcpy(code, text, sizeof text);
    sink += ((int (*)(uint64_t*, uint64_t))code)(words + 20, (uint64_t)i);
    code[11] = (uint8_t)i;
    sink += ((int (*)(uint64_t*, uint64_t))code)(words + 21, (uint64_t)i);
  }
}
WAY int twice(int n) { return 2 * n; }
WAY int thrice(int n) { sink += n; return 3 * n; }
WAY int by_pointer(int n) { static int (*ways[])(int) = {twice, thrice}; return ways[n % 2](n); }
static void on_alarm(int s) { (void)s; sink++; }
static void* thread(void* arg) {
  for (int i = 0; i < 60; i++) sink += by_pointer(i + (int)(long)arg), own++;
  strings();
  return 0;
}
int main(void) {
  for (unsigned i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
  page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction a = {.sa_sigaction = allow, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  stack_t other = {.ss_sp = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), .ss_size = 65536};
  sigaltstack(&other, 0);
  sigaction(SIGSEGV, &a, 0);
  signal(SIGALRM, on_alarm);
  struct itimerval timer = {{0, 700}, {0, 700}};
  setitimer(ITIMER_REAL, &timer, 0);
  pthread_t t[2];
  for (long i = 0; i < 2; i++) pthread_create(&t[i], 0, thread, (void*)i);
  for (int i = 0; i < 3; i++) {
    integers();
    far_and_local();
    vectors();
    strings();
    faults();
    changing_code();
    for (int k = 0; k < 20; k++) sink += by_pointer(k);
  }
  for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
  int ends[2];
  char in[40];
  if (pipe(ends) || write(ends[1], bytes, 30) != 30) return 1;
  struct iovec parts[2] = {{in, 7}, {in + 20, 20}};
  if (readv(ends[0], parts, 2) != 27 || read(ends[0], in, 3) != 3) return 1;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  sink += in[2] + (int)now.tv_nsec % 2;
  printf("%d\n", sink > 0);
  return 0;
}
C
gcc -g -O1 -static -mavx2 -mfma -mbmi -mbmi2 -mmovbe -mpopcnt -Wno-frame-address -o forms forms.c -pthread
expect 0 "$BACKSTEP" record -q -o run ./forms
expect 0 "$BUILD/reference" --values --most 1000000 run
mv "$T/out" steps
tail -n 1 steps | grep -q end || fail "the reference has not seen all of it"
ticks=$(ticks_of run)
expect 0 "$PYTHON" "$SRC/tests/cases/accesses_agree.py" --windows "$((ticks / 3)) $((ticks / 40))" "$BUILD/accesses" steps run
read -r all kernel vague <"$T/out"
[ "$all" -gt 8000 ] && [ "$kernel" -gt 10 ] && [ "$vague" -gt 10 ] || fail "only $all, $kernel of the kernel's, $vague unsure ones"

# As tables: what one function reads and writes.
read -r start size _ < <(nm -S --defined-only forms | grep ' integers$')
for kind in loads stores; do
  "$BUILD/accesses" --$kind --code "0x$start:$((0x$start + 0x$size))" run |
    awk 'NF > 1 { split($6, place, ":"); print $1 "," $3 "," $4 "," place[1] "," place[2] }' >expected
  [ "$(wc -l <expected)" -gt 100 ] || fail "only $(wc -l <expected) $kind of a function"
  expect 0 "$BACKSTEP" sql --csv run "SELECT tick, pc, thread, addr, size FROM $kind WHERE function = 'integers'"
  tail -n +2 "$T/out" | diff - expected >difference || fail "$kind as a table: $(head -3 difference)"
done
expect 0 "$BACKSTEP" sql --csv run "SELECT count(*) FROM loads WHERE addr = (SELECT addr FROM loads WHERE function = 'integers' LIMIT 1)"
[ "$(tail -n 1 "$T/out")" -ge 3 ] || fail "loads of an address: $(cat "$T/out")"

# Programs of others, from the middle on.
agrees() {  # COMMAND...
  expect 0 "$BACKSTEP" record -q -o other "$@"
  from=$(($(ticks_of other) * 2 / 3))
  expect 0 "$BUILD/reference" --values --most 40000 --from $from other
  mv "$T/out" steps
  expect 0 "$PYTHON" "$SRC/tests/cases/accesses_agree.py" --windows 500 --from $from "$BUILD/accesses" steps other
  rm -rf other
}
agrees gawk 'BEGIN { for (i = 0; i < 300; i++) a[i] = i * i; for (k in a) s += a[k]; print(s) }'
agrees perl -e 'print(join(q(,), map { $_ * 2 } 1..50))'
ok
