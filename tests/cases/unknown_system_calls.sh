#!/usr/bin/env bash
# Numbers that no table knows: the kernel's answer, a note in the recording, and the program goes on.
source "$(dirname "$0")/lib.bash"
same_program sys_unknown
"$BACKSTEP" info "$T/sys_unknown" >info
grep -Eqi 'unknown|not in the table|fallback' info || { cat info; fail "info does not mention the unknown calls"; }
# Their numbers; those that are no number of a call at all (negative, beyond 16 bits) have one name.
"$BACKSTEP" dump "$T/sys_unknown" >dump
seen 'syscall_9999(' <dump || fail "dump does not name the number 9999"
! seen 65535 <dump || fail "dump shows a number that the program did not use"
[ "$("$BACKSTEP" syscalls syscall_unknown "$T/sys_unknown" | grep -c 'syscall_unknown(.*ENOSYS')" -ge 4 ] || fail "syscalls does not find them"
ok
