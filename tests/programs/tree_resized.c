// A file that is mapped shared becomes longer and shorter, while the one who looks at it computes: pages
// appear, and go (SIGBUS, EFAULT), and come back as zeroes. Prints what it saw.
//
//   tree_resized mapped|unmapped|truncating|words FILE ROUNDS    who changes the file has it mapped, too, or
//   not (it executes
//                                                    this program anew), or opens it with O_TRUNC and writes
//                                                    it again; "words" stores the same words again and again
//                                                    into what the other changes
//   tree_resized change HOW FILE ROUNDS              is the other one: reads a byte for each round, answers
//   with one
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096, kPages = 32 };

static uint32_t seed = 12345;
static uint32_t draw(uint32_t below) {
  seed = seed * 1664525 + 1013904223;
  return (seed >> 8) % below;
}

static void change(const char* how, const char* file, int rounds) {
  seed = 99;
  int fd = open(file, O_RDWR);
  unsigned char* mine = NULL;
  if (!strcmp(how, "mapped")) mine = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  for (int i = 0; i < rounds; i++) {
    char byte;
    if (read(0, &byte, 1) != 1) _exit(1);
    unsigned char block[300];
    memset(block, 1 + i % 200, sizeof block);
    const uint32_t page = draw(kPages);
    if (!strcmp(how, "words")) {
      if (pwrite(fd, block, sizeof block, (i % 3) * 64) < 0) _exit(2);
    } else if (!strcmp(how, "truncating") && draw(4) == 0) {
      close(fd);
      fd = open(file, O_RDWR | O_TRUNC);
    } else if (draw(3) == 0) {
      if (ftruncate(fd, page * kPage + draw(2) * 100)) _exit(2);
    } else if (mine && draw(2) == 0) {
      const off_t size = lseek(fd, 0, SEEK_END);
      if (size >= kPage)
        memcpy(mine + draw((uint32_t)(size / kPage)) * kPage + draw(3000), block, sizeof block);
    } else if (pwrite(fd, block, sizeof block, page * kPage + draw(4000)) < 0) {
      _exit(2);
    }
    if (write(1, &byte, 1) != 1) _exit(1);
  }
  _exit(0);
}

static sigjmp_buf back;
static void on_bus(int signo, siginfo_t* info, void* context) {
  (void)signo, (void)context;
  siglongjmp(back, info->si_code == BUS_ADRERR ? 1 : 2);
}

static int to_other[2], from_other[2];
static void let_it_change(void) {
  char byte = 0;
  if (write(to_other[1], &byte, 1) != 1 || read(from_other[0], &byte, 1) != 1) _exit(3);
}

int main(int argc, char** argv) {
  if (argc == 5) change(argv[2], argv[3], atoi(argv[4]));
  const char *how = argv[1], *file = argv[2];
  const int rounds = atoi(argv[3]);
  int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (ftruncate(fd, 3 * kPage)) return 4;
  unsigned char* seen = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pipe(to_other) || pipe(from_other)) return 4;
  pid_t child = fork();
  if (child == 0) {
    dup2(to_other[0], 0), dup2(from_other[1], 1);
    if (strcmp(how, "mapped")) execl("/proc/self/exe", argv[0], "change", how, file, argv[3], (char*)NULL);
    munmap(seen, kPages * kPage);
    change(how, file, rounds);
  }
  if (!strcmp(how, "words")) {
    // The same vector into the same place, whatever is there: it must be there afterwards.
    static unsigned char words[64] __attribute__((aligned(64))) =
        "the same sixty-four bytes again and again, with zeroes behind";
    int kept = 0;
    for (int i = 0; i < rounds; i++) {
      for (int at = 0; at < 256; at += 64)
        for (int part = 0; part < 64; part += 16)
          __asm__ volatile("movdqa (%0), %%xmm0; movdqa %%xmm0, (%1)" ::"r"(words + part),
                           "r"(seen + at + part)
                           : "xmm0", "memory");
      unsigned char check[64];
      for (int at = 0; at < 256; at += 64)
        kept += pread(fd, check, 64, at) == 64 && !memcmp(check, words, 64);
      let_it_change();
    }
    printf("%d of %d stores were kept\n", kept, 4 * rounds);
    return waitpid(child, NULL, 0) == child ? 0 : 5;
  }
  struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGBUS, &action, NULL);
  volatile uint64_t sum = 0, buses = 0, faults = 0;
  int ends[2];
  if (pipe(ends)) return 4;
  for (volatile int i = 0; i < rounds; i++) {
    let_it_change();
    for (volatile int k = 0; k < 4; k++) {
      const uint32_t page = draw(kPages), place = draw(kPage - 8);
      const uint32_t kind = draw(6);
      if (sigsetjmp(back, 1)) {
        buses++;
        continue;
      }
      unsigned char* at = seen + page * kPage;
      if (kind == 0) {
        at[place]++;
      } else if (kind == 1) {  // over the border of a page, perhaps into nothing
        static unsigned char copy[3 * kPage];
        void *to = copy, *from = at;
        unsigned long n = page + 3 <= kPages ? sizeof copy : kPage;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
        for (unsigned j = 0; j < sizeof copy; j += 57) sum = sum * 31 + copy[j];
      } else if (kind == 2) {  // by the kernel
        char copy[64];
        if (write(ends[1], at + place / 2, 64) == 64) {
          if (read(ends[0], copy, 64) == 64) sum += (unsigned char)copy[5];
        } else {
          faults++;
        }
      } else {
        uint64_t word;
        memcpy(&word, at + place, 8);
        sum = sum * 31 + word;
      }
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("%llx, %llu bus errors, %llu faults, status %d\n", (unsigned long long)sum,
         (unsigned long long)buses, (unsigned long long)faults, status);
  return 0;
}
