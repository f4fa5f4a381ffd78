#!/usr/bin/env bash
# 'backstep query': the language's own examples, what is printed and as JSON, what 'current' is, and mistakes with a caret.
source "$(dirname "$0")/lib.bash"
need gcc
cat >foo.c <<'C'
#include <stdio.h>
long total;
int other(int n) { return n + 1; }

int b(int n) {
  if (n > 3) total += n;
  return n;  /* line 7 */
}
int a(int n) { return b(n) + 1; }
int c(int n) { return b(n) + 2; }
int main(void) {
  for (int i = 0; i < 6; i++) a(i);
  c(10);
  printf("%ld\n", total);
  return other(0) - 1;
}
C
gcc -g -O0 -o foo foo.c
"$BACKSTEP" record -q -o run ./foo >/dev/null
ask() { "$BACKSTEP" query "$@" run >"$T/out" 2>"$T/err"; }
has() { grep -Eq -- "$1" "$T/out" || { cat "$T/out" "$T/err" >&2; fail "no '$1'"; }; }

# "To find the second most recent state where the 7th line of file foo.c was executed and the top of the call stack looked like
# (a,b)": the call of b by c does not count, so it is that with 4.
ask 'goto current backward block_entry 2 where stack=<*,a,b> and src=<foo.c,7>' --print n --stack || fail "the seed's query"
has '^@[0-9]+:0x[0-9a-f]+ +1  b at foo.c:7$'
has '^    n = 4$'
has '^    #0 +b at foo.c:7$'
has '^    #1 +a at foo.c:9$'
at=$(sed -n '1s/ .*//p' "$T/out")
# Its other commands: the n-th previous or next modification, entry, exit, and state.
ask 'goto current backward store 2 where addr=&total' --print oldval --print '$new' || fail "a variable's history"
has '^    oldval = 4$'
has '^    \$new = 9$'
ask 'goto first forward func_enter 3 where func=<b>' --print n && has 'n = 2$' || fail "a function's entry"
ask 'goto last backward func_exit where func=<b>' --print '$retval' && has '= 10$' || fail "a function's exit"
ask 'goto last backward block_entry' && has '^@' || fail "the last state"
ask 'goto first forward block_entry' && has '^@0:' || fail "the first state"

# Current is --at; a match there does not count, so the same query goes on.
line=$at  # the block begins with that line
ask 'goto current forward line where src=<foo.c:7>' --at "$line" --print n && has 'n = 5$' || fail "the next one"
ask 'goto current backward line where src=<foo.c:7>' --at "$line" --print n && has 'n = 3$' || fail "the one before"
ask 'goto current backward line 3 where src=<foo.c:7>' --print n && has 'n = 4$' || fail "from the end by itself"
"$BACKSTEP" replay -q --at "$line" run -nx -batch -ex 'print n' </dev/null >"$T/gdb" 2>&1
grep -q '^\$1 = 4' "$T/gdb" || { cat "$T/gdb" >&2; fail "gdb is elsewhere at $line"; }

# A line without code is the next one that has some, and a note says so.
ask 'goto first forward line where src=<foo.c:4>' --print n && has 'b at foo.c:6$' || fail "a line without code"
says 'line 4 of foo.c has no code; line 5 is meant'

"$BACKSTEP" query 'goto last backward func_enter where func=<b>' --print n --stack --json run >json
[ "$(field found <json)" = True ] && [ "$(field values.n <json)" = 10 ] && [ "$(field function <json)" = b ] &&
  [ "$(field line <json)" = 6 ] && [ "$(field stack.1.function <json)" = c ] || { cat json >&2; fail "JSON"; }

# There are seven of them.
expect 1 "$BACKSTEP" query 'goto first forward func_enter 8 where func=<b>' run
says 'there are only 7 such moments'
expect 1 "$BACKSTEP" query 'goto first backward func_enter where func=<b>' run
says 'there is no such moment'
# A pattern without its brackets is an expression, which is told.
expect 1 "$BACKSTEP" query 'goto first forward func_enter where func=b and tick > 1' run
says "there is no such moment from there on \\('func=b' compares .*did you mean func=<b>\\?\\)"
expect 1 "$BACKSTEP" query 'goto last forward func_enter where func=<b>' --json run
[ "$(field found <"$T/out")" = False ] || fail "found in JSON"
# b reads nothing at 0: no match, and it is told how often.
expect 1 "$BACKSTEP" query 'goto first forward func_enter where func=<b> and *(int *)0x10 = 3' run
says 'could not be evaluated 7 times'

mistake() {  # QUERY COLUMN SENTENCE
  expect 2 "$BACKSTEP" query "$1" run
  says "$3"
  [ "$(sed -n 's/^  \( *\)^$/\1/p' "$T/err" | awk '{print length}')" = "$2" ] || { cat "$T/err" >&2; fail "the caret of '$1'"; }
}
mistake 'goto here forward line' 5 "current, first or last; 'here' is none of them"
mistake 'goto last backward stor' 19 "'stor' is none of them"
mistake 'goto last backward line where src=<foo.c:7> and m = 3' 48 "no variable 'm' here"
mistake 'goto last backward func_enter where func=<b> and arg0 > 3 and q' 62 "no variable 'q' here"
mistake 'goto last backward store where addr=&totl' 37 "did you mean 'total'"
expect 2 "$BACKSTEP" query 'goto last backward func_enter where func=<bb>' run
says "no function 'bb'"
expect 2 "$BACKSTEP" query 'goto last backward line where src=<fo.c:7>' run
says "no code of 'fo.c:7'"
"$BACKSTEP" query 'goto last backward store where newval=3' --print '$new' --json run >json 2>err || fail "a store by its value"
[ "$(field 'values.$new' <json)" = 3 ] || { cat json >&2; fail "a store of something else"; }
seen 'each store of the run is looked at' <err || fail "it does not say that this takes long"
expect 2 "$BACKSTEP" query 'goto first forward line' --at 50% run
says "begins elsewhere"
expect 2 "$BACKSTEP" query
ok
