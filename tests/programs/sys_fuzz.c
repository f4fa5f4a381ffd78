// Every system call number with garbage: 0, small numbers, valid and wild pointers, big values, from a seed.
// Calls that end, stop, multiply or endanger the process or the machine are left out. Results are printed; a
// replay must give the same, and must not notice a difference in memory (a digest of the buffers is printed).
// The program must live to its end whatever the calls did.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

// Left out, with the reason by group.
static const short kSkip[] = {
    // ends, waits for ever, or changes who runs
    SYS_exit, SYS_exit_group, SYS_pause, SYS_fork, SYS_vfork, SYS_clone, 435 /*clone3*/, SYS_execve,
    SYS_execveat, SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_kill, SYS_tkill, SYS_tgkill,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, 424 /*pidfd_send_signal*/, SYS_nanosleep, SYS_clock_nanosleep,
    SYS_alarm, SYS_setitimer, SYS_timer_create, SYS_timer_settime, SYS_wait4, SYS_waitid, SYS_ptrace,
    SYS_vhangup, SYS_futex, 449 /*futex_waitv*/, 454, 455, 456 /*futex_wake, _wait, _requeue*/,
    SYS_restart_syscall, SYS_select, SYS_pselect6, SYS_poll, SYS_ppoll, SYS_epoll_wait, SYS_epoll_pwait,
    441 /*epoll_pwait2*/, SYS_flock, SYS_semop, SYS_semtimedop, SYS_msgrcv, SYS_msgsnd, SYS_mq_timedreceive,
    SYS_mq_timedsend, SYS_accept, SYS_accept4, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_connect,
    SYS_fcntl, SYS_prctl, SYS_arch_prctl, SYS_set_tid_address, SYS_seccomp, SYS_rseq, SYS_userfaultfd,
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_sigaltstack, SYS_io_getevents, SYS_io_uring_enter,
    SYS_set_robust_list, SYS_fanotify_init, SYS_fanotify_mark, SYS_get_robust_list, SYS_syslog,
    // memory of the program itself
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_brk, SYS_madvise, SYS_remap_file_pages,
    SYS_pkey_mprotect, SYS_shmat, SYS_shmdt, SYS_mlockall, SYS_munlockall, SYS_process_vm_writev,
    SYS_process_vm_readv, 440 /*process_madvise*/, 448 /*process_mrelease*/, 462 /*mseal*/, SYS_modify_ldt,
    SYS_set_thread_area, SYS_get_thread_area, SYS_mbind, SYS_set_mempolicy, SYS_migrate_pages, SYS_move_pages,
    453 /*map_shadow_stack*/, 450 /*set_mempolicy_home_node*/,
    // the machine and other processes
    SYS_reboot, SYS_kexec_load, SYS_kexec_file_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_mount, SYS_umount2, SYS_swapon, SYS_swapoff, SYS_pivot_root, SYS_chroot, SYS_sethostname,
    SYS_setdomainname, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_iopl,
    SYS_ioperm, SYS_acct, SYS_quotactl, 443 /*quotactl_fd*/, SYS_nfsservctl, SYS_setns, SYS_unshare, SYS_bpf,
    SYS_perf_event_open, SYS_lookup_dcookie, SYS_add_key, SYS_request_key, SYS_keyctl, SYS_sync, SYS_syncfs,
    SYS_open_tree, SYS_move_mount, SYS_fsopen, SYS_fsconfig, SYS_fsmount, SYS_fspick, 442 /*mount_setattr*/,
    457 /*statmount*/, 458 /*listmount*/, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
    SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capset, SYS_setsid, SYS_setpgid,
    SYS_setpriority, SYS_sched_setparam, SYS_sched_setscheduler, SYS_sched_setattr, SYS_sched_setaffinity,
    SYS_ioprio_set, SYS_setrlimit, SYS_prlimit64, SYS_personality, SYS_chdir, SYS_fchdir, 438 /*pidfd_getfd*/,
    434 /*pidfd_open*/, 335, 336 /*uretprobe, uprobe: kill by SIGILL*/, 444, 445, 446 /*landlock*/,
    447 /*memfd_secret*/, SYS_io_setup, SYS_io_submit, SYS_ioctl, SYS_vmsplice,
    // files elsewhere: paths are garbage, but not quite impossible
    SYS_unlink, SYS_unlinkat, SYS_rmdir, SYS_rename, SYS_renameat, SYS_renameat2, SYS_truncate, SYS_chmod,
    SYS_fchmodat, SYS_chown, SYS_lchown, SYS_fchownat, 452 /*fchmodat2*/, SYS_shmget, SYS_shmctl, SYS_semget,
    SYS_semctl, SYS_msgget, SYS_msgctl, SYS_mq_open, SYS_mq_unlink,
    // numbers of x32 or unknown ones with side effects are covered by sys_unknown
};

