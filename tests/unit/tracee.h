// A small program, compiled by the test, run under ptrace up to an `int3` of its own or to a function's
// entry: real registers and memory to evaluate expressions on.
#pragma once
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "replay/bytecode.h"
#include "symbols/program.h"
#include "temp_dir.h"

namespace backstep::test {

class Tracee {
 public:
  // `command`: "gcc -O2"; `name`: "a.c". Other files are there already.
  Tracee(const TempDir& dir, const std::string& command, const std::string& name, const std::string& source) {
    write_file(dir / name, source);
    const std::string file = dir / "program";
    EXPECT_EQ(
        system(("cd " + std::string(dir / "") + " && " + command + " -g -w -o program " + name).c_str()), 0)
        << command;
    pid_ = fork();
    if (pid_ == 0) {
      ptrace(PTRACE_TRACEME, 0, 0, 0);
      execl(file.c_str(), file.c_str(), nullptr);
      _exit(127);
    }
    wait_for_stop();
  }
  ~Tracee() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Tracee(const Tracee&) = delete;
  Tracee& operator=(const Tracee&) = delete;

  // To the next int3.
  void run() {
    ptrace(PTRACE_CONT, pid_, 0, 0);
    wait_for_stop();
  }
  // To an address, before its instruction.
  void run_to(uint64_t address) {
    const long before = ptrace(PTRACE_PEEKTEXT, pid_, address, 0);
    ptrace(PTRACE_POKETEXT, pid_, address, (before & ~0xffL) | 0xcc);
    run();
    ptrace(PTRACE_POKETEXT, pid_, address, before);
    user_regs_struct regs;
    ptrace(PTRACE_GETREGS, pid_, 0, &regs);
    ASSERT_EQ(regs.rip, address + 1);
    regs.rip = address;
    ptrace(PTRACE_SETREGS, pid_, 0, &regs);
    load_registers();
  }
  void step() {
    ptrace(PTRACE_SINGLESTEP, pid_, 0, 0);
    wait_for_stop();
  }

  uint64_t pc() const { return context_->rip; }
  const Context& context() const { return *context_; }
  replayer::Surroundings surroundings() const {
    replayer::Surroundings around{.ctx = *context_, .read = read, .argument = &pid_};
    around.set(replayer::kStateFsBase, context_->fs_base);
    around.vectors = true;
    around.floats = replayer::float_operation;
    return around;
  }

  // As they are mapped now.
  symbols::Program program() const {
    std::map<std::string, symbols::Module> modules;
    std::ifstream maps("/proc/" + std::to_string(pid_) + "/maps");
    for (std::string line; std::getline(maps, line);) {
      std::istringstream words(line);
      std::string range, rights, offset, device, inode, path;
      words >> range >> rights >> offset >> device >> inode >> path;
      if (path.empty() || path[0] != '/') continue;
      const uint64_t start = std::stoull(range, nullptr, 16),
                     end = std::stoull(range.substr(range.find('-') + 1), nullptr, 16);
      auto [at, is_new] =
          modules.try_emplace(path, symbols::Module{.name = path, .file = path, .start = start, .end = end});
      at->second.end = std::max(at->second.end, end);
      if (!is_new) continue;
      symbols::ElfFile elf(path);
      at->second.bias = start - elf.address_of(std::stoull(offset, nullptr, 16)).value_or(start);
    }
    std::vector<symbols::Module> list;
    for (auto& [path, module] : modules) list.push_back(module);
    return symbols::Program(std::move(list));
  }

 private:
  static bool read(uint64_t address, uint64_t* to, unsigned size, const void* pid) {
    *to = 0;
    iovec here{to, size}, there{reinterpret_cast<void*>(address), size};
    return process_vm_readv(*static_cast<const pid_t*>(pid), &here, 1, &there, 1, 0) ==
           static_cast<ssize_t>(size);
  }
  void wait_for_stop() {
    int status = 0;
    ASSERT_EQ(waitpid(pid_, &status, 0), pid_);
    ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP) << status;
    load_registers();
  }
  void load_registers() {
    user_regs_struct regs;
    user_fpregs_struct floats;
    ASSERT_EQ(ptrace(PTRACE_GETREGS, pid_, 0, &regs), 0);
    ASSERT_EQ(ptrace(PTRACE_GETFPREGS, pid_, 0, &floats), 0);
    context_ = std::make_unique<Context>();
    Context& c = *context_;
    const std::pair<int, uint64_t> general[] = {
        {RAX, regs.rax}, {RCX, regs.rcx}, {RDX, regs.rdx}, {RBX, regs.rbx}, {RSP, regs.rsp}, {RBP, regs.rbp},
        {RSI, regs.rsi}, {RDI, regs.rdi}, {R8, regs.r8},   {R9, regs.r9},   {R10, regs.r10}, {R11, regs.r11},
        {R12, regs.r12}, {R13, regs.r13}, {R14, regs.r14}, {R15, regs.r15}};
    for (auto [number, value] : general) c.gpr[number] = value;
    c.rip = regs.rip;
    c.rflags = regs.eflags;
    c.fs_base = regs.fs_base;
    std::memcpy(c.xsave + 160, floats.xmm_space, sizeof floats.xmm_space);
    c.xsave[512] = 3;
  }

  pid_t pid_ = 0;
  std::unique_ptr<Context> context_;
};

}  // namespace backstep::test
