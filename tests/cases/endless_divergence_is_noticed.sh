#!/usr/bin/env bash
# A program that is told something else than it was told then, and computes for ever because of it without another system
# call: the replay notices that it has passed the next event, and ends with a report.
source "$(dirname "$0")/lib.bash"
cat >reads.c <<'C'
#include <string.h>
#include <unistd.h>
int main(void) {
  char word[16] = "";
  if (read(0, word, 15) != 15) return 1;
  volatile unsigned long count = 0;
  while (strcmp(word, "a-word-to-go-on") != 0) count++;
  write(1, "went on\n", 8);
  return 0;
}
C
gcc -O1 -o reads reads.c
printf a-word-to-go-on >word
expect 0 "$BACKSTEP" record -q -o there sh -c 'exec ./reads <word'
for kind in honest changed; do
  copy_recording there "$kind"
done
damage change "changed/process-2.log" a-word-to-go-on a-word-to-stay!
expect 0 "$BACKSTEP" replay --autopilot honest
expect 3 timeout -k 5 "$PATIENCE" "$BACKSTEP" replay --autopilot changed
says 'divergence at event .*'
says 'recorded: system call write'
says 'goes on computing'
ok
