#!/usr/bin/env bash
# 'calls': every call of a function with its arguments, result and end; of recursion, longjmp, C++ exceptions, tail calls,
# a signal handler on its own stack, coroutines, a stripped program, generated code.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
# recorded NAME: and what `calls` is to say of it.
recorded() { expect 0 "$BACKSTEP" record -q -o "$T/recordings/$1" "./$1"; }
# listed RECORDING FUNCTION CHECK: CHECK is Python over `calls`, a list of objects.
listed() {
  expect 0 "$BACKSTEP" calls --json "$2" "$1"
  "$PYTHON" - "$3" <<'PY' || { head -n 5 out >&2; fail "$1: the calls of $2"; }
import json, sys
calls = [json.loads(line) for line in open("out")]
for c in calls:
    assert set(c) >= {"at", "tick", "thread", "function", "args", "ret", "end"}, c
assert [c["tick"] for c in calls] == sorted(c["tick"] for c in calls)
args = lambda c: [a["value"] for a in c["args"]]
exec(sys.argv[1])
PY
}
cat >c.c <<'C'
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
static jmp_buf back;
__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__attribute__((noinline)) int leaps(int n) {
  if (n % 2) longjmp(back, n);
  return n;
}
__attribute__((noinline)) long other(long n) { __asm__ volatile("" : "+r"(n)); return n + 1; }
__attribute__((noinline)) long tail(long n) { __asm__ volatile("" : "+r"(n)); return other(n * 2); }
static volatile long sum;
__attribute__((noinline)) long in_handler(int signo) { sum += signo; return sum; }
static void handler(int signo) { in_handler(signo); }
static ucontext_t here, there;
__attribute__((noinline)) int yields(int n) {
  swapcontext(&there, &here);
  return n * 3;
}
static void coroutine() { for (int i = 0; i < 3; i++) sum += yields(i); }
int main() {
  sum += fib(6);
  for (volatile int i = 0; i < 4; i++)
    if (!setjmp(back)) sum += leaps(i);
  sum += tail(5);
  static char stack[65536], stack2[65536];
  stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&alternative, 0);
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, 0);
  raise(SIGUSR1);
  getcontext(&there);
  there.uc_stack.ss_sp = stack2, there.uc_stack.ss_size = sizeof stack2, there.uc_link = &here;
  makecontext(&there, coroutine, 0);
  for (volatile int i = 0; i < 4; i++) swapcontext(&here, &there);
  unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  /* sub rsp, 8; call [rip+2]; jmp over; target; add rsp, 8; ret */
  static const unsigned char text[] = {0x48, 0x83, 0xec, 8, 0xff, 0x15, 2, 0, 0, 0, 0xeb, 8};
  memcpy(code, text, sizeof text);
  long (*target)(long) = other;
  memcpy(code + sizeof text, &target, 8);
  static const unsigned char leave[] = {0x48, 0x83, 0xc4, 8, 0xc3};
  memcpy(code + sizeof text + 8, leave, sizeof leave);
  sum += ((long (*)(long))code)(40);
  return 0;
}
C
for level in -O0 -O2; do
  name=c$level
  gcc -g $level -fno-inline -fno-ipa-cp -fno-optimize-sibling-calls -o "$name" c.c
  [ $level = -O0 ] || gcc -g $level -fno-inline -fno-ipa-cp -foptimize-sibling-calls -fno-partial-inlining -o "$name" c.c
  recorded "$name"
  listed "$name" leaps '
assert [args(c)[0] for c in calls] == [0, 1, 2, 3]
assert [c["end"] == "returned" for c in calls] == [True, False, True, False]
assert [c["ret"] for c in calls] == [0, None, 2, None]'
  listed "$name" in_handler '
assert len(calls) == 1 and args(calls[0]) == [10] and calls[0]["end"] == "returned"'
  listed "$name" yields '
assert [args(c)[0] for c in calls] == [0, 1, 2] and [c["ret"] for c in calls] == [0, 3, 6]'
  listed "$name" other '
assert [args(c)[0] for c in calls] == [10, 40] and [c["ret"] for c in calls] == [11, 41]'
done
listed c-O0 fib '
def fib(n):
    me = [n, n]
    order.append(me)
    if n > 1: me[1] = fib(n - 1) + fib(n - 2)
    return me[1]
