"""Debug code that means harm, from a seed: snippets for `backstep probe`, each at a line of its own of victim.c.

    debug_code.py SEED COUNT FOLDER    writes FOLDER/SNIPPET files, and FOLDER/list: LINE NAME WORDS

NAME.cc is the snippet for the line LINE of victim.c; if WORDS are there, its failure must name the line of the
snippet that has the comment BAD and say those words. What a random instruction or system call does nobody knows
beforehand: of these it is only asked that the replay stays what it was and goes on.
"""

import pathlib
import random
import sys

# Where victim.c may be harmed: expressions of debug code.
GUEST = ["(char *)&counter", "text", "heap", "(char *)table", "(char *)&work"]
# Nobody's, the engine's, the host's, the kernel's.
OTHERS = ["(char *)" + hex(a) for a in (
    0, 8, 0x10000000, 0x60000000, 0x60100000, 0x7ff00000, 0x7ff10000, 0x7ff20000, 0x29fffeff0000, 0x2bfffffff000,
    0x2d0000000000, 0x2e0000000000, 0x2f0000000000, 0x2f4000000000, 0x300000000000, 0x7ff000000000, 0x7fffffffe000,
    0x8000000000000000, 0xffff800000000000, 0xffffffffff600000)]


class Snippet:
    def __init__(self, body, words="", setup=""):
        self.body, self.words, self.setup = body, words, setup


def number(r):
    return r.choice([0, 1, 2, 3, 7, 16, 63, 255, 4096, 65535, 1 << 31, (1 << 31) - 1, 1 << 40, (1 << 63), (1 << 64) - 1,
                     r.getrandbits(r.randint(1, 64))])


def place(r, guest):
    return f"({r.choice(guest)} + {r.randint(0, 24)})"


STORES = [
    "*(volatile char *)at = {n};", "*(volatile short *)at = {n};", "*(volatile int *)at = {n};",
    "*(volatile long *)at = {n};", "memset(at, {b}, {size});", "memcpy(at, table, {size});",
    '__asm__ volatile("movups %%xmm0, (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("vmovups %%ymm0, (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("movnti %%rax, (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("xchg %%rax, (%0)" : : "r"(at) : "memory", "rax");',
    '__asm__ volatile("lock xaddl %%eax, (%0)" : : "r"(at) : "memory", "rax");',
    '__asm__ volatile("lock decq (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("rep stosb" : : "D"(at), "c"({size}L), "a"(0) : "memory");',
    '__asm__ volatile("rep movsq" : : "D"(at), "S"(table), "c"({size}L) : "memory");',
    '__asm__ volatile("std; rep stosw; cld" : : "D"(at), "c"({size}L), "a"(0) : "memory");',
    '__asm__ volatile("stosl" : : "D"(at), "a"(0) : "memory");',
    '__asm__ volatile("fstpt (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("fnstenv (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("btsq $3, (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("setc (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("shlq $1, (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("movbe %%rax, (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("stmxcsr (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("pushq (%0); popq (%0)" : : "r"(at) : "memory");',
    '__asm__ volatile("movq %%rsp, %%rbx; movq %0, %%rsp; pushq %%rax; movq %%rbx, %%rsp" : : "r"(at) : "memory", "rbx");',
    '__asm__ volatile("movq %%rsp, %%rbx; movq %0, %%rsp; call 1f; 1: movq %%rbx, %%rsp" : : "r"(at) : "memory", "rbx");',
    '__asm__ volatile("vmaskmovps %%ymm1, %%ymm0, (%0)" : : "r"(at) : "memory");',
    'strcpy(at, "some text that is long enough to be stored in pieces of sixteen");',
]


def store(r):
    guest = r.random() < 0.7
    at = place(r, GUEST if guest else OTHERS)
    code = r.choice(STORES).format(n=number(r) & 0xff, b=r.randint(0, 255), size=r.choice([1, 2, 9, 40, 200]))
    harmless = "vmaskmovps" in code
    words = "" if harmless else "memory of the recorded program|where nothing|it may not|null pointer|wild pointer|reaches"
    return Snippet(f"char *at = {at}; {code}  // BAD", words)


