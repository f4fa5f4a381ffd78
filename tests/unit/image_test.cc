// Loading real programs, scripts and hand-made ELF files into a guest that is only a map of bytes.
#include "guest/image.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

namespace backstep::guest {
namespace {

constexpr uint64_t kPage = layout::kPage;

// Guest memory as pages in a map; checks what a real Placer would trip over.
class Pages : public Placer {
 public:
  void map(const Region& r, int fd) override {
    ASSERT_EQ(r.start % kPage, 0u);
    ASSERT_EQ(r.end % kPage, 0u);
    ASSERT_EQ(r.offset % kPage, 0u);
    ASSERT_LT(r.start, r.end);
    ASSERT_EQ(fd < 0, (r.flags & MAP_ANONYMOUS) != 0);
    for (uint64_t at = r.start; at < r.end; at += kPage) {
      pages_.erase(at);  // zeroes
      if (fd < 0) continue;
      pages_[at].resize(kPage);
      ASSERT_GT(pread(fd, pages_[at].data(), kPage, r.offset + (at - r.start)), 0) << "beyond the file";
    }
    map_.add(r);
  }
  void write(uint64_t addr, std::span<const std::byte> bytes) override {
    writes++;
    ASSERT_TRUE(map_.is_mapped(addr, addr + bytes.size()));
    for (std::byte b : bytes) {
      ASSERT_TRUE(map_.find(addr)->prot & PROT_WRITE);
      auto& page = pages_[addr & ~(kPage - 1)];
      page.resize(kPage);
      page[addr++ % kPage] = static_cast<char>(b);
    }
  }
  MemoryMap& memory() override { return map_; }

  std::string read(uint64_t addr, size_t size) {
    std::string text;
    while (text.size() < size) {
      auto& page = pages_[addr & ~(kPage - 1)];
      page.resize(kPage);
      text += page[addr++ % kPage];
    }
    return text;
  }
  uint64_t word(uint64_t addr) {
    uint64_t value;
    memcpy(&value, read(addr, 8).data(), 8);
    return value;
  }
  std::string string(uint64_t addr) {
    std::string text;
    for (char c; (c = read(addr++, 1)[0]);) text += c;
    return text;
  }

  int writes = 0;

 private:
  MemoryMap map_;
  std::map<uint64_t, std::string> pages_;
};

// Each test has a folder of its own, gone afterwards.
class Image : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "image_test.XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = std::filesystem::canonical(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string put(const std::string& name, const std::string& contents, mode_t mode = 0755) {
    std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << contents;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  StartState load(std::vector<std::string> argv, std::vector<std::string> env = {}) {
    StartOptions options;
    options.argv = std::move(argv);
    options.env = std::move(env);
    return load_program(options, pages_);
  }

  // Status and errno of a failing load; the sentence goes to `sentence_`.
  std::pair<int, int> failure(std::vector<std::string> argv, std::vector<std::string> env = {}) {
    try {
      load(std::move(argv), std::move(env));
    } catch (const LoadError& e) {
      sentence_ = e.what();
      return {e.exit_code, e.err};
    }
    return {0, 0};
  }

  uint64_t aux(const StartState& start, uint64_t key) {
    for (size_t i = 0; i < start.auxv.size(); i += 2)
      if (start.auxv[i] == key) return start.auxv[i + 1];
    ADD_FAILURE() << "no auxv entry " << key;
    return 0;
  }

  std::string folder_, sentence_;
  Pages pages_;
};

using Failure = std::pair<int, int>;

// An ELF file with one or more load segments; `contents` start at file offset 0x1000.
struct ElfMaker {
  Elf64_Ehdr header = {};
  std::vector<Elf64_Phdr> table;
  std::string contents = std::string(kPage, '\xcc');