static uint64_t pick(char* buffer) {
  switch (next_number() % 10) {
    case 0:
    case 1:
      return 0;
    case 2:
      return next_number() % 16;
    case 3:
      return next_number() % 5000;
    case 4:
      return next_number();
    case 5:
      return (uint64_t) - (int64_t)(next_number() % 200);
    case 6:
      return 0x1000 + next_number() % 0x1000;
    default:
      return (uint64_t)buffer + next_number() % 64 * 64;
  }
}

int main(int argc, char** argv) {
  int rounds = argc > 2 ? atoi(argv[2]) : 2;
  check_state ^= argc > 1 ? strtoul(argv[1], 0, 0) * 0x9e3779b97f4a7c15u : 0;
  for (int signo = 1; signo < 64; signo++)
    if (signo != SIGSEGV && signo != SIGBUS && signo != SIGILL && signo != SIGFPE && signo != SIGTERM)
      signal(signo, SIG_IGN);
  // Results go through a high descriptor that garbage is unlikely to close.
  int out = fcntl(1, F_DUPFD, 700);
  int ends[2];
  CHECK(out >= 0 && pipe2(ends, O_NONBLOCK) == 0);
  for (int fd = 0; fd < 3; fd++) CHECK(dup2(ends[fd & 1], fd) == fd);
  for (int fd = 5; fd < 12; fd++) CHECK(dup2(ends[fd & 1], fd) == fd);
  CHECK((mkdir("fuzz", 0700) == 0 || errno == EEXIST) && chdir("fuzz") == 0);
  // Unmapped pages on both sides: a call with a huge length shall not write into our neighbours.
  char* area = mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(area != MAP_FAILED);
  char* buffer = area + (1 << 19);
  CHECK(mprotect(buffer, 16384, PROT_READ | PROT_WRITE) == 0);
  for (int round = 0; round < rounds; round++)
    for (int nr = 0; nr <= 460; nr++) {
      int skip = 0;
      for (unsigned i = 0; i < sizeof kSkip / sizeof *kSkip; i++) skip |= kSkip[i] == nr;
      if (skip) continue;
      for (int i = 0; i < 4096; i += 8) {
        uint64_t word = next_number() % 4 ? 0 : next_number() % 100;
        memcpy(buffer + i, &word, 8);
      }
      uint64_t a[6];
      for (int i = 0; i < 6; i++) a[i] = pick(buffer);
      if (nr == SYS_close && a[0] == (uint64_t)out) a[0] = 3;
      if (nr == 436 /*close_range*/) a[0] = 40, a[1] = 60;
      if ((nr == SYS_dup2 || nr == SYS_dup3) && (int)a[1] == out) a[1] = 33;
      // Whatever garbage opened must not block.
      for (int i = 0; i < 3; i++)
        if (a[i] < 1000 && (int)a[i] != out) fcntl((int)a[i], F_SETFL, O_NONBLOCK);
      long result;
      register uint64_t r10 __asm__("r10") = a[3];
      register uint64_t r8 __asm__("r8") = a[4];
      register uint64_t r9 __asm__("r9") = a[5];
      __asm__ volatile("syscall"
                       : "=a"(result)
                       : "0"((long)nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                       : "rcx", "r11", "memory");
      uint64_t digest = 0;
      for (int i = 0; i < 16384; i += 8) {
        uint64_t word;
        memcpy(&word, buffer + i, 8);
        digest = digest * 31 + word;
      }
      dprintf(out, "%d(%lx,%lx,%lx,%lx,%lx,%lx) = %ld digest %lx\n", nr, a[0], a[1], a[2], a[3], a[4], a[5],
              result, digest);
    }
  dprintf(out, "alive\n");
  _exit(0);
}
