/* User events: places in a program that have a name, for `backstep cluster events` and every other question
 * about a recorded run.
 *
 *     #include <backstep/mark.h>
 *
 *     BACKSTEP_MARK(lease_taken);
 *     BACKSTEP_MARK_VALUE(elected, term);          // with a number or pointer, which is kept with the event
 *
 *     BACKSTEP_MARK_BEGIN(request);
 *     …
 *     BACKSTEP_MARK_END(request);
 *
 * A mark is one `nop` and a note in the executable that says where it is: nothing is called and nothing is
 * stored, whether the program is recorded or not. The notes are those of <sys/sdt.h>, of the provider
 * "backstep", so perf, bpftrace, SystemTap and gdb find them, too. C and C++, gcc and clang, x86-64;
 * elsewhere marks are nothing. */
#ifndef BACKSTEP_MARK_H
#define BACKSTEP_MARK_H

#if defined __x86_64__ && defined __GNUC__

/* clang-format off */
#define BACKSTEP_MARK_NOTE_(name, arguments)                                     \
  "990: nop\n"                                                                   \
  ".pushsection .note.stapsdt,\"?\",\"note\"\n"                                  \
  ".balign 4\n"                                                                  \
  ".4byte 992f-991f, 994f-993f, 3\n"                                             \
  "991: .asciz \"stapsdt\"\n"                                                    \
  "992: .balign 4\n"                                                             \
  "993: .8byte 990b, _.stapsdt.base, 0\n"                                        \
  ".asciz \"backstep\"\n"                                                        \
  ".asciz \"" name "\"\n"                                                        \
  ".asciz \"" arguments "\"\n"                                                   \
  "994: .balign 4\n"                                                             \
  ".popsection\n"                                                                \
  ".ifndef _.stapsdt.base\n"                                                     \
  ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"        \
  ".weak _.stapsdt.base\n"                                                       \
  ".hidden _.stapsdt.base\n"                                                     \
  "_.stapsdt.base: .space 1\n"                                                   \
  ".size _.stapsdt.base, 1\n"                                                    \
  ".popsection\n"                                                                \
  ".endif\n"
/* clang-format on */

#define BACKSTEP_MARK_(name) __asm__ __volatile__(BACKSTEP_MARK_NOTE_(name, "") : : : "memory")
#define BACKSTEP_MARK(name) BACKSTEP_MARK_(#name)
#define BACKSTEP_MARK_BEGIN(name) BACKSTEP_MARK_(#name "__begin")
#define BACKSTEP_MARK_END(name) BACKSTEP_MARK_(#name "__end")
#define BACKSTEP_MARK_VALUE(name, value) \
  __asm__ __volatile__(BACKSTEP_MARK_NOTE_(#name, "-8@%0") : : "nor"((long)(value)) : "memory")

#else

#define BACKSTEP_MARK(name) ((void)0)
#define BACKSTEP_MARK_BEGIN(name) ((void)0)
#define BACKSTEP_MARK_END(name) ((void)0)
#define BACKSTEP_MARK_VALUE(name, value) ((void)(value))

#endif

#endif
