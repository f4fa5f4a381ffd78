// fork, vfork+exec (posix_spawn) and system from a program whose other threads go on: the child has one thread, its own
// memory and the locks as pthread_atfork left them.
#include <dirent.h>
#include <spawn.h>
#include <sys/wait.h>

#include "thr.h"

extern char** environ;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_long counter;
static atomic_int stop;
static int prepared, in_parent, in_child;

static void* counts(void* argument) {
  while (!stop) {
    pthread_mutex_lock(&mutex);
    counter++;
    pthread_mutex_unlock(&mutex);
    if (argument) sleep_us(100);
  }
  return 0;
}
static void before(void) {
  pthread_mutex_lock(&mutex);
  prepared++;
}
static void after(void) {
  in_parent++;
  pthread_mutex_unlock(&mutex);
}
static void child_after(void) {
  in_child++;
  pthread_mutex_unlock(&mutex);
}
static int status_of(pid_t pid) {
  int status;
  while (waitpid(pid, &status, 0) != pid) CHECK(errno == EINTR);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
static void* forks(void* argument) {
  long sum = 0;
  for (int i = 0; i < 3; i++) {
    int pair[2];
    CHECK(pipe(pair) == 0);
    fflush(stdout);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      // Nobody counts here, and the lock is free.
      long seen = counter;
      pthread_mutex_lock(&mutex);
      pthread_mutex_unlock(&mutex);
      compute(20000);
      int good = counter == seen && in_child == 1 && my_tid() == getpid();
      write(pair[1], "child", 5);
      _exit(good ? 7 : 1);
    }
    close(pair[1]);
    char text[8] = "";
    CHECK(read(pair[0], text, 7) == 5 && !strcmp(text, "child"));
    close(pair[0]);
    sum += status_of(pid);
    long seen = counter;
    while (counter < seen + 10) sched_yield();  // they go on
  }
  return (void*)sum;
}

int main(void) {
  pthread_atfork(before, after, child_after);
  pthread_t threads[2] = {start(counts, 0), start(counts, (void*)1)};
  printf("from main %ld\n", (long)forks(0));
  printf("from a thread %ld\n", join(start(forks, 0)));
  pthread_t other = start(forks, 0);
  long sum = (long)forks(0);
  printf("from both %ld\n", sum + join(other));
  char* command[] = {"sh", "-c", "exit 9", 0};
  pid_t pid;
  OK0(posix_spawnp(&pid, "sh", 0, 0, command, environ));
  printf("spawned %d\n", status_of(pid));
  printf("system %d\n", WEXITSTATUS(system("exit 11")));
  FILE* stream = popen("echo hello", "r");
  char line[20] = "";
  CHECK(stream && fgets(line, sizeof line, stream) && pclose(stream) == 0);
  printf("read %s", line);
  stop = 1;
  join(threads[0]), join(threads[1]);
  CHECK(prepared == in_parent && in_child == 0);
  printf("prepared %d\n", prepared);
  return 0;
}