  explicit ElfMaker(uint16_t type) {
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = header.e_version = EV_CURRENT;
    header.e_type = type;
    header.e_machine = EM_X86_64;
    header.e_phoff = header.e_ehsize = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
  }
  ElfMaker& segment(uint64_t vaddr, uint64_t filesz, uint64_t memsz, uint32_t flags, uint64_t align = kPage) {
    Elf64_Phdr ph = {};
    ph.p_type = PT_LOAD, ph.p_flags = flags, ph.p_align = align;
    ph.p_offset = kPage + vaddr % kPage, ph.p_vaddr = vaddr, ph.p_filesz = filesz, ph.p_memsz = memsz;
    table.push_back(ph);
    if (!header.e_entry) header.e_entry = vaddr;
    return *this;
  }
  ElfMaker& interpreter(const std::string& path) {
    Elf64_Phdr ph = {};
    ph.p_type = PT_INTERP, ph.p_offset = kPage, ph.p_filesz = path.size() + 1;
    contents.replace(0, path.size() + 1, path.c_str(), path.size() + 1);
    table.insert(table.begin(), ph);
    return *this;
  }
  std::string bytes() {
    header.e_phnum = static_cast<uint16_t>(table.size());
    std::string file(reinterpret_cast<char*>(&header), sizeof header);
    file.append(reinterpret_cast<char*>(table.data()), table.size() * sizeof(Elf64_Phdr));
    file.resize(kPage);
    return file + contents;
  }
};

TEST_F(Image, ADynamicProgramStartsInItsInterpreter) {
  StartState start = load({"/bin/true", "one", "two"}, {"A=1", "B=2"});
  auto& map = pages_.memory();

  EXPECT_EQ(start.exe, std::filesystem::canonical("/bin/true"));
  EXPECT_FALSE(start.interpreter.empty());
  const Region* at_rip = map.find(start.rip);
  ASSERT_NE(at_rip, nullptr);
  EXPECT_TRUE(at_rip->prot & PROT_EXEC);
  EXPECT_EQ(at_rip->name, std::filesystem::canonical(start.interpreter));

  const Region* first = map.find(layout::kImagesStart);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->name, start.exe);
  struct stat st;
  ASSERT_EQ(stat("/bin/true", &st), 0);
  EXPECT_EQ(first->inode, st.st_ino);
  EXPECT_EQ(first->dev, st.st_dev);
  map.for_each([&](const Region& r) {
    EXPECT_TRUE(r.name == "[stack]" || (r.start >= layout::kImagesStart && r.end <= layout::kImagesEnd));
  });
  EXPECT_EQ(map.brk_start, layout::kBrkStart);
  EXPECT_EQ(map.brk, layout::kBrkStart);
  EXPECT_FALSE(start.lost_privilege);

  EXPECT_EQ(pages_.read(aux(start, AT_BASE), 4), ELFMAG);
  EXPECT_EQ(aux(start, AT_PHENT), sizeof(Elf64_Phdr));
  const Region* entry = map.find(aux(start, AT_ENTRY));
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->name, start.exe);
  Elf64_Phdr ph;
  memcpy(&ph, pages_.read(aux(start, AT_PHDR), sizeof ph).data(), sizeof ph);
  EXPECT_EQ(ph.p_type, uint32_t{PT_PHDR});
}

TEST_F(Image, TwoLoadsAreEqual) {
  StartState a = load({"/bin/true"});
  Pages other;
  StartOptions options;
  options.argv = {"/bin/true"};
  StartState b = load_program(options, other);
  EXPECT_EQ(a.rip, b.rip);
  EXPECT_EQ(a.rsp, b.rsp);
  EXPECT_EQ(a.auxv, b.auxv);
  EXPECT_EQ(pages_.memory().proc_maps(), other.memory().proc_maps());
}

