// The x86-64 ABI ("variant II") says where a thread finds its blocks:
//
//   fs base -> { itself, dtv, … }        dtv[0] what its version is, dtv[n] the block of module n
//
// The program's own block lies directly below the thread pointer. Libraries that are there at the start are
// below that; storage for one that was opened later is allocated when a thread first touches it. Which number
// a module has, only the C library knows, and it differs from run to run.
//
// glibc: its linker has a list of all modules by number, each with its struct link_map and the generation in
// which it was loaded. Where these are in its structures it tells libthread_db, by variables of libc.so.6. A
// module is found by comparing addresses: a loop over the numbers, unrolled, because bytecode has no loops.
// The generation matters: numbers are used again, and the dtv of a thread that has not touched a new module
// may still have the block of an old one.
//
// musl: there is a word in each module, filled in when it is relocated, that says its number or the distance
// of its block from the thread pointer: what its own code uses. All threads have all blocks at once.
#include "symbols/thread_locals.h"

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/error.h"
#include "symbols/elf_facts.h"
#include "symbols/program.h"

namespace backstep::symbols {
namespace {

using namespace replayer;

constexpr uint64_t kDtv = 8;                             // in the thread's control block
constexpr uint64_t kLinkAddress = 0, kLinkDynamic = 16;  // in struct link_map
constexpr uint64_t kBuildIdWord = 8;

// No value unless the word on top of the stack, which it takes, is something.
Code require() {
  return Code().skip_if(1).op(kFail);
}

// word -> word, is it neither 0 nor ~0?
Code is_some() {
  return Code().op(kDup).constant(1).op(kAdd).constant(1).op(kSwap).op(kLessUnsigned);
}
Code require_some() {
  return is_some().append(require());
}

Code dtv() {
  return Code().state(kStateFsBase).offset(kDtv).load(8);
}

std::optional<GElf_Phdr> thread_local_segment(Elf* elf) {
  for (const GElf_Phdr& segment : segments_of(elf))
    if (segment.p_type == PT_TLS) return segment;
  return {};
}

// How far below the thread pointer the executable's block begins: its address is congruent to p_vaddr modulo
// the alignment.
std::optional<uint64_t> executable_distance(Elf* elf) {
  const auto segment = thread_local_segment(elf);
  const uint64_t align = segment && segment->p_align ? segment->p_align : 1;
  if (!segment || (align & (align - 1))) return {};
  const uint64_t skewed = segment->p_vaddr & (align - 1);
  return ((segment->p_memsz + skewed + align - 1) & ~(align - 1)) - skewed;
}

// A word of the module by which one can see that it is this file that is mapped there: the beginning of its
// build-id, or where its sections are said to be.
struct Mark {
  uint64_t address = 0, word = 0;
};
Mark mark_of(const Module& module) {
  const ElfFile& file = module.elf();
  auto word_at = [&](uint64_t address) -> std::optional<Mark> {
    const auto bytes = file.bytes(address, kBuildIdWord);
    if (bytes.size() < kBuildIdWord) return {};
    Mark mark{address + module.bias, 0};
    std::memcpy(&mark.word, bytes.data(), sizeof mark.word);
    return mark;
  };
  for (const GElf_Phdr& segment : segments_of(file.elf())) {
    if (segment.p_type != PT_NOTE) continue;
    for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= segment.p_filesz;) {
      Elf64_Nhdr note;
      const auto bytes = file.bytes(segment.p_vaddr + at, sizeof note);
      if (bytes.size() < sizeof note) break;
      std::memcpy(&note, bytes.data(), sizeof note);
      const uint64_t text = at + sizeof note + ((note.n_namesz + 3) & ~3u);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_descsz >= kBuildIdWord)
        if (auto mark = word_at(segment.p_vaddr + text)) return *mark;
      at = text + ((note.n_descsz + 3) & ~3u);
    }
  }
  for (const GElf_Phdr& segment : segments_of(file.elf()))
    if (segment.p_type == PT_LOAD && segment.p_offset == 0)
      if (auto mark = word_at(segment.p_vaddr + offsetof(Elf64_Ehdr, e_shoff))) return *mark;
  throw Error("no word of it is known");
}

Code require_loaded(const Module& module) {
  const Mark mark = mark_of(module);
  return Code().constant(mark.address).load(8).constant(mark.word).op(kEqual).append(require());
}

std::optional<uint64_t> dynamic_address(Elf* elf) {
  for (const GElf_Phdr& segment : segments_of(elf))
    if (segment.p_type == PT_DYNAMIC) return segment.p_vaddr;
  return {};
}

// A word of a module's own, which the linker fills in.
struct Relocated {
  uint32_t type = 0;
  uint64_t slot = 0;    // guest address
  uint64_t offset = 0;  // into the block that it is about
};

