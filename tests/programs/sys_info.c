// What the program can learn about its world: uname, sysinfo, ids, limits, groups, priority, hostname, cwd,
// terminal questions, auxv, environment; and a look at itself in /proc/self: exe, cmdline, stat, maps, fd.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "check.h"

int global_variable;

int main(int argc, char** argv) {
  struct utsname name;
  CHECK(uname(&name) == 0);
  printf("%s %s %s %s\n", name.sysname, name.nodename, name.release, name.machine);
  struct sysinfo info;
  CHECK(sysinfo(&info) == 0);
  printf("uptime %ld procs %d free %lu\n", info.uptime, info.procs, info.freeram);
  printf("ids %d %d %d %d pid %d parent %d group %d session %d\n", getuid(), geteuid(), getgid(), getegid(),
         getpid(), getppid(), getpgrp(), getsid(0));
  gid_t groups[64];
  printf("%d groups, nice %d, processors %ld\n", getgroups(64, groups), getpriority(PRIO_PROCESS, 0),
         sysconf(_SC_NPROCESSORS_ONLN));
  for (int i = 0; i < RLIM_NLIMITS; i++) {
    struct rlimit limit;
    CHECK(getrlimit(i, &limit) == 0);
    printf("limit %d: %lu %lu\n", i, limit.rlim_cur, limit.rlim_max);
  }
  char buffer[65536], task[17] = {0};
  CHECK(gethostname(buffer, sizeof buffer) == 0 && getcwd(buffer, sizeof buffer));
  CHECK(prctl(PR_SET_NAME, "renamed") == 0 && prctl(PR_GET_NAME, task) == 0 && strcmp(task, "renamed") == 0);
  printf("dumpable %d, tty %d %d %d\n", prctl(PR_GET_DUMPABLE), isatty(0), isatty(1), isatty(2));
  CHECK(getauxval(AT_PAGESZ) == 4096 && getauxval(AT_RANDOM) && getauxval(AT_PHDR) && getauxval(AT_ENTRY));
  printf("platform %s secure %lu hwcap %lx execfn ok %d\n", (char*)getauxval(AT_PLATFORM),
         getauxval(AT_SECURE), getauxval(AT_HWCAP), strcmp((char*)getauxval(AT_EXECFN), argv[0]) == 0);

  // /proc/self must show this program and not the machine it runs on.
  long n = readlink("/proc/self/exe", buffer, sizeof buffer - 1);
  CHECK(n > 0);
  buffer[n] = 0;
  char* mine = realpath(argv[0], 0);
  printf("exe %s\n", buffer);
  CHECK(mine && strcmp(mine, buffer) == 0);
  int fd = open("/proc/self/cmdline", O_RDONLY);
  CHECK(fd >= 0);
  n = read(fd, buffer, sizeof buffer);
  close(fd);
  CHECK(n == (long)strlen(argv[0]) + 1 + (argc > 1 ? (long)strlen(argv[1]) + 1 : 0) &&
        strcmp(buffer, argv[0]) == 0);
  FILE* stat = fopen("/proc/self/stat", "r");
  int pid;
  CHECK(stat && fscanf(stat, "%d (%[^)])", &pid, buffer) == 2 && pid == getpid() &&
        strcmp(buffer, "renamed") == 0);
  fclose(stat);
  FILE* maps = fopen("/proc/self/maps", "r");
  CHECK(maps);
  int lines = 0, own = 0, stack = 0, data = 0, strange = 0;
  uintptr_t last = 0;
  while (fgets(buffer, sizeof buffer, maps)) {
    uintptr_t start, end;
    char rights[5];
    CHECK(sscanf(buffer, "%lx-%lx %4s", &start, &end, rights) == 3 && start < end && start >= last);
    last = end;
    lines++;
    if ((uintptr_t)main >= start && (uintptr_t)main < end) own = rights[2] == 'x' && strstr(buffer, mine);
    if ((uintptr_t)&start >= start && (uintptr_t)&start < end) stack = rights[1] == 'w' && rights[2] == '-';
    if ((uintptr_t)&global_variable >= start && (uintptr_t)&global_variable < end) data = rights[1] == 'w';
    if (strstr(buffer, "backstep") && !strstr(mine, "backstep")) strange++;
  }
  fclose(maps);
  CHECK(own && stack && data && !strange);
  printf("%d mappings\n", lines);
  DIR* fds = opendir("/proc/self/fd");
  CHECK(fds);
  int open_files = 0, highest = 0;
  for (struct dirent* entry; (entry = readdir(fds));)
    if (entry->d_name[0] != '.') {
      open_files++;
      if (atoi(entry->d_name) > highest) highest = atoi(entry->d_name);
    }
  printf("%d open files, highest %d\n", open_files, highest);
  printf("info right\n");
}
