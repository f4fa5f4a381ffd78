#!/usr/bin/env bash
# #! lines: with an argument, by relative path, nested; $0 and arguments are what the kernel gives.
source "$(dirname "$0")/lib.bash"
printf '#!/bin/bash -e\necho "$0" "$#" "$@"\nfalse\necho not reached\n' >script
printf '#! %s\nimport sys\nprint(sys.argv[1:])\n' "$PYTHON" >script.py
chmod +x script script.py
OUTPUT=same record_replay bash "$T/script" one "two words"
OUTPUT=same record_replay python "$T/script.py" a b
mkdir bin
cp script bin/found-in-path
PATH=$T/bin:$PATH OUTPUT=same record_replay path found-in-path x
# Text without #!: a shell would run it itself; we say what the kernel says.
printf 'echo hello\n' >plain
chmod +x plain
expect 126 "$BACKSTEP" record -o rec ./plain
ok