TEST_F(Image, TheStartStackIsTheKernels) {
  StartOptions options;
  options.argv = {"/bin/true", "", "three words here"};
  options.env = {"PATH=/bin", "EMPTY="};
  options.hwcap = 0x178bfbff, options.hwcap2 = 2;
  for (int i = 0; i < 16; i++) options.random[i] = std::byte(i + 1);
  StartState start = load_program(options, pages_);

  EXPECT_EQ(start.rsp % 64, 0u);
  EXPECT_EQ(start.stack_end, layout::kStackEnd);
  EXPECT_EQ(start.stack_end - start.stack_start, options.stack_size);
  const Region* stack = pages_.memory().find(start.rsp);
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(stack->name, "[stack]");
  EXPECT_EQ(stack->prot, PROT_READ | PROT_WRITE);

  uint64_t at = start.rsp;
  auto next = [&] { return pages_.word((at += 8) - 8); };
  ASSERT_EQ(next(), options.argv.size());
  uint64_t string =
      pages_.word(at);  // strings follow each other without gaps, execfn last, then 8 zero bytes
  for (auto* list : {&options.argv, &options.env}) {
    for (auto& expected : *list) {
      EXPECT_EQ(next(), string);
      EXPECT_EQ(pages_.string(string), expected);
      string += expected.size() + 1;
    }
    EXPECT_EQ(next(), 0u);
  }
  std::vector<uint64_t> auxv;
  do {
    auxv.push_back(next());
    auxv.push_back(next());
  } while (auxv[auxv.size() - 2] != AT_NULL);
  EXPECT_EQ(auxv, start.auxv);

  EXPECT_EQ(aux(start, AT_EXECFN), string);
  EXPECT_EQ(pages_.string(string), "/bin/true");
  EXPECT_EQ(string + strlen("/bin/true") + 1 + 8, start.stack_end);
  EXPECT_EQ(pages_.word(start.stack_end - 8), 0u);
  EXPECT_EQ(pages_.string(aux(start, AT_PLATFORM)), "x86_64");
  EXPECT_EQ(memcmp(pages_.read(aux(start, AT_RANDOM), 16).data(), options.random, 16), 0);
  EXPECT_EQ(aux(start, AT_HWCAP), options.hwcap);
  EXPECT_EQ(aux(start, AT_HWCAP2), 2u);
  EXPECT_EQ(aux(start, AT_PAGESZ), kPage);
  EXPECT_EQ(aux(start, AT_UID), getuid());
  EXPECT_EQ(aux(start, AT_SECURE), 0u);
  for (uint64_t absent : {33 /*AT_SYSINFO_EHDR*/, 27, 28 /*AT_RSEQ_*/})
    for (size_t i = 0; i < auxv.size(); i += 2) EXPECT_NE(auxv[i], absent);
}

// What this process itself was given: the same keys in the same order, without those that we leave out and
// those that a newer kernel may add.
TEST_F(Image, TheAuxiliaryVectorHasTheKernelsOrder) {
  StartState start = load({"/bin/true"});
  std::vector<uint64_t> ours, kernels;
  for (size_t i = 0; i < start.auxv.size(); i += 2) ours.push_back(start.auxv[i]);
  std::ifstream in("/proc/self/auxv", std::ios::binary);
  for (uint64_t pair[2]; in.read(reinterpret_cast<char*>(pair), sizeof pair);)
    if (std::find(ours.begin(), ours.end(), pair[0]) != ours.end()) kernels.push_back(pair[0]);
  std::erase_if(
      ours, [&](uint64_t key) { return std::find(kernels.begin(), kernels.end(), key) == kernels.end(); });
  EXPECT_EQ(ours, kernels);
}

TEST_F(Image, TheStackSizeIsCapped) {
  StartOptions options;
  options.argv = {"/bin/true"};
  for (auto [asked, given] :
       {std::pair<uint64_t, uint64_t>{~0ull, 1000ull << 20}, {1000, 256 << 10}, {1 << 20, 1 << 20}}) {
    Pages pages;
    options.stack_size = asked;
    StartState start = load_program(options, pages);
    EXPECT_EQ(start.stack_end - start.stack_start, given);
  }
}

