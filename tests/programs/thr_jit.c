// Code that one thread writes and others run: new functions through a pointer, a function that is rewritten between
// runs (writable and executable; or by changing the protection; or through a second mapping), a constant that is patched
// while another thread runs over it, and code that is unmapped and replaced by other code.
#include <sys/mman.h>

#include "thr.h"

typedef int (*Function)(void);
// mov eax, value; ret. The constant is at a multiple of 4, so that patching it is one store.
static void emit(unsigned char* at, int value) {
  at[3] = 0xb8;
  memcpy(at + 4, &value, 4);
  at[8] = 0xc3;
}
static Function function_at(unsigned char* at) { return (Function)(at + 3); }

static _Atomic(Function) published;
static atomic_int expected, ran, stop;
static pthread_barrier_t barrier;

// Functions appear one after another; the runner calls whatever is there.
static void* runs_published(void* argument) {
  int last = 0, calls = 0;
  while (!stop) {
    Function f = published;
    if (!f) continue;
    int value = f();
    CHECK(value >= last);
    last = value;
    calls++;
  }
  return (void*)(long)(calls > 0);
}
static void new_functions(void) {
  unsigned char* area = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED);
  pthread_t threads[2] = {start(runs_published, 0), start(runs_published, 0)};
  for (int i = 0; i < 1000; i++) {
    emit(area + i * 16, i);
    published = function_at(area + i * 16);
    if (i % 50 == 0) sched_yield();
    CHECK(published() == i);
  }
  sleep_us(1000);
  stop = 1;
  CHECK(join(threads[0]) + join(threads[1]) >= 0);
  said("new functions");
}

// The same function over and over, in step: written by main, run by all.
static unsigned char *shared_code, *writable;
static int rounds, mode;
static void* runs_in_step(void* argument) {
  long sum = 0;
  for (int i = 0; i < rounds; i++) {
    pthread_barrier_wait(&barrier);
    // Serialising, as the manual wants after code was changed by another processor.
    unsigned a = 0, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d)::"memory");
    sum += function_at(shared_code)();
    pthread_barrier_wait(&barrier);
  }
  return (void*)sum;
}
static void rewritten(int how, const char* name) {
  mode = how, rounds = 100;
  int fd = (int)syscall(SYS_memfd_create, "code", 0);
  CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
  if (how == 2) {
    writable = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shared_code = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  } else {
    writable = shared_code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  CHECK(writable != MAP_FAILED && shared_code != MAP_FAILED);
  pthread_barrier_init(&barrier, 0, 4);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) threads[i] = start(runs_in_step, 0);
  for (int i = 0; i < rounds; i++) {
    if (how == 1) CHECK(mprotect(writable, 4096, PROT_READ | PROT_WRITE) == 0);
    if (how == 3) CHECK(mmap(writable, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == writable);
    emit(writable, i);
    if (how == 1) CHECK(mprotect(writable, 4096, PROT_READ | PROT_EXEC) == 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
  }
  long sum = 0;
  for (int i = 0; i < 3; i++) sum += join(threads[i]);
  printf("%s %ld\n", name, sum);
  pthread_barrier_destroy(&barrier);
  munmap(writable, 4096);
  if (how == 2) munmap(shared_code, 4096);
  close(fd);
}

// Patched under running feet: the runner sees old or new, never goes back, and sees the last one in the end.
static void* runs_patched(void* argument) {
  Function f = function_at(shared_code);
  int last = 0;
  while (last != 500) {
    int value = f();
    CHECK(value >= last && value <= 500);
    last = value;
  }
  return 0;
}
static void patched(void) {
  shared_code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(shared_code != MAP_FAILED);
  emit(shared_code, 0);
  pthread_t threads[2] = {start(runs_patched, 0), start(runs_patched, 0)};
  for (int i = 1; i <= 500; i++) {
    __atomic_store_n((int*)(shared_code + 4), i, __ATOMIC_SEQ_CST);
    if (i % 100 == 0) sleep_us(300);
  }
  join(threads[0]), join(threads[1]);
  said("patched while running");
}

// A loop is left by a patched jump: `jmp self` becomes two nops.
static void* in_loop(void* argument) {
  return (void*)(long)((Function)shared_code)();
}
static void loop_left(void) {
  shared_code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  static const unsigned char code[] = {0xeb, 0xfe, 0x90, 0xb8, 77, 0, 0, 0, 0xc3};
  memcpy(shared_code, code, sizeof code);
  pthread_t thread = start(in_loop, 0);
  sleep_us(2000);
  __atomic_store_n((unsigned short*)shared_code, 0x9090, __ATOMIC_SEQ_CST);
  printf("left the loop with %ld\n", join(thread));
}

int main(void) {
  new_functions();
  rewritten(0, "rewritten");
  rewritten(1, "protected");
  rewritten(2, "mapped twice");
  rewritten(3, "mapped again");
  patched();
  loop_left();
  return 0;
}
