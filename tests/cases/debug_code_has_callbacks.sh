#!/usr/bin/env bash
# Debug code asks to be called for events of the recorded run: calls, returns, system calls, memory, ticks, lines, events with
# conditions. It is called as often as `backstep count` finds them, from C as from C++, until it takes the callback back.
source "$(dirname "$0")/lib.bash"
need g++
mkdir "$T/recordings"
cat >program.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int counter;
long other[4];
__attribute__((noinline)) int work(int n) {
  counter += n;
  if (n % 3 == 0) other[n % 4]++;  // LINE
  return n * 2;
}
int main(void) {
  long sum = 0;
  for (int i = 0; i < 900; i++) {
    sum += work(i);
    if (i % 100 == 0 && write(1, ".", 1) != 1) return 2;
    if (i % 300 == 0) free(malloc(i + 1));
  }
  for (volatile int i = 0; i < 50000; i++) sum += i;
  printf("%ld %d\n", sum, counter);
  return 0;
}
C
line=$(grep -n LINE program.c | cut -d: -f1)
gcc -g -O1 -o program program.c
expect 0 "$BACKSTEP" record -q --check=deep -o "$T/recordings/program" ./program
expect 0 "$BACKSTEP" count 'call work' 'return work' 'syscall write' 'syscall write after' 'read counter' 'write counter' \
  'every 1000' "program.c:$line" 'call work if $arg0 > 700' 'write other' syscall program
awk '{ print $1 }' out | tr '\n' ' ' | sed 's/ $/\n/' >wanted
grep -q '^900 900 10 10 [0-9]* 900 ' wanted || fail "the counts are $(cat wanted)"
cat >callbacks.cc <<CC
#include <backstep/debug.h>
#include <cstdio>
#include <map>
#include <string>
extern "C" int counter;
extern "C" long other[4];
static std::map<int, long> n;
static long arguments, results, changes, bytes, last = -1;
struct Begin {
  Begin() {
    using namespace backstep;
    on_call("work", [](const Event &e) { n[0]++, arguments += static_cast<int>(e.arg(0)); });
    on_return("work", [](const Event &e) { n[1]++, results += static_cast<int>(e.result()); });
    on_syscall(1, before, [](const Event &e) { n[2]++, bytes -= static_cast<long>(e.syscall_arg(2)); });
    on_syscall(1, after, [](const Event &e) { n[3]++, bytes += static_cast<long>(e.result()); if (e.number() != 1) puts("number"); });
    on_read(&counter, sizeof counter, [] { n[4]++; });
    on_write(&counter, sizeof counter, [](const Event &e) {
      n[5]++, changes += static_cast<int>(e.new_value() - e.old_value());
      if (e.address() != reinterpret_cast<unsigned long>(&counter)) puts("address");
      if (static_cast<int>(e.new_value()) != counter) puts("value");
    });
    on_tick(1000, [](const Event &e) { n[6]++; if (e.tick() % 1000 || static_cast<long>(e.tick()) <= last) puts("tick"); last = static_cast<long>(e.tick()); });
    on_line("program.c:$line", [] { n[7]++; });
    on_event("call work if \$arg0 > 700", [] { n[8]++; });
    on_write(other, sizeof other, [] { n[9]++; });
    on_syscall(-1, before, [] { n[10]++; });
    at_end([] {
      for (auto [what, count] : n) printf("%s%ld", what ? " " : "", count);
      printf("\n%ld %ld %ld %ld\n", arguments, results, changes, bytes);
    });
  }
};
static Begin begin;
CC
expect 0 "$BACKSTEP" probe callbacks.cc program
head -n 1 out | diff wanted - >&2 || fail "callbacks come as often as this"
[ "$(sed -n 2p out)" = "404550 809100 404550 0" ] || fail "what the callbacks were told: $(cat out)"

# In C; taken back after a while, from inside; asked for in the middle of the run.
cat >region.py <<'PY'
text = open("program.c").read()
text = text.replace("int counter;", """#include <backstep/debug.h>
#ifdef BACKSTEP_PROBE
#include <stdio.h>
#endif
BACKSTEP_GLOBAL
static int id, hits, returned;
static void called(const struct backstep_registers *r, void *cookie) {
  if (++hits == 300) backstep_off(id);
  if (*(const char *)cookie != 'c' || (int)r->gpr[7] != 99 + hits) printf("wrong at %d\\n", hits);
}
static void back(const struct backstep_registers *r, void *cookie) { returned++; }
static void report(const struct backstep_registers *r, void *cookie) { printf("%d hits, %d returns\\n", hits, returned); }
BACKSTEP_GLOBAL_END
int counter;""").replace("    sum += work(i);", """    BACKSTEP_BEGIN
      if (i == 100) {
        id = backstep_on_call("work", called, (void *)"cookie");
        backstep_on_return("work", back, 0);
        backstep_at_end(report, 0);
      }
    BACKSTEP_END
    sum += work(i);""")
open("regions/program.c", "w").write(text)
PY
mkdir regions
"$PYTHON" region.py
expect 0 "$BACKSTEP" probe regions/program.c program -- -O1
[ "$(cat out)" = "300 hits, 800 returns" ] || fail "in C: $(cat out err)"

# What is not possible is said at the line that asks for it, and the rest goes on.
expect 1 "$BACKSTEP" probe --at main 'int f = 3;
if (backstep::on_call("wokr", [] {})) puts("possible");
backstep::on_event("call work then call main", [] {});
backstep::on_read(&counter, 0, [] {});
printf("goes on\n");' program
grep -q '^goes on$' out && ! grep -q possible out || fail "after what is not possible: $(cat out)"
grep -q -- "--at main:2: it asks for callbacks of 'call wokr': there is no function 'wokr'.*did you mean work" err || fail "no word of wokr: $(cat err)"
grep -q -- "--at main:3: it .*made of several events" err || fail "no word of two events: $(cat err)"
grep -q -- "--at main:4: it .*0 bytes" err || fail "no word of 0 bytes: $(cat err)"
expect 1 "$BACKSTEP" probe --parallel --at main 'backstep::on_call("work", [] {});' program
grep -q -- '--parallel' err || fail "callbacks in windows: $(cat err)"

# stop, mark, stack, now.
expect 0 "$BACKSTEP" probe --at work 'static int calls;
if (++calls == 5) backstep::mark("fifth");
if (calls == 7) {
  backstep::at_end([] { printf("the end at %d\n", calls); });
  printf("%s", backstep::stack().text());
  auto now = backstep::now();
  printf("%d frames, thread %d, %d\n", (int)backstep::stack().size(), (int)now.thread, now.tick > 0 && now.rip != 0);
  backstep::stop("seven times");
  printf("not yet\n");
}
if (calls > 7) printf("too far\n");' program
[ "$(sed -n 1,2p out)" = $'work (program.c:7)\nmain (program.c:14)' ] || fail "the stack: $(cat out)"
frames=$(($(wc -l <out) - 3))
[ "$(tail -n 3 out)" = "$frames frames, thread 1, 1"$'\nnot yet\nthe end at 7' ] || fail "at the stop: $(cat out)"
grep -q 'stopped at @[0-9]*:0x[0-9a-f]*: seven times' err || fail "no word of the stop: $(cat err)"
expect 0 "$BACKSTEP" count --from fifth 'call work' program
grep -qE '^89[56] ' out || fail "the mark is not where the fifth call is: $(cat out)"
expect 0 "$BACKSTEP" replay --autopilot program
ok
