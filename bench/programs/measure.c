// Runs a command and says how long it took, of the clock and of the processors, and how much memory it had at its peak. Small on purpose: the
// kernel counts the memory of the process that calls exec, and a Python interpreter would drown a small
// program.
//   measure REPORT COMMAND [ARG...]      writes "seconds kilobytes status CPU-seconds" to the file REPORT
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  pid_t pid = vfork();
  if (pid < 0) return 2;
  if (pid == 0) {
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  int status;
  struct rusage usage;
  if (wait4(pid, &status, 0, &usage) != pid) return 2;
  clock_gettime(CLOCK_MONOTONIC, &after);
  FILE* report = fopen(argv[1], "w");
  if (!report) return 2;
  double seconds = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
  double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  fprintf(report, "%.9f %ld %d %.6f\n", seconds, usage.ru_maxrss, status, cpu);
  fclose(report);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
