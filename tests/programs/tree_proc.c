// Processes look at each other in /proc. Each that is looked at has read its own files before and waits meanwhile: what
// others see must be what it sees itself. The parent looks at a child, at a program that it started, at one that is
// stopped and at one with threads; a child looks at its parent.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kMost = 1 << 20, kFiles = 13 };
static char own[kMost], seen[kMost];
static char sent[kFiles][kMost];  // what the target sees of itself
static int told[2], go[2];  // pipes: what the target sees of itself; that it may go on
static int ready[2];        // … and that its threads are there

// All that varies from one moment to the next is left out.
static const char *const status_lines[] = {"Name", "Umask", "Tgid", "Pid", "PPid", "Uid", "FDSize", "VmPeak", "VmSize",
                                           "VmData", "VmStk", "VmExe", "VmLib", "Threads", "SigBlk", "SigIgn",
                                           "SigCgt", "NoNewPrivs", "Seccomp", "Seccomp_filters", NULL};
static int is_kept(const char *line) {
  for (const char *const *name = status_lines; *name; name++)
    if (strncmp(line, *name, strlen(*name)) == 0 && line[strlen(*name)] == ':') return 1;
  return 0;
}

static size_t keep_lines(char *text, int (*keep)(const char *)) {
  char *to = text;
  for (char *line = text; *line;) {
    size_t n = strcspn(line, "\n");
    n += line[n] == '\n';
    if (keep(line)) {
      memmove(to, line, n);
      to += n;
    }
    line += n;
  }
  *to = 0;
  return (size_t)(to - text);
}

// smaps: the lines of the mappings, their sizes and rights.
static int is_mapping(const char *line) {
  const size_t digits = strspn(line, "0123456789abcdef");  // not sscanf, which looks for the end of the whole text
  return (digits >= 8 && line[digits] == '-') || strncmp(line, "Size:", 5) == 0;
}

static size_t keep_fields(char *text, unsigned long kept) {
  char result[2048];
  size_t n = 0;
  char *at = strrchr(text, ')');
  int field = 1;
  if (at) {
    n = (size_t)(at + 1 - text);
    memcpy(result, text, n);
    field = 3;
    at += 2;
  } else {
    at = text;
  }
  for (char *word = strtok(at, " \n"); word; word = strtok(NULL, " \n"), field++)
    if (kept >> field & 1) n += (size_t)sprintf(result + n, " %d:%s", field, word);
  memcpy(text, result, n);
  text[n] = 0;
  return n;
}

static int compare_names(const void *a, const void *b) { return strcmp(a, b); }

// A listing, in order; of descriptors also where they lead to.
static size_t list(const char *path, char *text, int itself) {
  static char names[512][32];
  size_t count = 0, n = 0;
  DIR *folder = opendir(path);
  CHECK(folder);
  for (struct dirent *e; (e = readdir(folder));) {
    if (e->d_name[0] == '.' || (itself && atoi(e->d_name) == dirfd(folder))) continue;
    CHECK(count < 512 && snprintf(names[count++], 32, "%s", e->d_name) < 32);
  }
  closedir(folder);
  qsort(names, count, sizeof names[0], compare_names);
  for (size_t i = 0; i < count; i++) {
    char whole[300], target[4096] = "";
    snprintf(whole, sizeof whole, "%s/%s", path, names[i]);
    struct stat st;
    CHECK(stat(whole, &st) == 0);
    if (strstr(path, "/fd") && !strstr(path, "fdinfo")) CHECK(readlink(whole, target, sizeof target - 1) > 0);
    n += (size_t)sprintf(text + n, "%s %s\n", names[i], target);
  }
  text[n] = 0;
  return n;
}

static size_t read_file(const char *path, char *text) {
  size_t n = 0;
  int fd = open(path, O_RDONLY);
  if (fd < 0) fprintf(stderr, "%s: %s\n", path, strerror(errno));
  CHECK(fd >= 0);
  for (ssize_t got; n < kMost - 1 && (got = read(fd, text + n, kMost - 1 - n)) > 0;) n += (size_t)got;
  close(fd);
  text[n] = 0;
  return n;
}

static const char *const files[kFiles + 1] = {"maps", "smaps", "status", "stat", "statm", "auxv", "cmdline", "environ",
                                    "comm", "exe", "task", "fd", "fdinfo", NULL};

