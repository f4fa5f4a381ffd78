#!/usr/bin/env bash
# perl, lua and bash (builtins only: no child processes yet).
source "$(dirname "$0")/lib.bash"
need perl lua5.4 bash
export OUTPUT=same
record_replay perl perl -e 'my %h; $h{$_ % 1000} += $_ for 1 .. 100000; my $s = join ",", map { $h{$_} } sort { $a <=> $b } keys %h;
  print length $s, " ", scalar reverse(substr $s, 0, 20), "\n"; die "the end\n"'
record_replay lua lua5.4 -e 'local t = {} for i = 1, 50000 do t[#t + 1] = tostring(i):rep(2) end
  table.sort(t) print(#table.concat(t), t[1], t[#t]) local ok, e = pcall(error, "x") print(ok, e) os.exit(4)'
cat >script.bash <<'B'
declare -A seen
for ((i = 0; i < 3000; i++)); do seen[$((i * 7919 % 101))]+=x; done
printf '%s %s\n' "${#seen[@]}" "${#seen[5]}"
while read -r a b; do total=$((total + a)); done < <(:) 2>/dev/null || true
[[ "abc123" =~ ([a-z]+)([0-9]+) ]] && echo "${BASH_REMATCH[2]}"
set -- one two three; shift; echo "$@" "$#" >&2
trap 'echo leaving' EXIT
exit 9
B
sed -i '/< <(:)/d' script.bash
record_replay bash bash "$T/script.bash"
OUTPUT='' record_replay random bash -c 'echo $RANDOM $$ $SECONDS $EPOCHREALTIME'
ok
