#!/usr/bin/env bash
# brk, mmap of files (also changed and deleted ones), mremap, madvise, growing stack.
source "$(dirname "$0")/lib.bash"
program sys_memory
program sys_mmap
ok
