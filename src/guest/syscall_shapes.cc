// Printing of strings, flags and structs in system calls.
//
// Everything here works on bytes that come from a recording, maybe made elsewhere, maybe damaged: a struct is
// taken apart with a reader that knows where the bytes end, never by a cast. The notation is strace's, since
// that is what people read fluently; structs are cut to the fields one looks for.
#include "guest/syscall_shapes.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

namespace backstep::guest {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kMostElements = 32;  // of an array

// A number of type T at an offset; 0 beyond the end (callers check sizes before).
template <typename T>
T at(Bytes bytes, size_t offset) {
  T value{};
  if (offset + sizeof(T) <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}
int32_t i32(Bytes b, size_t offset) {
  return at<int32_t>(b, offset);
}
uint32_t u32(Bytes b, size_t offset) {
  return at<uint32_t>(b, offset);
}
int64_t i64(Bytes b, size_t offset) {
  return at<int64_t>(b, offset);
}
uint64_t u64(Bytes b, size_t offset) {
  return at<uint64_t>(b, offset);
}

template <typename T>
std::string str(T value) {
  return std::to_string(value);
}

std::string octal(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%#lo", static_cast<unsigned long>(value));
  return text;
}

std::string c_string(Bytes bytes, size_t limit) {
  auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
  return print_bytes(bytes.first(static_cast<size_t>(end - bytes.begin())), limit);
}

// "[a, b, c]", cut after kMostElements
std::string list(size_t count, const std::function<std::string(size_t)>& element,
                 const char* separator = ", ") {
  std::string s = "[";
  for (size_t i = 0; i < count && i < kMostElements; i++) s += (i ? separator : "") + element(i);
  if (count > kMostElements) s += std::string(separator) + "...";
  return s + "]";
}

std::string file_mode(uint64_t mode) {
  const char* type = name_of(Names::FileType, mode & 0170000);
  return (type ? std::string(type) : octal(mode & 0170000)) + "|" + print_mode(mode & 07777);
}

std::string device(uint64_t major, uint64_t minor) {
  return "makedev(" + print_hex(major) + ", " + print_hex(minor) + ")";
}

bool is_device(uint64_t mode) {
  return (mode & 0170000) == 0020000 || (mode & 0170000) == 0060000;
}

std::string stat(Bytes b) {
  uint64_t mode = u32(b, 24), rdev = u64(b, 40);
  std::string s = "{st_mode=" + file_mode(mode);
  if (is_device(mode)) {
    s += ", st_rdev=" +
         device((rdev >> 8 & 0xfff) | (rdev >> 32 & ~0xfffull), (rdev & 0xff) | (rdev >> 12 & ~0xffull));
  } else {
    s += ", st_size=" + str(i64(b, 48));
  }
  return s + ", ...}";
}

std::string statx(Bytes b) {
  uint64_t mode = at<uint16_t>(b, 28);
  std::string s = "{stx_mask=" + print_flags(Names::StatxMask, u32(b, 0)) + ", stx_mode=" + file_mode(mode);
  if (is_device(mode)) return s + ", stx_rdev=" + device(u32(b, 128), u32(b, 132)) + ", ...}";
  return s + ", stx_size=" + str(u64(b, 40)) + ", ...}";
}

std::string statfs(Bytes b) {
  return "{f_type=" + print_hex(u64(b, 0)) + ", f_bsize=" + str(i64(b, 8)) + ", f_blocks=" + str(u64(b, 16)) +
         ", f_bfree=" + str(u64(b, 24)) + ", f_bavail=" + str(u64(b, 32)) + ", ...}";
}

std::string utsname(Bytes b, size_t limit) {
  return "{sysname=" + c_string(b.subspan(0, 65), limit) +
         ", nodename=" + c_string(b.subspan(65, 65), limit) +
         ", release=" + c_string(b.subspan(130, 65), limit) + ", ...}";
}

std::string timespec(Bytes b, size_t offset = 0) {
  int64_t nsec = i64(b, offset + 8);
  constexpr int64_t kNow = 0x3fffffff, kOmit = 0x3ffffffe;  // utimensat
  if (nsec == kNow) return "UTIME_NOW";
  if (nsec == kOmit) return "UTIME_OMIT";
  return "{tv_sec=" + str(i64(b, offset)) + ", tv_nsec=" + str(nsec) + "}";
}

std::string timeval(Bytes b, size_t offset = 0) {
  return "{tv_sec=" + str(i64(b, offset)) + ", tv_usec=" + str(i64(b, offset + 8)) + "}";
}

std::string rlimit_value(uint64_t value) {
  if (value == ~0ull) return "RLIM64_INFINITY";
  return value && value % 1024 == 0 ? str(value / 1024) + "*1024" : str(value);
}

std::string sockaddr(Bytes b, size_t limit) {
  if (b.size() < 2) return "{}";
  auto family = at<uint16_t>(b, 0);
  std::string s = "{sa_family=" + print_enum(Names::SocketDomain, family);
  auto port = [&] { return "htons(" + str(ntohs(at<uint16_t>(b, 2))) + ")"; };
  char text[INET6_ADDRSTRLEN] = "";
  if (family == AF_INET && b.size() >= 8) {
    inet_ntop(AF_INET, b.data() + 4, text, sizeof text);
    return s + ", sin_port=" + port() + ", sin_addr=inet_addr(\"" + text + "\")}";
  }
  if (family == AF_INET6 && b.size() >= 24) {
    inet_ntop(AF_INET6, b.data() + 8, text, sizeof text);
    return s + ", sin6_port=" + port() + ", inet_pton(AF_INET6, \"" + text + "\", &sin6_addr)}";
  }
  if (family == AF_UNIX) {
    if (b.size() == 2) return s + "}";
    if (b[2] == std::byte{0})
      return s + ", sun_path=@" + print_bytes(b.subspan(3), std::max<size_t>(limit, 108)) + "}";
    return s + ", sun_path=" + c_string(b.subspan(2), std::max<size_t>(limit, 108)) + "}";
  }
  if (family == AF_NETLINK && b.size() >= 12)
    return "{nl_family=AF_NETLINK, nl_pid=" + str(u32(b, 4)) + ", nl_groups=" + print_hex(u32(b, 8)) + "}";
  return s + ", sa_data=" + print_bytes(b.subspan(2), limit) + "}";
}

// Both kinds of record have their length at offset 16.
std::string dirents(Bytes b) {
  size_t count = 0;
  for (size_t offset = 0; offset + 19 <= b.size(); count++) {
    size_t length = at<uint16_t>(b, offset + 16);
    if (length == 0) break;
    offset += length;
  }
  return "[/* " + str(count) + (count == 1 ? " entry" : " entries") + " */]";
}

std::string epoll_events(Bytes b) {
  auto one = [&](size_t i) {
    return "{events=" + print_flags(Names::EpollEvents, u32(b, 12 * i)) +
           ", data=" + print_hex(u64(b, 12 * i + 4)) + "}";
  };
  return b.size() == 12 ? one(0) : list(b.size() / 12, one);
}

std::string pollfds(Bytes b) {
  return list(b.size() / 8, [&](size_t i) {
    std::string s = "{fd=" + str(i32(b, 8 * i)) +
                    ", events=" + print_flags(Names::PollEvents, at<uint16_t>(b, 8 * i + 4));
    if (auto revents = at<uint16_t>(b, 8 * i + 6))
      s += ", revents=" + print_flags(Names::PollEvents, revents);
    return s + "}";
  });
}

std::string short_signal(uint64_t signo) {
  std::string s = print_signal(signo);
  return s.starts_with("SIG") ? s.substr(3) : s;
}

// Signal n is bit n-1. Sets that are nearly full are printed by what they lack.
std::string sigset(Bytes b) {
  uint64_t set = 0;
  std::memcpy(&set, b.data(), std::min<size_t>(8, b.size()));
  bool inverted = __builtin_popcountll(set) > 32;
  if (inverted) set = ~set;
  std::vector<uint64_t> members;
  for (uint64_t signo = 1; signo <= 64; signo++)
    if (set >> (signo - 1) & 1) members.push_back(signo);
  return (inverted ? "~" : "") + list(
                                     members.size(), [&](size_t i) { return short_signal(members[i]); }, " ");
}

std::string sigaction(Bytes b) {
  uint64_t handler = u64(b, 0), flags = u64(b, 8);
  std::string s = "{sa_handler=";
  s += handler == 0 ? "SIG_DFL" : handler == 1 ? "SIG_IGN" : print_hex(handler);
  return s + ", sa_mask=" + sigset(b.subspan(24, 8)) +
         ", sa_flags=" + print_flags(Names::SigactionFlags, flags) + "}";
}

std::string siginfo(Bytes b) {
  int32_t signo = i32(b, 0), code = i32(b, 8);
  if (signo == 0) return "{}";
  std::string s = "{si_signo=" + print_signal(static_cast<uint64_t>(signo)) + ", si_code=" + str(code);
  bool fault = signo == 4 || signo == 5 || signo == 7 || signo == 8 || signo == 11;
  if (fault && code > 0) return s + ", si_addr=" + print_address(u64(b, 16)) + "}";
  s += ", si_pid=" + str(i32(b, 16)) + ", si_uid=" + str(u32(b, 20));
  if (signo == 17 && code > 0) s += ", si_status=" + str(i32(b, 24));
  return s + "}";
}

std::string wait_status(int status) {
  if (WIFEXITED(status)) return "[{WIFEXITED(s) && WEXITSTATUS(s) == " + str(WEXITSTATUS(status)) + "}]";
  if (WIFSIGNALED(status)) {
    return "[{WIFSIGNALED(s) && WTERMSIG(s) == " + print_signal(static_cast<uint64_t>(WTERMSIG(status))) +
           (WCOREDUMP(status) ? " && WCOREDUMP(s)}]" : "}]");
  }
  if (WIFSTOPPED(status))
    return "[{WIFSTOPPED(s) && WSTOPSIG(s) == " + print_signal(static_cast<uint64_t>(WSTOPSIG(status))) +
           "}]";
  if (WIFCONTINUED(status)) return "[{WIFCONTINUED(s)}]";
  return "[" + print_hex(static_cast<uint32_t>(status)) + "]";
}

std::string flock(Bytes b) {
  return "{l_type=" + print_enum(Names::LockType, at<uint16_t>(b, 0)) +
         ", l_whence=" + print_enum(Names::Whence, at<uint16_t>(b, 2)) + ", l_start=" + str(i64(b, 8)) +
         ", l_len=" + str(i64(b, 16)) + ", l_pid=" + str(i32(b, 24)) + "}";
}

std::string cpu_set(Bytes b) {
  std::vector<size_t> cpus;
  for (size_t i = 0; i < 8 * b.size(); i++)
    if (std::to_integer<unsigned>(b[i / 8]) >> (i % 8) & 1) cpus.push_back(i);
  return list(
      cpus.size(), [&](size_t i) { return str(cpus[i]); }, " ");
}

// Least number of bytes that a shape can be read from.
size_t needed(Shape shape) {
  switch (shape) {
    case Shape::Int:
    case Shape::WaitStatus:
      return 4;
    case Shape::Long:
    case Shape::Hex:
    case Shape::IntPair:
    case Shape::Time:
    case Shape::Timezone:
    case Shape::Winsize:
      return 8;
    case Shape::Timespec:
    case Shape::Timeval:
    case Shape::Utimbuf:
    case Shape::Rlimit:
    case Shape::Termios:
      return 16;
    case Shape::Sigstack:
      return 24;
    case Shape::Siginfo:
      return 28;
    case Shape::TimespecPair:
    case Shape::TimevalPair:
    case Shape::Itimerspec:
    case Shape::Itimerval:
    case Shape::Sigaction:
    case Shape::Flock:
    case Shape::Tms:
      return 32;
    case Shape::Sysinfo:
      return 112;
    case Shape::Statfs:
      return 120;
    case Shape::Stat:
    case Shape::Rusage:
      return 144;
    case Shape::Statx:
      return 256;
    case Shape::Utsname:
      return 390;
    default:
      return 0;
  }
}

}  // namespace

std::string print_hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%#lx", static_cast<unsigned long>(value));
  return text;
}

