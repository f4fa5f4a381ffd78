#!/usr/bin/env bash
# Numbers that no table knows: the kernel's answer, a note in the recording, and the program goes on.
source "$(dirname "$0")/lib.bash"
same_program sys_unknown
"$BACKSTEP" info "$T/sys_unknown" >info
grep -Eqi 'unknown|not in the table|fallback' info || { cat info; fail "info does not mention the unknown calls"; }
ok