TEST_F(Image, AFixedProgramGoesToItsOwnAddressesAndBssIsZeroToTheEndOfThePage) {
  ElfMaker elf(ET_EXEC);
  elf.segment(0x400000, 0x1000, 0x1000, PF_R | PF_X).segment(0x402000, 0x100, 0x2345, PF_R | PF_W);
  StartState start = load({put("fixed", elf.bytes())});
  EXPECT_EQ(start.rip, 0x400000u);
  EXPECT_EQ(aux(start, AT_BASE), 0u);
  EXPECT_TRUE(start.interpreter.empty());
  auto& map = pages_.memory();
  EXPECT_EQ(map.find(0x400000)->prot, PROT_READ | PROT_EXEC);
  EXPECT_EQ(map.find(0x400000)->offset, kPage);
  EXPECT_EQ(map.find(0x401000), nullptr);
  EXPECT_EQ(map.find(0x402000)->name, start.exe);
  EXPECT_EQ(map.find(0x403000)->name, "");
  EXPECT_EQ(map.find(0x403000)->end, 0x405000u);
  EXPECT_EQ(pages_.read(0x402000, 0x100), std::string(0x100, '\xcc'));
  EXPECT_EQ(pages_.read(0x402100, 0xf00), std::string(0xf00, '\0'));
}

TEST_F(Image, ATailWithoutBssKeepsTheFilesBytes) {
  ElfMaker elf(ET_EXEC);
  elf.segment(0x400000, 0x100, 0x100, PF_R | PF_W);
  load({put("fixed", elf.bytes())});
  EXPECT_EQ(pages_.read(0x400100, 0xf00), std::string(0xf00, '\xcc'));
  EXPECT_EQ(pages_.writes, 1);  // the stack
}

TEST_F(Image, LargeAlignmentIsRespected) {
  ElfMaker elf(ET_DYN);
  elf.segment(0, 0x1000, 0x1000, PF_R | PF_X, 1 << 21);
  Region occupied;
  occupied.start = layout::kImagesStart, occupied.end = occupied.start + kPage;
  occupied.flags = MAP_PRIVATE | MAP_ANONYMOUS;
  pages_.memory().add(occupied);
  EXPECT_EQ(load({put("aligned", elf.bytes())}).rip, layout::kImagesStart + (1 << 21));
}

TEST_F(Image, AStaticPieIsMovedAsAWhole) {
  ElfMaker elf(ET_DYN);
  elf.segment(0x10000, 0x1000, 0x1000, PF_R | PF_X).segment(0x13000, 0x10, 0x20, PF_R | PF_W);
  StartState start = load({put("pie", elf.bytes())});
  EXPECT_EQ(start.rip, layout::kImagesStart);
  EXPECT_TRUE(pages_.memory().is_mapped(layout::kImagesStart + 0x3000, layout::kImagesStart + 0x4000));
  EXPECT_EQ(pages_.memory().find(layout::kImagesStart + 0x1000), nullptr);
}

TEST_F(Image, AnExecutableStackIsAsExecutableAsTheProgramAsks) {
  ElfMaker elf(ET_EXEC);
  elf.segment(0x400000, 0x10, 0x10, PF_R | PF_X);
  Elf64_Phdr stack = {};
  stack.p_type = PT_GNU_STACK, stack.p_flags = PF_R | PF_W | PF_X;
  elf.table.push_back(stack);
  StartState start = load({put("execstack", elf.bytes())});
  EXPECT_EQ(pages_.memory().find(start.rsp)->prot, PROT_READ | PROT_WRITE | PROT_EXEC);
}

TEST_F(Image, FixedAddressesThatCannotBeHadAreRefused) {
  for (uint64_t address : {uint64_t{0}, layout::kCacheStart, layout::kHotPage, layout::kStackEnd - kPage}) {
    ElfMaker elf(ET_EXEC);
    elf.segment(address, 0x10, 0x10, PF_R | PF_X);
    elf.header.e_entry = address;
    EXPECT_EQ(failure({put("badly_placed", elf.bytes())}).first, 126) << std::hex << address;
    EXPECT_NE(sentence_.find("fixed addresses"), std::string::npos) << sentence_;
  }
}

