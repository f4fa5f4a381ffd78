#!/usr/bin/env bash
# 127 for what is not there, 126 for what cannot be run, each with a sentence; no recording is left behind.
source "$(dirname "$0")/lib.bash"
refused() {
  local status=$1 words=$2
  shift 2
  rm -rf rec
  expect "$status" "$BACKSTEP" record -o rec -- "$@"
  says "$words"
  [ "$(wc -l <err)" -le 3 ] || fail "$*: more than a sentence"
  [ ! -e rec ] || fail "$*: a recording was left behind"
}
refused 127 'not found|no such' no-such-program
refused 127 'not found|no such' ./no-such-program
refused 127 'not found|no such' /no/such/folder/program
mkdir folder
refused 126 'directory|folder' ./folder
printf 'int main;' >text
refused 126 'permission|not executable|execut' ./text
chmod +x text
: >empty
chmod +x empty
head -c 5000 /dev/urandom >garbage
chmod +x garbage
refused 126 'ELF|format|neither' ./garbage
head -c 40 "$P/hello" >./cut
chmod +x cut
refused 126 'ELF|format|cut|damaged|short' ./cut
# A program header table that lies.
cp "$P/hello" lies
printf '\xff\xff' | dd of=lies bs=1 seek=56 conv=notrunc status=none
refused 126 'ELF|header|format|damaged' ./lies
# 32-bit: class and machine of i386; another machine: aarch64; a big-endian one.
cp "$P/hello" other
printf '\x01' | dd of=other bs=1 seek=4 conv=notrunc status=none
printf '\x03\x00' | dd of=other bs=1 seek=18 conv=notrunc status=none
refused 126 '32-bit|32 bit|x86-64' ./other
cp "$P/hello" arm
printf '\xb7\x00' | dd of=arm bs=1 seek=18 conv=notrunc status=none
refused 126 'machine|architecture|aarch64|x86-64' ./arm
cp "$P/libthrower.so" library 2>/dev/null && chmod +x library
# An interpreter that is not there.
"$PYTHON" - "$P/hello" strange <<'PY'
import sys
data = open(sys.argv[1], "rb").read()
assert data.count(b"/lib64/ld-linux-x86-64.so.2") >= 1
open(sys.argv[2], "wb").write(data.replace(b"/lib64/ld-linux-x86-64.so.2", b"/lib64/no-such-loader.so.9\0"))
PY
chmod +x strange
refused 127 'interpreter|loader|no-such' ./strange
printf '#!/no/such/interpreter\n' >script
chmod +x script
refused 127 'interpreter|no such|not found' ./script
if [ "$(id -u)" != 0 ]; then
  cp "$P/hello" locked
  chmod 000 locked
  refused 126 'permission' ./locked
fi
# Usage errors.
expect 2 "$BACKSTEP" record
expect 2 "$BACKSTEP" record --no-such-option true
expect 2 "$BACKSTEP" no-such-command
ok
