/* Writes a word in big letters: banner FONT WORD. The font is drawn by stb_truetype. */
#include <stdio.h>
#include <stdlib.h>
#define STB_TRUETYPE_IMPLEMENTATION
#include "stb_truetype.h"

static void draw(const stbtt_fontinfo *font, int letter) {
  int width, height;
  unsigned char *pixels =
      stbtt_GetCodepointBitmap(font, 0, stbtt_ScaleForPixelHeight(font, 10), letter, &width, &height, 0, 0);
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) putchar(pixels[y * width + x] > 100 ? '#' : ' ');
    putchar('\n');
  }
  putchar('\n');
  stbtt_FreeBitmap(pixels, 0);
}

int main(int argc, char **argv) {
  static unsigned char file[1 << 16];
  FILE *f = argc == 3 ? fopen(argv[1], "rb") : 0;
  if (!f || fread(file, 1, sizeof file, f) == 0) return fprintf(stderr, "usage: banner FONT WORD\n"), 2;
  stbtt_fontinfo font;
  if (!stbtt_InitFont(&font, file, 0)) return fprintf(stderr, "banner: this is no font\n"), 1;
  for (const char *letter = argv[2]; *letter; letter++) draw(&font, *letter);
  return 0;
}
