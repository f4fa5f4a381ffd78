#!/usr/bin/env bash
# 'backstep assert': each form where it holds and where it does not, with the first violation in words; exit status, files,
# JSON, stretches, processes; and mistakes.
source "$(dirname "$0")/lib.bash"
need gcc
cat >bank.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
long balance = 100, limits[2] = {-50, 500};
int open_count;
void begin(void) { open_count++; }
void commit(void) { open_count--; }
void post(long n) { balance += n; }
void audit(void) {}
void report(void) { printf("%ld\n", balance); fflush(stdout); }
int main(void) {
  for (int i = 0; i < 8; i++) {
    begin();
    post(i == 5 ? -400 : 20);
    if (i == 5) audit();
    if (i != 6) commit();
  }
  report();
  if (fork() == 0) { post(1000); _exit(0); }
  wait(NULL);
  return 0;
}
C
gcc -g -O0 -o bank bank.c
"$BACKSTEP" record -q -o run ./bank >/dev/null
holds() { expect 0 "$BACKSTEP" assert "$@" run; grep -q '^holds' "$T/out" || fail "$1"; }
violated() {  # ASSERTION HOW-OFTEN WORDS
  expect 1 "$BACKSTEP" assert "$1" run
  grep -qF "($2 times)" "$T/out" && grep -qF -- "$3" "$T/out" || { cat "$T/out" >&2; fail "$1: no '$2' or '$3'"; }
}
holds 'never call abort'
grep -q 'nothing to check' "$T/out" || fail "nothing to check"
holds 'never call post if n < -400'
violated 'never call post if n < 0' '1 of 1' "happens: n is -400"
holds 'always balance >= -200 at call commit'
violated 'always balance >= limits[0] at call commit' '2 of 7' "'balance >= limits[0]' does not hold: balance is -200, limits[0] is -50"
violated 'always *(int *)0x10 == 3 at call audit' '1 of 1' 'cannot be evaluated'
holds 'always balance >= -200 between call begin and output 160'
# Between the commit and the next begin nothing is written; post is seen where it writes.
violated 'always balance > 0 && open_count >= 0 between call begin and call commit' '9 of 31' 'balance is -200'
grep -q 'post at bank.c:9$' "$T/out" || fail "the write is in post"
holds 'always balance < 500 between call audit and call report'
holds 'call begin is followed by call post'
violated 'call begin is followed by call commit within 7 ticks' '1 of 8' "no 'call commit' behind it within 7 ticks; the next one is"
holds 'call begin is followed by call commit'
violated 'call post is followed by call audit' '2 of 8' "'call post', and no 'call audit' behind it"
violated 'call commit is followed by call begin' '1 of 7' "no 'call begin' behind it"
holds 'call commit is preceded by call begin'
violated 'call commit is preceded by call audit' '5 of 7' "and no 'call audit' before it"
violated 'call report is preceded by call audit within 3 ticks' '1 of 1' "the last 'call audit' is"
violated 'call begin alternates with call commit' '1 of 15' "another 'call begin', without 'call commit' in between"
holds 'call begin alternates with call post'
holds 'at most 8 of call begin'
violated 'at most 5 of call begin' '3 of 8' 'for the 6. time'
# An event is not behind itself.
violated 'call begin is followed by call begin' '1 of 8' "no 'call begin' behind it"
violated 'call begin is preceded by call begin' '1 of 8' "no 'call begin' before it"

# All at once, from a file.
cat >rules <<'R'
# what must be so
never call abort; at most 8 of call begin

always balance >= limits[0] at call commit   # it is not
R
expect 1 "$BACKSTEP" assert rules run
[ "$(grep -c '^holds' "$T/out")" = 2 ] && [ "$(grep -c '^violated' "$T/out")" = 1 ] || fail "a file of three"
expect 1 "$BACKSTEP" assert rules --json run
[ "$(field 2.line <"$T/out")" = 4 ] && [ "$(field 2.holds <"$T/out")" = False ] && [ "$(field 2.violations <"$T/out")" = 2 ] &&
  [ "$(field 2.first.function <"$T/out")" = commit ] && [ "$(field 2.first.values.balance <"$T/out")" = -200 ] || { cat "$T/out" >&2; fail JSON; }
at=$(field 2.first.at <"$T/out")
expect 0 "$BACKSTEP" assert - run <<<'never call abort'
# In a stretch: up to the violation, and from it on.
expect 0 "$BACKSTEP" assert rules --to "$at" run
expect 1 "$BACKSTEP" assert rules --from "$at" run
grep -q '(2 of 2 times)' "$T/out" || fail "from the violation on"
# The child's post is its own.
expect 0 "$BACKSTEP" assert 'never write balance if $new > 500' run
expect 1 "$BACKSTEP" assert 'never write balance if $new > 500' -p all run
grep -q '^  in #2 bank' "$T/out" || { cat "$T/out" >&2; fail "the process is not named"; }
expect 1 "$BACKSTEP" assert 'never write balance if $new > 500' -p '#2' run

mistake() {
  expect 2 "$BACKSTEP" assert "$1" run
  says "$2"
}
mistake 'nver call abort' 'this is no assertion'
mistake 'never call abrt' "no function 'abrt'.*did you mean abort"
mistake 'always blance > 0 at call post' "no variable 'blance' here; did you mean 'balance'"
mistake 'always $rax > 0 between call begin and call commit' 'not at one place all the time'
mistake 'only the holder of lock nothing writes balance' "no variable 'nothing'"
mistake '' 'no assertion'
printf 'never call abort\nnever wirte x\n' >bad
mistake bad "line 2: 'wirte' is no kind of event"
expect 2 "$BACKSTEP" assert
ok