// Those about the module's own block: of symbols that nobody else can define.
std::vector<Relocated> own_relocations(const Module& module, std::span<const Module> others) {
  const ElfFile& file = module.elf();
  uint64_t tables[2] = {}, sizes[2] = {}, symbols = 0, names = 0;
  for (const GElf_Dyn& entry : dynamic_section(file.elf())) {
    const uint64_t value = entry.d_un.d_val;
    if (entry.d_tag == DT_RELA) tables[0] = value;
    if (entry.d_tag == DT_RELASZ) sizes[0] = value;
    if (entry.d_tag == DT_JMPREL) tables[1] = value;
    if (entry.d_tag == DT_PLTRELSZ) sizes[1] = value;
    if (entry.d_tag == DT_SYMTAB) symbols = value;
    if (entry.d_tag == DT_STRTAB) names = value;
  }
  auto is_own = [&](const Elf64_Sym& symbol) {
    if (symbol.st_shndx == SHN_UNDEF) return false;
    if (ELF64_ST_BIND(symbol.st_info) == STB_LOCAL || ELF64_ST_VISIBILITY(symbol.st_other) != STV_DEFAULT)
      return true;
    constexpr size_t kLongest = 4096;
    const auto text = file.bytes(names + symbol.st_name, kLongest);
    const std::string name(text.substr(0, text.find('\0')));
    return std::none_of(others.begin(), others.end(), [&](const Module& other) {
      if (other.file == module.file) return false;
      try {
        return find_symbol(other.elf().elf(), name, true).has_value();
      } catch (const Error&) {
        return false;
      }
    });
  };
  std::vector<Relocated> found;
  for (int t = 0; t < 2; t++) {
    const auto table = file.bytes(tables[t], sizes[t]);
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= table.size(); at += sizeof(Elf64_Rela)) {
      Elf64_Rela r;
      std::memcpy(&r, table.data() + at, sizeof r);
      const uint32_t type = ELF64_R_TYPE(r.r_info), number = ELF64_R_SYM(r.r_info);
      if (type != R_X86_64_DTPMOD64 && type != R_X86_64_TPOFF64 && type != R_X86_64_TLSDESC) continue;
      Relocated one{type, r.r_offset + module.bias, static_cast<uint64_t>(r.r_addend)};
      if (number) {
        Elf64_Sym symbol;
        const auto bytes = file.bytes(symbols + number * sizeof symbol, sizeof symbol);
        if (bytes.size() < sizeof symbol) continue;
        std::memcpy(&symbol, bytes.data(), sizeof symbol);
        if (!is_own(symbol)) continue;
        one.offset += symbol.st_value;
      }
      found.push_back(one);
    }
  }
  return found;
}

// [number of a module] -> [its block], by musl's dtv: a count, then addresses.
Code block_of_musl() {
  Code code;
  code.op(kDup).append(require());
  code.append(dtv());  // number, dtv
  code.op(kDup).load(8).op(kPick, 2).op(kLessUnsigned).op(kLogNot).append(require());
  code.op(kSwap).constant(8).op(kMul).op(kAdd).load(8).append(require_some());
  return code;
}

// [distance of a byte from the thread pointer] -> [the block that it is `offset` bytes into]
Code block_at(uint64_t offset) {
  return Code().state(kStateFsBase).op(kAdd).constant(offset).op(kSub);
}

}  // namespace

ThreadLocals::ThreadLocals(std::span<const Module> modules) : modules_(modules) {
  for (const Module& module : modules) {
    try {
      if (thread_local_segment(module.elf().elf())) count_++;
      find_linker(module);
    } catch (const Error&) {  // no ELF file
    }
  }
  if (glibc_) glibc_->list += rtld_;
  if (!rtld_) glibc_.reset();
}

void ThreadLocals::find_linker(const Module& module) {
  const std::string name = module.name.substr(module.name.rfind('/') + 1);
  if (!name.starts_with("ld") && !name.starts_with("libc") && !name.starts_with("libpthread")) return;
  const ElfFile& file = module.elf();
  // struct { uint32_t bits, count, offset; }, or one word: a size
  auto field = [&](const char* what) -> std::optional<uint64_t> {
    uint32_t words[3];
    auto bytes = file.data(std::string("_thread_db_") + what, sizeof words);
    if (!bytes) return {};
    std::memcpy(words, bytes->data(), sizeof words);
    return words[2];
  };
  if (const auto rtld = find_symbol(file.elf(), "_rtld_global", true)) rtld_ = rtld->st_value + module.bias;
  if (find_symbol(file.elf(), "__dls3", true)) musl_ = true;
  const auto list = field("rtld_global__dl_tls_dtv_slotinfo_list"), length = field("dtv_slotinfo_list_len"),
             entries = field("dtv_slotinfo_list_slotinfo"), generation = field("dtv_slotinfo_gen"),
             map = field("dtv_slotinfo_map"), distance = field("link_map_l_tls_offset");
  const auto size = file.data("_thread_db_sizeof_dtv_slotinfo", sizeof(uint32_t));
  if (!list || !length || !entries || !generation || !map || !distance || !size) return;
  glibc_ = Glibc{*list, *length, *entries, 0, *generation, *map, *distance};
  uint32_t bytes;
  std::memcpy(&bytes, size->data(), sizeof bytes);
  glibc_->entry_size = bytes;
}

