#!/usr/bin/env bash
# AVX-512 used without asking CPUID, all 32 registers: right results although the engine counts in one of them.
source "$(dirname "$0")/lib.bash"
grep -qw avx512bw /proc/cpuinfo || skip "this CPU has no AVX-512"
same_program isa_avx512
same_program isa_avx512_signal
replay_again isa_avx512 1 --engine-counter=memory
ok
