#!/usr/bin/env bash
# gzip, xz and bzip2, there and back again.
source "$(dirname "$0")/lib.bash"
need gzip xz bzip2
"$PYTHON" -c '
import random
random.seed(2)
words = ["".join(random.choice("etaoinshrdlu") for _ in range(random.randrange(2, 9))) for _ in range(3000)]
print(" ".join(random.choice(words) for _ in range(150000)))' >text
export OUTPUT=same
for program in gzip bzip2 xz; do
  STDIN=$T/text record_replay $program $program -c
  STDIN=$T/$program.out record_replay "un$program" $program -dc
  same text "un$program.out" "$program does not give back what it got"
done
ok
