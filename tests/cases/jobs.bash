# For cases about jobs: a recording with many windows, and what tables of contents it should have.

# busy_recording: makes $T/run, and $T/expected with its tables as they are made without jobs.
busy_recording() {
  cat >busy.c <<'C'
#include <stdio.h>
volatile unsigned long work;
volatile long set;
__attribute__((noinline)) void compute(void) {
  for (int i = 0; i < 2000000; i++) work = work * 6364136223846793005ul + 1;
}
int main(void) {
  for (int round = 0; round < 120; round++) {
    compute();
    if (round % 30 == 0) set = round;
  }
  printf("%lu\n", work);
  return 0;
}
C
  gcc -g -O1 -o busy busy.c
  expect 0 "$BACKSTEP" record -q -o "$T/run" ./busy
  expect 0 "$BACKSTEP" checkpoints --make --every 0.004 run
  expect 0 "$BACKSTEP" trace --level 1 run
  mv run/contents expected
  [ "$(ls expected | wc -l)" -gt 10 ] || fail "few windows: $(ls expected)"
}
# as_expected: the recording has the tables that it should have, and nothing besides.
as_expected() {
  diff -r expected run/contents >diff.out || fail "other tables than without jobs: $(cat diff.out)"
  [ ! -e run/jobs ] || fail "the folder of the jobs is still there"
}
# A program that stands for backstep in jobs. The file $T/spoil names what goes wrong, once for each word: N-dies (the job is
# killed at work), N-lies (its result is damaged), N-says (it only says something).
unreliable_program() {
  cat >unreliable <<SH
#!/bin/bash
job=\${3##*job-}
spoil() { grep -qx "\$job-\$1" $T/spoil && sed -i "0,/^\$job-\$1\$/{//d}" $T/spoil; }
if spoil says; then echo "I do not feel like job \$job"; exit 1; fi
if spoil dies; then
  "$BACKSTEP" "\$@" &
  sleep 0.05
  kill -9 \$!
  rm -f "\$3.tables"
  kill -9 \$\$
fi
"$BACKSTEP" "\$@" || exit
if spoil lies; then printf damage | dd of="\$3.tables" bs=1 seek=90 conv=notrunc status=none; fi
SH
  chmod +x unreliable
  : >spoil
}
