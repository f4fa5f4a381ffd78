#!/usr/bin/env bash
# Code that the program generates has no call frame information. Stacks that begin there have all callers nevertheless:
# where it has made no frame, and where it has one.
source "$(dirname "$0")/lib.bash"
cat >jit.c <<'C'
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static int (*bare)(int), (*framed)(int);
__attribute__((noinline)) int inner(int n) { return bare(n) + 1; }
__attribute__((noinline)) int outer(int n) { return framed(n) + inner(n); }
int main(void) {
  // lea eax,[rdi+5]; nop; ret
  static const unsigned char kBare[] = {0x8d, 0x47, 0x05, 0x90, 0xc3};
  // push rbp; mov rbp,rsp; lea eax,[rdi+7]; pop rbp; ret
  static const unsigned char kFramed[] = {0x55, 0x48, 0x89, 0xe5, 0x8d, 0x47, 0x07, 0x5d, 0xc3};
  unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, kBare, sizeof kBare);
  memcpy(code + 64, kFramed, sizeof kFramed);
  bare = (int (*)(int))code;
  framed = (int (*)(int))(code + 64);
  printf("%p\n", (void *)code);
  fflush(stdout);
  return outer(1) != 15;
}
C
mkdir recordings
for flags in '-O0' '-O2' '-O2 -fno-omit-frame-pointer'; do
  name=jit${flags//[ =-]/}
  # shellcheck disable=SC2086
  gcc -g $flags -o "$name" jit.c
  expect 0 "$BACKSTEP" record -q -o "recordings/$name" "./$name"
  code=$(cat out)
  stack() { # OFFSET: names of the callers of the code there
    expect 0 "$BACKSTEP" log --json "$(printf '%#x' $((code + $1)))" --stack "$name"
    field stack <out | "$PYTHON" -c '
import json, sys
print(" ".join(f.get("function", "?") for f in json.load(sys.stdin)[1:4]))'
  }
  [ "$(stack 0)" = "inner outer main" ] || fail "$flags: at the first instruction: $(stack 0)"
  [ "$(stack 3)" = "inner outer main" ] || fail "$flags: without a frame: $(stack 3)"
  [ "$(stack 64)" = "outer main __libc_start_call_main" ] || fail "$flags: before there is a frame: $(stack 64)"
  [ "$(stack 68)" = "outer main __libc_start_call_main" ] || fail "$flags: with a frame: $(stack 68)"
  [ "$(stack 72)" = "outer main __libc_start_call_main" ] || fail "$flags: in front of the return: $(stack 72)"
done
ok
