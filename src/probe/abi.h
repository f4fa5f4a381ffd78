/* clang-format off */ /* its comments stand in columns */
/* What debug code and the replay that runs it agree about: plain C, compiled into both.
 *
 * Debug code is a *module*: one statically linked program at a fixed address, which the replaying process
 * loads beside the recorded program (docs/architecture.md, "Debug code"). It starts as any program does, at
 * its ELF entry; when its constructors have run it makes the request READY, which never returns. From there
 * on the replay calls functions of it, one at a time, each on the module's own stack and with the module's
 * own thread-local storage:
 *
 *     void place(const struct backstep_registers* r);                   a place in the recorded program's code
 *     void callback(const struct backstep_registers* r, void* cookie);  what ON has asked for
 *
 * A function is over when it returns, to the address that READY has given (`done`), where the request DONE is
 * made. What is at `r` is there until then.
 *
 * A request is a `syscall` instruction with one of the numbers below in rax and its arguments where system
 * calls have theirs (rdi, rsi, rdx, r10, r8, r9). Results are as those of system calls: in rax, -errno if it
 * could not be done. All other numbers are the system calls of Linux, as far as debug code may make them.
 *
 * This file belongs to no layer: it includes nothing of ours, and any layer may include it. */
#ifndef BACKSTEP_PROBE_ABI_H
#define BACKSTEP_PROBE_ABI_H
#include <stdint.h>

#define BACKSTEP_ABI 2 /* the version of all this */

/* Registers of the recorded program at the moment that the debug code is called for, and the moment. */
struct backstep_registers {
  uint64_t gpr[16]; /* rax rcx rdx rbx rsp rbp rsi rdi r8 … r15: hardware numbers */
  uint64_t rip, rflags, fs_base, gs_base;
  uint64_t tick, event;
  uint64_t thread;    /* its number in the recording's process, from 1 */
  const void* vector; /* ymm0 to ymm15, 32 bytes each; null: the place has not asked for them */
  /* Of callbacks. read, write: the address, and the first bytes that are there (write: that were and are
   * there), and rip is that of the instruction, which has been executed; return, syscall after: value[1] is
   * the result; syscall: the number. */
  uint64_t address, value[2];
  uint64_t number;
};

/* The argument of READY. */
struct backstep_module {
  uint32_t abi;  /* BACKSTEP_ABI */
  uint32_t size; /* of this structure */
  void (*done)(void);
  void (*finish)(const struct backstep_registers*); /* called once, where the replay has ended: for reports; or null */
};

enum {
  BACKSTEP_READY = 0x42530000, /* (const struct backstep_module*): never returns */
  BACKSTEP_DONE,               /* (): the function is over; never returns */
  BACKSTEP_NOW,                /* (struct backstep_registers*): filled in, as at the begin of the function */
  BACKSTEP_STOP,               /* (const char* text, size): the replay stops here when the function is over */
  BACKSTEP_MARK,               /* (const char* name, size): this moment gets a name */
  BACKSTEP_STACK,              /* (uint64_t* pcs, size, char* text, size): where the recorded program is, innermost */
                               /* first: program counters, and a line of text for each frame. Either of the two can */
                               /* be null; what has no room is left out. Result: how many frames there are */
  BACKSTEP_ON,                 /* (kind, const struct backstep_on*, function, cookie): an id, > 0. From the end of the */
                               /* function on; what cannot be done is told to whoever runs the debug code */
  BACKSTEP_OFF,                /* (id) */
  BACKSTEP_FAIL,               /* (const char* text, size): ends the function: what it has done wrong, as in "it TEXT" */
  BACKSTEP_LOG,                /* (const char* json, size): one JSON value, a line of --json */
  BACKSTEP_END
};

/* What ON waits for. */
enum {
  BACKSTEP_ON_PC = 1,         /* in front of the instruction at `address` (calls, lines) */
  BACKSTEP_ON_RETURN,         /* return from a function of the recorded program by its name `text` */
  BACKSTEP_ON_SYSCALL_BEFORE, /* of `number`, -1: any */
  BACKSTEP_ON_SYSCALL_AFTER,
  BACKSTEP_ON_READ, /* of `size` bytes at `address`: any instruction or call that touches one of them */
  BACKSTEP_ON_WRITE,
  BACKSTEP_ON_TICK, /* each multiple of `number` */
  BACKSTEP_ON_CALL, /* a function of the recorded program by its name `text` */
  BACKSTEP_ON_LINE, /* FILE:LINE in `text` */
  BACKSTEP_ON_EVENT /* what `text` says (docs/events.md), one simple event, conditions and all */
};

struct backstep_on {
  uint64_t address, size;
  int64_t number;
  const char* text;
};

#endif
