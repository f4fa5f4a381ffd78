#!/usr/bin/env bash
# Libraries without symbols can be gone through in both directions. When the program's files have changed since, or are gone, gdb
# gets them from the recording.
source "$(dirname "$0")/lib.bash"
source "$SRC/tests/cases/gdb.bash"
cat >"$T/library.c" <<'C'
static int twice(int x) { return 2 * x; }
int apply(int (*f)(int), int x) { int r = 0; for (int i = 0; i < x; i++) r += f(twice(i)); return r; }
C
gcc -O1 -shared -fPIC -o "$T/libapply.so" "$T/library.c"
strip --strip-all "$T/libapply.so"
compile user -L"$T" -lapply -Wl,-rpath,"$T" <<'C'
int apply(int (*)(int), int);
int calls;
int callback(int x) { calls++; return x + 1; }
int main(void) { return apply(callback, 5) == 25 ? 0 : 1; }
C
recorded user 0
in_gdb user 'break callback' 'continue' 'continue' 'backtrace' 'finish' 'reverse-stepi' 'reverse-continue' 'reverse-continue' \
  'print calls' 'reverse-finish' 'info symbol $pc' 'delete' 'stepi' 'up' 'reverse-finish' 'info sharedlibrary'
printed '#1 .* apply \(\) from .*libapply.so'
printed '#2 .* main \(\)'
printed '^\$2 = 0$'
printed 'Yes \(\*\) .*libapply.so'
serve user
rsp symmetry 60 3
stop_server

# Another version of both files, at the same places.
sed -i 's/x + 1/x + 1 - 0/; s/int calls;/int filler[1000]; int calls;\n\n\n/' "$T/user.c"
gcc -g -O0 -o "$T/user" "$T/user.c" -L"$T" -lapply -Wl,-rpath,"$T"
in_gdb user 'show sysroot' 'break callback' 'continue' 'info line' 'print calls' 'print sizeof(filler)' 'info symbol &calls' \
  'reverse-continue'
printed 'system root is "target:"'
printed 'Line 3 of .*user.c'
printed 'No symbol "filler" in current context'
printed '^calls in section'
# … and none at all.
rm "$T/user" "$T/libapply.so"
in_gdb user 'break callback' 'continue' 'backtrace' 'print calls' 'continue' 'print calls'
printed '#1 .* apply \(\) from target:.*libapply.so'
printed '^\$2 = 1$'
ok
