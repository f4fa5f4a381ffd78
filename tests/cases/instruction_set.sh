#!/usr/bin/env bash
# x87, SSE to AVX2, BMI, AES, string instructions, atomics, segments, odd encodings: each program checks its
# results itself.
source "$(dirname "$0")/lib.bash"
has() { for flag; do grep -qw "$flag" /proc/cpuinfo || return 1; done; }
for name in isa_x87 isa_strings isa_atomics isa_misc isa_loops isa_overlap; do same_program $name; done
if has sse4_2; then same_program isa_sse; fi
if has avx2 fma f16c; then same_program isa_avx2; fi
if has bmi1 bmi2 adx; then same_program isa_bmi; fi
if has aes pclmulqdq; then same_program isa_crypto; fi
if has fsgsbase; then same_program isa_segments; fi
if has xsavec avx; then program isa_xsave; fi
ok
