#!/usr/bin/env bash
# What was translated once comes from the cache folder the next time, and only where it is for the same code.
source "$(dirname "$0")/lib.bash"
need cc
export XDG_CACHE_HOME=$T/cache

# run NAME COMMAND...: records; output in out, $translated and $kept from the engine's report, $ticks.
run() {
  local name=$1
  shift
  rm -rf "$T/$name.rec"
  expect 0 "$BACKSTEP" record --engine-statistics -o "$T/$name.rec" -- "$@"
  translated=$(sed -n 's/.*engine: \([0-9]*\) blocks.*/\1/p' err)
  kept=$(sed -n 's/.* \([0-9]*\) kept.*/\1/p' err)
  ticks=$("$BACKSTEP" info --json "$T/$name.rec" | field end.ticks)
}
exact() { expect 0 "$BACKSTEP" replay --autopilot --check=deep "$T/$1.rec"; }

cat >prog.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int compare(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }
int main(int argc, char **argv) {
  char *words[] = {"pear", "apple", "fig", "plum", NUMBER};
  qsort(words, 5, sizeof *words, compare);
  for (int i = 0; i < 5; i++) printf("%s %d\n", words[i], argc);
}
C
cc -O1 -DNUMBER='"one"' -o prog prog.c

# --- twice ---
run a ./prog x
first=$translated first_ticks=$ticks
cp out want
[ "$kept" = 0 ] && [ "$translated" -gt 300 ] || fail "the first run took in $kept and translated $translated"
kept_files() { find "$XDG_CACHE_HOME/backstep" -maxdepth 1 -type f "$@" | sort; } # notes of recordings are a folder there
mapfile -t files < <(kept_files)
[ ${#files[@]} = 1 ] && [ "$(stat -c %a "${files[0]}")" = 600 ] || fail "kept files: ${files[*]}"
run b ./prog x
[ "$kept" -gt 300 ] && [ "$translated" -lt $((first / 10)) ] || fail "the second run translated $translated of $first"
cmp -s out want && [ "$ticks" = "$first_ticks" ] || fail "the second run is not like the first"
exact a && cmp -s out want || fail "the replay of the first differs"
exact b && cmp -s out want || fail "the replay of the second differs"
run c ./prog x y
[ "$kept" -gt 300 ] && [ "$ticks" -gt 0 ] && grep -q 'apple 3' out || fail "other arguments"

# --- off ---
before=$(kept_files -printf '%p %s %t\n')
rm -rf off.rec
expect 0 "$BACKSTEP" record --no-cache --engine-statistics -o off.rec -- ./prog x
says ' 0 kept'
[ "$before" = "$(kept_files -printf '%p %s %t\n')" ] || fail "--no-cache touched the cache"

# --- the program is another one now ---
cc -O1 -DNUMBER='"two"' -o prog prog.c
run d ./prog x
grep -q 'two 2' out || fail "a new program ran as the old one"

# --- damaged, cut off, not ours ---
cc -O1 -DNUMBER='"one"' -o prog prog.c
file=${files[0]}
cp --sparse=always "$file" good
run e ./prog x
[ "$kept" -gt 300 ] || fail "the file of the first program is not used any more"
"$PYTHON" - good >offsets <<'PY'
import os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
end = os.fstat(fd).st_size
random.seed(5)
places, at = list(range(0, 200, 20)), 0
while at < end:  # only where there is data
    try:
        at = os.lseek(fd, at, os.SEEK_DATA)
    except OSError:
        break
    hole = os.lseek(fd, at, os.SEEK_HOLE)
    places += [random.randrange(at, hole) for _ in range(2)]
    at = hole
random.shuffle(places)
print(*places[:25])
PY
rejected=0 tried=0
for offset in $(cat offsets); do
  cp --sparse=always good "$file"
  "$PYTHON" - "$file" "$offset" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2]))
    byte = f.read(1)[0]
    f.seek(int(sys.argv[2]))
    f.write(bytes([byte ^ 0x55]))
PY
  run damaged ./prog x
  cmp -s out want && [ "$ticks" = "$first_ticks" ] || fail "byte $offset of the kept file was wrong, and so was the program"
  tried=$((tried + 1))
  [ "$kept" != 0 ] || rejected=$((rejected + 1))
done
# Bytes between the sections mean nothing.
[ "$rejected" -ge $((tried * 3 / 4)) ] || fail "only $rejected of $tried damaged files were noticed"

