// The language of filters: which calls are meant, what conditions say of them, and what errors point at.
#include "events/call_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <string>

#include "events/call_filter_values.h"
#include "guest/syscall_names.h"
#include "guest/syscall_table.h"

namespace backstep::events {
namespace {

using guest::PieceKind;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Call make(uint16_t nr, std::initializer_list<uint64_t> args, int64_t result) {
  Call call;
  call.view.nr = nr;
  call.view.result = result;
  std::copy(args.begin(), args.end(), call.view.args);
  call.tick = 1000;
  call.pid = 77;
  call.thread = 2;
  call.event = 12;
  return call;
}

Call with_text(Call call, int argument, std::string_view text, PieceKind kind = PieceKind::Text) {
  call.view.pieces.push_back({argument, kind, 0, bytes(text), 0, 0});
  return call;
}

constexpr uint64_t kCwd = static_cast<uint64_t>(AT_FDCWD);

Call openat(std::string_view path, int flags, int64_t result, int mode = 0) {
  return with_text(
      make(SYS_openat, {kCwd, 0x1000, static_cast<uint64_t>(flags), static_cast<uint64_t>(mode)}, result), 1,
      path);
}
Call write_call(int fd, std::string_view text, int64_t result) {
  Call call = with_text(make(SYS_write, {static_cast<uint64_t>(fd), 0x2000, text.size()}, result), 1,
                        text.substr(0, 32));
  call.view.pieces.push_back({1, PieceKind::Sum, 0, {}, 1, text.size()});
  return call;
}

bool says(const std::string& filter, const Call& call) {
  return CallFilter(filter).matches(call);
}

TEST(CallFilter, NamesPatternsAndClassesSelect) {
  auto selects = [](const std::string& filter, uint16_t nr) { return CallFilter(filter).selects(nr); };
  EXPECT_TRUE(selects("", SYS_write));
  EXPECT_TRUE(CallFilter().selects(SYS_write));
  EXPECT_TRUE(selects("write", SYS_write));
  EXPECT_FALSE(selects("write", SYS_pwrite64));
  EXPECT_TRUE(selects(" read , write ", SYS_write));
  EXPECT_TRUE(selects("*stat", SYS_fstat));
  EXPECT_FALSE(selects("*stat", SYS_newfstatat));
  EXPECT_TRUE(selects("!futex", SYS_write));
  EXPECT_FALSE(selects("!futex", SYS_futex));
  EXPECT_TRUE(selects("%file,!open*", SYS_unlink));
  EXPECT_FALSE(selects("%file,!open*", SYS_openat));
  EXPECT_TRUE(selects("if ret < 0", SYS_write));
  EXPECT_TRUE(selects("syscall_470", 470));
  EXPECT_FALSE(selects("syscall_470", 471));
}

TEST(CallFilter, ClassesHaveWhatTheirNamesSay) {
  const std::map<std::string, std::pair<std::set<int>, std::set<int>>> expected = {
      {"file",
       {{SYS_openat, SYS_stat, SYS_rename, SYS_execve, SYS_unlinkat, SYS_chdir, SYS_getcwd, SYS_statx},
        {SYS_read, SYS_close, SYS_mmap, SYS_kill}}},
      {"desc",
       {{SYS_read, SYS_close, SYS_dup2, SYS_openat, SYS_pipe2, SYS_mmap, SYS_poll, SYS_select, SYS_socket},
        {SYS_stat, SYS_kill, SYS_brk, SYS_getpid}}},
      {"net",
       {{SYS_socket, SYS_connect, SYS_accept4, SYS_sendto, SYS_recvmsg, SYS_listen, SYS_bind, SYS_shutdown,
         SYS_setsockopt, SYS_getsockopt, SYS_socketpair, SYS_getpeername, SYS_sendmmsg, SYS_recvmmsg},
        {SYS_read, SYS_openat, SYS_pipe2, SYS_ioctl}}},
      {"process",
       {{SYS_fork, SYS_vfork, SYS_clone, SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4,
         SYS_waitid, SYS_clone3},
        {SYS_read, SYS_getpid, SYS_unshare}}},
      {"memory",
       {{SYS_mmap, SYS_munmap, SYS_brk, SYS_mprotect, SYS_madvise, SYS_mremap, SYS_msync, SYS_mlock,
         SYS_mincore, SYS_shmat, SYS_mbind, SYS_munlockall},
        {SYS_read, SYS_execve, SYS_futex, SYS_set_robust_list}}},
      {"signal",
       {{SYS_kill, SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack,
         SYS_pause, SYS_signalfd4, SYS_rt_sigtimedwait, SYS_rt_sigsuspend, SYS_pidfd_send_signal},
        {SYS_read, SYS_ppoll, SYS_pselect6, SYS_waitid, SYS_epoll_pwait}}}};
  for (const auto& [name, calls] : expected) {
    for (int nr : calls.first) EXPECT_TRUE(is_in_class(name, nr)) << name << " " << guest::syscall_name(nr);
    for (int nr : calls.second) EXPECT_FALSE(is_in_class(name, nr)) << name << " " << guest::syscall_name(nr);
  }
}

TEST(CallFilter, ResultsAndErrors) {
  const Call failed = openat("/nowhere", O_RDONLY, -ENOENT), good = openat("/etc/passwd", O_RDONLY, 3);
  EXPECT_TRUE(says("openat if ret < 0", failed));
  EXPECT_TRUE(says("openat if ret == -1", failed));
  EXPECT_FALSE(says("openat if ret < 0", good));
  EXPECT_TRUE(says("if errno == ENOENT", failed));
  EXPECT_TRUE(says("if errno == \"ENOENT\"", failed));
  EXPECT_FALSE(says("if errno == EACCES", failed));
  EXPECT_TRUE(says("if !errno", good));
  EXPECT_TRUE(says("if errno", failed));
  // An address is not an error, however large.
  EXPECT_FALSE(says("if ret < 0", make(SYS_mmap, {}, 0x7fff'0000'0000)));
  // What does not return has no result.
  Call exit = make(SYS_exit_group, {3}, 0);
  exit.returns = false;
  EXPECT_FALSE(says("if ret == 0", exit));
  EXPECT_FALSE(says("if ret != 0", exit));
  EXPECT_TRUE(says("exit_group if status == 3", exit));
}

TEST(CallFilter, TextsContainMatchOrAreTheSame) {
  const Call call = openat("/etc/app.conf", O_RDONLY, 3);
  EXPECT_TRUE(says("openat if path ~ \"conf\"", call));
  EXPECT_TRUE(says("openat if path ~ 'conf'", call));
  EXPECT_FALSE(says("openat if path ~ \"Conf\"", call));
  EXPECT_TRUE(says("openat if path ~ \"/etc/*.conf\"", call));
  EXPECT_FALSE(says("openat if path ~ \"*.con\"", call));
  EXPECT_TRUE(says("openat if path ~ \"/etc/[a-c]pp?conf\"", call));
  EXPECT_FALSE(says("openat if path ~ \"/etc/[!a]*\"", call));
  EXPECT_FALSE(says("openat if path ~ \"\\*\"", call));
  EXPECT_TRUE(says("openat if path ~ \"\\*\"", openat("a*b", 0, 3)));
  EXPECT_TRUE(says("openat if path == \"a\\\\b\"", openat("a\\b", 0, 3)));
  EXPECT_TRUE(says("openat if path == \"/etc/app.conf\"", call));
  EXPECT_TRUE(says("openat if \"/etc/app.conf\" == path", call));
  EXPECT_FALSE(says("openat if path != \"/etc/app.conf\"", call));
  EXPECT_TRUE(says("openat if path !~ \"lib\"", call));
  EXPECT_TRUE(says("if name == \"openat\"", call));
  EXPECT_TRUE(says("if name ~ \"open*\"", call));
  // Whatever is not a text is asked as it is printed.
  EXPECT_TRUE(says("openat if flags ~ \"CLOEXEC\"", openat("x", O_CLOEXEC, 3)));
}

TEST(CallFilter, OneOfSeveralPathsAndDescriptorsIsEnough) {
  Call rename = with_text(with_text(make(SYS_rename, {1, 2}, 0), 0, "/tmp/old"), 1, "/tmp/new");
  EXPECT_TRUE(says("rename if path ~ \"new\"", rename));
  EXPECT_TRUE(says("rename if path ~ \"old\"", rename));
  EXPECT_FALSE(says("rename if path !~ \"old\"", rename));
  EXPECT_FALSE(says("rename if path != \"/tmp/old\"", rename));
  EXPECT_TRUE(says("rename if new ~ \"new\" && old !~ \"new\"", rename));
  EXPECT_FALSE(says("rename if old == new", rename));
  const Call dup = make(SYS_dup2, {3, 5}, 5);
  EXPECT_TRUE(says("if fd == 3", dup));
  EXPECT_TRUE(says("if fd == 5", dup));
  EXPECT_FALSE(says("if fd == 4", dup));
  EXPECT_FALSE(says("if fd != 3", dup));
  // Those that a call has made are descriptors of it, too.
  EXPECT_TRUE(says("if fd == 3", openat("x", 0, 3)));
  const int pair[2] = {6, 7};
  Call pipe = make(SYS_pipe2, {0x1000, 0}, 0);
  pipe.view.pieces.push_back({0, PieceKind::OutAtArg, 0, std::as_bytes(std::span(pair)), 0, 0});
  EXPECT_TRUE(says("if fd == 7", pipe));
}

TEST(CallFilter, WhatIsNotKnownIsNeitherTrueNorFalse) {
  const Call read = make(SYS_read, {3, 0x1000, 10}, -EAGAIN);
  EXPECT_FALSE(says("if path ~ \"x\"", read));
  EXPECT_FALSE(says("if path !~ \"x\"", read));
  EXPECT_FALSE(says("if !(path ~ \"x\")", read));
  EXPECT_TRUE(says("if path ~ \"x\" || fd == 3", read));
  EXPECT_FALSE(says("if path ~ \"x\" && fd == 3", read));
  EXPECT_FALSE(says("if 1 / 0", read));
  EXPECT_FALSE(says("if 1 << 200", read));
  // Of what was written, the log has the first 32 bytes.
  const Call call = write_call(1, "0123456789012345678901234567890123456789", 40);
  EXPECT_TRUE(says("write if buf ~ \"345\"", call));
  EXPECT_FALSE(says("write if buf ~ \"xyz\"", call));
  EXPECT_FALSE(says("write if buf !~ \"xyz\"", call));
  EXPECT_TRUE(says("write if buf ~ \"0123*\"", call));
  EXPECT_FALSE(says("write if buf ~ \"1123*\"", call));
  EXPECT_TRUE(says("write if buf != \"x\"", call));
  EXPECT_TRUE(says("write if buf == \"ok\\n\"", write_call(1, "ok\n", 3)));
}

TEST(CallFilter, NumbersAreThoseOfC) {
  const Call call = openat("x", O_RDWR | O_CREAT | O_TRUNC, 3, 0644);
  EXPECT_TRUE(says("openat if flags & O_CREAT", call));
  EXPECT_FALSE(says("openat if flags & O_APPEND", call));
  EXPECT_TRUE(says("openat if (flags & O_ACCMODE) == O_RDWR", call) || !find_constant("O_ACCMODE"));
  EXPECT_TRUE(says("openat if mode == 0644 && mode == 420 && mode == 0x1a4", call));
  EXPECT_TRUE(says("openat if !(mode & 022)", call));
  EXPECT_TRUE(says("openat if dirfd == AT_FDCWD && arg0 == -100", call));
  EXPECT_TRUE(says("if 1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 / 2 == 3 && 7 % 4 == 3", call));
  EXPECT_TRUE(says("if 1 << 4 == 16 && 256 >> 4 == 16 && -1 < 0 && ~0 == -1 && !0", call));
  EXPECT_TRUE(says("if (6 & 3) == 2 && (6 | 3) == 7 && (6 ^ 3) == 5", call));
  EXPECT_TRUE(says("if (0 || 1) && 2 > 1 && 2 >= 2 && 1 <= 1 && 1 != 2", call));
  EXPECT_TRUE(says("if flags & ~(O_RDWR | O_CREAT)", call));
  EXPECT_FALSE(says("if flags & ~(O_RDWR | O_CREAT | O_TRUNC)", call));
  EXPECT_TRUE(says("if tick == 1000 && thread == 2 && pid == 77 && event == 12 && nr == 257", call));
  // Unsigned arguments beyond the signed range are large, not negative; ints may have anything above them.
  EXPECT_TRUE(says("mmap if arg1 > 0 && length > 0x7fffffffffffffff", make(SYS_mmap, {0, ~0ull}, -ENOMEM)));
  EXPECT_TRUE(says("close if fd == -1", make(SYS_close, {0xffff'ffff}, -EBADF)));
  EXPECT_TRUE(says("close if fd == 4", make(SYS_close, {0xdead'0000'0004}, 0)));
}

TEST(CallFilter, AnArgumentThatAllNamedCallsHaveGoesBeforeTheFact) {
  const Call kill = make(SYS_kill, {1234, SIGTERM}, 0);
  EXPECT_TRUE(says("kill if pid == 1234 && sig == SIGTERM", kill));
  EXPECT_TRUE(says("if pid == 77", kill));
  EXPECT_TRUE(says("kill,write if pid == 77", kill));
  EXPECT_TRUE(says("kill,write if args.pid == 1234", kill));
}

TEST(CallFilter, NamesOfSubCommandsAreKnown) {
  EXPECT_NO_THROW(CallFilter("fcntl if arg == 3"));
  EXPECT_NO_THROW(CallFilter("futex if val2 == 1 && timeout == 0"));
  EXPECT_TRUE(says("fcntl if cmd == F_GETFL", make(SYS_fcntl, {3, F_GETFL}, 2)));
}

// Every constant means one thing, else a filter would have to know which argument it is compared with.
TEST(CallFilter, ConstantsAreUnique) {
  std::map<std::string, uint64_t> seen;
  for (int id = 1; id < static_cast<int>(guest::Names::Count); id++)
    for (const auto& entry : guest::name_table(static_cast<guest::Names>(id))) {
      auto [known, fresh] = seen.emplace(entry.name, entry.value);
      EXPECT_EQ(known->second, entry.value) << entry.name;
    }
}

TEST(CallFilter, ErrorsPointAtTheColumnAndSayWhatWasMeant) {
  struct {
    const char* filter;
    size_t column;
    const char* part;
  } cases[] = {
      {"wrte", 0, "did you mean 'write'"},
      {"fstatat", 0, "'newfstatat'"},
      {"read,wrte", 5, "did you mean 'write'"},
      {"read,", 5, "missing behind the comma"},
      {",read", 0, "in front of the comma"},
      {"read write", 5, "comma"},
      {"write ret < 0", 6, "begins with 'if'"},
      {"ret < 0", 0, "begins with 'if'"},
      {"%fil", 0, "%file"},
      {"zzz*", 0, "no system call matches"},
      {"write if", 8, "missing"},
      {"write if ret <", 14, "missing at the end"},
      {"write if ret = 0", 13, "'==' compares"},
      {"write if (ret < 0", 9, "')' for this '('"},
      {"write if ret < 0)", 16, "no '('"},
      {"write if ret < 0 and fd == 1", 17, "&&"},
      {"write if cuont > 3", 9, "did you mean 'count'"},
      {"write if path ~ \"x\"", 9, "write has no 'path'; its arguments are"},
      {"write if zzzzzz", 9, "its arguments are fd, buf, count"},
      {"openat if path ~ conf", 17, "quotes"},
      {"openat if path ~ \"conf", 17, "closing \""},
      {"openat if path ~ 3", 17, "text in quotes"},
      {"openat if path < \"x\"", 15, "==, !=, ~ and !~"},
      {"openat if errno == ENOENTT", 19, "'ENOENT'"},
      {"openat if flags & O_CREAT == O_CREAT", 16, "bind tighter"},
      {"openat if mode == 0888", 19, "octal"},
      {"openat if mode == 0x", 18, "digits are missing"},
      {"openat if mode == 12abc", 20, "not a number"},
      {"openat if flags |= 1", 16, "would change"},
      {"openat if args.nope == 1", 15, "openat has no 'nope'"},
      {"openat if \"x\"", 10, "no condition"},
      {"openat if 99999999999999999999999999 > 1", 10, "too large"},
      {"openat if ret < 0 if fd", 18, "one 'if'"},
  };
  for (const auto& c : cases) {
    try {
      CallFilter filter(c.filter);
      ADD_FAILURE() << "taken: " << c.filter;
    } catch (const FilterError& e) {
      EXPECT_EQ(e.column, c.column) << c.filter << ": " << e.sentence;
      EXPECT_NE(e.sentence.find(c.part), std::string::npos) << c.filter << ": " << e.sentence;
      EXPECT_EQ(e.exit_code, kExitUsage);
      // The mark stands below the column.
      const std::string what = e.what();
      EXPECT_TRUE(what.ends_with("\n  " + std::string(e.column, ' ') + "^")) << what;
    }
  }
}

TEST(CallFilter, DeepAndLongConditionsAreRefused) {
  EXPECT_THROW(CallFilter("if " + std::string(100'000, '(') + "1"), FilterError);
  EXPECT_THROW(CallFilter("if " + std::string(100'000, '!') + "1"), FilterError);
  std::string sum = "if 1";
  for (int i = 0; i < 100'000; i++) sum += "+1";
  EXPECT_THROW(CallFilter{sum}, FilterError);
}

// Random pieces of the language, and random bytes: either a filter or an error, and never a crash.
TEST(CallFilter, RandomTextsAreTakenOrRefused) {
  const char* kPieces[] = {"write",   "openat", "%file", "!",     ",",
                           " if ",    "ret",    "errno", "path",  "fd",
                           "arg3",    "args.",  "pid",   "flags", "O_CREAT",
                           "ENOENT",  "0",      "0x1f",  "0777",  "18446744073709551615",
                           "\"a*b\"", "'x'",    "\"",    "\\",    "(",
                           ")",       "==",     "!=",    "~",     "!~",
                           "<",       "<=",     "<<",    ">>",    "&&",
                           "||",      "&",      "|",     "^",     "+",
                           "-",       "*",      "/",     "%",     "?",
                           "[",       "]",      " ",     "\xff",  "\n"};
  std::mt19937 random(15);
  const Call calls[] = {openat("/etc/passwd", O_CREAT, -ENOENT, 0644), write_call(1, "text", 4),
                        make(SYS_rt_sigreturn, {}, 0), make(0xffff, {1, 2, 3, 4, 5, 6}, -1)};
  int taken = 0;
  for (int i = 0; i < 4'000; i++) {
    std::string text = i % 2 ? "openat,write if " : "";
    const int count = 1 + static_cast<int>(random() % 12);
    for (int k = 0; k < count; k++) {
      if (random() % 20 == 0)
        text += static_cast<char>(random());
      else
        text += kPieces[random() % std::size(kPieces)];
      if (random() % 3 == 0) text += ' ';
    }
    try {
      CallFilter filter(text);
      taken++;
      for (const Call& call : calls) filter.matches(call);
    } catch (const FilterError& e) {
      EXPECT_LE(e.column, text.size()) << text;
    }
  }
  EXPECT_GT(taken, 20);
}

TEST(CallFilter, GlobsAreTheShells) {
  EXPECT_TRUE(matches_glob("", ""));
  EXPECT_FALSE(matches_glob("", "a"));
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("*a*b", "xxaxxbxb"));
  EXPECT_FALSE(matches_glob("*a*b", "xxaxxbxc"));
  EXPECT_TRUE(matches_glob("[]x]", "]"));
  EXPECT_TRUE(matches_glob("[^x]", "y"));
  EXPECT_TRUE(matches_glob("a[", "a["));
  EXPECT_TRUE(matches_glob("\\*", "*"));
  EXPECT_FALSE(matches_glob("\\*", "x"));
  // Many stars take no exponential time.
  std::string stars;
  for (int i = 0; i < 50; i++) stars += "*a";
  EXPECT_FALSE(matches_glob(stars + "b", std::string(2000, 'a')));
}

TEST(CallFilter, BytesAreCountedForCallsLikeReadAndWrite) {
  for (int nr : {SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_recvfrom,
                 SYS_sendto, SYS_recvmsg, SYS_sendmsg, SYS_sendfile, SYS_splice, SYS_copy_file_range})
    EXPECT_TRUE(moves_bytes(nr)) << guest::syscall_name(nr);
  for (int nr :
       {SYS_openat, SYS_close, SYS_getdents64, SYS_fgetxattr, SYS_ioctl, SYS_lseek, SYS_fcntl, SYS_mmap,
        SYS_getrandom, SYS_readlink, SYS_readlinkat, SYS_fstat, SYS_epoll_wait, SYS_recvmmsg})
    EXPECT_FALSE(moves_bytes(nr)) << guest::syscall_name(nr);
}

}  // namespace
}  // namespace backstep::events