const Code* ThreadLocals::base(const Module& module) {
  auto [known, fresh] = known_.try_emplace(&module);
  if (fresh) {
    try {
      known->second = make(module);
    } catch (const Error&) {  // its file cannot be read
    }
  }
  return known->second ? &*known->second : nullptr;
}

std::optional<Code> ThreadLocals::make(const Module& module) const {
  Elf* elf = module.elf().elf();
  if (!thread_local_segment(elf)) return {};
  Code code;
  code.state(kStateFsBase).append(require());
  if (is_executable(elf)) {
    const auto distance = executable_distance(elf);
    if (!distance) return {};
    return code.state(kStateFsBase).constant(*distance).op(kSub);
  }
  const auto rest = glibc_ ? by_glibc(module) : musl_ ? by_musl(module) : std::nullopt;
  if (!rest) return {};
  return code.append(*rest);
}

std::optional<Code> ThreadLocals::by_glibc(const Module& module) const {
  // The first part of the list has room for those at the start and this many more; it is not left as long as
  // there are no more in the whole run.
  constexpr size_t kRoom = 62;
  const auto dynamic = dynamic_address(module.elf().elf());
  if (!dynamic || count_ > kRoom) return {};
  const Glibc& g = *glibc_;

  // list -> list, number
  Code search = Code().op(kFail);
  for (uint64_t number = count_; number > 0; number--) {
    Code compare;
    compare.op(kDup).offset(kLinkAddress).load(8).constant(module.bias).op(kEqual);
    compare.op(kSwap).offset(kLinkDynamic).load(8).constant(*dynamic + module.bias).op(kEqual).op(kBitAnd);
    compare.op(kLogNot).skip_if(2).constant(number).skip(search.size());
    Code one;
    one.op(kDup).offset(g.entries + number * g.entry_size + g.map).load(8);
    one.op(kDup).skip_if(2).op(kPop).skip(compare.size());
    search = one.append(compare).append(search);
  }
  // number, entry, distance -> the block
  Code below;
  below.state(kStateFsBase).op(kSwap).op(kSub).op(kRot).op(kPop).op(kPop);
  constexpr uint64_t kEntry = 16;  // of a dtv; in front of it is its length
  Code by_dtv;
  by_dtv.op(kPop).offset(g.generation).load(8);
  by_dtv.append(dtv()).load(8).op(kSwap).op(kLessUnsigned).op(kLogNot).append(require());
  by_dtv.op(kDup).append(dtv()).constant(kEntry).op(kSub).load(8);
  by_dtv.op(kSwap).op(kLessUnsigned).op(kLogNot).append(require());
  by_dtv.constant(kEntry).op(kMul).append(dtv()).op(kAdd).load(8).append(require_some());
  by_dtv.skip(below.size());

  Code code;
  code.constant(g.list).load(8).op(kDup).append(require());
  code.op(kDup).offset(g.length).load(8).constant(count_).op(kSwap).op(kLessUnsigned).append(require());
  code.append(search).append(require_loaded(module));
  code.op(kSwap).op(kPick, 1).constant(g.entry_size).op(kMul).op(kAdd).offset(g.entries);
  code.op(kDup).offset(g.map).load(8).offset(g.distance).load(8);
  code.append(is_some());
  return code.skip_if(by_dtv.size()).append(by_dtv).append(below);
}

std::optional<Code> ThreadLocals::by_musl(const Module& module) const {
  const auto all = own_relocations(module, modules_);
  auto of_type = [&](uint32_t type) {
    return std::find_if(all.begin(), all.end(), [&](const Relocated& r) { return r.type == type; });
  };
  // Distances are negative; a slot that the linker has not filled in is 0.
  const Code require_negative = Code().op(kDup).constant(0).op(kLessSigned).append(require());
  Code code = require_loaded(module);
  if (auto r = of_type(R_X86_64_TPOFF64); r != all.end())
    return code.constant(r->slot).load(8).append(require_negative).append(block_at(r->offset));
  if (auto r = of_type(R_X86_64_DTPMOD64); r != all.end())
    return code.constant(r->slot).load(8).append(block_of_musl());
  const auto r = of_type(R_X86_64_TLSDESC);
  if (r == all.end()) return {};
  // The second word of a descriptor is a distance, or where number and offset are.
  Code by_distance = block_at(r->offset), by_number;
  by_number.op(kDup).append(require()).op(kDup).offset(8).load(8).constant(r->offset).op(kEqual);
  by_number.append(require()).load(8).append(block_of_musl()).skip(by_distance.size());
  code.constant(r->slot + 8).load(8).op(kDup).constant(0).op(kLessSigned).skip_if(by_number.size());
  return code.append(by_number).append(by_distance);
}

std::vector<ThreadLocals::Input> ThreadLocals::inputs() const {
  const uint64_t most = count_ + 2;
  std::vector<Input> inputs{{Code().state(kStateFsBase).offset(kDtv), 8}};
  inputs.push_back({dtv(), most * 16});
  if (glibc_)
    inputs.push_back(
        {Code().constant(glibc_->list).load(8).offset(glibc_->entries), most * glibc_->entry_size});
  return inputs;
}

}  // namespace backstep::symbols
