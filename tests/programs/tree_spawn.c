// Starting programs, and failing to: posix_spawn, vfork, system, popen. A child of vfork runs in its parent's
// memory, so what it leaves there (errno, a flag) is part of the parent's run.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

extern char** environ;

static int status_of(pid_t pid) {
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static pid_t spawn(const char* path, char* const argv[], posix_spawn_file_actions_t* actions,
                   posix_spawnattr_t* attributes) {
  pid_t pid = -1;
  errno = posix_spawn(&pid, path, actions, attributes, argv, environ);
  return errno ? -1 : pid;
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);

  // posix_spawn: plain, with an error, in its search of the path, and with everything that can be asked for.
  CHECK(status_of(spawn("/bin/sh", (char*[]){"sh", "-c", "echo spawned; exit 3", NULL}, NULL, NULL)) == 3);
  CHECK(spawn("/no/such/program", (char*[]){"x", NULL}, NULL, NULL) == -1 && errno == ENOENT);
  CHECK(spawn("/", (char*[]){"x", NULL}, NULL, NULL) == -1 && errno == EACCES);
  pid_t pid;
  CHECK(posix_spawnp(&pid, "no-such-program-anywhere", NULL, NULL, (char*[]){"x", NULL}, environ) == ENOENT);
  CHECK(posix_spawnp(&pid, "true", NULL, NULL, (char*[]){"true", NULL}, environ) == 0);
  CHECK(status_of(pid) == 0);

  int ends[2];
  char text[64] = "";
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  posix_spawnattr_t attributes;
  sigset_t set;
  posix_spawnattr_init(&attributes);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  posix_spawnattr_setsigmask(&attributes, &set);
  sigaddset(&set, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &set);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid = spawn("/bin/sh", (char*[]){"sh", "-c", "pwd; cat", NULL}, &actions, &attributes);
  close(ends[1]);
  CHECK(read(ends[0], text, sizeof text) == 2 && !strcmp(text, "/\n"));
  CHECK(status_of(pid) == 0);
  posix_spawn_file_actions_addopen(&actions, 5, "/no/such/folder/file", O_RDONLY, 0);
  CHECK(spawn("/bin/true", (char*[]){"true", NULL}, &actions, NULL) == -1 && errno == EBADF);

  // vfork: the child's stores are the parent's; its descriptors and its signal actions are not.
  volatile int seen = 0;
  signal(SIGUSR2, SIG_IGN);
  int kept = dup(1);
  pid = vfork();
  if (pid == 0) {
    seen = 42;
    close(kept);
    signal(SIGUSR2, SIG_DFL);
    _exit(7);
  }
  CHECK(seen == 42 && status_of(pid) == 7);
  CHECK(write(kept, "kept\n", 5) == 5);
  struct sigaction action;
  CHECK(sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_IGN);

  // … and a failed execve there tells the parent why, in shared memory.
  volatile int error = 0;
  pid = vfork();
  if (pid == 0) {
    execl("/no/such/program", "x", NULL);
    error = errno;
    execl("/dev/null", "x", NULL);
    if (errno == EACCES) error += 1000;
    _exit(127);
  }
  CHECK(error == ENOENT + 1000 && status_of(pid) == 127);

  pid = vfork();
  if (pid == 0) {
    kill(getpid(), SIGKILL);
    _exit(0);
  }
  CHECK(status_of(pid) == 1000 + SIGKILL);
  pid = vfork();
  if (pid == 0) {
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
    _exit(0);
  }
  CHECK(status_of(pid) == 1000 + SIGTERM);
  pid = vfork();
  if (pid == 0) {
    *(volatile int*)8 = 1;
    _exit(0);
  }
  CHECK(status_of(pid) == 1000 + SIGSEGV);
  // A child of vfork that forks: its child has a memory of its own.
  pid = vfork();
  if (pid == 0) {
    pid_t grandchild = fork();
    if (grandchild == 0) {
      seen = 1;
      dprintf(1, "grandchild\n");
      _exit(9);
    }
    _exit(status_of(grandchild));
  }
  CHECK(seen == 42 && status_of(pid) == 9);
  // … and one that calls vfork: all three use the same memory.
  pid = vfork();
  if (pid == 0) {
    pid_t grandchild = vfork();
    if (grandchild == 0) {
      seen = 43;
      execl("/bin/sh", "sh", "-c", "exit 11", NULL);
      _exit(127);
    }
    _exit(status_of(grandchild));
  }
  CHECK(seen == 43 && status_of(pid) == 11);
  for (int i = 0; i < 20; i++) {
    pid = vfork();
    if (pid == 0) _exit(i);
    CHECK(status_of(pid) == i);
  }

  // The C library's own.
  CHECK(system("echo from system; exit 6") == 6 << 8);
  CHECK(system("exec /no/such/program 2>/dev/null") == 127 << 8);
  CHECK(system(NULL) != 0);
  FILE* in = popen("echo from popen; exit 2", "r");
  CHECK(fgets(text, sizeof text, in) && !strcmp(text, "from popen\n"));
  CHECK(pclose(in) == 2 << 8);
  FILE* out = popen("tr a-z A-Z", "w");
  CHECK(out && fputs("to popen\n", out) >= 0 && pclose(out) == 0);
  puts("done");
  return 0;
}
