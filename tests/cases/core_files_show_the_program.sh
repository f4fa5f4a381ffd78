#!/usr/bin/env bash
# A program that dies leaves a core file where its limits ask for one: its parent hears of it, and gdb finds the program's
# threads, memory and arguments in it, nothing of ours.
source "$(dirname "$0")/lib.bash"
need gdb
pattern=$(cat /proc/sys/kernel/core_pattern)
case $pattern in */* | *%* | '|'* | '') skip "core files go elsewhere here: $pattern" ;; esac
ulimit -c unlimited 2>/dev/null || skip "a hard limit forbids core files"

# seen_in CORE: what gdb finds, without addresses and ids; frames of libraries are others where calls are made otherwise.
seen_in() {
  timeout "$PATIENCE" gdb -batch -nx -ex 'print counter' -ex 'print list->name' -ex 'print of_thread' -ex 'print $_siginfo.si_signo' \
    -ex 'print $_siginfo.si_code' -ex 'thread apply all -ascending backtrace' "$P/thr_core" "$1" 2>&1 |
    sed -nE -e '/^\$|^Core was|terminated/p' -e 's/^#.* (inner|outer|crasher|waiter|main|__GI_abort|__GI_raise|__GI___libc_read) .*/\1/p' |
    sed -E -e '/^(waiter|__GI___libc_read)$/d'
}
for how in segv abort outside term; do
  for where in "" thread; do
    [ "$how$where" != abortthread ] || continue
    # shellcheck disable=SC2086
    LIMIT=$PATIENCE OUTPUT=same REPLAYS=1 record_tree "$how$where" "$P/thr_core" $how $where
    core=$(echo "$T/folder.$how$where"/core*)
    [ $how != term ] || { [ ! -e "$core" ] || fail "SIGTERM leaves a core file"; continue; }
    [ -e "$core" ] || fail "$how $where: no core file"
    seen_in "$core" >recorded
    mkdir -p native
    # shellcheck disable=SC2086
    (cd native && rm -f core* && "$P/thr_core" $how $where >/dev/null && seen_in core* >../natively)
    [ "$(stat -c %s "$core")" -lt $(($(stat -c %s native/core*) + 1000000)) ] ||
      fail "$how $where: our memory is in the core file"
    # Where a thread computes that does not die itself is not in ours.
    [ "$how$where" != outsidethread ] || sed -i -E '/^(inner|outer|crasher)$/d' natively recorded
    same natively recorded "$how $where: gdb sees something else than natively"
    seen main <recorded || { cat recorded >&2; fail "$how $where: gdb sees nothing"; }
  done
done
# Threads that wait are seen where they wait.
timeout "$PATIENCE" gdb -batch -nx -ex 'thread apply all backtrace' "$P/thr_core" "$T"/folder.segvthread/core* 2>&1 | seen ' waiter ' ||
  fail "a thread that waits is not seen"
# Whose limits forbid one leaves none.
ulimit -Sc 0
OUTPUT=same REPLAYS=1 record_tree none "$P/thr_core" abort
[ -z "$(ls "$T/folder.none")" ] || fail "a core file against the limit"
ok
