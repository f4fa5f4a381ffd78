#!/usr/bin/env bash
# C++ with exceptions across a shared library, Fortran, Rust, assembler without libc.
source "$(dirname "$0")/lib.bash"
same_program exceptions
same_program exceptions_static
same_program virtual_map
same_program asm_gas
need gfortran nasm
same_program numbers
same_program asm_nasm
if [ -x "$P/rusty" ]; then program rusty; fi
ok