std::string print_address(uint64_t value) {
  return value ? print_hex(value) : "NULL";
}

std::string print_bytes(std::span<const std::byte> bytes, size_t limit) {
  bool cut = bytes.size() > limit;
  if (cut) bytes = bytes.first(limit);
  std::string s = "\"";
  for (size_t i = 0; i < bytes.size(); i++) {
    auto c = std::to_integer<unsigned char>(bytes[i]);
    static constexpr char kPlain[] = "\"\\\n\t\r\v\f", kEscaped[] = "\"\\ntrvf";
    if (const char* p = c ? std::strchr(kPlain, c) : nullptr) {
      s += '\\';
      s += kEscaped[p - kPlain];
    } else if (c >= 0x20 && c < 0x7f) {
      s += static_cast<char>(c);
    } else {
      // the shortest octal that the next character cannot be taken for a part of
      auto next = i + 1 < bytes.size() ? std::to_integer<unsigned char>(bytes[i + 1]) : 0;
      char text[8];
      std::snprintf(text, sizeof text, next >= '0' && next <= '9' ? "\\%03o" : "\\%o", c);
      s += text;
    }
  }
  return s + (cut ? "\"..." : "\"");
}

std::string print_flags(Names names, uint64_t value) {
  // An int with the top bit set may come sign-extended.
  if (value >> 31 == 0x1ffffffff) value &= 0xffffffff;
  if (value == 0) {
    const char* zero = name_of(names, 0);
    return zero ? zero : "0";
  }
  std::string s;
  auto add = [&](const std::string& name) { s += (s.empty() ? "" : "|") + name; };
  if (names == Names::OpenFlags) {
    add(name_of(names, value & 3));
    value &= ~3ull;
  }
  for (const NameEntry& e : name_table(names)) {
    if (e.value == 0 || (value & e.value) != e.value || (names == Names::OpenFlags && e.value < 4)) continue;
    add(e.name);
    value &= ~e.value;
  }
  if (value && names == Names::CloneFlags && value <= 64) {
    add(print_signal(value));
  } else if (value && names == Names::IpcFlags && value <= 07777) {
    add(print_mode(value));
  } else if (value) {
    add(print_hex(value));
  }
  return s;
}

