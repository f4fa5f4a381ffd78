// Threads without a C library: clone, set_tid_address and futex by hand. The child gets its stack, its FS base (SETTLS)
// and two words (PARENT_SETTID, CHILD_CLEARTID); the parent waits for the second to become zero.
#include <linux/futex.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/syscall.h>

static long call6(long nr, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
static long call3(long nr, long a, long b, long c) { return call6(nr, a, b, c, 0, 0, 0); }

static void say(const char* text, long number) {
  char line[100];
  int n = 0;
  while (*text) line[n++] = *text++;
  char digits[24];
  int d = 0;
  unsigned long rest = number < 0 ? -(unsigned long)number : (unsigned long)number;
  do digits[d++] = (char)('0' + rest % 10);
  while (rest /= 10);
  if (number < 0) digits[d++] = '-';
  while (d) line[n++] = digits[--d];
  line[n++] = '\n';
  call3(SYS_write, 1, (long)line, n);
}
static void must(int good, long line) {
  if (good) return;
  say("failed in line ", line);
  call3(SYS_exit_group, 1, 0, 0);
}
#define MUST(x) must(!!(x), __LINE__)

struct Thread {
  long tls[8];  // tls[0] is read through FS
  long (*function)(struct Thread*);
  long result;
  int parent_tid, child_tid;
  long number;
  char stack[16384] __attribute__((aligned(64)));
};

enum {
  kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
           CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
};

// The child starts behind the system call with the new stack, on which it finds its argument.
long raw_clone(long flags, void* stack, int* parent_tid, int* child_tid, void* tls);
__asm__(
    ".globl raw_clone\n"
    "raw_clone:\n"
    "  mov %rcx, %r10\n"
    "  mov $56, %eax\n"
    "  syscall\n"
    "  test %rax, %rax\n"
    "  jz 1f\n"
    "  ret\n"
    "1: xor %ebp, %ebp\n"
    "  pop %rdi\n"
    "  call child_main\n"
    "  hlt\n");

__attribute__((used)) void child_main(struct Thread* thread) {
  long fs;
  __asm__ volatile("mov %%fs:0, %0" : "=r"(fs));
  MUST(fs == 1000 + thread->number);
  MUST(call3(SYS_gettid, 0, 0, 0) == thread->child_tid);
  thread->result = thread->function(thread);
  call3(SYS_exit, 9, 0, 0);
}

static long start(struct Thread* thread, long number, long (*function)(struct Thread*)) {
  thread->number = number;
  thread->tls[0] = 1000 + number;
  thread->function = function;
  thread->child_tid = -1;
  void** top = (void**)(thread->stack + sizeof thread->stack - 64);
  *top = thread;
  long tid = raw_clone(kFlags, top, &thread->parent_tid, &thread->child_tid, thread->tls);
  MUST(tid > 0 && thread->parent_tid == tid);
  return tid;
}
static void join(struct Thread* thread) {
  int tid;
  while ((tid = __atomic_load_n(&thread->child_tid, __ATOMIC_ACQUIRE)) != 0)
    call6(SYS_futex, (long)&thread->child_tid, FUTEX_WAIT, tid, 0, 0, 0);
}

static int lock;  // 0 free, 1 taken, 2 taken with waiters
static long counter;
static void take(void) {
  int old = 0;
  if (__atomic_compare_exchange_n(&lock, &old, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
  while (__atomic_exchange_n(&lock, 2, __ATOMIC_ACQUIRE) != 0)
    call6(SYS_futex, (long)&lock, FUTEX_WAIT_PRIVATE, 2, 0, 0, 0);
}
static void release(void) {
  if (__atomic_exchange_n(&lock, 0, __ATOMIC_RELEASE) == 2) call6(SYS_futex, (long)&lock, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}
static long count(struct Thread* thread) {
  for (int i = 0; i < 5000; i++) {
    take();
    counter++;
    release();
  }
  return thread->number * 10;
}
static int word;
static long other_word(struct Thread* thread) {
  // The word that is cleared and woken at the end can be changed by the thread itself.
  long tid = call3(SYS_set_tid_address, (long)&word, 0, 0);
  MUST(tid == thread->parent_tid);
  return 3;
}

static struct Thread threads[6];

__attribute__((noreturn, used)) void main_(void) {
  long pid = call3(SYS_getpid, 0, 0, 0);
  MUST(call3(SYS_set_tid_address, 0, 0, 0) == pid);
  MUST(call3(SYS_gettid, 0, 0, 0) == pid);
  long tids[6];
  for (int i = 0; i < 6; i++) tids[i] = start(&threads[i], i, count);
  long sum = 0;
  for (int i = 0; i < 6; i++) {
    join(&threads[i]);
    sum += threads[i].result;
    MUST(tids[i] != pid);
    for (int k = 0; k < i; k++) MUST(tids[i] != tids[k]);
  }
  say("counter ", counter);
  say("sum ", sum);
  for (int i = 0; i < 50; i++) {
    start(&threads[i % 6], i, count);
    join(&threads[i % 6]);
  }
  say("again ", counter);
  word = 55;
  start(&threads[0], 0, other_word);
  while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) != 0) call6(SYS_futex, (long)&word, FUTEX_WAIT, 55, 0, 0, 0);
  MUST(threads[0].child_tid == threads[0].parent_tid && threads[0].result == 3);
  say("word ", word);
  // Flags that make no sense together.
  MUST(raw_clone(CLONE_THREAD, 0, 0, 0, 0) == -22);
  MUST(raw_clone(CLONE_THREAD | CLONE_SIGHAND, 0, 0, 0, 0) == -22);
  MUST(raw_clone(CLONE_SIGHAND, 0, 0, 0, 0) == -22);
  say("status ", 4);
  call3(SYS_exit_group, 4, 0, 0);
  __builtin_unreachable();
}
__asm__(
    ".globl _start\n"
    "_start: xor %ebp, %ebp\n"
    "  and $-16, %rsp\n"
    "  call main_\n");
