#!/usr/bin/env bash
# 'count' and 'log' of a program whose numbers are known: calls, returns, lines, conditions, eras, data, system calls,
# signals, threads, output, compositions; without and with optimisation. What they print as JSON.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
cat >known.c <<'C'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
struct pair { int x, y; };
long total;
char name[16] = "first";
struct pair pair;
volatile int signals;
__attribute__((noinline)) long add(long a, long b) {
  __asm__ volatile("" ::: "memory");
  return a * 10 + b;
}
__attribute__((noinline)) long twice(long n) {
  return add(n, 1) + add(n, 2); /* line 16 */
}
__attribute__((noinline)) const char *pick(int n) {
  __asm__ volatile("");
  return n % 2 ? "odd" : "even";
}
static void on_signal(int signo) { signals++; }
static void *thread(void *unused) { return (void *)add(7, 7); }
int main() {
  signal(SIGUSR1, on_signal);
  for (int i = 0; i < 300; i++) {
    total += twice(i);
    pair.y = pick(i)[0]; /* line 28 */
    if (i % 100 == 99) {
      raise(SIGUSR1);
      if (write(1, "tick\n", 5) != 5) return 1;
    }
  }
  strcpy(name, "second");
  pthread_t t;
  pthread_create(&t, 0, thread, 0);
  pthread_join(t, 0);
  return total != 300L * 299 / 2 * 20 + 300 * 3;
}
C
# counted N SPEC [OPTION...]: so often, as text and as JSON.
counted() {
  local want=$1 spec=$2
  shift 2
  expect 0 "$BACKSTEP" count --json "$spec" "$@" known
  "$PYTHON" - "$want" "$spec" <<'PY' || fail "$level: '$spec' $* is not $want: $(cat "$T/out" "$T/err")"
import json, sys
answer = json.load(open("out"))
assert [set(a) >= {"spec", "count"} for a in answer] == [True]
assert answer[0]["spec"] == sys.argv[2] and answer[0]["count"] == int(sys.argv[1])
PY
}
# lines SPEC TEXT: what log says, without control points, in $T/lines.
lines() {
  expect 0 "$BACKSTEP" log --json "$@" known
  "$PYTHON" - <<'PY' || fail "$level: log $*: $(head -n 3 out)"
import json
before = (-1,)
with open("lines", "w") as lines:
    for line in open("out"):
        hit = json.loads(line)
        assert set(hit) >= {"at", "tick", "thread", "text", "values"}, hit
        assert hit["at"].startswith("@%d:0x" % hit["tick"]) or hit["at"].replace(",", "").startswith("@%d:0x" % hit["tick"])
        assert (hit["tick"],) >= before
        before = (hit["tick"],)
        print(hit["thread"], hit["text"], file=lines)
PY
}
for level in -O0 -O2; do
  gcc -g $level -pthread -o known known.c
  rm -rf "$T/recordings/known"
  expect 0 "$BACKSTEP" record -q -o "$T/recordings/known" ./known
  counted 601 'call add'
  counted 601 'return add'
  counted 300 'call twice'
  counted 2 'call twice if $arg0 == 7 || $arg0 == 250'
  counted 299 'return twice if $retval > 3'
  counted 300 'known.c:28'
  counted 300 'change total'
  counted 300 'write total'
  counted 1 'write total if $new > 800000 then call pthread_create'
  counted 150 'nth 2 of call twice'
  counted 600 'call add between call twice and call pthread_create'
  counted 299 'call twice then call twice'
  counted 3 'syscall write'
  counted 3 'syscall write after if $retval == 5'
  counted 0 'syscall write after if $retval < 0'
  counted 3 'signal SIGUSR1'
  counted 0 'signal SIGUSR2'
  counted 3 'change signals'
  counted 3 'output tick'
  counted 1 thread
  counted 0 fork
  counted 1 'call add if $thread != 1'
  # Eras, and the same as a stretch.
  expect 0 "$BACKSTEP" log --json 'call twice if $arg0 == 100 || $arg0 == 200' known
  read -r a b first second < <("$PYTHON" -c '
import json
hits = [json.loads(line) for line in open("out")]
print(*[h["tick"] for h in hits], *[h["at"].replace(",", "") for h in hits])')
  counted 100 "call twice in [$a,$b)"
  counted 100 'call twice' --from "$a" --to "$b"
  counted 100 'call twice' --from "$first" --to "$second"
  counted $((b / 10 + 1)) 'every 10' --to "$((b / 10 * 10 + 1))"
  counted 1 "tick $a"
  counted 1 "$first"
  # What is logged.
  lines 'call add if $thread == 1' '{$arg0}+{$arg1}'
  "$PYTHON" -c '
for i in range(300): print(f"1 {i}+1\n1 {i}+2")' | same - lines "$level: arguments"
  lines 'write total' '{$old}>{$new}'
  "$PYTHON" -c '
total = 0
for i in range(300): print(f"1 {total}>{total + 20 * i + 3}"); total += 20 * i + 3' | same - lines "$level: old and new"
  # Arguments of system calls, by number and by name; behind the call, too, if it is known which one it is.
  counted 3 'syscall write if $arg0 == 1 && $count == 5'
  counted 3 'syscall write after if $fd == 1 && $arg2 == $retval'
  counted 0 'syscall write if $fd != 1'
  lines 'syscall write' '{$fd} {$arg2} {(char *)$buf} {$arg0 - 2}'
  printf '1 1 5 "tick\\n" -1\n%.0s' 1 2 3 | same - lines "$level: arguments of write"
  lines 'syscall openat after if $path ~ "libc.so"' '{$path} {$arg0} {$retval > 0}'
  grep -Eqx '1 "[^"]*/libc.so.6" -100 (1|true)' lines || fail "$level: arguments behind openat: $(cat lines)"
  "$BACKSTEP" log --json 'syscall mmap' '{$arg0} {$arg1} {$arg2} {$arg3} {$fd} {$arg5}' known |
    "$PYTHON" -c 'import json, sys
for line in sys.stdin: print(*[int(str(v), 0) for v in json.loads(line)["values"].values()])' >asked
  "$BACKSTEP" syscalls --json mmap known | "$PYTHON" -c 'import json, sys
for line in sys.stdin: a = json.loads(line)["raw"]; print(*a[:4], (a[4] + 2**31) % 2**32 - 2**31, a[5])' | same - asked "$level: arguments of mmap"
  lines 'return pick' '{(char *)$retval}' --limit 3
  printf '1 "even"\n1 "odd"\n1 "even"\n' | same - lines "$level: a text"
  lines 'call twice' '{$arg0} {{}} {total}' --last 2
  "$PYTHON" -c '
for i in 298, 299: print(f"1 {i} {{}} {10 * i * (i - 1) + 3 * i}")' | same - lines "$level: the last ones"
  lines 'call add if $thread != 1' '{$arg0} {name} {pair.y}'
  [ "$(cat lines)" = '2 7 "second" 111' ] || fail "$level: globals: $(cat lines)"
  expect 0 "$BACKSTEP" log --json --stack 'call add if $arg0 == 5' known
  "$PYTHON" -c '
import json
for line in open("out"):
    hit = json.loads(line)
    names = [f.get("function") for f in hit["stack"]]
    assert names[:3] == ["add", "twice", "main"] and hit["stack_complete"], hit
' || fail "$level: the stack: $(head -n 1 out)"
done
ok
