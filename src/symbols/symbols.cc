// From an address to a name and a line, with elfutils. Two sources: the symbol tables (.symtab, else .dynsym)
// say which function an address lies in, and survive in nearly every file; DWARF says the line and what was
// inlined, if the file was built with -g or the distribution's debug package is installed. We ask both and
// join the answers (program_index.cc).
//
// Symbols are read once into a sorted list: looking up a thousand addresses of a big library must not walk
// its symbol table a thousand times.
#include "symbols/symbols.h"

#include <cxxabi.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <setjmp.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fd.h"
#include "symbols/debug_files.h"
#include "symbols/program_index.h"

// A part of libstdc++ that only its static library shows.
extern "C" __attribute__((weak)) int __gcclibcxx_demangle_callback(const char* name,
                                                                   void (*add)(const char*, size_t, void*),
                                                                   void* to);

namespace backstep::symbols {
namespace {

// A name of a hundred letters can be made to stand for one of a terabyte, by references to its own parts. So
// we take the plain name piece by piece and leave in the middle if it gets too long; the demangler has all
// its memory on the stack, and no destructors there.
struct Demangled {
  std::string text;
  jmp_buf enough;

  static void add(const char* piece, size_t size, void* to) {
    constexpr size_t kLongest = 64 << 10;
    auto* self = static_cast<Demangled*>(to);
    if (self->text.size() + size > kLongest) longjmp(self->enough, 1);
    self->text.append(piece, size);
  }
};

// How often a mangled name may refer to parts of itself ("S1_", "T_"): what that allows it to grow by, if
// nothing stops the demangler.
size_t references_in(std::string_view name) {
  size_t count = 0;
  for (size_t at = 0; (at = name.find_first_of("ST", at)) != name.npos; at++) {
    size_t end = name.find_first_not_of("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", at + 1);
    if (end != name.npos && name[end] == '_') count++;
  }
  return count;
}

bool run_demangler(const char* name, Demangled& out) {
  if (setjmp(out.enough) != 0) return false;
  return __gcclibcxx_demangle_callback(name, &Demangled::add, &out) == 0;  // -2: no mangled name
}

std::string read_build_id(Elf* elf) {
  const void* bytes = nullptr;
  ssize_t n = dwelf_elf_gnu_build_id(elf, &bytes);
  std::string hex;
  for (ssize_t i = 0; i < n; i++) hex += fmt::format("{:02x}", static_cast<const unsigned char*>(bytes)[i]);
  return hex;
}

int rank_of(unsigned char binding) {
  return binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2;
}

GElf_Shdr section_of(Elf* elf, size_t index) {
  GElf_Shdr header = {};
  Elf_Scn* section = index < SHN_LORESERVE ? elf_getscn(elf, index) : nullptr;
  if (!section || !gelf_getshdr(section, &header)) header = {};
  return header;
}

bool has_section(Elf* elf, std::string_view wanted) {
  size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return false;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    const char* name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name) : nullptr;
    if (name && name == wanted) return true;
  }
  return false;
}

// Functions of the symbol table of the given type, if the file has one; appended.
bool read_symbols(Elf* elf, uint32_t type, std::vector<Symbol>& out) {
  bool found = false;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (!gelf_getshdr(section, &header) || header.sh_type != type || header.sh_entsize == 0) continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (!data) continue;
    for (size_t i = 0; i < data->d_size / header.sh_entsize; i++) {
      GElf_Sym symbol;
      if (!gelf_getsym(data, static_cast<int>(i), &symbol) || symbol.st_shndx == SHN_UNDEF) continue;
      unsigned char kind = GELF_ST_TYPE(symbol.st_info);
      if (kind != STT_FUNC && kind != STT_GNU_IFUNC && kind != STT_NOTYPE) continue;
      const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (!name || !*name) continue;
      // Labels of hand-written assembler have no type; they count if nothing better covers the address.
      bool label = kind == STT_NOTYPE;
      int rank = rank_of(GELF_ST_BIND(symbol.st_info)) + (label ? 3 : 0);
      GElf_Shdr home = section_of(elf, symbol.st_shndx);
      out.push_back({symbol.st_value, symbol.st_size, home.sh_addr + home.sh_size, rank,
                     (home.sh_flags & SHF_EXECINSTR) != 0, label, kind == STT_GNU_IFUNC, name});
      found = true;
    }
  }
  return found;
}

}  // namespace

struct ElfFile::Files {
  // An open ELF file and, if it has any, its DWARF: that may have to be decompressed, so not before it is
  // wanted.
  struct Open {
    Fd fd;
    Elf* elf = nullptr;

    Open() = default;
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open() { close(); }

