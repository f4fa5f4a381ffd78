#!/usr/bin/env bash
# Programs that cannot be recorded, as the recording or we ourselves are out of sight (chroot), run on unrecorded.
source "$(dirname "$0")/lib.bash"
if [ "$(id -u)" = 0 ]; then
  mkdir root
  cp -rL --parents /bin/sh /lib64/ld-linux-x86-64.so.2 /lib/x86_64-linux-gnu/libc.so.6 root
  OUTPUT=same TREE_OUTPUT=no record_tree changed-root chroot "$T/root" /bin/sh -c 'echo "$PWD"; exit 6'
  "$BACKSTEP" info changed-root | seen 'which was not recorded' || fail "no word of the program that was not recorded"
else
  OUTPUT=same TREE_OUTPUT=no record_tree read-only sh -c "chmod 500 '$T'/read-only 2>/dev/null; /bin/echo one; exec echo two"
fi
# A umask that would let nobody read the logs, and a limit on file sizes that lets none be written.
OUTPUT=same record_tree mask bash -c 'umask 777; (echo a); /bin/echo b | cat'
[ "$(stat -c %a mask/process-*.log | sort -u)" = 600 ] || fail "modes of the logs: $(stat -c %a mask/*.log | sort -u)"
OUTPUT=same TREE_OUTPUT=no record_tree limit bash -c 'ulimit -f 1; (echo a); /bin/echo b | cat; exit 3'
ok
