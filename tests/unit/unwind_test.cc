// Stacks are checked against those that the compiler's own unwinder sees in this very process, and on code
// compiled here without what unwinders live on.
#include "symbols/unwind.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "temp_dir.h"

namespace backstep::symbols {
namespace {

using test::TempDir;
using test::write_file;

// All ELF files of this process.
Program own_program() {
  std::vector<Module> modules;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        std::string name = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
        Module module{name, name, ~0ull, 0, info->dlpi_addr};
        for (int i = 0; i < info->dlpi_phnum; i++) {
          if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
          uint64_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
          module.start = std::min(module.start, start);
          module.end = std::max(module.end, start + info->dlpi_phdr[i].p_memsz);
        }
        static_cast<std::vector<Module>*>(out)->push_back(module);
        return 0;
      },
      &modules);
  return Program(std::move(modules));
}

bool read_own(uint64_t address, void* to, size_t size) {
  iovec local{to, size}, remote{reinterpret_cast<void*>(address), size};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

UnwindRegisters registers_of(const ucontext_t& context) {
  constexpr int kOrder[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
                            REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  UnwindRegisters registers;
  for (size_t i = 0; i < UnwindRegisters::kCount; i++)
    registers.gpr[i] = static_cast<uint64_t>(context.uc_mcontext.gregs[kOrder[i]]);
  return registers;
}

// The stack from here, by us and by what handles exceptions.
struct Both {
  Stack ours;
  std::vector<uint64_t> theirs;
  std::vector<FrameRegisters> registers;
};
__attribute__((noinline)) Both both_stacks() {
  ucontext_t context;
  getcontext(&context);
  Both both;
  _Unwind_Backtrace(
      [](_Unwind_Context* frame, void* out) {
        if (uint64_t pc = _Unwind_GetIP(frame)) static_cast<std::vector<uint64_t>*>(out)->push_back(pc);
        return _URC_NO_REASON;
      },
      &both.theirs);
  Program program = own_program();
  both.ours = unwind(program, registers_of(context), read_own, 512, &both.registers);
  return both;
}

// The first frame is at another instruction of the same function.
void expect_same(const Both& both) {
  EXPECT_TRUE(both.ours.complete);
  ASSERT_EQ(both.ours.frames.size(), both.theirs.size());
  ASSERT_GT(both.theirs.size(), 2u);
  for (size_t i = 1; i < both.theirs.size(); i++) EXPECT_EQ(both.ours.frames[i].pc, both.theirs[i]) << i;
  EXPECT_FALSE(both.ours.frames[0].call_site);
  EXPECT_TRUE(both.ours.frames[1].call_site);
}

TEST(Unwind, SeesTheFramesThatExceptionsGoThrough) {
  expect_same(both_stacks());
}

TEST(Unwind, EndsWhereAThreadBegan) {
  Both both;
  std::thread([&] { both = both_stacks(); }).join();
  expect_same(both);
}

Both in_handler;
void handler(int) {
  in_handler = both_stacks();
}

TEST(Unwind, GoesThroughSignalHandlersToWhatTheyInterrupted) {
  for (int flags : {0, SA_ONSTACK}) {
    std::vector<char> stack(256 << 10);
    stack_t alternate{stack.data(), 0, stack.size()}, before{};
    sigaltstack(&alternate, &before);
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, nullptr);
    raise(SIGUSR1);
    signal(SIGUSR1, SIG_DFL);
    sigaltstack(&before, nullptr);
    expect_same(in_handler);
    // One frame is the trampoline's, and the one that it interrupted is at no call.
    auto& frames = in_handler.ours.frames;
    auto trampoline =
        std::find_if(frames.begin() + 1, frames.end(), [](const Frame& f) { return !f.call_site; });
    ASSERT_NE(trampoline, frames.end());
    EXPECT_FALSE((trampoline + 1)->call_site);
    EXPECT_TRUE((trampoline + 2)->call_site);
  }
}

// A library made of `source`.
class Library {
 public:
  Library(const std::string& source, const std::string& flags) {
    write_file(dir_ / "code.c", source);
    std::string out = dir_ / "code.so";
    EXPECT_EQ(system(("gcc -w -shared -fPIC " + flags + " -o " + out + " " + (dir_ / "code.c")).c_str()), 0);
    handle_ = dlopen(out.c_str(), RTLD_NOW);
    EXPECT_NE(handle_, nullptr) << dlerror();
  }
  ~Library() { dlclose(handle_); }
  template <class F>
  F* find(const char* name) {
    return reinterpret_cast<F*>(dlsym(handle_, name));
  }

 private:
  TempDir dir_;
  void* handle_ = nullptr;
};

constexpr char kRecursion[] = R"(
__attribute__((noipa)) int deep(int n, void (*at_the_end)(void)) {
  volatile char room[100 + 8 * 3];
  room[n] = 1;
  if (n == 0) at_the_end();
  else deep(n - 1, at_the_end);
  return room[n] + n;
}
int outer(int n, void (*at_the_end)(void)) { return deep(n, at_the_end) * 2; }
)";
using Recursion = int(int, void (*)());
Both at_the_end;

