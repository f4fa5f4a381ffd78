#!/usr/bin/env bash
# Unusual calls: stress-ng's stressors that have children or signals, a few operations each. (Left out: those that fill
# disks and memory, such as forkheavy, and memfd, which trips over a known limit of private mappings.)
source "$(dirname "$0")/../cases/lib.bash"
need stress-ng
for name in ${STRESSORS:-access af-alg bad-altstack brk cap chdir chmod clock clone copy-file daemon dnotify dup dynlib enosys env epoll eventfd \
  exit-group fcntl fiemap fifo file-ioctl flock fork fp-error fstat futex get getdent getrandom handle inotify ioprio itimer kcmp key \
  kill lease link locka lockf lockofd madvise membarrier mincore mlock mmap mmapaddr mmapfixed mmapfork mmapmany mq mremap msg msync msyncmany munmap mutex nanosleep netdev \
  netlink-proc nice null open personality pidfd ping-sock pipe poll prctl procfs pthread ptrace pty readahead regs remap rename rlimit rmap rtc \
  schedpolicy seccomp seek sem sem-sysv sendfile session set shm shm-sysv sigabrt sigchld sigfpe sigio sigpending sigpipe sigq sigrt \
  sigsegv sigsuspend sigtrap sock sockdiag sockfd sockpair splice stack switch symlink sync-file sysbadaddr tee timer timerfd tsc udp \
  unshare urandom utime vdso vfork vforkmany vm-segv wait xattr yield zero zombie}; do
  say "$name"
  REPLAYS=1 TREE_OUTPUT=no TREE_OPTIONS=--incomplete record_tree "$name" \
    stress-ng -q --"$name" 1 --"$name"-ops 20 -t 5 --temp-path "$T"
  rm -rf "${T:?}/$name" "$T/folder.$name"
done
ok
