// prctl(PR_SET_MM): a program tells where its parts are, and /proc shows that to itself and to others: stat, cmdline,
// environ, auxv, exe. Also what writing over one's arguments does to cmdline, with and without the right to tell.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

extern char **environ;
static int data = 5;
static char text[8192] __attribute__((aligned(16)));

static const char *said(long r) { return r == 0 ? "ok" : strerrorname_np(errno); }
#define SAY(what, call) printf("%s: %s\n", what, said(call))

static size_t read_file(const char *who, const char *name) {
  char path[100];
  snprintf(path, sizeof path, "/proc/%s/%s", who, name);
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0);
  ssize_t n = 0, more;
  while ((more = read(fd, text + n, sizeof text - 1 - (size_t)n)) > 0) n += more;
  close(fd);
  text[n] = 0;
  return (size_t)n;
}
static void show(const char *who, const char *name) {
  size_t n = read_file(who, name);
  for (size_t i = 0; i + 1 < n; i++)
    if (text[i] == 0) text[i] = '|';
  printf("%s: %zu %s\n", name, n, text);
}

static struct prctl_mm_map parts(const char *who) {
  struct prctl_mm_map m;
  memset(&m, 0, sizeof m);
  unsigned long f[53] = {0};
  read_file(who, "stat");
  char *at = strrchr(text, ')') + 2;
  strsep(&at, " ");
  for (int i = 4; i < 53 && at; i++) f[i] = strtoul(strsep(&at, " "), NULL, 10);
  m.start_code = f[26], m.end_code = f[27], m.start_stack = f[28], m.start_data = f[45], m.end_data = f[46];
  m.start_brk = f[47], m.brk = (uint64_t)sbrk(0);
  m.arg_start = f[48], m.arg_end = f[49], m.env_start = f[50], m.env_end = f[51];
  m.exe_fd = -1;
  return m;
}

static long field(int what, unsigned long addr) { return prctl(PR_SET_MM, what, addr, 0, 0); }

static void ask_a_child(const char *const *names) {
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    char who[16];
    snprintf(who, sizeof who, "%d", getppid());
    for (; *names; names++) show(who, *names);
    fflush(stdout);
    _exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void refused(struct prctl_mm_map m) {
  SAY("the same", prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof m, 0));
  SAY("another size", prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof m - 8, 0));
  SAY("nowhere", prctl(PR_SET_MM, PR_SET_MM_MAP, 16, sizeof m, 0));
  SAY("a fifth argument", prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof m, 1));
  SAY("a fourth argument", prctl(PR_SET_MM, PR_SET_MM_BRK, sbrk(0), 1, 0));
  struct prctl_mm_map bad = m;
  bad.arg_start = bad.arg_end + 1;
  SAY("the wrong way round", prctl(PR_SET_MM, PR_SET_MM_MAP, &bad, sizeof bad, 0));
  bad = m;
  bad.env_start = 0;
  SAY("too low", prctl(PR_SET_MM, PR_SET_MM_MAP, &bad, sizeof bad, 0));
  bad = m;
  bad.end_code = 1ull << 47;
  SAY("too high", prctl(PR_SET_MM, PR_SET_MM_MAP, &bad, sizeof bad, 0));
  bad = m;
  bad.auxv_size = 16;
  SAY("auxv nowhere", prctl(PR_SET_MM, PR_SET_MM_MAP, &bad, sizeof bad, 0));
  bad.auxv = (void *)text;
  bad.auxv_size = 4096;
  SAY("too large an auxv", prctl(PR_SET_MM, PR_SET_MM_MAP, &bad, sizeof bad, 0));
  bad = m;
  bad.exe_fd = 1000;
  SAY("no such descriptor", prctl(PR_SET_MM, PR_SET_MM_MAP, &bad, sizeof bad, 0));
  SAY("field at 0", field(PR_SET_MM_START_CODE, 0));
  SAY("unknown field", field(99, m.start_code));
  SAY("code behind its end", field(PR_SET_MM_START_CODE, m.end_code + 1));
  SAY("arguments above all", field(PR_SET_MM_ENV_END, 0x7fffffffe000));
  SAY("its own", field(PR_SET_MM_START_STACK, m.start_stack));
  SAY("auxv", prctl(PR_SET_MM, PR_SET_MM_AUXV, text, 5000, 0));
  SAY("auxv from nowhere", prctl(PR_SET_MM, PR_SET_MM_AUXV, 16, 16, 0));
  SAY("exe, no such descriptor", field(PR_SET_MM_EXE_FILE, 1000));
  int folder = open("/", O_RDONLY), program = open("/bin/true", O_RDONLY);
  SAY("exe, a folder", field(PR_SET_MM_EXE_FILE, (unsigned long)folder));
  SAY("exe, while the old one is mapped", field(PR_SET_MM_EXE_FILE, (unsigned long)program));
  close(folder);
  close(program);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    char *words[] = {argv[0], "one", "two words", "three", NULL}, *env[] = {"A=first", "B=second", NULL};
    execve("/proc/self/exe", words, env);
    return 1;
  }
  argv[0] = "";  // where it is differs
  unsigned size = 0;
  SAY("size", prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0));
  printf("%u\n", size);
  struct prctl_mm_map m = parts("self");
  printf("code %d data %d stack %d args %d %d env %d %d brk %d\n",
         m.start_code <= (uint64_t)main && (uint64_t)main < m.end_code,
         m.start_data <= (uint64_t)&data && (uint64_t)&data < m.end_data,
         m.start_stack < m.arg_start && m.start_stack > (uint64_t)&m, m.arg_start < (uint64_t)argv[1],
         m.arg_end == (uint64_t)(argv[3] + sizeof "three"), m.env_start == (uint64_t)environ[0],
         m.env_end == (uint64_t)(environ[1] + sizeof "B=second"), m.start_brk <= m.brk);
  refused(m);

  // Another command line, elsewhere.
  char *area = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(area, "another name\0of two words", 26);
  strcpy(area + 4096, "C=third");
  struct prctl_mm_map next = m;
  next.arg_start = (uint64_t)area, next.arg_end = next.arg_start + 26;
  next.env_start = (uint64_t)area + 4096, next.env_end = next.env_start + 8;
  uint64_t auxv[] = {AT_PAGESZ, 4096, AT_UID, 77, AT_NULL, 0};
  next.auxv = (void *)auxv;
  next.auxv_size = sizeof auxv;
  SAY("another map", prctl(PR_SET_MM, PR_SET_MM_MAP, &next, sizeof next, 0));
  show("self", "cmdline");
  show("self", "environ");
  size_t n = read_file("self", "auxv");
  printf("auxv: %zu %lu\n", n, ((uint64_t *)text)[3]);
  ask_a_child((const char *[]){"cmdline", "environ", NULL});
  strcpy(area, "changed  name");
  ask_a_child((const char *[]){"cmdline", NULL});
  struct prctl_mm_map now = parts("self");
  printf("it is told: %d %d\n", now.arg_start == next.arg_start, now.env_end == next.env_end);

  // Back, and then written over.
  m.auxv_size = 0;
  SAY("back", prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof m, 0));
  char *start = argv[1];
  SAY("without the first", field(PR_SET_MM_ARG_START, (uint64_t)start));
  show("self", "cmdline");
  memset(start, 'x', (size_t)(m.arg_end - (uint64_t)start));
  show("self", "cmdline");
  strcpy(start, "short");
  ask_a_child((const char *[]){"cmdline", NULL});

  // Without the right to.
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  CHECK(syscall(SYS_capset, &head, none) == 0);
  m = parts("self");
  refused(m);
  return 0;
}