def library(r):
    return r.choice([
        Snippet("free(heap);  // BAD"), Snippet("if (realloc(heap, 4000) == heap) puts(\"heap\");  // BAD"),
        Snippet("char *p = (char *)malloc(10); free(p); free(p);  // BAD", "calls abort"),
        Snippet("char *p = (char *)malloc(10); p[-8] = 1; p[24] = 77; free(p); malloc(3000);  // BAD"),
        Snippet("throw 3;  // BAD", "nobody catches"),
        Snippet('throw std::runtime_error("no");  // BAD', "nobody catches"),
        Snippet("longjmp(jump_, 1);  // BAD", setup="static jmp_buf jump_;"),
        Snippet("static int began; if (!setjmp(jump_)) began++; else if (began > 3) return; longjmp(jump_, 1);  // BAD",
                setup="static jmp_buf jump_;"),
        Snippet(f"exit({r.randint(0, 255)});  // BAD", "ends its program"),
        Snippet("_exit(3);  // BAD", "ends its program"), Snippet("quick_exit(1);  // BAD", "ends its program"),
        Snippet("abort();  // BAD", "calls abort"), Snippet("assert(local == -1);  // BAD", "calls abort"),
        Snippet('execl("/bin/false", "false", (char *)0);  // BAD', "starts another program"),
        Snippet("if (fork() == 0) for (;;) {}  // BAD", "starts a thread or a process"),
        Snippet('if (system("true")) {}  // BAD'), Snippet('popen("true", "r");  // BAD'),
        Snippet(f"raise({r.randint(1, 31)});  // BAD", "sends signal|calls abort"),
        Snippet(f"kill({r.choice(['0', '-1', 'getpid()', 'getppid()', '1'])}, {r.choice([0, 9, 15, 19])});  // BAD",
                "sends signal"),
        Snippet("pthread_t t; pthread_create(&t, 0, [](void *) -> void * { return 0; }, 0);  // BAD",
                "starts a thread or a process"),
        Snippet(f"for (int i = 0; i < 2000; i++) close(i);  // BAD", "closes descriptor"),
        Snippet(f"close_range(3, ~0u, 0);  // BAD"), Snippet(f"dup2(1, {r.randint(3, 2000)});  // BAD"),
        Snippet("for (int i = 3; i < 1100; i++) if (write(i, \"x\", 1) == 1) puts(\"wrote to a stranger's file\");  // BAD"),
        Snippet("pthread_mutex_lock(&mutex_); pthread_mutex_lock(&mutex_);  // BAD", "waits for a lock",
                "static pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;"),
        Snippet("signal(SIGSEGV, SIG_IGN);  // BAD", "handle signals"),
        Snippet("char *p = (char *)mmap(heap, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); if (p != MAP_FAILED) puts(\"mapped\");  // BAD"),
        Snippet("mprotect((void *)((long)&counter & -4096), 4096, 0); if (counter == -5) puts(\"x\");  // BAD"),
        Snippet("munmap((void *)((long)&counter & -4096), 4096); if (counter == -5) puts(\"x\");  // BAD"),
        Snippet("syscall(SYS_madvise, (void *)((long)&counter & -4096), 4096, MADV_DONTNEED); if (counter == -5) puts(\"x\");  // BAD"),
        Snippet("std::vector<int> v; v.at(3) = 1;  // BAD", "nobody catches"),
        Snippet("std::string s(1ull << 40, 'x'); printf(\"%c\", s[5]);  // BAD"),
        Snippet("std::map<int, int> m; for (int i = 0; i < 1000; i++) m[i * 7919 % 977] += i; if (m.size() != 977) puts(\"map\");"),
    ])


def endless(r):
    return r.choice([
        Snippet("deep_(1);  // BAD", "used up its stack",
                "static int deep_(int n) { volatile char room[500]; room[n % 500] = 1; return deep_(n + 1) + room[0]; }  // BAD"),
        Snippet("volatile char *p = (char *)alloca(1ul << 30); *p = 1;  // BAD"),
        Snippet("for (;;) __asm__ volatile(\"\");  // BAD", "endless loop"),
        Snippet("while (counter >= -5) sched_yield();  // BAD", "endless loop"),
        Snippet("for (;;) write(1, \"\", 0);  // BAD", "endless loop"),
        Snippet("pause();  // BAD", "signals"), Snippet("for (;;) sleep(1);  // BAD", "endless loop"),
        Snippet("for (;;) if (!malloc(1 << 20)) break;  // BAD"),
        Snippet("__asm__ volatile(\"1: jmp 1b\");  // BAD", "endless loop"),
    ])


