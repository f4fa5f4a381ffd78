// Code in memory that is mapped shared, with instructions that lie across the borders of pages; new code
// again and again, also when a child has the memory, too.
//
//   jit_border [twice|once [FILE]]    once: one mapping to write and to execute; in that file, else in one
//   without
//                                     a name
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096, kPages = 8 };
static uint8_t *code, *writable;

// A function that begins in the first page and goes through all others; it returns the sum of what it finds
// on the way.
static void write_code(uint64_t value, unsigned before_border) {
  uint8_t* at = writable + 64;
  memcpy(at, "\x31\xc0", 2);  // xor %eax, %eax
  at += 2;
  for (int page = 1; page < kPages; page++) {
    uint8_t* next = writable + page * kPage - before_border;
    *at = 0xe9;  // jmp
    const int32_t distance = (int32_t)(next - (at + 5));
    memcpy(at + 1, &distance, 4);
    at = next;
    memcpy(at, "\x48\xb9", 2);  // movabs $value, %rcx
    const uint64_t here = value * (uint64_t)page;
    memcpy(at + 2, &here, 8);
    memcpy(at + 10, "\x48\x01\xc8", 3);  // add %rcx, %rax
    at += 13;
  }
  *at = 0xc3;  // ret
}

static uint64_t run(void) {
  uint64_t (*function)(void);
  void* start = code + 64;
  memcpy(&function, &start, sizeof function);
  return function();
}

static int check(const char* who) {
  int wrong = 0;
  for (unsigned before = 1; before < 14; before++)
    for (uint64_t value = 1; value < 4; value++) {
      write_code(value, before);
      wrong += run() != value * kPages * (kPages - 1) / 2;
    }
  printf("%s: %d wrong\n", who, wrong);
  fflush(stdout);
  return wrong;
}

int main(int argc, char** argv) {
  const int once = argc > 1 && !strcmp(argv[1], "once");
  int fd = argc > 2 ? open(argv[2], O_RDWR | O_CREAT, 0700) : memfd_create("code", 0);
  if (ftruncate(fd, kPages * kPage)) return 1;
  writable = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE | (once ? PROT_EXEC : 0), MAP_SHARED, fd, 0);
  code = once ? writable : mmap(NULL, kPages * kPage, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  int wrong = check("alone");
  int ready[2];
  if (pipe(ready)) return 1;
  pid_t child = fork();
  if (child == 0) {
    write_code(5, 3);
    if (run() != 140 || write(ready[1], "", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  wrong += read(ready[0], &byte, 1) != 1 || run() != 140;
  wrong += check("with a child");
  kill(child, SIGTERM);
  wrong += waitpid(child, NULL, 0) != child;
  wrong += check("alone again");
  return wrong != 0;
}
