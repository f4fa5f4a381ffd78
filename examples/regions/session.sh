#!/usr/bin/env bash
# calc crashes. Three replays of the one recording say why: gdb finds the place, a debug region prints each instruction with the
# operand stack, another one what was translated. BACKSTEP: the program; it works in a folder of its own.
set -euo pipefail
backstep=${BACKSTEP:-backstep}
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cp "$here/calc.c" "$here/powers.calc" .

gcc -g -O1 -o calc calc.c
("$backstep" record -q -o "$folder/recording" ./calc powers.calc || true) 2>/dev/null  # (the shell's word of the crash)

echo "--- 1. Where does it crash?"
"$backstep" replay -q --at end recording -batch -ex 'backtrace' -ex 'frame function execute' -ex 'info locals' 2>/dev/null |
  grep -E '^#|^inst|^pc'

echo "--- 2. What is on the operand stack, instruction by instruction? (The program's own out_num writes the numbers.)"
sed -i 's|^#include <ctype.h>|#include <backstep/debug.h>\n&|
s|^static void put_char|BACKSTEP_GLOBAL\nstatic void show(int c) { putchar(c); }\nBACKSTEP_GLOBAL_END\n&|
s|^    switch (inst) {|    BACKSTEP_BEGIN\n      printf("%3d %c", pc - 1, inst);\n      for (struct entry *e = stack; e; e = e->next) {\n        putchar(32);\n        out_num(\&e->num, show);\n      }\n      puts(stack ? "" : "  (nothing on the stack)");\n    BACKSTEP_END\n&|' calc.c
"$backstep" probe calc.c recording -- -O1 | tail -n 4

echo "--- 3. It is a branch, and nobody has put a condition there. What was translated to the code in front of it?"
sed -i 's|^    int condition = code_size;|    BACKSTEP_BEGIN\n      printf("%3d is the condition of: for (…;%.*s\\n", code_size, (int)strcspn(input, "{\\n"), input);\n    BACKSTEP_END\n&|' calc.c
"$backstep" probe calc.c recording -- -O1 | grep condition

echo "--- An empty condition is true, so one has to be emitted for it:"
sed -i "s|if (next() != ';') expression();|if (next() != ';')\n      expression();\n    else\n      emit('n'), emit_address(1);|" calc.c
gcc -g -O1 -I"${BACKSTEP_INCLUDE:-$here/../../include}" -o calc calc.c
./calc powers.calc