    void close() {
      if (dwarf_) dwarf_end(dwarf_);
      if (elf) elf_end(elf);
      dwarf_ = nullptr;
      asked_ = false;
      elf = nullptr;
      fd.reset();
    }

    // False: not there or not an ELF file.
    bool open(const std::string& path) {
      elf_version(EV_CURRENT);
      // A path from a stranger's file may lead to a pipe that nobody writes to.
      fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
      if (!fd) return false;
      path_ = path;
      elf = elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr);
      return elf && elf_kind(elf) == ELF_K_ELF;
    }

    Dwarf* dwarf() {
      if (std::exchange(asked_, true) || !elf) return dwarf_;
      dwarf_ = dwarf_begin_elf(elf, DWARF_C_READ, nullptr);
      if (dwarf_ && !shared_part_is_a_file()) {
        dwarf_end(dwarf_);
        dwarf_ = nullptr;
      }
      return dwarf_;
    }

   private:
    // What several files have in common can be in yet another file (by dwz), which libdw opens on its own. It
    // would wait for a terminal's or a pipe's data.
    bool shared_part_is_a_file() const {
      const char* name = nullptr;
      const void* id = nullptr;
      if (dwelf_dwarf_gnu_debugaltlink(dwarf_, &name, &id) <= 0 || !name) return true;
      struct stat about;
      std::string where = name[0] == '/' ? name : path_.substr(0, path_.rfind('/') + 1) + name;
      return stat(where.c_str(), &about) != 0 || S_ISREG(about.st_mode);
    }

    std::string path_;
    Dwarf* dwarf_ = nullptr;
    bool asked_ = false;
  };

  Open main, debug;  // debug: the separate file, may be closed
  std::vector<Symbol> symbols;
  bool all_symbols = false;
  std::unique_ptr<ModuleIndex> index;  // made for the first address asked for

  const Symbol* find(uint64_t address) const {
    auto after = std::upper_bound(symbols.begin(), symbols.end(), address,
                                  [](uint64_t a, const Symbol& s) { return a < s.start; });
    // Going back over symbols that end before the address: a label inside a function must not hide the
    // function.
    const Symbol* label = nullptr;
    for (int steps = 0; after != symbols.begin() && steps < 64; steps++) {
      const Symbol& s = *--after;
      if (!s.covers(address)) continue;
      if (s.size > 0) return &s;
      if (!label) label = &s;
    }
    return label;
  }

  // The separate file with debug information, if the file needs one and there is one.
  void open_debug(const std::string& mapped, const std::string& id) {
    constexpr size_t kShortest = 3;
    if (id.size() < kShortest || debug.open(installed_debug_file(id))) return;
    open_debug_link(mapped, id);
    if (debug.elf || has_section(main.elf, ".debug_info")) return;
    const std::string fetched = fetched_debug_file(id, mapped);
    if (!fetched.empty() && debug.open(fetched) && read_build_id(debug.elf) == id) return;
    debug.close();
  }

  // The file that .gnu_debuglink names, if it has the same build id, where gdb looks for it, too.
  void open_debug_link(const std::string& mapped, const std::string& id) {
    GElf_Word checksum = 0;
    const char* link = dwelf_elf_gnu_debuglink(main.elf, &checksum);
    if (!link || !*link || strchr(link, '/') || strcmp(link, "..") == 0) return;
    std::string folder = mapped.substr(0, mapped.rfind('/') + 1);
    for (const std::string& where :
         {folder + link, folder + ".debug/" + link, "/usr/lib/debug" + folder + link}) {
      if (debug.open(where) && read_build_id(debug.elf) == id) return;
      debug.close();
    }
  }
};

ElfFile::ElfFile(const std::string& path, const std::string& mapped) : files_(std::make_unique<Files>()) {
  if (!files_->main.open(path)) {
    if (!files_->main.fd) throw Error(fmt::format("cannot read {}: {}", path, errno_text(errno)));
    throw Error(path + " is not an ELF file");
  }
  files_->open_debug(mapped.empty() ? path : mapped, build_id());

  auto& symbols = files_->symbols;
  files_->all_symbols = (files_->debug.elf && read_symbols(files_->debug.elf, SHT_SYMTAB, symbols)) ||
                        read_symbols(files_->main.elf, SHT_SYMTAB, symbols);
  if (!files_->all_symbols) read_symbols(files_->main.elf, SHT_DYNSYM, symbols);
  // Within one address the best name comes last, because `find` goes backwards.
  std::sort(symbols.begin(), symbols.end(), [](const Symbol& a, const Symbol& b) {
    return std::tie(a.start, b.rank, b.name) < std::tie(b.start, a.rank, a.name);
  });
}

ElfFile::~ElfFile() = default;
ElfFile::ElfFile(ElfFile&& other) noexcept : files_(std::move(other.files_)) {
  if (files_) files_->index.reset();  // it knows where this object was
}
ElfFile& ElfFile::operator=(ElfFile&& other) noexcept {
  files_ = std::move(other.files_);
  if (files_) files_->index.reset();
  return *this;
}