// What /proc/WHO/FILE says, as far as it stays the same.
static size_t look(const char *who, const char *file, char *text) {
  char path[256];
  snprintf(path, sizeof path, "/proc/%s/%s", who, file);
  if (strcmp(file, "exe") == 0) {
    ssize_t n = readlink(path, text, kMost - 1);
    CHECK(n > 0);
    text[n] = 0;
    return (size_t)n;
  }
  if (strcmp(file, "task") == 0 || strncmp(file, "fd", 2) == 0)
    return list(path, text, strcmp(who, "self") == 0 && strcmp(file, "task") != 0);
  size_t n = read_file(path, text);
  if (strcmp(file, "status") == 0) return keep_lines(text, is_kept);
  if (strcmp(file, "smaps") == 0) return keep_lines(text, is_mapping);
  if (strcmp(file, "statm") == 0) return keep_fields(text, 1 << 1 | 1 << 4 | 1 << 6);
  if (strcmp(file, "stat") == 0)
    return keep_fields(text, 1ul << 4 | 1ul << 5 | 1ul << 6 | 1ul << 20 | 1ul << 22 | 1ul << 23 | 1ul << 26 | 1ul << 27 |
                                 1ul << 28 | 1ul << 32 | 1ul << 33 | 1ul << 34 | 1ul << 45 | 1ul << 46 | 1ul << 47 |
                                 1ul << 48 | 1ul << 49 | 1ul << 50 | 1ul << 51);
  return n;
}

static void send_all(const void *bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = write(told[1], (const char *)bytes + done, size - done);
    CHECK(n > 0);
    done += (size_t)n;
  }
}
static void receive_all(void *bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = read(told[0], (char *)bytes + done, size - done);
    CHECK(n > 0);
    done += (size_t)n;
  }
}

// The one that is looked at. The first round is for what stdio and opendir allocate.
static void be_target(void) {
  char c;
  for (const char *const *file = files; *file; file++) look("self", *file, own);
  for (const char *const *file = files; *file; file++) {
    size_t n = look("self", *file, own);
    send_all(&n, sizeof n);
    send_all(own, n);
  }
  CHECK(read(go[0], &c, 1) == 1);
}

static void read_memory(pid_t pid) {
  static const char text[] = "the same bytes";
  char copy[sizeof text] = "";
  struct iovec to = {copy, sizeof copy}, from = {(void *)text, sizeof text};
  CHECK(process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof text && strcmp(copy, text) == 0);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", pid);
  memset(copy, 0, sizeof copy);
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0 && pread(fd, copy, sizeof copy, (off_t)text) == sizeof text && strcmp(copy, text) == 0);
  close(fd);
}