useless() {
  run useless ./prog x
  cmp -s out want && [ "$kept" = 0 ] || fail "$1: took in $kept"
}
cp --sparse=always good "$file" && truncate -s 20000 "$file"
useless "cut off"
: >"$file"
useless "empty"
rm "$file" && ln -s "$T/good" "$file"
useless "a link"
rm -f "$file" && mkdir "$file"
useless "a folder"
rmdir "$file"
cp --sparse=always good "$file" && chmod g+w "$file"
useless "writable by others"
rm -f "$file"
chmod a+w "$XDG_CACHE_HOME/backstep"
useless "a folder that is writable by others"
[ ! -e "$file" ] || fail "wrote to a folder that is writable by others"
chmod go-w "$XDG_CACHE_HOME/backstep"

# --- many at once, with nothing kept ---
rm -rf "$XDG_CACHE_HOME"
for i in 1 2 3 4 5 6; do
  "$BACKSTEP" record -q -o "$T/many-$i.rec" -- ./prog x >"out-$i" 2>"err-$i" &
done
wait
for i in 1 2 3 4 5 6; do
  cmp -s "out-$i" want || fail "one of six at once failed"
  exact "many-$i"
done
! ls "$XDG_CACHE_HOME"/backstep/*.new 2>/dev/null || fail "an unfinished file was left behind"

# --- children that execute the same, one after the other: the first one's end keeps it for all ---
cat >children.c <<'C'
#include <glob.h>
#include <regex.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int x;
#define A_BIT_MORE(n) static __attribute__((noinline)) void more##n(void) { if (x) x += n; }
A_BIT_MORE(0) A_BIT_MORE(1) A_BIT_MORE(2) A_BIT_MORE(3) A_BIT_MORE(4) A_BIT_MORE(5)
static void (*const more[])(void) = {more0, more1, more2, more3, more4, more5};
// The number of the only file; 0: there is none.
static unsigned long file_of(const char *pattern) {
  unsigned long one = 0;
  glob_t found = {0};
  glob(pattern, 0, 0, &found);
  for (unsigned i = 0; i < found.gl_pathc; i++) {
    struct stat st;
    if (stat(found.gl_pathv[i], &st) == 0 && S_ISREG(st.st_mode)) one = st.st_ino;
  }
  globfree(&found);
  return one;
}
int main(int argc, char **argv) {
  int status, changes = 0;
  for (int i = 0; i < 6; i++) {
    unsigned long before = file_of(argv[1]);
    if (fork() == 0) {
      for (int k = 0; k <= i; k++) more[k]();
      regex_t regex;
      _exit(regcomp(&regex, "(ab|[c-f]+){2,3}x$", REG_EXTENDED) || regexec(&regex, "yabcdx", 0, 0, 0));
    }
    if (wait(&status) < 0 || status) return 1;
    changes += file_of(argv[1]) != before;
  }
  printf("%d\n", changes);
}
C
cc -O1 -o children children.c
rm -rf "$XDG_CACHE_HOME"
run children ./children "$XDG_CACHE_HOME/backstep/*"
[ "$(cat out)" = 1 ] || fail "six children have written the same $(cat out) times"
exact children

# --- code that the program changes, back and forth, in its own file's mapping ---
cat >patch.c <<'C'
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
__attribute__((noinline, aligned(64))) int answer(void) { return 41; }
int main(void) {
  int (*volatile f)(void) = answer;
  printf("%d\n", f());
  uint8_t *code = (uint8_t *)answer;
  uint8_t *page = (uint8_t *)((uintptr_t)code & ~4095ul);
  mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
  for (int i = 0; i < 32; i++)
    if (code[i] == 41) { code[i] = 42; break; }
  mprotect(page, 8192, PROT_READ | PROT_EXEC);
  printf("%d\n", f());
}
C
cc -O1 -o patch patch.c
for i in 1 2 3; do
  run patch ./patch
  [ "$(tr '\n' ' ' <out)" = "41 42 " ] || fail "run $i of a program that patches itself says $(cat out)"
  exact patch
done

# --- two libraries that take the same place ---
for n in 1 2; do
  cat >lib.c <<C
int value(int x) { return x * 10 + $n; }
C
  cc -O1 -shared -fPIC -o lib$n.so lib.c
done
cat >load.c <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    void *library = dlopen(argv[i], RTLD_NOW);
    int (*value)(int) = (int (*)(int))dlsym(library, "value");
    printf("%d ", value(i));
    dlclose(library);
  }
  printf("\n");
}
C
cc -O1 -o load load.c -ldl
for i in 1 2; do
  run load ./load ./lib1.so ./lib2.so ./lib1.so ./lib2.so
  [ "$(cat out)" = "11 22 31 42 " ] || fail "libraries in one place: $(cat out)"
  exact load
  run load ./load ./lib2.so ./lib1.so
  [ "$(cat out)" = "12 21 " ] || fail "libraries in one place: $(cat out)"
  exact load
done
ok
