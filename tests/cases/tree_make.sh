#!/usr/bin/env bash
# make -j2 of a small C project: make, gcc, cc1, as, collect2, ld, each a process of the recording.
source "$(dirname "$0")/lib.bash"
need make gcc
for i in 1 2 3; do printf '#include <stdio.h>\nint f%s(int x) { printf("f%s\\n"); return x + %s; }\n' $i $i $i >f$i.c; done
printf 'int f1(int), f2(int), f3(int);\nint main() { return f1(f2(f3(0))); }\n' >main.c
cat >Makefile <<'MAKE'
sum: main.o f1.o f2.o f3.o
	gcc -o $@ $^
	./sum; test $$? = 6
%.o: %.c
	gcc -O1 -c $<
MAKE
prepare() { cp "$T"/Makefile "$T"/*.c .; }
# What runs at the same time writes in any order.
REPLAYS=1 record_tree make make -j2
same <(sort make.out.native) <(sort make.out) "make says something else"
"$BACKSTEP" ps make >"ps"
for program in cc1 as ld sum; do grep -q "[/ ]$program " ps || { cat ps >&2; fail "no $program in the recording"; }; done
cmp -s folder.make/sum <(cd "$(mktemp -d -p "$T")" && prepare && make -j2 >/dev/null && cat sum) || fail "the program built is another"
ok
