#!/usr/bin/env bash
# Assertions of all forms, made at random, against what follows from the lists of 'backstep log', calculated in Python; in one
# window and in many.
source "$(dirname "$0")/lib.bash"
need gcc
cat >walk.c <<'C'
#include <stdio.h>
long x, y;
unsigned seed = 1;
int rnd(int n) { return (int)((seed = seed * 1103515245 + 12345) >> 16) % n; }
void a(int n) { x += n - 2; }
void b(int n) { y = x + n; }
void c(int n) { if (n) x--; }
int main(void) {
  for (int i = 0; i < 60; i++) {
    int k = rnd(7);
    if (k < 3) a(rnd(5));
    else if (k < 5) b(rnd(4));
    else if (k < 6) c(rnd(2));
    else a(1), b(2);
  }
  printf("%ld %ld\n", x, y);
  return 0;
}
C
gcc -g -O0 -o walk walk.c
"$BACKSTEP" record -q -o run ./walk >/dev/null
export PYTHONPATH=$SRC/python PYTHONDONTWRITEBYTECODE=1
cat >check.py <<'PY'
import random, sys
import backstep

random.seed(int(sys.argv[1]))

def key(at):
    tick, pc = at[1:].split(":")
    return int(tick), int(pc, 16)

with backstep.open("run") as s:
    events = {f"call {f}": [(key(h.at), h.values) for h in s.log(f"call {f}", "x", "y", "n")] for f in "abc"}
    # Whoever names variables is behind the prologue.
    plain = {f"call {f}": [(key(h.at), None) for h in s.log(f"call {f}")] for f in "abc"}
    writes = sorted((key(h.at), h.values) for v in "xy" for h in s.log(f"write {v}", "x", "y"))
    wanted, texts = [], []

    def expect(text, checks, bad):
        texts.append(text)
        wanted.append((text, checks, sorted(bad)))

    for _ in range(60):
        (an, A), (bn, B) = random.sample(sorted(events.items()), 2)
        limit = random.randint(-4, 12)
        form = random.randrange(7)
        if 2 <= form <= 5:
            A, B = plain[an], plain[bn]
        # Just enough for one of them, or a tick too few.
        k = random.choice(A)[0]
        gaps = [abs(m[0] - k[0]) for m, _ in B if (m > k) == (form == 2)]
        within = random.choice([None, min(gaps, default=5), max(min(gaps, default=5) - 1, 0)])
        near = f" within {within} ticks" if within is not None else ""
        ok = lambda d: within is None or d <= within
        if form == 0:
            expect(f"never {an} if x > {limit} && n != 1", sum(v["x"] > limit and v["n"] != 1 for _, v in A),
                   [k for k, v in A if v["x"] > limit and v["n"] != 1])
        elif form == 1:
            expect(f"always x < {limit} || y > 3 at {an}", len(A), [k for k, v in A if not (v["x"] < limit or v["y"] > 3)])
        elif form == 2:
            expect(f"{an} is followed by {bn}{near}", len(A), [k for k, _ in A if not any(m > k and ok(m[0] - k[0]) for m, _ in B)])
        elif form == 3:
            expect(f"{an} is preceded by {bn}{near}", len(A), [k for k, _ in A if not any(m < k and ok(k[0] - m[0]) for m, _ in B)])
        elif form == 4:
            n = random.randint(0, 30)
            expect(f"at most {n} of {an}", len(A), [k for k, _ in A[n:]])
        elif form == 5:
            bad, last = [], bn
            for k, which in sorted([(k, an) for k, _ in A] + [(k, bn) for k, _ in B]):
                if which == last:
                    bad.append(k)
                last = which
            expect(f"{an} alternates with {bn}", len(A) + len(B), bad)
        else:
            bad, checks, inside = [], 0, False
            moments = [(k, 0, v) for k, v in A] + [(k, 1, v) for k, v in B] + [(k, 2, v) for k, v in writes]
            for k, what, v in sorted(moments, key=lambda m: m[:2]):
                inside |= what == 0
                if inside:
                    checks += 1
                    if not v["x"] + v["y"] < 2 * limit:
                        bad.append(k)
                if what == 1:
                    inside = False
            expect(f"always x + y < {2 * limit} between {an} and {bn}", checks, bad)
    verdicts = s.check("\n".join(texts))
    assert len(verdicts) == len(wanted)
    assert any(v.holds for v in verdicts) and not all(v.holds for v in verdicts)
    for v, (text, checks, bad) in zip(verdicts, wanted):
        assert v.assertion == text
        got = v.checks, v.violations, v.first and key(v.first["at"])
        assert got == (checks, len(bad), bad[0] if bad else None), f"{text}: {got} instead of {checks, len(bad), bad[:1]}"
        assert v.holds == (not bad), text
PY
for seed in 1 2 3; do "$PYTHON" check.py $seed || fail "seed $seed"; done
BACKSTEP_WINDOW=200 "$PYTHON" check.py 4 || fail "in windows"
ok
