#!/usr/bin/env bash
# A session's steps by lines, over functions, into them, out of them, by quanta: what forwards comes to, backwards comes to
# again, through recursion, callbacks of the C library, longjmp, exceptions and beside other threads.
source "$(dirname "$0")/lib.bash"
cat >steps.cc <<'C'
#include <csetjmp>
#include <cstdlib>
#include <thread>
static jmp_buf back;
static long sum;
int compare(const void *a, const void *b) {
  return *(const int *)a - *(const int *)b;     // 7
}
int fib(int n) {
  if (n < 2)                                    // 10
    return n;                                   // 11
  return fib(n - 1) + fib(n - 2);               // 12
}                                               // 13
void leap(int n) {
  if (n == 1) longjmp(back, n);                 // 15
  throw n;                                      // 16
}
static volatile bool ended;
int main() {
  int numbers[3] = {3, 1, 2};                   // 20
  sum += fib(3);                                // 21
  for (int i = 0; i < 2; i++)                   // 22
    sum += fib(2);                              // 23
  qsort(numbers, 3, sizeof *numbers, compare);  // 24
  if (!setjmp(back))                            // 25
    leap(1);                                    // 26
  try {
    leap(2);                                    // 28
  } catch (int n) {                             // 29
    sum += n;                                   // 30
  }
  std::thread other([] { while (!ended) fib(4); });  // 32
  sum += fib(12);                               // 33
  for (int i = 0; i < 3; i++) std::this_thread::yield();  // 34
  ended = true;                                 // 35
  other.join();                                 // 36
  return sum == 0;                              // 37
}
C
g++ -g -O0 -o steps steps.cc -pthread
mkdir recordings
expect 0 "$BACKSTEP" record -q -o recordings/steps ./steps
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
cat >walk.py <<'PY'
import backstep

with backstep.open("recordings/steps") as s:
    first = s.forward("main"), s.step(by="over")
    assert first[1].line == 20 and first[1].function == "main", first

    def walk(by, back, until, thread=1):  # the moments that it comes to, and how deep the stack is there
        seen = []
        while s.now().at != until and len(seen) < 500:
            m = s.step(by=by, back=back)
            assert m.thread == thread and m.why == "step", m
            seen.append((m.at, m.line, len(s.stack())))
        return seen

    # Over: the lines of main, whatever they call.
    last = s.log("steps.cc:37").__next__().at
    over = walk("over", False, last)
    lines = [line for _, line, _ in over if line not in (29, 31)]  # catch, and behind it: where they are is the compiler's choice
    assert lines == [21, 22, 23, 22, 23, 22, 24, 25, 26, 28, 30, 32, 33, 34, 35, 36, 37], over
    again = walk("over", True, first[1].at)
    assert [moment for moment, _, _ in again] == [moment for moment, _, _ in over[-2::-1]] + [first[1].at], (over, again)

    # Into functions of the program, those that the C library calls included. Forwards also stops behind a call.
    until = next(s.log("steps.cc:32")).at
    into = walk("line", False, until)
    lines = [line for _, line, _ in into]
    assert lines[:4] == [21, 10, 12, 10] and 7 in lines and 15 in lines and 16 in lines and 30 in lines, lines
    back = walk("line", True, first[1].at)
    behind = {m for m, _, _ in into[:-1]} - {m for m, _, _ in back}
    assert [b for b in back if b[0] not in behind][:-1] == [i for i in into if i[0] not in behind][-2::-1], (into, back)
    returns = [line for moment, line, _ in into if moment in behind]
    assert set(returns) <= {12, 21, 23}, returns  # the middle of lines that have called

    # Out, and to the call again.
    s.goto(next(s.log("call fib if n == 1")).at)
    deep = len(s.stack())
    assert s.step(by="out").function == "fib" and len(s.stack()) == deep - 1
    s.step(by="line", back=True)
    assert s.value("n") == 1 and len(s.stack()) == deep
    call = s.step(by="out", back=True)
    assert call.function == "fib" and s.value("n") == 2 and len(s.stack()) == deep - 1
    assert s.step(by="out", back=True).function == "fib" and s.value("n") == 3
    assert s.step(by="out", back=True).line == 21 and s.step(by="over").line == 22

    # Quanta, and what there is nothing of.
    tick = s.goto("50%").tick
    assert s.step(by="quantum").tick == tick + 1 and s.step(by="quantum", back=True, count=2).tick == tick - 1
    s.goto("start")
    assert s.step(by="quantum", back=True).why == "start"
    s.goto("end")
    assert s.step(by="quantum").why == "end"
    s.goto("start")
    for by in ("line", "over"):
        try:
            print(s.step(by=by))
        except backstep.Error as e:
            assert "no source lines" in str(e), e
PY
"$PYTHON" walk.py || fail "steps do not lead where they should"
ok
