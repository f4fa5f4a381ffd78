#!/usr/bin/env bash
# SIMD-heavy programs: imagemagick or ffmpeg, whichever is there.
source "$(dirname "$0")/lib.bash"
"$PYTHON" -c '
import sys
sys.stdout.buffer.write(b"P6 160 120 255\n" + bytes((x * y * (c + 1) // 7) & 255 for y in range(120) for x in range(160) for c in range(3)))' >in.ppm
done=no
# The name `convert` is used by other programs as well, and a script that calls it would be another process.
for convert in convert-im6.q16 magick convert; do
  if have $convert && head -c 4 "$(command -v $convert)" | seen ELF && $convert -version 2>/dev/null | seen ImageMagick; then
    export MAGICK_THREAD_LIMIT=1 OMP_NUM_THREADS=1
    OUTPUT=same record_replay blur $convert "$T/in.ppm" -resize 300x200 -blur 0x3 -rotate 7 ppm:-
    REPLAYS=1 record_replay png $convert "$T/in.ppm" -colorspace Lab -quality 90 jpg:-
    done=yes
    break
  fi
done
if have ffmpeg; then
  record_replay ffmpeg ffmpeg -v error -threads 1 -filter_threads 1 -i "$T/in.ppm" -vf scale=320:240 -threads 1 -f rawvideo -
  done=yes
fi
[ $done = yes ] || skip "neither imagemagick nor ffmpeg is installed"
ok
