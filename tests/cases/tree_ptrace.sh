#!/usr/bin/env bash
# A recorded tracer: its children run natively from PTRACE_TRACEME on, and it sees of them what it would see without us.
source "$(dirname "$0")/lib.bash"
TREE_OUTPUT=no record_tree tracer "$P/tree_ptrace"
# The only difference: a process that is recorded cannot be attached to.
sed 's/^attach: .*/attach/' tracer.out.native >expected
sed 's/^attach: .*/attach/' tracer.out >got
same expected got "a recorded tracer sees something else"
grep -qx 'attach: Operation not permitted' tracer.out || fail "a recorded process was attached to"
"$BACKSTEP" info tracer | seen 'tried to trace a process that is recorded' || fail "info does not say what was refused"
"$BACKSTEP" info -p '#2' tracer | seen 'asked to be traced' || fail "info does not say why the child's recording ends"
TREE_OUTPUT=no RECORD_OPTIONS=--check=deep record_tree deep "$P/tree_ptrace"
ok
