// String instructions: every width, rep/repe/repne, DF=1, count 0 (flags and registers unchanged), 32-bit
// address size, segment prefix, overlapping copies, copies over page ends, and one that faults in the middle
// and is resumed by the handler with its registers half-way.
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

static char* fault_page;
static int faults;

static void on_fault(int signo, siginfo_t* info, void* context) {
  (void)signo, (void)context;
  CHECK((char*)info->si_addr == fault_page);
  faults++;
  CHECK(mprotect(fault_page, 4096, PROT_READ | PROT_WRITE) == 0);
}

int main(void) {
  char source[256], target[256];
  for (int i = 0; i < 256; i++) source[i] = (char)next_number();
  void *si = source, *di = target;
  unsigned long count = 256;
  __asm__ volatile("cld; rep movsb" : "+S"(si), "+D"(di), "+c"(count)::"memory");
  CHECK(memcmp(source, target, 256) == 0 && (char*)si == source + 256 && count == 0);
  si = source + 248, di = target + 240, count = 31;
  __asm__ volatile("std; rep movsq; cld" : "+S"(si), "+D"(di), "+c"(count)::"memory");
  CHECK(memcmp(source + 8, target, 248) == 0 && (char*)si == source && count == 0);

  // Overlapping forward copy repeats a pattern.
  char pattern[64] = "abc";
  si = pattern, di = pattern + 3, count = 30;
  __asm__ volatile("rep movsb" : "+S"(si), "+D"(di), "+c"(count)::"memory");
  CHECK(memcmp(pattern, "abcabcabcabcabcabcabcabcabcabcabc", 33) == 0);

  unsigned short words[40];
  di = words, count = 40;
  __asm__ volatile("rep stosw" : "+D"(di), "+c"(count) : "a"(0xbeef) : "memory");
  CHECK(words[0] == 0xbeef && words[39] == 0xbeef);
  words[25] = 1;
  di = words, count = 40;
  unsigned char equal;
  __asm__ volatile("repe scasw; sete %2" : "+D"(di), "+c"(count), "=q"(equal) : "a"(0xbeef) : "cc", "memory");
  CHECK(count == 14 && !equal && (unsigned short*)di == words + 26);
  di = words + 39, count = 40;
  __asm__ volatile("std; repne scasw; cld; sete %2"
                   : "+D"(di), "+c"(count), "=q"(equal)
                   : "a"(1)
                   : "cc", "memory");
  CHECK(equal && count == 25 && (unsigned short*)di == words + 24);

  memcpy(target, source, 256);
  target[77] ^= 1;
  si = source, di = target, count = 256;
  __asm__ volatile("repe cmpsb; seta %3" : "+S"(si), "+D"(di), "+c"(count), "=q"(equal)::"cc", "memory");
  CHECK(count == 178 && equal == ((unsigned char)source[77] > (unsigned char)target[77]));

  // Count zero: no access (the pointers are wild), flags stay (ZF=1 from the xor, then from the cmp).
  unsigned char zero, carry;
  __asm__ volatile(
      "xor %%ecx, %%ecx; mov $16, %%esi; mov $32, %%edi; repne cmpsb; setz %0; cmp $1, %%ecx; mov $0, %%ecx;"
      "repe scasb; setc %1; rep movsb"
      : "=q"(zero), "=q"(carry)
      :
      : "rcx", "rsi", "rdi", "cc");
  CHECK(zero == 1 && carry == 1);

  // 32-bit address size, and a segment prefix on the source (fs base is not zero).
  char* low = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  CHECK(low != MAP_FAILED);
  unsigned long low_target = (unsigned long)low | 0xabcd00000000;
  count = 0x700000010;  // only ecx counts
  __asm__ volatile("addr32 rep stosb" : "+D"(low_target), "+c"(count) : "a"('q') : "memory");
  CHECK(low[15] == 'q' && low[16] == 0 && low_target == (unsigned long)(low + 16) && count == 0);
  unsigned long self;
  __asm__ volatile("xor %%esi, %%esi; fs lodsq" : "=a"(self)::"rsi", "memory");
  unsigned long direct;
  __asm__("mov %%fs:0, %0" : "=r"(direct));
  CHECK(self == direct && self != 0);
  __asm__ volatile("std; lodsb; cld" : "=a"(self) : "S"(source + 3) : "memory");
  CHECK((char)self == source[3]);

  // A fault in the middle of rep stosb.
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSEGV, &action, 0) == 0);
  char* pages = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  fault_page = pages + 4096;
  CHECK(mprotect(fault_page, 4096, PROT_NONE) == 0);
  di = pages, count = 3 * 4096;
  __asm__ volatile("rep stosb" : "+D"(di), "+c"(count) : "a"('z') : "memory");
  CHECK(faults == 1 && count == 0);
  for (int i = 0; i < 3 * 4096; i++) CHECK(pages[i] == 'z');
  printf("strings right\n");
}