static void look_at(pid_t pid, const char *what, int stop) {
  char who[32];
  size_t same = 0, all = 0;
  snprintf(who, sizeof who, "%d", pid);
  // All of it first: then the target opens nothing any more and waits.
  size_t sizes[kFiles];
  for (int i = 0; i < kFiles; i++) {
    receive_all(&sizes[i], sizeof sizes[i]);
    CHECK(sizes[i] < kMost);
    receive_all(sent[i], sizes[i]);
    sent[i][sizes[i]] = 0;
  }
  if (stop) {
    int status;
    CHECK(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
  }
  for (int i = 0; i < kFiles; i++, all++) {
    size_t n = look(who, files[i], seen);
    if (n == sizes[i] && memcmp(sent[i], seen, n) == 0) {
      same++;
    } else {
      fprintf(stderr, "%s: %s of process %s is to itself:\n%s\n--- and to others:\n%s\n", what, files[i], who, sent[i],
              seen);
    }
    // Of ours there is nothing: no contents of files under other names, no log.
    CHECK(!strstr(seen, "/store/") && !strstr(seen, "process-1.log") && !strstr(seen, "memfd:backstep"));
  }
  if (stop) CHECK(kill(pid, SIGCONT) == 0);
  printf("%s: %zu of %zu files are the same\n", what, same, all);
  fflush(stdout);
  // Descriptors and threads that it does not have cannot be opened either.
  char path[64];
  int hidden = 0;
  struct stat st;
  look(who, "fd", seen);
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  for (int i = 0; i < 160; i++) {
    const int fd = i < 64 ? i : (int)limit.rlim_cur - 128 + i;
    char name[32];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    snprintf(name, sizeof name, "\n%d ", fd);
    hidden += lstat(path, &st) == 0 && !strstr(seen, name + (fd == 0));
  }
  for (int tid = pid + 1; tid < pid + 8; tid++) {
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", pid, tid);
    int task = open(path, O_RDONLY);
    if (task < 0) continue;
    close(task);
    snprintf(path, sizeof path, "%d ", tid);
    look(who, "task", seen);
    hidden += strstr(seen, path) == NULL;
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
    read_file(path, seen);
    CHECK(strstr(seen, "second") || strstr(seen, "third"));
  }
  printf("%d that are not listed\n", hidden);
}

static void *wait_here(void *name) {
  sigset_t set;
  char c;
  pthread_setname_np(pthread_self(), name);
  sigemptyset(&set);
  sigaddset(&set, strcmp(name, "second") == 0 ? SIGUSR1 : SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  CHECK(write(ready[1], "r", 1) == 1);
  CHECK(read(go[0], &c, 1) == 1);
  return NULL;
}

static void handler(int signo) { (void)signo; }

// Something of everything that shows in these files.
static void be_special(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGINT, SIG_IGN);
  signal(SIGRTMIN + 1, handler);
  struct sigaction once = {.sa_handler = handler, .sa_flags = (int)SA_RESETHAND};
  CHECK(sigaction(SIGALRM, &once, NULL) == 0 && sigaction(SIGWINCH, &once, NULL) == 0 && raise(SIGALRM) == 0);
  char *code = mmap(NULL, 16384, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(code != MAP_FAILED);
  memcpy(code, "\xb8\x07\0\0\0\xc3", 6);  // mov eax, 7; ret
  CHECK(((int (*)(void))code)() == 7 && mprotect(code + 4096, 4096, PROT_NONE) == 0);
  CHECK(mprotect(code + 8192, 4096, PROT_READ) == 0 && munmap(code + 12288, 4096) == 0);
  char *shared = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  for (int i = 0; i < 8; i++) shared[i * 4096] = 1;
  CHECK(sbrk(40 * 4096) != (void *)-1);
  // Many changes, so that what is kept about them is written anew.
  for (int i = 0; i < 5000; i++) CHECK(mprotect(code + 8192, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE) == 0);
  char *many = mmap(NULL, 2000 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 2000; i += 2) CHECK(mprotect(many + i * 4096, 4096, PROT_READ | PROT_WRITE) == 0);
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog filter = {1, &allow};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

static pid_t start(void (*what)(const char *), const char *argv0) {
  CHECK(pipe(told) == 0 && pipe(go) == 0);
  fflush(stdout);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    what(argv0);
    _exit(0);
  }
  return pid;
}
static void end(pid_t pid, int readers) {
  int status;
  CHECK(write(go[1], "ggg", (size_t)readers) == readers && waitpid(pid, &status, 0) == pid && status == 0);
  close(told[0]), close(told[1]), close(go[0]), close(go[1]);
}

static void forked(const char *argv0) {
  (void)argv0;
  be_target();
}
static void special(const char *argv0) {
  (void)argv0;
  be_special();
  be_target();
}
static void threads(const char *argv0) {
  (void)argv0;
  pthread_t a, b;
  CHECK(pipe(ready) == 0);
  CHECK(pthread_create(&a, NULL, wait_here, "second") == 0 && pthread_create(&b, NULL, wait_here, "third") == 0);
  char c;
  for (int i = 0; i < 2; i++) CHECK(read(ready[0], &c, 1) == 1);
  be_target();
  pthread_join(a, NULL);
  pthread_join(b, NULL);
}
static void executed(const char *argv0) {
  char ends[4][16];
  snprintf(ends[0], 16, "%d", told[0]), snprintf(ends[1], 16, "%d", told[1]);
  snprintf(ends[2], 16, "%d", go[0]), snprintf(ends[3], 16, "%d", go[1]);
  char *env[] = {"ONLY=this", NULL};
  execle(argv0, "another name", "target", ends[0], ends[1], ends[2], ends[3], NULL, env);
  CHECK(0);
}
static void looks_up(const char *argv0) {
  (void)argv0;
  look_at(getppid(), "parent", 0);
  fflush(stdout);
  CHECK(write(go[1], "g", 1) == 1);
}

int main(int argc, char **argv) {
  if (argc == 6) {
    told[0] = atoi(argv[2]), told[1] = atoi(argv[3]), go[0] = atoi(argv[4]), go[1] = atoi(argv[5]);
    be_target();
    return 0;
  }
  pid_t pid = start(forked, argv[0]);
  look_at(pid, "forked", 0);
  read_memory(pid);
  end(pid, 1);
  pid = start(executed, argv[0]);
  look_at(pid, "executed", 0);
  end(pid, 1);
  pid = start(special, argv[0]);
  look_at(pid, "special", 0);
  end(pid, 1);
  pid = start(threads, argv[0]);
  look_at(pid, "threads", 0);
  end(pid, 3);
  pid = start(forked, argv[0]);
  look_at(pid, "stopped", 1);
  end(pid, 1);
  pid = start(looks_up, argv[0]);
  be_target();
  CHECK(waitpid(pid, NULL, 0) == pid);
  // What has ended and has not been collected.
  CHECK((pid = fork()) >= 0);
  if (pid == 0) _exit(0);
  siginfo_t info;
  CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  read_file(path, seen);
  CHECK(strstr(seen, ") Z ") && waitpid(pid, NULL, 0) == pid);
  CHECK(open(path, O_RDONLY) == -1 && errno == ENOENT);
  puts("done");
  return 0;
}