JUMPS = ['jmp *%0', 'call *%0', 'push %0; ret']


def wild(r):
    bad_place = r.choice(["0", "1", "0x10000000", "0x12345678", "0x60000000", "(long)&counter", "(long)heap", "(long)table",
                          "0x7ffff000", "0x8badf00d00001234", "0x48000000", "0x50000123"])
    kind = r.random()
    if kind < 0.3:
        return Snippet(f'__asm__ volatile("{r.choice(JUMPS)}" : : "r"((long)({bad_place})) : "memory");  // BAD')
    if kind < 0.5:  # the middle of code
        return Snippet(f'__asm__ volatile("{r.choice(JUMPS)}" : : "r"((long)&work + {r.randint(0, 40)}) : "memory");  // BAD')
    if kind < 0.6:
        return Snippet(f"if (work({number(r) & 0x7fffffff}) == -99) puts(\"x\"); crash({r.randint(0, 9)});  // BAD")
    size = r.randint(4, 48)
    junk = ", ".join(str(r.getrandbits(8)) for _ in range(size))
    return Snippet('__asm__ volatile("lea 1f(%%rip), %%rax; jmp *%%rax; 1: .byte ' + junk + '" : : : "memory", "rax");  // BAD')


FLAGS = [
    "pushfq; orq $0x100, (%rsp); popfq", "pushfq; orq $0x40000, (%rsp); popfq", "std", "pushfq; orq $0x10000, (%rsp); popfq",
    "wrfsbase %rax", "wrgsbase %rax", "mov %ax, %gs", "mov %ax, %fs", "mov %ax, %ds", "mov %ax, %ss", "int $0x80", "int $3",
    "int1", "into_", "hlt", "cli", "in $0x60, %al", "ud2", "vmcall", "sysenter", "iretq", "lgdt (%rsp)", "sgdt -64(%rsp)",
    "rdtscp", "rdrand %rax", "rdpid %rax", "cpuid", "xgetbv", "xsetbv", "wbinvd", "clflush (%rsp)", "emms",
    "fninit; fld1; fld1; fld1; fld1; fld1; fld1; fld1; fld1; fld1", "vpaddq %zmm16, %zmm17, %zmm18", "kmovq %rax, %k1",
    "xorl %ecx, %ecx; idivl %ecx", "movl $-1, -16(%rsp); ldmxcsr -16(%rsp)", "movl $0, -16(%rsp); ldmxcsr -16(%rsp); divss %xmm0, %xmm0",
    "movq $0, -16(%rsp); fldcw -16(%rsp); fldz; fldz; fdivp; fwait", "lret", "swapgs", "rdmsr", "xsave (%rsp)", "xrstor -4096(%rsp)",
    "pushq $0x33; popq %rcx; movl $0xc0000100, %ecx; wrmsr", "prefetchw 0", "enter $64, $31", "bound_", "syscall",
]


def flags(r):
    code = r.choice([f for f in FLAGS if not f.endswith("_")])
    return Snippet(f'__asm__ volatile("movq $0x{r.getrandbits(47):x}, %%rax; ' + code.replace("%", "%%") +
                   '" : : : "memory", "rax", "rcx", "rdx", "rbx", "xmm0");  // BAD')


def kernel(r):
    args = []
    for _ in range(6):
        args.append(r.choice([str(number(r)) + "ul", f"(long){place(r, GUEST)}", "(long)own_", "-1L", "0L"]))
    # Those that sleep or that somebody could notice are as good as any: none of them happens.
    return Snippet(f"syscall({r.randint(0, 462)}, {', '.join(args)});  // BAD", setup="static char own_[8192];")


# What a callback does; all of them know of each other.
CALLED = [
    "seen_++;", "seen_++;", "own_[e.tick() % 8].remove();", "(void)stack().text();", "seen_ += now().tick > e.tick();",
    "own_[seen_ % 8].remove(); own_[seen_++ % 8] = on_tick(997, [] { seen_++; });",
    "if (seen_++ < 50) own_[3] = on_call(\"work\", [](const Event &f) { own_[f.tick() % 8].remove(); seen_++; });",
    "own_[1].remove(); own_[1] = on_write((void *)(e.pc() ^ seen_++), 8, [] { seen_ ^= 1; });",
    "throw seen_;", "*(volatile char *)e.pc() = 1;", "*(volatile long *)0 = seen_;", "abort();",
    "for (int i = 0; i < 8; i++) own_[i].remove();", "backstep_off((int)e.tick());", "off(own_[seen_++ % 8]);",
]


