// C without any library: sorting, a small interpreter with a jump table, function pointers, recursion, string
// instructions, a fault with a handler; system calls on the way are the sampled control points.
typedef unsigned long u64;

static long call(long nr, long a, long b, long c, long d) {
  long result;
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
  return result;
}
static void marker(void) {
  call(9999, 0, 0, 0, 0);
}

static u64 seed = 12345;
static u64 next(void) {
  return seed = seed * 6364136223846793005u + 1442695040888963407u, seed >> 33;
}

static int numbers[500];
static void sort(int* first, int* last) {
  if (last - first < 2) return;
  int pivot = first[(last - first) / 2], *i = first, *j = last - 1;
  for (;;) {
    while (*i < pivot) i++;
    while (*j > pivot) j--;
    if (i >= j) break;
    int t = *i;
    *i++ = *j, *j-- = t;
  }
  sort(first, i);
  sort(i, last);
}

static long interpret(const unsigned char* program, int rounds) {
  static const void* const labels[] = {&&add, &&xor, &&shift, &&loop, &&end};
  long value = 1;
  const unsigned char* at = program;
  goto* labels[*at++];
add:
  value += 12345;
  goto* labels[*at++];
  xor : value ^= value >> 3;
  goto* labels[*at++];
shift:
  value = value * 5 + 1;
  goto* labels[*at++];
loop:
  if (--rounds > 0) at = program;
  goto* labels[*at++];
end:
  return value;
}

static u64 fib(u64 n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
static u64 twice(u64 x) {
  return x * 2;
}
static u64 minus(u64 x) {
  return x - 7;
}
static u64 (*const volatile functions[])(u64) = {fib, twice, minus};

static volatile int faults;
static char page[8192] __attribute__((aligned(4096)));
static void on_fault(int signo) {
  (void)signo;
  faults++;
  call(10, (long)page, 4096, 3, 0);  // mprotect
}
__attribute__((naked)) static void restorer(void) {
  __asm__("mov $15, %eax; syscall");
}

__attribute__((used)) static void run(void) {
  marker();
  for (int i = 0; i < 500; i++) numbers[i] = (int)(next() % 1000);
  sort(numbers, numbers + 500);
  marker();
  long value = interpret((const unsigned char*)"\0\1\2\1\0\3\4", 300);
  marker();
  u64 sum = 0;
  for (u64 i = 0; i < 15; i++) {
    sum += functions[i % 3](i);
    call(39, 0, 0, 0, 0);
  }
  marker();
  struct {
    void (*handler)(int);
    u64 flags;
    void (*restorer)(void);
    u64 mask;
  } action = {on_fault, 0x04000000, restorer, 0};
  call(13, 11, (long)&action, 0, 8);  // rt_sigaction(SIGSEGV)
  for (int i = 0; i < 10; i++) {
    call(10, (long)page, 4096, 1, 0);
    ((volatile char*)page)[i] = 5;
  }
  marker();
  int ordered = 1;
  for (int i = 1; i < 500; i++) ordered &= numbers[i - 1] <= numbers[i];
  call(231, !(ordered && faults == 10 && sum && value), 0, 0, 0);
}

__attribute__((naked, used)) void _start(void) {
  __asm__("and $-16, %rsp; xor %ebp, %ebp; call run; hlt");
}
