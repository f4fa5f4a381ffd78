#!/usr/bin/env bash
# gdb goes with shells that execute programs and with Python's processes, forwards and backwards, as with live ones.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
compile last <<'C'
#include <stdio.h>
#include <stdlib.h>
int answer(int n) { return 6 * n; }
int main(int argc, char **argv) {
  printf("%d\n", answer(atoi(argv[1])));
  return 0;
}
C
"$BACKSTEP" record -q -o "$T/rec-shell" sh -c "(exec $T/last 5); exec env A=b $T/last 7" >"$T/out" || fail "the shell ended with $?"
diff "$T/out" <(printf '30\n42\n') || fail "the shell's output"
# sh becomes env, and env our program.
in_gdb shell 'set breakpoint pending on' 'break answer' 'continue' 'backtrace' 'reverse-finish' 'finish' 'catch exec' 'reverse-continue' \
  'info proc exe' 'reverse-continue' 'info proc exe' 'reverse-continue' 'reverse-stepi' 'continue' 'continue' 'delete 1' 'continue'
printed "^Breakpoint 1, answer \(n=7\) at .*last.c:3"
printed '#1 .* main \(argc=2'
printed "exec'd .*/env\), .*execve"
printed "exe = '.*/env'"
printed "exec'd .*sh\), .*execve"
printed "exe = '.*sh'"
printed 'No more reverse-execution history'
printed "exec'd $T/last"
printed 'exits with status 0 here'
# The child that sh forks: its program, its past in sh.
in_gdb shell 'set follow-fork-mode child' 'set breakpoint pending on' 'break answer' 'continue' 'print n' 'delete' 'reverse-continue' \
  'info proc exe' 'monitor when' 'continue'
printed '^\$1 = 5$'
printed "exe = '.*sh'"
printed '@0:0x'
# The program is searched for on the target: what is at its place now does not matter.
mv "$T/last" "$T/gone"
in_gdb shell 'show sysroot' 'set breakpoint pending on' 'break answer' 'continue' 'print n' 'info source'
printed 'system root is "target:'
printed '^\$1 = 7$'

cat >"$T/pool.py" <<'PY'
import multiprocessing, os, sys
def square(n):
    os.write(1, b"square %d\n" % n)
    return n * n
if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(2) as pool:
        print(sum(pool.map(square, range(4))))
    sys.stdout.flush()
    os.execv("/bin/sh", ["sh", "-c", "exit 9"])
PY
status=0
"$BACKSTEP" record -q -o "$T/rec-pool" "$PYTHON" -S "$T/pool.py" >"$T/out" || status=$?
[ "$status" = 9 ] || fail "Python ended with $status"
grep -q '^14$' "$T/out" || fail "Python's output"
in_gdb pool 'catch fork' 'catch exec' 'continue' 'continue' 'continue' 'delete 1' 'reverse-continue' 'catch fork' 'reverse-continue' \
  'reverse-continue' 'reverse-continue'
times 4 'forked process'
printed "exec'd .*sh\), .*_start"
printed "exec'd .*python.*execve"
printed 'No more reverse-execution history'
in_gdb pool 'set follow-fork-mode child' 'catch fork' 'continue' 'monitor process' 'continue' 'monitor process' 'goto output square' 'when' 'delete' \
  'reverse-continue' 'when'
printed '^\* #1 '
printed '^\* #2 '
printed '^\* .* fork '
printed '^@0:0x'
ok
