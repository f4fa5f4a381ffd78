#!/usr/bin/env bash
# 'why' on values whose way is known: from a file through parsing, memcpy and struct copies, from argv, from a constant, computed;
# without optimisation and with it, in a hash table, behind a signal handler, in a thread, and of a register.
source "$(dirname "$0")/lib.bash"
mkdir "$T/recordings"
cat >orders.c <<'C'
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
struct item {
  char name[24];
  int quantity, price;
};
struct entry {
  struct entry *next;
  char key[16];
  int value;
};
struct item table[8], kept;
struct entry *buckets[16];
int total, constant, from_arg, scaled, looked_up, in_handler, in_thread, untouched;
static int initial = 77;
int from_data;
char copied[32];
unsigned random_word;
__attribute__((noinline)) int scale(int n, int k) { return n * 3 + k; }
__attribute__((noinline)) int digits(const char *s) {
  int n = 0;
  while (*s >= '0' && *s <= '9') n = n * 10 + (*s++ - '0');
  return n;
}
__attribute__((noinline)) void parse(char *line, struct item *out) {
  char *comma = strchr(line, ',');
  *comma = 0;
  memcpy(out->name, line, strlen(line) + 1);
  out->quantity = digits(comma + 1);
}
__attribute__((noinline)) unsigned hash(const char *s) {
  unsigned h = 5381;
  while (*s) h = h * 33 + (unsigned char)*s++;
  return h % 16;
}
__attribute__((noinline)) void put(const char *key, int value) {
  struct entry *e = malloc(sizeof *e);
  strcpy(e->key, key);
  e->value = value;
  e->next = buckets[hash(key)];
  buckets[hash(key)] = e;
}
__attribute__((noinline)) int get(const char *key) {
  for (struct entry *e = buckets[hash(key)]; e; e = e->next)
    if (strcmp(e->key, key) == 0) return e->value;
  return -1;
}
static void handler(int signo) { in_handler = signo; }
static void *thread(void *arg) {
  in_thread = *(int *)arg;
  return NULL;
}
int main(int argc, char **argv) {
  char buffer[256];
  int fd = open(argv[1], O_RDONLY);
  lseek(fd, 8, SEEK_SET);
  ssize_t n = read(fd, buffer, sizeof buffer - 1);
  buffer[n] = 0;
  struct item one;
  memset(&one, 0, sizeof one);
  parse(buffer, &one);
  one.price = argc;
  table[3] = one;
  kept = table[3];
  memcpy(copied, kept.name, sizeof kept.name);
  constant = 4711;
  from_arg = argv[2][1];
  scaled = scale(kept.quantity, constant);
  total = kept.quantity;
  put("bolt", total);
  put("nut", 5);
  looked_up = get("bolt");
  signal(SIGUSR1, handler);
  raise(SIGUSR1);
  from_data = initial + argc - argc;
  pthread_t t;
  pthread_create(&t, NULL, thread, &total);
  pthread_join(t, NULL);
  if (getrandom(&random_word, sizeof random_word, 0) != sizeof random_word) return 1;
  return 0;
}
C
printf '#header\nwing nut M5,75\n' >orders.txt
# why VARIABLE CHECK: Python over `leaves` (origins without inputs), `all` (every origin) and the answer `a`.
why() {
  expect 0 "$BACKSTEP" why --json --depth 20 --limit 200 "$1" "$name"
  "$PYTHON" - "$2" <<'PY' || { "$BACKSTEP" why "$1" "$name" >&2; fail "$name: why $1"; }
import json, sys
a = json.load(open("out"))
all, leaves, copies = [], [], []
def walk(value):
    for part in value["parts"]:
        o = part["origin"]
        all.append(o)
        copies.extend(part["copies"])
        if not o.get("inputs") and o["kind"] != "computed": leaves.append(o)
        for i in o.get("inputs", []): walk(i)
walk(a["value"])
kinds = {o["kind"] for o in leaves}
reads = [o["offset"] for o in leaves if o["kind"] == "read" and "offset" in o]
exec(sys.argv[1])
PY
}
compilers=gcc
have clang && compilers="gcc clang"
for compiler in $compilers; do
  for level in 0 2; do
    name=$compiler-O$level
    "$compiler" -g -O$level -pthread -o "$name" orders.c || fail "$name does not compile"
    expect 0 "$BACKSTEP" record -q -o "$T/recordings/$name" "./$name" orders.txt -xyz
    # "75" stands at 20 and 21 of the file.
    for variable in total kept.quantity 'table[3].quantity' looked_up in_thread; do
      why "$variable" 'assert sorted(set(reads)) == [20, 21], reads
assert all[0]["kind"] == "computed" and all[0]["function"] == "digits" and all[0]["line"], all[0]
assert [o for o in leaves if o["kind"] == "read"][0]["source"] == "orders.txt"'
    done
    why scaled 'assert sorted(set(reads)) == [20, 21] and "constant" in kinds
assert all[0]["kind"] == "computed" and all[0]["function"] == "scale"
assert any("4711" in o["sentence"] for o in leaves)'
    why copied 'first = a["value"]["parts"][0]
assert first["offset"] == 0 and first["size"] == 11 and first["origin"]["kind"] == "read" and first["origin"]["offset"] == 8, first
assert a["value"]["parts"][1]["offset"] == 11 and a["value"]["parts"][1]["origin"]["kind"] == "constant"
assert a["value"]["parts"][-1]["origin"]["kind"] == "zero" and a["value"]["parts"][-1]["offset"] == 24
assert any("mem" in c.get("function", "") or "parse" in c.get("function", "") for c in copies), copies'
    why constant 'assert len(leaves) == 1 and leaves[0]["kind"] == "constant" and leaves[0]["function"] == "main", leaves'
    why from_arg 'assert leaves[0]["kind"] == "argument" and "argv[2]" in leaves[0]["sentence"] and "byte 1" in leaves[0]["sentence"]'
    why kept.price 'assert "argc" in leaves[0]["sentence"], leaves'
    why untouched 'assert kinds == {"zero"} and ".bss" in leaves[0]["sentence"], leaves'
    why random_word 'assert kinds == {"read"} and "getrandom" in leaves[0]["call"], leaves'
    why in_handler 'assert kinds == {"signal"}, leaves'
done
done
# The data of the file: without optimisation it is read from memory.
name=gcc-O0
why from_data 'assert "image" in kinds and any(".data" in o["sentence"] for o in leaves), leaves'
# A register at a moment: what scale() was called with.
at=$("$BACKSTEP" log 'call scale' '{n}' gcc-O2 | awk '{print $1; exit}')
name=gcc-O2
expect 0 "$BACKSTEP" why --json '$rdi' --at "$at" gcc-O2
"$PYTHON" -c 'import json; a = json.load(open("out")); assert a["value"]["text"].startswith("75"), a["value"]; assert a["value"]["parts"][0]["origin"]["function"] == "digits"' || fail "a register"
expect 0 "$BACKSTEP" why n --at "$at" gcc-O2
seen 'n = 75' <out || fail "a parameter in a register"
# Depth, and other forms.
expect 0 "$BACKSTEP" why scaled --depth 0 gcc-O2
seen -e '--depth' <out || fail "no word about what is left out"
expect 0 "$BACKSTEP" why scaled --dot gcc-O2
seen '^digraph' <out || fail "no graph"
expect 2 "$BACKSTEP" why no_such_variable gcc-O2
expect 2 "$BACKSTEP" why 'total + 1' gcc-O2
ok