std::string print_enum(Names names, uint64_t value) {
  const char* name = name_of(names, value);
  if (!name) name = name_of(names, static_cast<uint32_t>(value));
  if (name) return name;
  uint64_t low = static_cast<uint32_t>(value);
  switch (names) {
    case Names::SocketType: {
      const char* type = name_of(names, low & 15);
      return (type ? std::string(type) : str(low & 15)) + "|" + print_flags(Names::SocketFlags, low & ~15ull);
    }
    case Names::FutexOp: {
      const char* op = name_of(names, low & 0x7f);
      return (op ? std::string(op) : str(low & 0x7f)) + (low & 128 ? "_PRIVATE" : "") +
             (low & 256 ? "|FUTEX_CLOCK_REALTIME" : "");
    }
    case Names::QuotaCommand: {
      const char* command = name_of(names, low >> 8);
      return "QCMD(" + (command ? std::string(command) : print_hex(low >> 8)) + ", " + str(low & 0xff) + ")";
    }
    default:
      return low <= 0xffff ? str(low) : low >= 0xffff0000 ? str(static_cast<int32_t>(low)) : print_hex(low);
  }
}

std::string print_signal(uint64_t signo) {
  auto n = static_cast<int32_t>(signo);
  if (const char* name = n > 0 ? name_of(Names::Signal, static_cast<uint64_t>(n)) : nullptr) return name;
  if (n >= 32 && n <= 64) return n == 32 ? "SIGRTMIN" : "SIGRT_" + str(n - 32);
  return str(n);
}

