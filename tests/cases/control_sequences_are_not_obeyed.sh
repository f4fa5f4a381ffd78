#!/usr/bin/env bash
# What a recording says of itself (names, paths, arguments, notes, its own texts) is printed with its control characters written out: a
# stranger's recording does nothing to the terminal of who looks at it.
# shellcheck source=tests/cases/lib.bash
source "$(dirname "$0")/lib.bash"
evil=$'\e[31mE\e[2J\xc2\x9bK'
cat >prog.c <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static void f(const char* s) {
  static volatile int n;
  n += s[0];
}
int main(int argc, char** argv) {
  prctl(PR_SET_NAME, "\033[31mT", 0, 0, 0);
  int fd = open("\033[31mfile", O_RDWR | O_CREAT, 0600);
  write(fd, "\033[31mdata", 9);
  mmap(0, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
  syscall(9999);
  f("\033[31mx");
  free(malloc(10));
  if (fork() == 0) _exit(3);
  wait(0);
  puts("\033[31mline");
  return argc - 2;
}
C
cc -g -w -o "prog$evil" prog.c
mkdir "dir$evil"
"$BACKSTEP" record -q -o "dir$evil/rec" "./prog$evil" "arg$evil" >/dev/null
cd "dir$evil" || exit
for command in info "info --all" ps "ps --wide" dump "dump --all" syscalls checkpoints "checkpoints --make" "trace --level 3" "count f" "log f {s}" "calls f" \
  "calls --tree f" allocs races profile coverage why; do
  # shellcheck disable=SC2086  # words of the command
  timeout "$PATIENCE" "$BACKSTEP" $command rec >"$T/out" 2>"$T/err" </dev/null || true
  # Only colours of ours could be there, and there are none: nothing here is a terminal.
  ! grep -q $'[\e\x9b]' "$T/out" "$T/err" || fail "$command: $(cat -v "$T/out" "$T/err" | grep -E '\^\[|M-\^\[' | head -3)"
done
"$BACKSTEP" info rec | seen -F 'E\x1b[2J' || fail "info does not show the name: $("$BACKSTEP" info rec | cat -v)"
# … and where something is wrong with it.
"$PYTHON" - rec <<'PY'
import sys
path = sys.argv[1] + "/process-1.log"
data = bytearray(open(path, "rb").read())
data[len(data) // 2] ^= 1
open(path, "wb").write(data)
PY
timeout "$PATIENCE" "$BACKSTEP" replay --autopilot rec >/dev/null 2>"$T/err" || true
! grep -q $'[\e\x9b]' "$T/err" || fail "replay of a damaged one: $(cat -v "$T/err")"
ok
