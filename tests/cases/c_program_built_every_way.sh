#!/usr/bin/env bash
# One C program, built dynamic, static, static-pie, non-PIE and stripped: the output is the native one.
source "$(dirname "$0")/lib.bash"
for name in hello hello_static hello_static_pie hello_nopie hello_stripped; do
  same_program $name one "two words" ""
done
HELLO_STATUS=42 same_program hello
ok
