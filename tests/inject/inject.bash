# Sourced by the cases that inject signals (inject.cc): injected_everywhere STRIDE [threads|worker] tries every way to wait
# with a signal behind every STRIDE-th instruction of the recorder's way into it, and replays what came of it.
OFFSET=$(nm "$BACKSTEP" | awk '$3 == "bs_exit_syscall" { print $1 }')
[ "$OFFSET" ] || fail "the program has no symbols"

SEAT=$(nm "$BACKSTEP" | awk '$3 == "bs_take_seat" { print $1 }')

# inject_way WAY NR STRIDE [threads|seats|change|worker]; HIT: where the runner has come to another kernel thread, see inject.cc
inject_way() {
  local way=$1 nr=$2 stride=$3
  shift 3
  rm -rf "$T/injected"
  mkdir "$T/injected"
  # shellcheck disable=SC2086  # two words, or none
  (cd "$T/injected" && "$BUILD/inject" "$OFFSET" "$nr" "$stride" 0 100000 ${HIT:+$SEAT $HIT} -- \
    "$BACKSTEP" record -q -o recording "$P/injected" "$way" "$@" >out 2>err) ||
    { tail -n 5 "$T/injected/err" >&2; fail "$way $*: a signal that comes on the way into the call is lost"; }
  say "$way $*: $(tail -n 1 "$T/injected/err")"
  grep -q ': ok$' "$T/injected/out" || fail "$way $*: the program did not come to its end"
  expect 0 "$BACKSTEP" replay --autopilot -p '#1' "$T/injected/recording"
  cmp -s "$T/out" "$T/injected/out" || fail "$way $*: the replay has other output"
}

injected_everywhere() {
  local stride=$1 way nr
  shift
  while read -r way nr; do
    inject_way "$way" "$nr" "$stride" "$@" </dev/null
  done <<'WAYS'
read 0
poll 7
select 23
epoll 232
recv 45
sigsuspend 130
ppoll 271
pselect 270
epoll_pwait 281
sigwait 128
signalfd 0
pause 34
nanosleep 35
sleep 230
futex 202
futex_shared 202
wait4 61
waitid 247
flock 73
fcntl 72
accept 43
msgrcv 70
semop 220
write 1
open 257
pread 0
late_sigsuspend 14
late_ppoll 14
late_sigwait 14
late_signalfd 14
WAYS
}

# injected_changes STRIDE: likewise where the runner goes from one kernel thread to another, for a thread that has parted from
# the others, and for the first one that waits for signals; before it leaves, and behind its arrival.
injected_changes() {
  local stride=$1 way nr hit
  while read -r way nr; do
    inject_way "$way" "$nr" "$stride" seats </dev/null
    for hit in 1 2; do HIT=$hit inject_way "$way" "$nr" "$stride" seats </dev/null; done
  done <<'WAYS'
read 0
ppoll 271
futex 202
nanosleep 35
sigsuspend 130
WAYS
  while read -r way nr; do
    inject_way "$way" "$nr" "$stride" change </dev/null
    HIT=1 inject_way "$way" "$nr" "$stride" change </dev/null
  done <<'WAYS'
sigwait 128
signalfd 0
WAYS
}
