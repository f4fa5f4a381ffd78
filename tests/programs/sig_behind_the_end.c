// Signal frames on a stack in a mapped file that ends before them.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static void handler(int n) { (void)!write(1, "handled\n", 8), (void)n; }
int main(int argc, char **argv) {
  int file = memfd_create("short", 0), way = argc > 1 ? atoi(argv[1]) : 0;
  if (ftruncate(file, 4096) != 0) return 1;
  char *p = mmap(0, 16 * 4096, PROT_READ | PROT_WRITE, way & 1 ? MAP_PRIVATE : MAP_SHARED, file, 0);
  stack_t alternate = {.ss_sp = p + 4096, .ss_size = 15 * 4096};
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  if (sigaltstack(&alternate, 0) != 0 || sigaction(SIGUSR1, &action, 0) != 0 || sigaction(SIGBUS, &action, 0) != 0)
    return 1;
  puts("ready"), fflush(stdout);
  if (way / 2 == 0) raise(SIGUSR1);
  if (way / 2 == 1) *(volatile char *)(p + 8192) = 1;  // the fault's own frame does not fit either
  if (way / 2 == 2) __asm__ volatile("mov %0, %%rsp; mov $15, %%eax; syscall" : : "r"(p + 8192) : "memory");
  puts("not here");
  return 0;
}
