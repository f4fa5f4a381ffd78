#!/usr/bin/env bash
# banner writes A and B in big letters and dies at C, with a font that other programs show. Three replays of the one recording say
# why: gdb finds the place, a debug region in stb_truetype's interpreter of glyphs prints each instruction with the operand
# stack, a second one what the font says of each glyph's subroutines. The bug is a real one, in the source that Debian's
# libstb-dev has: https://github.com/nothings/stb/issues/1422.
# BACKSTEP: the program; it works in a folder of its own.
set -euo pipefail
backstep=${BACKSTEP:-backstep}
here=$(cd "$(dirname "$0")" && pwd)
source=${STB_TRUETYPE:-/usr/include/stb/stb_truetype.h}
[ -r "$source" ] || { echo "there is no $source: apt-get install libstb-dev, or set STB_TRUETYPE" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 "$here/font.py"
cp "$here/banner.c" .
# Where the bug has been mended since, it comes back.
sed 's|if (fdselector == -1) return stbtt__new_buf|if (fdselector == -1) stbtt__new_buf|' "$source" >stb_truetype.h

gcc -g -Og -o banner banner.c -lm
("$backstep" record -q -o "$folder/recording" ./banner letters.otf ABC || true) 2>/dev/null  # (the shell's word of the crash)

echo "--- 1. Where does it die?"
"$backstep" replay -q --at end recording -batch -ex 'backtrace' 2>/dev/null | grep -E '^#.* (stbtt|draw|__GI___assert)' | sed 's/ (.*//'

echo "--- 2. What is on the operand stack, instruction by instruction? (The program's own functions take the font apart.)"
sed -i '1i #include <backstep/debug.h>\
#ifdef BACKSTEP_PROBE\
#include <stdio.h>\
#endif
s|^      switch (b0) {|      BACKSTEP_BEGIN\
        stbtt__buf all = info->charstrings;\
        printf("glyph %d of %d, byte %2d: %3d ", glyph_index, stbtt__cff_index_count(\&all), b.cursor - 1, b0);\
        for (int n = 0; n < sp; n++) printf(" %g", s[n]);\
        puts(sp ? "" : " (nothing on the stack)");\
      BACKSTEP_END\
&|' stb_truetype.h
"$backstep" probe stb_truetype.h recording -- -Og 2>/dev/null | tail -n 4

echo "--- 3. It is a call of a subroutine (10), with its number, as for A and B. Whose subroutines are those of this glyph?"
sed -i 's|^         if (glyph_index >= start .*|         BACKSTEP_BEGIN\
           printf("glyph %d: range %d of %d says that glyphs %d to %d have those of dictionary %d\\n", glyph_index, i + 1, nranges,\
                  start, end - 1, v);\
         BACKSTEP_END\
&|' stb_truetype.h
"$backstep" probe stb_truetype.h recording -- -Og 2>/dev/null | grep range | uniq

echo "--- The font says nothing of glyph 3. That is foreseen, but the empty list for it is made and not returned:"
sed -i 's|if (fdselector == -1) stbtt__new_buf|if (fdselector == -1) return stbtt__new_buf|' stb_truetype.h
gcc -g -Og -I"${BACKSTEP_INCLUDE:-$here/../../include}" -o banner banner.c -lm
./banner letters.otf ABC
