#!/usr/bin/env bash
# execve of everything that can be executed, by every name: what the new program sees is what it would see natively.
source "$(dirname "$0")/lib.bash"
OUTPUT=same record_tree exec "$P/tree_exec"
ok
