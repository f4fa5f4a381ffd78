#!/usr/bin/env bash
# rdtsc, rdtscp, rdrand, rdseed, rdpid, cpuid, xgetbv: every run is different, every replay the same.
source "$(dirname "$0")/lib.bash"
for flag in rdtscp rdrand rdseed rdpid; do grep -qw $flag /proc/cpuinfo || skip "this CPU has no $flag"; done
program isa_nondeterministic
"$BACKSTEP" info --json "$T/isa_nondeterministic" >info
for name in rdtsc rdtscp rdrand rdseed rdpid; do
  [ "$(field "log.instructions.$name.count" <info)" -ge 20 ] || fail "$name is not in the log"
done
if grep -q "^xcr0.*[2468ace]$" isa_nondeterministic.out; then fail "xgetbv without x87"; fi
ok
