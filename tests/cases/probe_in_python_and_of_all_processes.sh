#!/usr/bin/env bash
# Snippets in Python see the program's variables through a session and keep their own; `-p all` probes one process after the other;
# --parallel says the same as one replay; programs have debug code through the session protocol: over the run, and along with it.
source "$(dirname "$0")/lib.bash"
need g++
mkdir "$T/recordings"
cat >forks.c <<'C'
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
struct item { int number; const char *name; };
static const char *names[] = {"first", "second", "third"};
int use(struct item *i) { return i->number * 2; }
int main(void) {
  int sum = 0;
  for (int c = 0; c < 2; c++)
    if (fork() == 0) {
      for (int i = 0; i < 2 + c; i++) {
        struct item it = {i + 10 * c, names[i]};
        sum += use(&it);
      }
      _exit(sum & 1);
    }
  while (wait(0) > 0) {}
  for (int i = 0; i < 400; i++) {
    struct item it = {i, names[i % 3]};
    sum += use(&it);
  }
  printf("%d\n", sum);
  return 0;
}
C
gcc -g -O0 -o forks forks.c
expect 0 "$BACKSTEP" record -q -o "$T/recordings/forks" ./forks
say "all processes"
expect 0 "$BACKSTEP" probe -p all --at use 'static int n; n++; if (n < 3) printf("%d %s\n", n, i->name);' forks
sed 's/pid [0-9]*/pid/' out >shown
printf '#1 forks, pid\n1 first\n2 second\n#2 forks, pid\n1 first\n2 second\n#3 forks, pid\n1 first\n2 second\n' >wanted
diff wanted shown >&2 || fail "of all processes: $(cat err)"
expect 0 "$BACKSTEP" probe -p 3 --json --at use 'printf("%d\n", i->number);' forks
[ "$(wc -l <out)" = 3 ] || fail "of one process: $(cat out)"
say "in parts"
expect 0 "$BACKSTEP" probe --at use 'if (i->number % 100 == 7) printf("%d %s\n", i->number, i->name);' forks
cp out wanted
BACKSTEP_WINDOW=300 expect 0 "$BACKSTEP" probe --parallel --at use 'if (i->number % 100 == 7) printf("%d %s\n", i->number, i->name);' forks
diff wanted out >&2 || fail "--parallel says something else"
[ "$(wc -l <wanted)" = 4 ] || fail "the snippet ran $(wc -l <wanted) times"
say "Python"
expect 0 "$BACKSTEP" probe --python --at forks.c:6 'seen = globals().get("seen", [])
seen.append(value("i->number"))
if len(seen) == 3:
    print(seen, value("i->name"), i["number"] if isinstance(i, dict) else "pointer", s.stack()[0].function)
    at_end(lambda: print("the end", len(seen)))
if len(seen) == 5: stop("enough")' forks
[ "$(cat out)" = "[0, 1, 2] third pointer use"$'\n'"the end 5" ] || { cat out err >&2; fail "what Python prints"; }
grep -q '^backstep: stopped at @.*: enough$' err || fail "no word of the stop: $(cat err)"
third=$("$BACKSTEP" log use '' forks | sed -n '3s/ .*//p')
expect 1 "$BACKSTEP" probe --python --at use $'print("once")\nnowhere += 1' --to "$third" forks
[ "$(grep -c once out)" = 2 ] || fail "--to in Python: $(cat out)"
grep -q -- "--at use:2: NameError" err || fail "an error in Python: $(cat err)"
say "from a program"
cat >ask.py <<'PY'
import backstep
with backstep.open("forks") as s:
    lines = [note["output"] for note in s.probe(at={"use": 'static int n; if (++n <= 2) printf("%d\\n", i->number);'})]
    assert lines == ["0\n", "1\n"], lines
    said = []
    s.on_debug = said.append
    places = s.debug(at={"use": 'static int n; n++; if (n == 3) backstep::stop("third"); printf("%d\\n", n);'})
    assert [p["function"] for p in places] == ["use"], places
    where = s.forward()
    assert where.function == "use" and s.value("i->number") == 2, where
    assert [n.get("output", n.get("stop")) for n in said] == ["1\n", "2\n", "third", "3\n"], said
    s.backward("call use")
    s.backward("call use")
    said.clear()
    s.forward()
    assert [n.get("output", n.get("stop")) for n in said][-2:] == ["third", "3\n"], said
    said.clear()
    s.debug()
    s.forward("call use")
    assert said == []
    try:
        s.debug(at={"use": "nonsense"})
        raise SystemExit("nonsense compiles")
    except backstep.Error as error:
        assert "nonsense" in str(error), error
PY
PYTHONPATH="$SRC/python" BACKSTEP="$BACKSTEP" expect 0 "$PYTHON" ask.py
ok