TEST_F(Image, BrokenElfFilesAreRefusedBeforeAnythingIsMapped) {
  auto expect_refused = [&](const char* what, auto change) {
    ElfMaker elf(ET_EXEC);
    elf.segment(0x400000, 0x1000, 0x1000, PF_R | PF_X);
    change(elf);
    EXPECT_EQ(failure({put("broken", elf.bytes())}), Failure(126, ENOEXEC)) << what;
    EXPECT_EQ(pages_.memory().next(0), nullptr) << what;
  };
  expect_refused("32 bit", [](ElfMaker& e) { e.header.e_machine = EM_386; });
  EXPECT_NE(sentence_.find("32-bit"), std::string::npos) << sentence_;
  expect_refused("arm", [](ElfMaker& e) { e.header.e_machine = EM_AARCH64; });
  EXPECT_NE(sentence_.find("another processor"), std::string::npos) << sentence_;
  expect_refused("x32", [](ElfMaker& e) { e.header.e_ident[EI_CLASS] = ELFCLASS32; });
  expect_refused("object file", [](ElfMaker& e) { e.header.e_type = ET_REL; });
  expect_refused("no segments", [](ElfMaker& e) { e.table.clear(); });
  expect_refused("only notes", [](ElfMaker& e) { e.table[0].p_type = PT_NOTE; });
  expect_refused("header size", [](ElfMaker& e) { e.header.e_phentsize = 32; });
  expect_refused("header table outside", [](ElfMaker& e) { e.header.e_phoff = 1 << 20; });
  expect_refused("header table at -1", [](ElfMaker& e) { e.header.e_phoff = ~0ull; });
  expect_refused("truncated", [](ElfMaker& e) { e.table[0].p_filesz = e.table[0].p_memsz = 0x3000; });
  expect_refused("offset outside", [](ElfMaker& e) { e.table[0].p_offset = ~0xfffull; });
  expect_refused("file > memory", [](ElfMaker& e) { e.table[0].p_memsz = 1; });
  expect_refused("address wraps", [](ElfMaker& e) { e.table[0].p_vaddr = ~0xfffull; });
  expect_refused("size wraps", [](ElfMaker& e) { e.table[0].p_memsz = ~0ull; });
  expect_refused("offset != address", [](ElfMaker& e) { e.table[0].p_offset += 8; });
  expect_refused("entry", [](ElfMaker& e) { e.header.e_entry = ~0ull; });
  expect_refused("interpreter name", [](ElfMaker& e) { e.interpreter("/lib/ld.so").table[0].p_filesz -= 1; });
}

TEST_F(Image, MissingOrBrokenInterpretersOfElfFiles) {
  ElfMaker elf(ET_EXEC);
  elf.segment(0x400000, 0x1000, 0x1000, PF_R | PF_X);
  EXPECT_EQ(failure({put("missing", ElfMaker(elf).interpreter("/nonexistent/ld.so").bytes())}),
            Failure(127, ENOENT));
  EXPECT_NE(sentence_.find("/nonexistent/ld.so"), std::string::npos) << sentence_;
  std::string text = put("text", "hello\n");
  EXPECT_EQ(failure({put("broken", ElfMaker(elf).interpreter(text).bytes())}), Failure(126, ELIBBAD));
}

// Statuses as bash 5.2 gives them.
TEST_F(Image, FilesThatAreNoPrograms) {
  EXPECT_EQ(failure({folder_ + "/nothing"}), Failure(127, ENOENT));
  EXPECT_EQ(sentence_, "cannot run '" + folder_ + "/nothing': No such file or directory (ENOENT)");
  EXPECT_EQ(failure({folder_}), Failure(126, EACCES));
  EXPECT_EQ(failure({put("not_executable", "#!/bin/sh\n", 0644)}), Failure(126, EACCES));
  EXPECT_EQ(failure({put("plain", "echo hello\n")}), Failure(126, ENOEXEC));
  EXPECT_EQ(failure({put("empty", "")}), Failure(126, ENOEXEC));
  EXPECT_EQ(failure({put("short",
                         "\x7f"
                         "ELFgarbage")}),
            Failure(126, ENOEXEC));
  EXPECT_EQ(failure({folder_ + "/plain/x"}), Failure(126, ENOTDIR));
  EXPECT_EQ(failure({"/dev/null"}), Failure(126, EACCES));
  EXPECT_EQ(failure({""}), Failure(127, ENOENT));
  EXPECT_EQ(failure({}), Failure(127, ENOENT));
}

