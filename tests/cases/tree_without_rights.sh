#!/usr/bin/env bash
# Processes that give up the rights to write the recording, or lose sight of it, run on unrecorded.
source "$(dirname "$0")/lib.bash"
if [ "$(id -u)" = 0 ]; then
  chmod 711 "$T"
  OUTPUT=same TREE_OUTPUT=no record_tree other setpriv --reuid=65534 --regid=65534 --clear-groups \
    sh -c 'id -u; (echo sub); /bin/true; exec echo last'
  OUTPUT=same TREE_OUTPUT=no record_tree below bash -c \
    'setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "id -u; (echo sub); exit 5"; echo $?'
  OUTPUT=same TREE_OUTPUT=no record_tree forked "$PYTHON" -c '
import os
pid = os.fork()
if pid == 0:
    os.setgid(65534)
    os.setuid(65534)
    if os.fork() == 0:
        print("grandchild", os.getuid(), flush=True)
        os._exit(2)
    os.wait()
    os.execv("/bin/echo", ["echo", "hi"])
print(os.waitpid(pid, 0)[1])'
  mkdir root
  cp -rL --parents /bin/sh /lib64/ld-linux-x86-64.so.2 /lib/x86_64-linux-gnu/libc.so.6 root
  OUTPUT=same TREE_OUTPUT=no record_tree changed-root chroot "$T/root" /bin/sh -c 'echo "$PWD"; exit 6'
else
  OUTPUT=same TREE_OUTPUT=no record_tree read-only sh -c "chmod 500 '$T'/read-only 2>/dev/null; /bin/echo one; exec echo two"
fi
# A umask that would let nobody read the logs, and a limit on file sizes that lets none be written.
OUTPUT=same record_tree mask bash -c 'umask 777; (echo a); /bin/echo b | cat'
[ "$(stat -c %a mask/process-*.log | sort -u)" = 600 ] || fail "modes of the logs: $(stat -c %a mask/*.log | sort -u)"
OUTPUT=same TREE_OUTPUT=no record_tree limit bash -c 'ulimit -f 1; (echo a); /bin/echo b | cat; exit 3'
ok
