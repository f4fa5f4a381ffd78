// Machine code for tests of tables about instructions: of real programs and of random bytes, with Zydis to
// say what it is.
#pragma once
#include <Zydis/Zydis.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

inline ZydisDecoder make_decoder() {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  return decoder;
}

// Instructions of machines that run no Linux/x86-64 programs of today: Knights Corner has encodings of its
// own (MVEX, jkzd and others in VEX space), VIA had PadLock. Other CPUs raise #UD whatever we take for their
// length.
inline bool foreign(const ZydisDecodedInstruction& z) {
  switch (z.meta.isa_ext) {
    case ZYDIS_ISA_EXT_KNC:
    case ZYDIS_ISA_EXT_KNCE:
    case ZYDIS_ISA_EXT_KNCV:
    case ZYDIS_ISA_EXT_PADLOCK:
      return true;
    default:
      return z.encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX;
  }
}

inline std::string text(const uint8_t* code, const ZydisDecodedInstruction& z) {
  std::string s;
  char hex[4];
  for (unsigned i = 0; i < z.length; i++) {
    snprintf(hex, sizeof hex, "%02x ", code[i]);
    s += hex;
  }
  return s + ZydisMnemonicGetString(z.mnemonic);
}

struct Section {
  std::string file, name;
  std::vector<uint8_t> bytes;
};

inline std::vector<Section> executable_sections(const std::string& path) {
  std::vector<Section> sections;
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return sections;
  struct stat st;
  fstat(fd, &st);
  auto size = static_cast<size_t>(st.st_size);
  void* map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (map == MAP_FAILED) return sections;
  auto* file = static_cast<const uint8_t*>(map);
  auto* header = reinterpret_cast<const Elf64_Ehdr*>(file);
  auto* table = reinterpret_cast<const Elf64_Shdr*>(file + header->e_shoff);
  const char* names = reinterpret_cast<const char*>(file + table[header->e_shstrndx].sh_offset);
  for (unsigned i = 0; i < header->e_shnum; i++)
    if ((table[i].sh_flags & SHF_EXECINSTR) && table[i].sh_type == SHT_PROGBITS)
      sections.push_back({path,
                          names + table[i].sh_name,
                          {file + table[i].sh_offset, file + table[i].sh_offset + table[i].sh_size}});
  munmap(map, size);
  return sections;
}

// What is mapped into this test, and OpenSSL's library: hand-written assembler of every kind.
inline std::vector<std::string> real_files() {
  const std::string lib = "/usr/lib/x86_64-linux-gnu/";
  return {"/proc/self/exe",       lib + "libc.so.6",      lib + "ld-linux-x86-64.so.2",
          lib + "libstdc++.so.6", lib + "libcrypto.so.3", lib + "libm.so.6"};
}

// Random bytes, with prefixes and escape bytes more frequent than chance would have them.
inline size_t random_code(std::mt19937_64& random, uint8_t (&code)[16]) {
  uint64_t words[2] = {random(), random()};
  std::memcpy(code, words, 16);
  uint64_t dice = random();
  size_t at = 0;
  static constexpr uint8_t kPrefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0x64, 0x65, 0x2e, 0xf0};
  if (dice % 4 == 0) code[at++] = kPrefixes[(dice >> 8) % 8];
  if (dice % 16 == 0) code[at++] = kPrefixes[(dice >> 16) % 8];
  if ((dice >> 4) % 4 == 0) code[at++] = static_cast<uint8_t>(0x40 | ((dice >> 24) & 15));
  switch ((dice >> 32) % 12) {
    case 0:
    case 1:
      code[at] = 0x0f;
      break;
    case 2:
      code[at++] = 0x0f, code[at] = 0x38;
      break;
    case 3:
      code[at++] = 0x0f, code[at] = 0x3a;
      break;
    case 4:
      code[at] = 0xc5;
      break;
    case 5:
      code[at++] = 0xc4, code[at] = static_cast<uint8_t>((code[at] & 0xe0) | (1 + (dice >> 40) % 3));
      break;
    case 6:
      code[at++] = 0x62, code[at] = static_cast<uint8_t>((code[at] & 0xf0) | (1 + (dice >> 40) % 3));
      break;
    default:
      break;
  }
  return 16;
}
