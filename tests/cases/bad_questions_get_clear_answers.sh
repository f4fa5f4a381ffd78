#!/usr/bin/env bash
# Questions about events that make no sense, or have no end: a sentence each, with the column where there is one.
source "$(dirname "$0")/lib.bash"
mkdir one two
echo 'int twin_one(int x) { return x + 1; }' >one/twin.c
echo 'int twin_two(int x) { return x + 2; }' >two/twin.c
cat >asked.c <<'C'
struct node { int value; struct node *next; } last = {3, 0}, first = {2, &last}, *none;
int twin_one(int), twin_two(int);
__attribute__((noinline)) int visit(struct node *n) { return n ? n->value : -1; }
int main() {
  int sum = 0;
  for (int i = 0; i < 50000; i++) sum += visit(i % 5 ? &first : none);
  return twin_one(sum) + twin_two(sum) == 1;
}
C
gcc -g -O0 -o asked asked.c one/twin.c two/twin.c
mkdir -p "$T/recordings"
expect 0 "$BACKSTEP" record -q -o "$T/recordings/asked" ./asked
# refused PATTERN COMMAND...: with status 2 and a sentence.
refused() {
  local pattern=$1
  shift
  expect 2 "$BACKSTEP" "$@"
  says "$pattern"
  [ ! -s out ] || fail "'$*' printed something"
}
# under TEXT COMMAND...: likewise; the caret is under this part of what is shown.
under() {
  local text=$1
  shift
  expect 2 "$BACKSTEP" "$@"
  "$PYTHON" - "$text" <<'PY' || { cat err >&2; fail "'$*': the caret is not under '$text'"; }
import sys
lines = open("err").read().splitlines()
caret = next(i for i, line in enumerate(lines) if line.strip() == "^")
assert lines[caret - 1][lines[caret].index("^"):].startswith(sys.argv[1])
PY
}
refused "no function 'vist'.*did you mean visit" count 'call vist' asked
refused "no function 'vist'" log 'return vist' x asked
refused "no function 'vist'" calls vist asked
refused 'ambiguous: .*one/twin.c.*two/twin.c' count twin.c:1 asked
expect 0 "$BACKSTEP" count one/twin.c:1 asked
refused "askd.c:3.*asked.c" count askd.c:3 asked
refused 'asked.c has no code at line 99 or behind it; the last line that has some is 8' count asked.c:99 asked
refused "'sum' is a local variable of 'main'.*log 'asked.c:5' '{&sum}'" count 'write sum' asked
refused "negative" log 'call visit' x --last -1 asked
refused 'not both' log 'call visit' x --last 2 --limit 2 asked
refused 'to 50 is before --from 100' count 'call visit' --from 100 --to 50 asked
expect 0 "$BACKSTEP" log 'call visit' x --last 0 asked
[ ! -s out ] || fail "--last 0 prints something"
refused 'no kind of event' count 'wirte x' asked
cat >inlined.c <<'C'
volatile int total;
static inline __attribute__((always_inline)) void only(int x) { for (int i = 0; i < x; i++) total += i; }
int main(int count, char **words) { only(count); return total; }
C
gcc -g -O1 -o inlined inlined.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/inlined" ./inlined
refused "'only' was inlined wherever it is called.*inlined.c:2" count 'call only' inlined
refused "no system call 'wrte'; did you mean .*write" count 'syscall wrte' asked
refused "no signal 'SIGUSR3'; did you mean SIGUSR1, SIGUSR2" count 'signal SIGUSR3' asked
refused "no signal 'SIGNONE'" count 'signal SIGNONE' asked
expect 1 "$BACKSTEP" count 'call visit' there-is-none/such
says 'no recording'
refused 'no recording' log 'call visit' text none-such
under 'x' count 'tick x' asked
under 'y' count 'write first size y' asked
under '[9,3)' count 'main in [9,3)' asked
under 'q' count 'call visit then tick q' asked
under 'vlue' count 'call visit if n->vlue > 3' asked
under 'm' count 'call visit if m > 3' asked
under ')' count 'call visit if (n->value > )' asked
under '}' log 'call visit' 'n={n} x}' asked
under '{n' log 'call visit' 'n={n' asked
refused 'behind one that is named' log 'syscall after' '{$arg0}' asked
refused 'behind one that is named' log 'syscall rt_sigreturn after' '{$arg0}' asked
refused 'there is no \$arg1: the call has 1 argument' count 'syscall exit_group if $arg1 == 3' asked
refused 'there is no \$pat' count 'syscall write if $pat == 3' asked
# A condition that reads a null pointer: no match, and it is told how often.
expect 0 "$BACKSTEP" count 'call visit if n->value == 2' 'call visit if n == 0' asked
grep -Eq '^ *40,000  call visit if n->value' out || fail "not 40,000: $(cat out)"
says '10,000 times'
expect 0 "$BACKSTEP" count --json 'call visit if n->value == 2' asked
[ "$(field 0.count <out) $(field 0.failures <out)" = '40000 10000' ] || fail "as JSON: $(cat out)"
expect 0 "$BACKSTEP" count 'call visit if n->next->value == 3' asked
says '10,000 times'
# A log that nobody reads to its end ends, without a word.
(set +o pipefail; "$BACKSTEP" log 'call visit' '{n}' asked 2>err | head -n 1 >out)
[ "$(wc -l <out)" = 1 ] || fail "head got nothing"
[ ! -s err ] || fail "a closed pipe is complained about: $(cat err)"
# An unreadable value is shown as one.
expect 0 "$BACKSTEP" log --limit 1 'call visit' '{n->value}' asked
grep -q 'cannot read 0x0' out || fail "a value behind a null pointer: $(cat out)"
ok
