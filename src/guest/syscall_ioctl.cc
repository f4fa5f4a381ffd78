// ioctl: what the third argument of a request is.
//
// Newer request numbers tell it themselves: _IOR/_IOW/_IOWR put direction and size into the number, so
// drivers that this program has never heard of are recorded right. The table below is for the rest: the old
// numbers of terminals, sockets, block devices and consoles, which carry nothing, and the newer ones that
// lie. The lies are not rare: FS_IOC_GETFLAGS says `long` and writes an int; FICLONE says `pointer to int`
// and takes an fd; TUNSETIFF says it is read and 4 bytes long, and is read and written and 40; FIEMAP's
// struct has a tail.
//
// Rows are written by topic and sorted at compile time. A request that is neither here nor carries a size
// gives Arg::Unknown: memory is compared.
//
// Hot world (base/hot.h): constant data and a binary search.
#include <algorithm>
#include <iterator>

#include "guest/syscall_build.h"
#include "guest/syscall_table.h"

namespace backstep::guest {
namespace {

using namespace build;

struct IoctlRow {
  uint32_t request;
  const char* name;
  ArgSpec arg;
};

constexpr ArgSpec int_in() {
  return in("arg", 4, Shape::Int);
}
constexpr ArgSpec int_out() {
  return build::int_out("arg");
}
constexpr ArgSpec value() {
  return num("arg");
}
constexpr ArgSpec ifreq() {
  return inout("ifr", 40);
}
constexpr ArgSpec ifreq_in() {
  return in("ifr", 40);
}
constexpr ArgSpec termios_in() {
  return in("termios", 36, Shape::Termios);
}

constexpr IoctlRow kUnsorted[] = {
    // Terminals. The kernel's termios has 36 bytes, not libc's 60.
    {0x5401, "TCGETS", out("termios", 36, Shape::Termios)},
    {0x5402, "TCSETS", termios_in()},
    {0x5403, "TCSETSW", termios_in()},
    {0x5404, "TCSETSF", termios_in()},
    {0x5405, "TCGETA", out("termio", 18)},
    {0x5406, "TCSETA", in("termio", 18)},
    {0x5407, "TCSETAW", in("termio", 18)},
    {0x5408, "TCSETAF", in("termio", 18)},
    {0x5409, "TCSBRK", value()},
    {0x540a, "TCXONC", value()},
    {0x540b, "TCFLSH", value()},
    {0x540c, "TIOCEXCL", none()},
    {0x540d, "TIOCNXCL", none()},
    {0x540e, "TIOCSCTTY", value()},
    {0x540f, "TIOCGPGRP", int_out()},
    {0x5410, "TIOCSPGRP", int_in()},
    {0x5411, "TIOCOUTQ", int_out()},
    {0x5412, "TIOCSTI", in("char", 1)},
    {0x5413, "TIOCGWINSZ", out("winsize", 8, Shape::Winsize)},
    {0x5414, "TIOCSWINSZ", in("winsize", 8, Shape::Winsize)},
    {0x5415, "TIOCMGET", int_out()},
    {0x5416, "TIOCMBIS", int_in()},
    {0x5417, "TIOCMBIC", int_in()},
    {0x5418, "TIOCMSET", int_in()},
    {0x5419, "TIOCGSOFTCAR", int_out()},
    {0x541a, "TIOCSSOFTCAR", int_in()},
    {0x541b, "FIONREAD", int_out()},
    {0x541c, "TIOCLINUX", unknown_arg("arg")},
    {0x541d, "TIOCCONS", none()},
    {0x541e, "TIOCGSERIAL", out("serial", 72)},
    {0x541f, "TIOCSSERIAL", in("serial", 72)},
    {0x5420, "TIOCPKT", int_in()},
    {0x5421, "FIONBIO", int_in()},
    {0x5422, "TIOCNOTTY", none()},
    {0x5423, "TIOCSETD", int_in()},
    {0x5424, "TIOCGETD", int_out()},
    {0x5425, "TCSBRKP", value()},
    {0x5427, "TIOCSBRK", none()},
    {0x5428, "TIOCCBRK", none()},
    {0x5429, "TIOCGSID", int_out()},
    {0x802c542a, "TCGETS2", out("termios2", 44, Shape::Termios)},
    {0x402c542b, "TCSETS2", in("termios2", 44, Shape::Termios)},
    {0x402c542c, "TCSETSW2", in("termios2", 44, Shape::Termios)},
    {0x402c542d, "TCSETSF2", in("termios2", 44, Shape::Termios)},
    {0x542e, "TIOCGRS485", out("rs485", 32)},
    {0x542f, "TIOCSRS485", inout("rs485", 32)},
    {0x80045430, "TIOCGPTN", int_out()},
    {0x40045431, "TIOCSPTLCK", int_in()},
    {0x80045432, "TIOCGDEV", int_out()},
    {0x5432, "TCGETX", out("termiox", 16)},
    {0x5433, "TCSETX", in("termiox", 16)},
    {0x5434, "TCSETXF", in("termiox", 16)},
    {0x5435, "TCSETXW", in("termiox", 16)},
    {0x40045436, "TIOCSIG", value()},
    {0x5437, "TIOCVHANGUP", none()},
    {0x80045438, "TIOCGPKT", int_out()},
    {0x80045439, "TIOCGPTLCK", int_out()},
    {0x80045440, "TIOCGEXCL", int_out()},
    {0x5441, "TIOCGPTPEER", flags("flags", Names::OpenFlags)},
    {0x5450, "FIONCLEX", none()},
    {0x5451, "FIOCLEX", none()},
    {0x5452, "FIOASYNC", int_in()},
    {0x5459, "TIOCSERGETLSR", int_out()},
    {0x545c, "TIOCMIWAIT", value()},
    {0x545d, "TIOCGICOUNT", out("icounter", 80)},
    {0x5460, "FIOQSIZE", out("size", 8, Shape::Long)},
    // Consoles.
    {0x4b2f, "KIOCSOUND", value()},
    {0x4b30, "KDMKTONE", value()},
    {0x4b31, "KDGETLED", out("arg", 1)},
    {0x4b32, "KDSETLED", value()},
    {0x4b33, "KDGKBTYPE", out("arg", 1)},
    {0x4b3a, "KDSETMODE", value()},
    {0x4b3b, "KDGETMODE", int_out()},
    {0x4b44, "KDGKBMODE", int_out()},
    {0x4b45, "KDSKBMODE", value()},
    {0x4b46, "KDGKBENT", inout("entry", 4)},
    {0x4b47, "KDSKBENT", in("entry", 4)},
    {0x4b48, "KDGKBSENT", inout("entry", 513)},
    {0x4b4a, "KDGKBDIACR", out("arg", 772)},
    {0x4b62, "KDGKBMETA", int_out()},
    {0x4b63, "KDSKBMETA", value()},
    {0x4b64, "KDGKBLED", out("arg", 1)},
    {0x4b65, "KDSKBLED", value()},
    {0x5600, "VT_OPENQRY", int_out()},
    {0x5601, "VT_GETMODE", out("mode", 8)},
    {0x5602, "VT_SETMODE", in("mode", 8)},
    {0x5603, "VT_GETSTATE", out("stat", 6)},
    {0x5605, "VT_RELDISP", value()},
    {0x5606, "VT_ACTIVATE", value()},
    {0x5607, "VT_WAITACTIVE", value()},
    {0x5608, "VT_DISALLOCATE", value()},
    {0x4600, "FBIOGET_VSCREENINFO", out("screen", 160)},
    {0x4601, "FBIOPUT_VSCREENINFO", inout("screen", 160)},
    {0x4602, "FBIOGET_FSCREENINFO", out("screen", 80)},
    // Files and file systems.
    {0x0001, "FIBMAP", inout("block", 4, Shape::Int)},
    {0x0002, "FIGETBSZ", int_out()},
    {0x40049409, "FICLONE", fd("src_fd")},
    {0x4020940d, "FICLONERANGE", in("range", 32)},
    {0xc0189436, "FIDEDUPERANGE", inout("range", {Len::DedupeRange})},
    {0x80086601, "FS_IOC_GETFLAGS", out("flags", 4, Shape::Int)},
    {0x40086602, "FS_IOC_SETFLAGS", int_in()},
    {0x80087601, "FS_IOC_GETVERSION", out("version", 4, Shape::Int)},
    {0x40087602, "FS_IOC_SETVERSION", int_in()},
    {0xc020660b, "FS_IOC_FIEMAP", inout("fiemap", {Len::Fiemap})},
    {0x801c581f, "FS_IOC_FSGETXATTR", out("attr", 28)},
    {0x401c5820, "FS_IOC_FSSETXATTR", in("attr", 28)},
    {0xc0045877, "FIFREEZE", none()},
    {0xc0045878, "FITHAW", none()},
    {0xc0185879, "FITRIM", inout("range", 24)},
    {0x81009431, "FS_IOC_GETFSLABEL", out("label", 256, Shape::CString)},
    {0x41009432, "FS_IOC_SETFSLABEL", in("label", 256)},
    {0x800c6613, "FS_IOC_SET_ENCRYPTION_POLICY", address("policy")},
    {0xc0096616, "FS_IOC_GET_ENCRYPTION_POLICY_EX", inout("policy", {Len::SizedTail})},
    // Block devices.
    {0x125d, "BLKROSET", int_in()},
    {0x125e, "BLKROGET", int_out()},
    {0x125f, "BLKRRPART", none()},
    {0x1260, "BLKGETSIZE", out("size", 8, Shape::Long)},
    {0x1261, "BLKFLSBUF", none()},
    {0x1262, "BLKRASET", size("arg")},
    {0x1263, "BLKRAGET", out("arg", 8, Shape::Long)},
    {0x1264, "BLKFRASET", size("arg")},
    {0x1265, "BLKFRAGET", out("arg", 8, Shape::Long)},
    {0x1267, "BLKSECTGET", out("arg", 2)},
    {0x1268, "BLKSSZGET", int_out()},
    {0x1269, "BLKPG", in("arg", 24)},
    {0x80081270, "BLKBSZGET", int_out()},
    {0x40081271, "BLKBSZSET", int_in()},
    {0x80081272, "BLKGETSIZE64", out("size", 8, Shape::Long)},
    {0x1277, "BLKDISCARD", in("range", 16)},
    {0x1278, "BLKIOMIN", int_out()},
    {0x1279, "BLKIOOPT", int_out()},
    {0x127a, "BLKALIGNOFF", int_out()},
    {0x127b, "BLKPBSZGET", int_out()},
    {0x127c, "BLKDISCARDZEROES", int_out()},
    {0x127d, "BLKSECDISCARD", in("range", 16)},
    {0x127e, "BLKROTATIONAL", out("arg", 2)},
    {0x127f, "BLKZEROOUT", in("range", 16)},
    {0x0301, "HDIO_GETGEO", out("geometry", 16)},
    {0x030d, "HDIO_GET_IDENTITY", out("identity", 512)},
    {0x2282, "SG_GET_VERSION_NUM", int_out()},
    {0x2285, "SG_IO", unknown_arg("hdr")},
    {0x5382, "SCSI_IOCTL_GET_IDLUN", out("arg", 8)},
    {0x5386, "SCSI_IOCTL_GET_BUS_NUMBER", int_out()},
    {0x4c00, "LOOP_SET_FD", fd("fd")},
    {0x4c01, "LOOP_CLR_FD", none()},
    {0x4c02, "LOOP_SET_STATUS", in("info", 168)},
    {0x4c03, "LOOP_GET_STATUS", out("info", 168)},
    {0x4c04, "LOOP_SET_STATUS64", in("info", 232)},
    {0x4c05, "LOOP_GET_STATUS64", out("info", 232)},
    {0x4c06, "LOOP_CHANGE_FD", fd("fd")},
    {0x4c07, "LOOP_SET_CAPACITY", none()},
    {0x4c08, "LOOP_SET_DIRECT_IO", value()},
    {0x4c09, "LOOP_SET_BLOCK_SIZE", value()},
    {0x4c0a, "LOOP_CONFIGURE", in("config", 304)},
    {0x4c80, "LOOP_CTL_ADD", value()},
    {0x4c81, "LOOP_CTL_REMOVE", value()},
    {0x4c82, "LOOP_CTL_GET_FREE", none()},
    // Sockets and network interfaces.
    {0x8901, "FIOSETOWN", int_in()},
    {0x8902, "SIOCSPGRP", int_in()},
    {0x8903, "FIOGETOWN", int_out()},
    {0x8904, "SIOCGPGRP", int_out()},
    {0x8905, "SIOCATMARK", int_out()},
    {0x8906, "SIOCGSTAMP", out("tv", 16, Shape::Timeval)},
    {0x8907, "SIOCGSTAMPNS", out("ts", 16, Shape::Timespec)},
    {0x890b, "SIOCADDRT", in("route", 120)},
    {0x890c, "SIOCDELRT", in("route", 120)},
    {0x8910, "SIOCGIFNAME", ifreq()},
    {0x8911, "SIOCSIFLINK", none()},
    {0x8912, "SIOCGIFCONF", {"ifc", Arg::IfConf, Len::Fixed, 16}},
    {0x8913, "SIOCGIFFLAGS", ifreq()},
    {0x8914, "SIOCSIFFLAGS", ifreq_in()},
    {0x8915, "SIOCGIFADDR", ifreq()},
    {0x8916, "SIOCSIFADDR", in("ifr", 24)},  // in6_ifreq, the shorter one
    {0x8917, "SIOCGIFDSTADDR", ifreq()},
    {0x8918, "SIOCSIFDSTADDR", in("ifr", 24)},
    {0x8919, "SIOCGIFBRDADDR", ifreq()},
    {0x891a, "SIOCSIFBRDADDR", ifreq_in()},
    {0x891b, "SIOCGIFNETMASK", ifreq()},
    {0x891c, "SIOCSIFNETMASK", ifreq_in()},
    {0x891d, "SIOCGIFMETRIC", ifreq()},
    {0x891e, "SIOCSIFMETRIC", ifreq_in()},
    {0x891f, "SIOCGIFMEM", ifreq()},
    {0x8920, "SIOCSIFMEM", ifreq_in()},
    {0x8921, "SIOCGIFMTU", ifreq()},
    {0x8922, "SIOCSIFMTU", ifreq_in()},
    {0x8923, "SIOCSIFNAME", ifreq()},
    {0x8924, "SIOCSIFHWADDR", ifreq_in()},
    {0x8927, "SIOCGIFHWADDR", ifreq()},
    {0x8929, "SIOCGIFSLAVE", ifreq()},
    {0x8930, "SIOCSIFSLAVE", ifreq_in()},
    {0x8931, "SIOCADDMULTI", ifreq_in()},
    {0x8932, "SIOCDELMULTI", ifreq_in()},
    {0x8933, "SIOCGIFINDEX", ifreq()},
    {0x8934, "SIOCSIFPFLAGS", ifreq_in()},
    {0x8935, "SIOCGIFPFLAGS", ifreq()},
    {0x8936, "SIOCDIFADDR", in("ifr", 24)},
    {0x8937, "SIOCSIFHWBROADCAST", ifreq_in()},
    {0x8938, "SIOCGIFCOUNT", ifreq()},
    {0x8942, "SIOCGIFTXQLEN", ifreq()},
    {0x8943, "SIOCSIFTXQLEN", ifreq_in()},
    {0x8946, "SIOCETHTOOL",
     unknown_arg("ifr")},  // the struct points to another, whose size is known to drivers
    {0x8947, "SIOCGMIIPHY", ifreq()},
    {0x8948, "SIOCGMIIREG", ifreq()},
    {0x8949, "SIOCSMIIREG", ifreq_in()},
    {0x894b, "SIOCOUTQNSD", int_out()},
    {0x8953, "SIOCDARP", in("arp", 68)},
    {0x8954, "SIOCGARP", inout("arp", 68)},
    {0x8955, "SIOCSARP", in("arp", 68)},
    {0x8970, "SIOCGIFMAP", ifreq()},
    {0x8971, "SIOCSIFMAP", ifreq_in()},
    {0x8982, "SIOCGIFVLAN", inout("vlan", 56)},
    {0x8983, "SIOCSIFVLAN", in("vlan", 56)},
    {0x89a0, "SIOCBRADDBR", in("name", 16, Shape::CString)},
    {0x89a1, "SIOCBRDELBR", in("name", 16, Shape::CString)},
    {0x89a2, "SIOCBRADDIF", ifreq_in()},
    {0x89a3, "SIOCBRDELIF", ifreq_in()},
    {0x89e0, "SIOCUNIXFILE", none()},
    {0x400454c8, "TUNSETNOCSUM", value()},
    {0x400454c9, "TUNSETDEBUG", value()},
    {0x400454ca, "TUNSETIFF", ifreq()},
    {0x400454cb, "TUNSETPERSIST", value()},
    {0x400454cc, "TUNSETOWNER", value()},
    {0x400454cd, "TUNSETLINK", value()},
    {0x400454ce, "TUNSETGROUP", value()},
    {0x800454cf, "TUNGETFEATURES", int_out()},
    {0x400454d0, "TUNSETOFFLOAD", value()},
    {0x800454d2, "TUNGETIFF", ifreq()},
    {0x400454d9, "TUNSETQUEUE", ifreq_in()},
    // Namespaces, perf, random, clocks.
    {0xb701, "NS_GET_USERNS", none()},
    {0xb702, "NS_GET_PARENT", none()},
    {0xb703, "NS_GET_NSTYPE", none()},
    {0xb704, "NS_GET_OWNER_UID", int_out()},
    {0x2400, "PERF_EVENT_IOC_ENABLE", value()},
    {0x2401, "PERF_EVENT_IOC_DISABLE", value()},
    {0x2402, "PERF_EVENT_IOC_REFRESH", value()},
    {0x2403, "PERF_EVENT_IOC_RESET", value()},
    {0x2405, "PERF_EVENT_IOC_SET_OUTPUT", value()},
    {0x40082406, "PERF_EVENT_IOC_SET_FILTER", str("filter")},
    {0x80082407, "PERF_EVENT_IOC_ID", out("id", 8, Shape::Long)},
    {0x80045200, "RNDGETENTCNT", int_out()},
    {0x5204, "RNDZAPENTCNT", none()},
    {0x5206, "RNDCLEARPOOL", none()},
    {0x80247009, "RTC_RD_TIME", out("time", 36)},
};

struct IoctlTable {
  IoctlRow rows[std::size(kUnsorted)];
};
constexpr IoctlTable sorted() {
  IoctlTable t{};
  std::copy(std::begin(kUnsorted), std::end(kUnsorted), t.rows);
  std::sort(std::begin(t.rows), std::end(t.rows),
            [](const IoctlRow& a, const IoctlRow& b) { return a.request < b.request; });
  return t;
}
constexpr IoctlTable kIoctls = sorted();

constexpr bool all_different() {
  for (size_t i = 1; i < std::size(kIoctls.rows); i++)
    if (kIoctls.rows[i - 1].request == kIoctls.rows[i].request) return false;
  return true;
}
static_assert(all_different());

const IoctlRow* find(uint64_t request) {
  auto wanted = static_cast<uint32_t>(request);  // the kernel's type: the upper half may hold anything
  size_t low = 0, high = std::size(kIoctls.rows);
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (kIoctls.rows[middle].request < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = low < std::size(kIoctls.rows) && kIoctls.rows[low].request == wanted;
  return found ? &kIoctls.rows[low] : nullptr;
}

}  // namespace

ArgSpec ioctl_arg(uint64_t request) {
  if (const IoctlRow* row = find(request)) return row->arg;
  auto bytes = static_cast<uint16_t>((request >> 16) & 0x3fff);
  if (bytes == 0) return unknown_arg("arg");
  switch ((request >> 30) & 3) {  // seen from the program: 1 writes, 2 reads
    case 1:
      return in("arg", int{bytes});
    case 2:
      return out("arg", int{bytes});
    case 3:
      return inout("arg", int{bytes});
    default:
      return unknown_arg("arg");
  }
}

const char* ioctl_name(uint64_t request) {
  const IoctlRow* row = find(request);
  return row ? row->name : nullptr;
}

}  // namespace backstep::guest
