#!/usr/bin/env bash
# Files, directories, extended attributes, memory files, big reads.
source "$(dirname "$0")/lib.bash"
for name in sys_files sys_dirs sys_xattr sys_memfd; do program $name; done
seq 1 300 >input
STDIN=$T/input same_program sys_stdin
STDIN=/dev/null same_program sys_stdin
ok