TEST(Unwind, NeedsNoFramePointers) {
  for (const char* flags : {"-O0", "-O2 -fomit-frame-pointer", "-O1 -fno-omit-frame-pointer -mno-red-zone",
                            "-O2 -fomit-frame-pointer -g -fno-asynchronous-unwind-tables"}) {
    Library library(kRecursion, flags);
    library.find<Recursion>("outer")(20, [] { at_the_end = both_stacks(); });
    Program program = own_program();
    int deep = 0;
    for (const Frame& frame : at_the_end.ours.frames)
      if (auto f = program.function_at(frame.pc - 1); f && f->name == "deep") deep++;
    EXPECT_EQ(deep, 21) << flags;
    EXPECT_TRUE(at_the_end.ours.complete) << flags;
    // Exceptions know nothing of .debug_frame.
    if (!strstr(flags, "-fno-async")) expect_same(at_the_end);
  }
}

TEST(Unwind, GoesByFramePointersWhereNothingElseIsKnown) {
  Library library(kRecursion,
                  "-O1 -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables");
  library.find<Recursion>("outer")(5, [] { at_the_end = both_stacks(); });
  Program program = own_program();
  std::vector<std::string> names;
  for (const Frame& frame : at_the_end.ours.frames)
    if (auto f = program.function_at(frame.pc - 1)) names.push_back(f->name);
  EXPECT_EQ(std::count(names.begin(), names.end(), "deep"), 6);
  EXPECT_EQ(std::count(names.begin(), names.end(), "outer"), 1);
}

sigjmp_buf after_fault;
Stack at_fault;
void on_fault(int, siginfo_t*, void* context) {
  at_fault = unwind(own_program(), registers_of(*static_cast<ucontext_t*>(context)), read_own);
  siglongjmp(after_fault, 1);
}
void (*volatile nothing)() = nullptr;
extern "C" __attribute__((noinline)) int calls_nothing() {
  nothing();
  return 1;
}

TEST(Unwind, FindsWhoCalledAddressZero) {
  struct sigaction action {
  }, before{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &before);
  if (sigsetjmp(after_fault, 1) == 0) calls_nothing();
  sigaction(SIGSEGV, &before, nullptr);
  ASSERT_GT(at_fault.frames.size(), 3u);
  EXPECT_EQ(at_fault.frames[0].pc, 0u);
  Program program = own_program();
  auto caller = program.function_at(at_fault.frames[1].pc - 1);
  ASSERT_TRUE(caller);
  EXPECT_TRUE(caller->name.ends_with("calls_nothing")) << caller->name;
  EXPECT_TRUE(at_fault.complete);
}

// Memory that a test makes up.
struct FakeStack {
  std::map<uint64_t, uint64_t> words;
  bool operator()(uint64_t address, void* to, size_t size) const {
    auto at = words.find(address);
    if (size != 8 || at == words.end()) return false;
    memcpy(to, &at->second, 8);
    return true;
  }
};

TEST(Unwind, StopsAtMemoryThatCannotBeRead) {
  Program program = own_program();
  UnwindRegisters registers;
  registers.gpr[UnwindRegisters::kRip] = reinterpret_cast<uint64_t>(&both_stacks);
  registers.gpr[UnwindRegisters::kRsp] = 0x1000;
  Stack stack = unwind(program, registers, FakeStack{});
  EXPECT_EQ(stack.frames.size(), 1u);
  EXPECT_EQ(stack.frames[0].cfa, 0x1008u);
  EXPECT_FALSE(stack.complete);
}

TEST(Unwind, SaysThatItEndsWhereNothingIsKnown) {
  Program program({});
  UnwindRegisters registers;
  registers.gpr[UnwindRegisters::kRip] = 0x5000;
  registers.gpr[UnwindRegisters::kRsp] = 0x1000;
  for (uint64_t rbp : {0x1011ull, 0xff0ull, 0x7fff00000000ull, 0ull}) {  // odd, below rsp, far away, none
    registers.gpr[UnwindRegisters::kRbp] = rbp;
    Stack stack =
        unwind(program, registers, FakeStack{{{0x1010, 0x1020}, {0x1018, 0x5000}, {0xff0, 1}, {0xff8, 1}}});
    EXPECT_EQ(stack.frames.size(), 1u) << rbp;
    EXPECT_FALSE(stack.complete);
  }
}

TEST(Unwind, DoesNotGoInCircles) {
  Program program({});
  UnwindRegisters registers;
  registers.gpr[UnwindRegisters::kRip] = 0x5000;
  registers.gpr[UnwindRegisters::kRsp] = 0x1000;
  registers.gpr[UnwindRegisters::kRbp] = 0x1010;
  Stack stack = unwind(program, registers, FakeStack{{{0x1010, 0x1010}, {0x1018, 0x5000}}});
  EXPECT_EQ(stack.frames.size(), 2u);
  EXPECT_FALSE(stack.complete);
  // A chain of frame pointers that ends in 0 has reached its beginning.
  stack = unwind(program, registers, FakeStack{{{0x1010, 0}, {0x1018, 0x5000}}});
  EXPECT_EQ(stack.frames.size(), 2u);
  EXPECT_TRUE(stack.complete);
}