TEST_F(Image, ProgramsAreLookedUpInPath) {
  std::filesystem::create_directory(folder_ + "/first");
  std::filesystem::create_directories(folder_ + "/second/directory");
  std::string path = "PATH=/nonexistent:" + folder_ + "/first:" + folder_ + "/second:/bin";
  StartState start = load({"true"}, {path});
  EXPECT_EQ(start.argv, std::vector<std::string>{"true"});
  EXPECT_EQ(pages_.string(aux(start, AT_EXECFN)), "/bin/true");

  put("first/tool", "", 0644);  // passed over for a later one that can be run
  std::filesystem::create_symlink("/bin/true", folder_ + "/second/tool");
  EXPECT_EQ(pages_.string(aux(load({"tool"}, {path}), AT_EXECFN)), folder_ + "/second/tool");
  std::filesystem::remove(folder_ + "/second/tool");
  EXPECT_EQ(failure({"tool"}, {path}), Failure(126, EACCES));
  EXPECT_EQ(failure({"directory"}, {path}), Failure(127, ENOENT));
  EXPECT_EQ(failure({"no_such_program_anywhere"}), Failure(127, ENOENT));
  EXPECT_NE(sentence_.find("not found"), std::string::npos);
  load({"true"});  // no PATH: /bin:/usr/bin
}

TEST_F(Image, AnEmptyPathElementIsTheCurrentFolder) {
  auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  std::filesystem::create_symlink("/bin/true", folder_ + "/here");
  StartState start = load({"here"}, {"PATH=/nonexistent::/bin"});
  std::filesystem::current_path(before);
  EXPECT_EQ(pages_.string(aux(start, AT_EXECFN)), "./here");
  EXPECT_EQ(start.exe, std::filesystem::canonical("/bin/true"));
}

TEST_F(Image, PathAndArgv0AreIndependentAsInExecve) {
  StartOptions options;
  options.path = "/bin/true", options.argv = {"-login"};
  StartState start = load_program(options, pages_);
  EXPECT_EQ(start.argv, std::vector<std::string>{"-login"});
  EXPECT_EQ(pages_.string(aux(start, AT_EXECFN)), "/bin/true");
  options.argv = {};
  Pages other;
  EXPECT_EQ(load_program(options, other).argv, std::vector<std::string>{""});
}

// The kernel is the judge: /bin/echo prints the arguments that a script line gave it.
TEST_F(Image, ScriptLinesAreReadAsTheKernelReadsThem) {
  std::string a300(300, 'a'), a230(230, 'a');
  for (const std::string& line :
       {std::string("#!/bin/echo\n"), std::string("#!/bin/echo"),
        std::string("#! \t /bin/echo \t a  b \t \nrest"), std::string("#!/bin/echo hi  "),
        std::string("#!/bin/echo \t"), "#!/bin/echo " + a300 + "\n", "#!/bin/echo " + a230 + "   " + a300,
        std::string("#!/bin/echo one\0two\n", 20), std::string("#!/bin/echo\r\n"),
        std::string("#!") + std::string(242, ' ') + "/bin/echo x\n",
        std::string("#!") + std::string(243, ' ') + "/bin/echo x\n",
        std::string("#!") + std::string(244, ' ') + "/bin/echo x\n",
        std::string("#!") + std::string(245, ' ') + "/bin/echo x\n", "#!/" + a300 + "\n", std::string("#!\n"),
        std::string("#!   \n"), std::string("#!")}) {
    std::string script = put("script", line);
    std::string kernels;
    int pipe_fds[2], status;
    ASSERT_EQ(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
      dup2(pipe_fds[1], 1);
      execl(script.c_str(), "ignored", "last", nullptr);
      _exit(errno);
    }
    close(pipe_fds[1]);
    for (char c; ::read(pipe_fds[0], &c, 1) == 1;) kernels += c;
    close(pipe_fds[0]);
    waitpid(child, &status, 0);

    std::string ours;
    int err = 0;
    try {
      Pages pages;
      StartOptions options;
      options.argv = {script, "last"};
      StartState start = load_program(options, pages);
      for (size_t i = 1; i < start.argv.size(); i++) ours += (i > 1 ? " " : "") + start.argv[i];
      ours += "\n";
    } catch (const LoadError& e) {
      err = e.err;
    }
    EXPECT_EQ(ours, kernels) << line;
    EXPECT_EQ(err, WEXITSTATUS(status)) << line;
  }
}

