#!/usr/bin/env bash
# The session of examples/regions, with a bug of a package's source as it is: a crash is found in gdb, one debug region prints the
# operand stack of an interpreter with functions of the program, a second one where its input is wrong; then the cause is known.
source "$(dirname "$0")/lib.bash"
need gdb
[ -r /usr/include/stb/stb_truetype.h ] || fail "libstb-dev is not installed (apt-get install it)"
BACKSTEP_INCLUDE="$SRC/include" expect 0 bash "$SRC/examples/regions/session.sh"
cp out session
has() { grep -qE -- "$1" session || { cat session err >&2; fail "the session does not say '$1'"; }; }
has '^#[0-9]+ .*stbtt__cid_get_glyph_subrs'
has '^glyph 3 of 4, byte  1: 139  100$'
has '^glyph 3 of 4, byte  3:  32  \(nothing on the stack\)$'
has '^glyph 3 of 4, byte  4:  10  -107$'
has '^glyph 1: range 1 of 1 says that glyphs 0 to 2 have those of dictionary 0$'
has '^glyph 3: range 1 of 1 says that glyphs 0 to 2 have those of dictionary 0$'
[ "$(grep -c '^#$\|^#  #$' session)" -ge 10 ] || { cat session >&2; fail "the mended program draws no letters"; }
ok