def callbacks(r):
    asked = ['on_call("work"', 'on_return("work"', 'on_call("at"', 'on_return("at"', 'on_call("mallok"', "on_syscall(-1, before",
             f"on_syscall({r.choice([1, 9, 14, 56, 9999, -2])}, after", f"on_read(text_, {r.choice([1, 4, 8, 64])}",
             f"on_write(text_ + {r.randint(0, 60)}, {r.choice([1, 4, 8, 64, 0, -1])}", f"on_write((void *){number(r)}ul, {number(r)}ul",
             f"on_read((void *){number(r)}ul, 8", f"on_tick({r.choice([0, 7, 50, 997, 5000, number(r)])}ul",
             'on_line("victim.c:18"', 'on_line("nowhere.c:1"', 'on_event("signal"', 'on_event("call at if $arg0 > 7"', 'on_event("}"']
    body = "using namespace backstep; text_ = (char *)&text;\n"
    for _ in range(r.randint(1, 3)):
        body += (f"own_[next_ % 8].remove(); if (next_ < {r.choice([3, 40, 200])}) own_[next_++ % 8] = "
                 f"{r.choice(asked)}, [](const Event &e) {{ (void)e; {r.choice(CALLED)} }});\n")
    return Snippet(body + "// BAD", setup="static backstep::Callback own_[8]; static long seen_; static int next_; static char *text_;")


def calls(r):
    """Functions of the program with any arguments, and ways out of them that are none."""
    n = number(r) & 0xffffffff
    return r.choice([
        Snippet(f"work((int){n}u);  // BAD"), Snippet(f"crash({r.randint(0, 12)});  // BAD"),
        Snippet(f"at((int){n}u, {place(r, GUEST + OTHERS)});  // BAD"), Snippet(f"at({r.randint(0, 20)}, own_);  // BAD", setup="static char own_[64];"),
        Snippet(f"((int (*)(int))((char *)&crash + {r.randint(0, 30)}))({r.randint(0, 9)});  // BAD"),
        Snippet(f"try {{ work({n & 0xffff}); throw 1; }} catch (int) {{ crash({r.randint(0, 9)}); }}  // BAD"),
        Snippet(f"if (!setjmp(jump_)) {{ at(3, heap); longjmp(jump_, 1); }} crash({r.randint(0, 9)});  // BAD",
                setup="static jmp_buf jump_;"),
        Snippet(f"static int deep; if (deep++ < {r.choice([3, 100])}) {{ work(deep); std::vector<int> v(deep); v.at(deep - 1) = work(1); }}  // BAD"),
    ])


def make(r):
    return r.choices([store, library, endless, wild, flags, kernel, callbacks, calls], [6, 6, 1, 4, 4, 6, 5, 4])[0](r)


HEADERS = ["cassert", "csetjmp", "csignal", "cstdio", "cstdlib", "cstring", "map", "pthread.h", "sched.h", "alloca.h",
           "spawn.h", "stdexcept", "string", "sys/mman.h", "sys/syscall.h", "unistd.h", "vector"]


def text_of(s, every):
    """As it is compiled: only some of the times that the run comes here, so that others see what is left of it."""
    body = f"{s.setup}\nif (local % {every} == 0) {{\n{s.body}\n}}\n"
    if s.setup.startswith("static int deep_"):  # a function cannot be in one
        setup = s.setup.replace("static int deep_(int n)", "struct Deep { static int run(int n)").replace("deep_(", "run(")
        body = body.replace(s.setup, setup.replace("  // BAD", " };  // BAD")).replace("deep_(1)", "Deep::run(1)")
    return "".join(f"#include <{h}>\n" for h in HEADERS) + body


def main():
    seed, count, folder = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
    r = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for n in range(count):
        s = make(r)
        name = f"s{n}.cc"
        (folder / name).write_text(text_of(s, r.choice([1, 2, 3])))
        lines.append(f"{n} {name} {s.words}")
    (folder / "list").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