TEST_F(Image, ScriptsMayNestFiveDeep) {
  std::string interpreter = "/bin/true";
  for (int i = 1; i <= 6; i++) {
    std::string script = put("script" + std::to_string(i), "#!" + interpreter + "\n");
    if (i <= 5) {
      Pages pages;
      StartOptions options;
      options.argv = {script, "x"};
      StartState start = load_program(options, pages);
      EXPECT_EQ(start.argv.size(), i + 2u);
      EXPECT_EQ(start.argv[0], "/bin/true");
      EXPECT_EQ(start.argv[1], folder_ + "/script1");
      EXPECT_EQ(start.argv[i], script);
      EXPECT_EQ(start.exe, std::filesystem::canonical("/bin/true"));
      EXPECT_EQ(pages.string(aux(start, AT_EXECFN)), script);
    } else {
      EXPECT_EQ(failure({script}), Failure(126, ELOOP));
    }
    interpreter = script;
  }
}

TEST_F(Image, BadInterpretersOfScripts) {
  EXPECT_EQ(failure({put("missing", "#!/nonexistent/sh\n")}), Failure(127, ENOENT));
  EXPECT_NE(sentence_.find("bad interpreter '/nonexistent/sh'"), std::string::npos) << sentence_;
  EXPECT_EQ(failure({put("folder", "#!" + folder_ + "\n")}), Failure(126, EACCES));
  put("plain", "hello", 0644);
  EXPECT_EQ(failure({put("not_executable", "#!" + folder_ + "/plain\n")}), Failure(126, EACCES));
}

TEST_F(Image, TooManyArgumentsAreE2BIG) {
  EXPECT_EQ(failure({"/bin/true", std::string(128 << 10, 'x')}), Failure(126, E2BIG));
  EXPECT_NE(sentence_.find("too long"), std::string::npos);
  load({"/bin/true", std::string((128 << 10) - 1, 'x')});
  std::vector<std::string> many(21, std::string(100000, 'x'));
  many[0] = "/bin/true";
  load(many);
  many.push_back(many.back());
  EXPECT_EQ(failure(many), Failure(126, E2BIG));
}

TEST_F(Image, LostPrivilegeIsNoticed) {
  struct statvfs fs;
  ASSERT_EQ(statvfs(folder_.c_str(), &fs), 0);
  if (geteuid() != 0 || (fs.f_flag & ST_NOSUID) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
    GTEST_SKIP() << "needs root and a file system with set-user-ID";
  ElfMaker elf(ET_EXEC);
  elf.segment(0x400000, 0x10, 0x10, PF_R | PF_X);
  std::string path = put("setuid", elf.bytes());
  auto lost = [&](uid_t uid, gid_t gid, mode_t mode) {
    EXPECT_EQ(chown(path.c_str(), uid, gid), 0);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    Pages pages;
    StartOptions options;
    options.argv = {path};
    return load_program(options, pages).lost_privilege;
  };
  EXPECT_FALSE(lost(1, getegid(), 0755));
  EXPECT_TRUE(lost(1, getegid(), 04755));
  EXPECT_FALSE(lost(0, getegid(), 04755));
  EXPECT_TRUE(lost(0, getegid() + 1, 02755));
  EXPECT_FALSE(lost(0, getegid() + 1, 02745));
}

TEST_F(Image, NoDescriptorIsLeftOpen) {
  auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  auto before = open_files();
  load({"/bin/true"});
  failure({put("missing", "#!/nonexistent/sh\n")});
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace backstep::guest