Elf* ElfFile::elf() const {
  return files_->main.elf;
}

Dwarf* ElfFile::dwarf() const {
  Dwarf* separate = files_->debug.dwarf();
  return separate ? separate : files_->main.dwarf();
}

const std::vector<Symbol>& ElfFile::symbols() const {
  return files_->symbols;
}

bool ElfFile::all_symbols() const {
  return files_->all_symbols;
}

const Symbol* ElfFile::symbol_at(uint64_t address) const {
  return files_->find(address);
}

std::string_view ElfFile::bytes(uint64_t address, size_t size) const {
  size_t count = 0, file_size = 0;
  const char* file = elf_rawfile(files_->main.elf, &file_size);
  if (!file || elf_getphdrnum(files_->main.elf, &count) != 0) return {};
  for (size_t i = 0; i < count; i++) {
    GElf_Phdr segment;
    if (!gelf_getphdr(files_->main.elf, static_cast<int>(i), &segment) || segment.p_type != PT_LOAD) continue;
    if (address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz) continue;
    uint64_t into = address - segment.p_vaddr;
    if (segment.p_offset >= file_size || into >= file_size - segment.p_offset) return {};
    uint64_t there = std::min(segment.p_filesz - into, file_size - segment.p_offset - into);
    return {file + segment.p_offset + into, std::min<uint64_t>(size, there)};
  }
  return {};
}

std::string ElfFile::build_id() const {
  return read_build_id(files_->main.elf);
}

std::optional<uint64_t> ElfFile::address_of(uint64_t file_offset) const {
  size_t count = 0;
  if (elf_getphdrnum(files_->main.elf, &count) != 0) return {};
  for (size_t i = 0; i < count; i++) {
    GElf_Phdr segment;
    if (!gelf_getphdr(files_->main.elf, static_cast<int>(i), &segment) || segment.p_type != PT_LOAD) continue;
    if (file_offset >= segment.p_offset && file_offset - segment.p_offset < segment.p_filesz)
      return segment.p_vaddr + (file_offset - segment.p_offset);
  }
  return {};
}

std::optional<std::vector<uint8_t>> ElfFile::data(const std::string& name, size_t size) const {
  Elf* elf = files_->main.elf;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (!gelf_getshdr(section, &header) || header.sh_entsize == 0) continue;
    if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) continue;
    Elf_Data* table = elf_getdata(section, nullptr);
    for (size_t i = 0; table && i < table->d_size / header.sh_entsize; i++) {
      GElf_Sym symbol;
      if (!gelf_getsym(table, static_cast<int>(i), &symbol) || symbol.st_size != size) continue;
      const char* found = elf_strptr(elf, header.sh_link, symbol.st_name);
      if (!found || name != found) continue;
      GElf_Shdr place;
      Elf_Scn* home = elf_getscn(elf, symbol.st_shndx);
      Elf_Data* contents = home && gelf_getshdr(home, &place) ? elf_getdata(home, nullptr) : nullptr;
      if (!contents || !contents->d_buf || symbol.st_value < place.sh_addr ||
          symbol.st_value - place.sh_addr + size > contents->d_size)
        return std::nullopt;
      auto* bytes = static_cast<const uint8_t*>(contents->d_buf) + (symbol.st_value - place.sh_addr);
      return std::vector<uint8_t>(bytes, bytes + size);
    }
  }
  return std::nullopt;
}

Place ElfFile::at(uint64_t address) const {
  if (!files_->index) files_->index = std::make_unique<ModuleIndex>(this);
  return files_->index->place(address);
}

Place ElfFile::at_offset(uint64_t file_offset) const {
  auto address = address_of(file_offset);
  return address ? at(*address) : Place();
}

std::string Place::text() const {
  std::string out = function;
  if (!function.empty() && offset > 0) out += fmt::format("+{:#x}", offset);
  if (!inlined.empty()) out += fmt::format(", inlined {}", inlined);
  if (line > 0)
    out += fmt::format("{}({}:{})", out.empty() ? "" : " ", file.substr(file.rfind('/') + 1), line);
  return out;
}

std::string demangle(const std::string& name) {
  // The demangler takes other text for the name of a type: "f" is float.
  if (!name.starts_with("_Z")) return name;
  if (__gcclibcxx_demangle_callback) {
    Demangled out;
    return run_demangler(name.c_str(), out) && !out.text.empty() ? out.text : name;
  }
  if (references_in(name) > 24) return name;
  int status = 0;
  char* plain = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 && plain ? plain : name;
  free(plain);
  return result;
}

}  // namespace backstep::symbols
