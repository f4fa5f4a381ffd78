// What the mem_* programs share: what is to be seen at an address, or which fault.
#pragma once
#include <setjmp.h>
#include <signal.h>

#include "check.h"

enum { kPage = 4096 };

static sigjmp_buf back;
static inline void on_fault(int signo) {
  siglongjmp(back, signo);
}
static inline const char* text_at(char* at) {
  int signo = sigsetjmp(back, 1);
  if (signo) return signo == SIGBUS ? "SIGBUS" : "SIGSEGV";
  return *(volatile char*)at ? at : "empty";
}
static inline void show_pages(const char* what, char* at, int pages) {
  printf("%s:", what);
  for (int i = 0; i < pages; i++) printf(" %s", text_at(at + i * kPage));
  printf("\n");
  fflush(stdout);
}