order = []
fib(6)
assert [[args(c)[0], c["ret"]] for c in calls] == order, order'
listed c-O0 tail 'assert [(args(c)[0], c["ret"], c["end"]) for c in calls] == [(5, 11, "returned")]'
# A jump to another function ends it: what that one returns is not its own doing.
listed c-O2 tail 'assert [(args(c)[0], c["end"]) for c in calls] == [(5, "jumped")] and calls[0]["ret"] is None'

# What is below a call: as often as it is counted, and where it belongs.
# treed RECORDING FUNCTION OPTIONS CHECK
treed() {
  # shellcheck disable=SC2086  # options are words
  expect 0 "$BACKSTEP" calls --json --tree $3 "$2" "$1"
  "$PYTHON" - "$4" "$BACKSTEP" "$1" <<'PY' || { head -c 2000 out >&2; fail "$1: the tree below $2"; }
import json, subprocess, sys
calls = [json.loads(line) for line in open("out")]
def sums(tree, into):
    for node in tree:
        into[node["function"]] = into.get(node["function"], 0) + node["count"]
        sums(node["calls"], into)
    return into
def child(tree, *path):
    for name in path:
        node = next(n for n in tree if n["function"] == name)
        tree = node["calls"]
    return node
def counted(spec, *stretch):
    answer = subprocess.run([sys.argv[2], "count", "--json", *stretch, spec, sys.argv[3]], check=True, capture_output=True)
    return json.loads(answer.stdout)[0]["count"]
exec(sys.argv[1])
PY
}
for level in -O0 -O2; do
  treed "c$level" main '' '
assert len(calls) == 1
below = sums(calls[0]["tree"], {})
for name in ("leaps", "other", "tail", "in_handler", "handler", "yields", "coroutine"):
    assert below.get(name) == counted("call " + name, "--from", calls[0]["at"]), (name, below)'
done
treed c-O0 main '' '
tree = calls[0]["tree"]
assert child(tree, "fib")["count"] == 1 and child(tree, "fib", "fib")["count"] == 2
assert sums(child(tree, "fib")["calls"], {}) == {"fib": 24}
assert child(tree, "tail")["ticks"] > 0 and child(tree, "tail", "other")["count"] == 1
assert child(tree, "leaps")["count"] == 4
assert "memcpy" not in sums(child(tree, "leaps")["calls"], {})'
treed c-O0 fib '' 'assert len(calls) == 1 and sums(calls[0]["tree"], {}) == {"fib": 24}'
treed c-O0 fib '--depth 2' 'assert sums(calls[0]["tree"], {}) == {"fib": 6}'
treed c-O0 leaps '--limit 3' 'assert len(calls) == 3 and [c["end"] for c in calls] == ["returned", "unknown", "returned"]'
expect 0 "$BACKSTEP" calls --tree main c-O0
seen '^ *2 .*    fib$' <out || fail "no tree for people: $(cat out)"

cat >thrown.cc <<'C'
struct Bad { int n; };
__attribute__((noinline)) int throws(int n) {
  if (n % 3 == 0) throw Bad{n};
  return n;
}
__attribute__((noinline)) int passes(int n) { return throws(n) + 1; }
int main() {
  int sum = 0;
  for (int i = 0; i < 6; i++) try { sum += passes(i); } catch (const Bad &b) { sum += 100; }
  return sum != 216;
}
C
g++ -g -O1 -o thrown thrown.cc
recorded thrown
for function in throws passes; do
  listed thrown $function '
assert [args(c)[0] for c in calls] == list(range(6))
assert [c["end"] == "returned" for c in calls] == [False, True, True, False, True, True]'
done
# Without debug information names of functions are known, those of arguments not; without symbols neither.
gcc -O0 -o symbols c.c
recorded symbols
listed symbols leaps '
assert [args(c)[0] & 0xffffffff for c in calls] == [0, 1, 2, 3] and not any(c["args"][0].get("name") for c in calls)'
strip symbols -o stripped
recorded stripped
expect 2 "$BACKSTEP" calls leaps stripped
says "no function 'leaps'"
listed stripped raise 'assert len(calls) == 1 and calls[0]["args"][0]["value"] & 0xffffffff == 10'
ok