TEST(Unwind, TakesNoMoreFramesThanAskedFor) {
  ucontext_t context;
  getcontext(&context);
  Program program = own_program();
  Stack stack = unwind(program, registers_of(context), read_own, 2);
  EXPECT_EQ(stack.frames.size(), 2u);
  EXPECT_FALSE(stack.complete);
}

TEST(Unwind, KnowsTheStubsBetweenModules) {
  TempDir dir;
  write_file(dir / "plt.c", "#include <stdio.h>\nint main(int c, char** v) { return puts(v[0]); }\n");
  std::string file = dir / "plt";
  ASSERT_EQ(
      system(("gcc -O0 -no-pie -fcf-protection=none -Wl,-z,lazy -o " + file + " " + (dir / "plt.c")).c_str()),
      0);
  FILE* in = popen(("objdump -d -j .plt " + file + " | grep 'puts@plt>:'").c_str(), "r");
  char line[256] = "";
  ASSERT_NE(fgets(line, sizeof line, in), nullptr);
  pclose(in);
  uint64_t stub = strtoull(line, nullptr, 16);
  Program program({Module{file, file, 0x400000, 0x500000, 0}});
  UnwindRegisters registers;
  uint64_t main = program.functions("main").at(0).entry;
  registers.gpr[UnwindRegisters::kRsp] = 0x1000;
  registers.gpr[UnwindRegisters::kRip] = stub;
  Stack stack = unwind(program, registers, FakeStack{{{0x1000, main + 5}, {0x1008, 0}}});
  ASSERT_GE(stack.frames.size(), 2u);
  EXPECT_EQ(stack.frames[1].pc, main + 5);
  registers.gpr[UnwindRegisters::kRip] = stub + 11;  // has pushed the number of the symbol
  stack = unwind(program, registers, FakeStack{{{0x1000, 3}, {0x1008, main + 5}}});
  ASSERT_GE(stack.frames.size(), 2u);
  EXPECT_EQ(stack.frames[1].pc, main + 5);
}

TEST(Unwind, IsNeverConfusedIntoACrash) {
  TempDir dir;
  write_file(dir / "code.c", kRecursion);
  std::string file = dir / "code.so";
  ASSERT_EQ(system(("gcc -w -shared -fPIC -O2 -o " + file + " " + (dir / "code.c")).c_str()), 0);
  std::string good = test::read_file(file);
  size_t headers = good.find("\x01zR");  // the first entry of .eh_frame says how the others are written
  ASSERT_NE(headers, std::string::npos);
  srand(1);
  for (int round = 0; round < 100; round++) {
    std::string bad = good;
    for (int i = 0; i < 4; i++)
      bad[headers - 20 + static_cast<size_t>(rand()) % 400] = static_cast<char>(rand());
    write_file(dir / "bad", bad);
    Program program({Module{"bad", dir / "bad", 0, 0x10000, 0}});
    for (uint64_t pc = 0x1000; pc < 0x1200; pc += 3) {
      UnwindRegisters registers;
      for (uint64_t& value : registers.gpr) value = static_cast<uint64_t>(rand());
      registers.gpr[UnwindRegisters::kRip] = pc;
      auto read = [](uint64_t, void* to, size_t size) {
        for (size_t i = 0; i < size; i++) static_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(rand() % 0x20);
        return true;
      };
      EXPECT_LE(unwind(program, registers, read, 64).frames.size(), 64u);
    }
  }
}

TEST(Unwind, KnowsATrampolineByItsCode) {
  Program program({});
  std::vector<uint64_t> context(50);
  std::map<uint64_t, std::vector<uint8_t>> memory;
  // Handler at 0x5000 with a frame pointer, which returns to the trampoline at 0x6000.
  memory[0x6000] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
  context[5 + 15] = 0x9000;  // rsp
  context[5 + 16] = 0x7000;  // rip
  auto read = [&](uint64_t address, void* to, size_t size) {
    if (address == 0x6000 && size == 9) return memcpy(to, memory[0x6000].data(), size), true;
    uint64_t word = address == 0x1000 ? 0 : address == 0x1008 ? 0x6000 : ~0ull;
    if (size == 8 && word != ~0ull) return memcpy(to, &word, 8), true;
    if (address < 0x1010 || address + size > 0x1010 + context.size() * 8) return false;
    memcpy(to, reinterpret_cast<char*>(context.data()) + (address - 0x1010), size);
    return true;
  };
  UnwindRegisters registers;
  registers.gpr[UnwindRegisters::kRip] = 0x5000;
  registers.gpr[UnwindRegisters::kRsp] = registers.gpr[UnwindRegisters::kRbp] = 0x1000;
  Stack stack = unwind(program, registers, read);
  ASSERT_GE(stack.frames.size(), 3u);
  EXPECT_EQ(stack.frames[1].pc, 0x6000u);
  EXPECT_EQ(stack.frames[2].pc, 0x7000u);
  EXPECT_FALSE(stack.frames[2].call_site);
}

}  // namespace
}  // namespace backstep::symbols