std::string print_mode(uint64_t mode) {
  return mode ? octal(mode).insert(0, mode < 0100 ? "0" : "") : "000";
}

std::string print_shape(Shape shape, std::span<const std::byte> b, size_t limit) {
  if (b.size() < needed(shape) || (b.empty() && shape != Shape::None)) return {};
  switch (shape) {
    case Shape::None:
      return {};
    case Shape::Int:
      return "[" + str(i32(b, 0)) + "]";
    case Shape::Long:
    case Shape::Time:
      return "[" + str(i64(b, 0)) + "]";
    case Shape::Hex:
      return "[" + print_hex(u64(b, 0)) + "]";
    case Shape::IntPair:
      return "[" + str(i32(b, 0)) + ", " + str(i32(b, 4)) + "]";
    case Shape::Ids:
      return list(b.size() / 4, [&](size_t i) { return str(u32(b, 4 * i)); });
    case Shape::CString:
      return c_string(b, limit);
    case Shape::Stat:
      return stat(b);
    case Shape::Statx:
      return statx(b);
    case Shape::Statfs:
      return statfs(b);
    case Shape::Utsname:
      return utsname(b, limit);
    case Shape::Sysinfo:
      return "{uptime=" + str(i64(b, 0)) + ", totalram=" + str(u64(b, 32)) + ", freeram=" + str(u64(b, 40)) +
             ", ...}";
    case Shape::Rusage:
      return "{ru_utime=" + timeval(b, 0) + ", ru_stime=" + timeval(b, 16) + ", ...}";
    case Shape::Tms:
      return "{tms_utime=" + str(i64(b, 0)) + ", tms_stime=" + str(i64(b, 8)) +
             ", tms_cutime=" + str(i64(b, 16)) + ", tms_cstime=" + str(i64(b, 24)) + "}";
    case Shape::Rlimit:
      return "{rlim_cur=" + rlimit_value(u64(b, 0)) + ", rlim_max=" + rlimit_value(u64(b, 8)) + "}";
    case Shape::Timespec:
      return timespec(b);
    case Shape::Timeval:
      return timeval(b);
    case Shape::Timezone:
      return "{tz_minuteswest=" + str(i32(b, 0)) + ", tz_dsttime=" + str(i32(b, 4)) + "}";
    case Shape::TimespecPair:
      return "[" + timespec(b, 0) + ", " + timespec(b, 16) + "]";
    case Shape::TimevalPair:
      return "[" + timeval(b, 0) + ", " + timeval(b, 16) + "]";
    case Shape::Utimbuf:
      return "{actime=" + str(i64(b, 0)) + ", modtime=" + str(i64(b, 8)) + "}";
    case Shape::Itimerspec:
      return "{it_interval=" + timespec(b, 0) + ", it_value=" + timespec(b, 16) + "}";
    case Shape::Itimerval:
      return "{it_interval=" + timeval(b, 0) + ", it_value=" + timeval(b, 16) + "}";
    case Shape::Sockaddr:
      return sockaddr(b, limit);
    case Shape::Dirents:
    case Shape::Dirents64:
      return dirents(b);
    case Shape::EpollEvent:
      return epoll_events(b);
    case Shape::Pollfds:
      return pollfds(b);
    case Shape::Siginfo:
      return siginfo(b);
    case Shape::Sigset:
      return sigset(b);
    case Shape::Sigaction:
      return sigaction(b);
    case Shape::Sigstack:
      return "{ss_sp=" + print_address(u64(b, 0)) +
             ", ss_flags=" + print_flags(Names::SigstackFlags, u32(b, 8)) + ", ss_size=" + str(u64(b, 16)) +
             "}";
    case Shape::WaitStatus:
      return wait_status(i32(b, 0));
    case Shape::Termios:
      return "{c_iflag=" + print_hex(u32(b, 0)) + ", c_oflag=" + print_hex(u32(b, 4)) +
             ", c_cflag=" + print_hex(u32(b, 8)) + ", c_lflag=" + print_hex(u32(b, 12)) + ", ...}";
    case Shape::Winsize:
      return "{ws_row=" + str(at<uint16_t>(b, 0)) + ", ws_col=" + str(at<uint16_t>(b, 2)) +
             ", ws_xpixel=" + str(at<uint16_t>(b, 4)) + ", ws_ypixel=" + str(at<uint16_t>(b, 6)) + "}";
    case Shape::Flock:
      return flock(b);
    case Shape::CpuSet:
      return cpu_set(b);
  }
  return {};
}

}  // namespace backstep::guest
