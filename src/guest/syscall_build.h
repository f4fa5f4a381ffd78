// The vocabulary that the rows of the system-call table are written in: one small constexpr function for each
// kind of argument and of row. Only the table's own files include this.
#pragma once
#include <initializer_list>

#include "guest/syscall_names.h"
#include "guest/syscall_table.h"

namespace backstep::guest::build {

// Length rules, as values.
struct Bytes {
  Len len;
  uint16_t n = 0, unit = 0;
};
inline constexpr Bytes kResult{Len::Result};
inline constexpr Bytes kNulString{Len::NulString};
constexpr Bytes fixed(int n) {
  return {Len::Fixed, static_cast<uint16_t>(n)};
}
constexpr Bytes by_arg(int arg) {
  return {Len::ByArg, static_cast<uint16_t>(arg)};
}
constexpr Bytes items(int arg, int unit) {
  return {Len::ByArgTimes, static_cast<uint16_t>(arg), static_cast<uint16_t>(unit)};
}
constexpr Bytes result_items(int unit) {
  return {Len::ResultTimes, static_cast<uint16_t>(unit)};
}
constexpr Bytes result_up_to(int arg, int unit = 1) {
  return {Len::ResultUpTo, static_cast<uint16_t>(arg), static_cast<uint16_t>(unit)};
}
constexpr Bytes socklen_at(int arg, int unit = 1) {
  return {Len::SockLenAt, static_cast<uint16_t>(arg), static_cast<uint16_t>(unit)};
}
constexpr Bytes bits_of(int arg, int minus = 0) {
  return {Len::BitsOfArg, static_cast<uint16_t>(arg), static_cast<uint16_t>(minus)};
}

// Numbers.
constexpr ArgSpec arg(const char* name, Arg kind) {
  return {name, kind};
}
constexpr ArgSpec none() {
  return {nullptr, Arg::None};
}
constexpr ArgSpec num(const char* name) {
  return {name, Arg::Int};
}
constexpr ArgSpec uns(const char* name) {
  return {name, Arg::Uint};
}
constexpr ArgSpec hex(const char* name) {
  return {name, Arg::Hex};
}
constexpr ArgSpec address(const char* name) {
  return {name, Arg::Address};
}
constexpr ArgSpec lng(const char* name) {
  return {name, Arg::Long};
}
constexpr ArgSpec size(const char* name) {
  return {name, Arg::Size};
}
constexpr ArgSpec fd(const char* name) {
  return {name, Arg::Fd};
}
constexpr ArgSpec pid(const char* name) {
  return {name, Arg::Pid};
}
constexpr ArgSpec sig(const char* name) {
  return {name, Arg::Signal};
}
constexpr ArgSpec mode(const char* name) {
  return {name, Arg::Mode};
}
constexpr ArgSpec flags(const char* name, Names names) {
  return {name, Arg::Flags, Len::None, 0, 0, static_cast<uint8_t>(names)};
}
constexpr ArgSpec one(const char* name, Names names) {
  return {name, Arg::Enum, Len::None, 0, 0, static_cast<uint8_t>(names)};
}
constexpr ArgSpec varies(const char* name) {
  return {name, Arg::Varies};
}
constexpr ArgSpec unknown_arg(const char* name) {
  return {name, Arg::Unknown};
}

// Memory.
constexpr ArgSpec path(const char* name) {
  return {name, Arg::Path, Len::NulString};
}
constexpr ArgSpec str(const char* name) {
  return {name, Arg::Str, Len::NulString};
}
constexpr ArgSpec buffer(const char* name, Arg kind, Bytes b, Shape shape = Shape::None) {
  return {name, kind, b.len, b.n, b.unit, 0, shape};
}
constexpr ArgSpec in(const char* name, Bytes b, Shape shape = Shape::None) {
  return buffer(name, Arg::In, b, shape);
}
constexpr ArgSpec out(const char* name, Bytes b, Shape shape = Shape::None) {
  return buffer(name, Arg::Out, b, shape);
}
constexpr ArgSpec in(const char* name, int n, Shape shape = Shape::None) {
  return buffer(name, Arg::InStruct, fixed(n), shape);
}
constexpr ArgSpec out(const char* name, int n, Shape shape = Shape::None) {
  return buffer(name, Arg::OutStruct, fixed(n), shape);
}
constexpr ArgSpec inout(const char* name, int n, Shape shape = Shape::None) {
  return buffer(name, Arg::InOut, fixed(n), shape);
}
constexpr ArgSpec inout(const char* name, Bytes b, Shape shape = Shape::None) {
  return buffer(name, Arg::InOut, b, shape);
}
constexpr ArgSpec iov_in(const char* name, int count_arg) {
  return {name, Arg::IovIn, Len::None, static_cast<uint16_t>(count_arg)};
}
constexpr ArgSpec iov_out(const char* name, int count_arg) {
  return {name, Arg::IovOut, Len::Result, static_cast<uint16_t>(count_arg)};
}
// A vector of addresses in another process (or not to be read): only an address for us.
constexpr ArgSpec iov_in_other(const char* name) {
  return {name, Arg::Hex};
}
constexpr ArgSpec pollfds(const char* name) {
  return buffer(name, Arg::Pollfds, items(1, 8), Shape::Pollfds);
}
constexpr ArgSpec mmsg(const char* name, Arg kind) {
  return {name, kind, Len::None, 2, 64};
}
constexpr ArgSpec fd_set_of(const char* name) {
  return buffer(name, Arg::FdSet, bits_of(0));
}
constexpr ArgSpec socklen(const char* name) {
  return buffer(name, Arg::SockLen, fixed(4), Shape::Int);
}

// Structs that many calls share.
constexpr ArgSpec timespec_in(const char* name) {
  return in(name, 16, Shape::Timespec);
}
constexpr ArgSpec timespec_out(const char* name) {
  return out(name, 16, Shape::Timespec);
}
constexpr ArgSpec int_out(const char* name) {
  return out(name, 4, Shape::Int);
}
constexpr ArgSpec stat_out() {
  return out("statbuf", 144, Shape::Stat);
}
constexpr ArgSpec offset_inout(const char* name) {
  return inout(name, 8, Shape::Long);
}
constexpr ArgSpec sockaddr_in(const char* name, int size_arg) {
  return in(name, by_arg(size_arg), Shape::Sockaddr);
}
constexpr ArgSpec sockaddr_out(const char* name, int len_arg) {
  return out(name, socklen_at(len_arg), Shape::Sockaddr);
}
constexpr ArgSpec sigset_in(const char* name, int size_arg) {
  return in(name, by_arg(size_arg), Shape::Sigset);
}

// Sets of traits that many rows share.
inline constexpr int kBoth = kGives | kGets;
inline constexpr int kWrites = kMayBlock | kOutput | kGives;
inline constexpr int kMoves = kMayBlock | kMovesBytes | kBoth;
inline constexpr int kMap = kChangesMap;
inline constexpr int kMapHex = kChangesMap | kHexResult;
inline constexpr int kFd = kCreatesFd;

// What calls wait for.
using TimeUnit = Waiting::TimeUnit;
inline constexpr uint32_t kDontWait = 0x40;  // MSG_DONTWAIT
inline constexpr uint32_t kNoHang = 1;       // WNOHANG
inline constexpr uint32_t kNoLockWait = 4;   // LOCK_NB
struct Waits : Waiting {
  constexpr Waits of(int arg) const {
    Waits w = *this;
    w.size = static_cast<int8_t>(arg);
    return w;
  }
  constexpr Waits unless(int arg, uint32_t bits) const {
    Waits w = *this;
    w.flags = static_cast<int8_t>(arg), w.flag_bits = bits;
    return w;
  }
  constexpr Waits until(int arg, TimeUnit in) const {
    Waits w = *this;
    w.time = static_cast<int8_t>(arg), w.unit = in;
    return w;
  }
  constexpr Waits with_mask(int arg) const {
    Waits w = *this;
    w.mask = static_cast<int8_t>(arg);
    return w;
  }
  constexpr Waits with_mask_behind(int arg) const {
    Waits w = with_mask(arg);
    w.mask_behind = true;
    return w;
  }
};
constexpr Waits waits_for(Waiting::What what) {
  Waits w;
  w.what = what;
  return w;
}
constexpr Waits input() {
  return waits_for(Waiting::Input);
}
constexpr Waits output() {
  return waits_for(Waiting::Output);
}
constexpr Waits connection() {
  return waits_for(Waiting::Connection);
}
constexpr Waits events() {
  return waits_for(Waiting::Events);
}
constexpr Waits child() {
  return waits_for(Waiting::Child);
}
constexpr Waits lock() {
  return waits_for(Waiting::Lock);
}
constexpr Waits signal() {
  return waits_for(Waiting::Signal);
}
constexpr Waits something() {
  return waits_for(Waiting::Something);
}

// Rows.
struct Row {
  int nr;
  Syscall call;

  constexpr Row waits(Waits what) const {
    Row r = *this;
    r.call.waiting = what;
    return r;
  }
};
using Args = std::initializer_list<ArgSpec>;
constexpr Row row(int nr, const char* name, How how, Args args, int traits) {
  Row r{nr, {name, how, static_cast<uint32_t>(traits), static_cast<uint8_t>(args.size()), {}, {}}};
  int i = 0;
  for (const ArgSpec& a : args) r.call.args[i++] = a;
  // Programs may leave anything in the upper half of an int, so a length given as one must be cut.
  for (ArgSpec& a : r.call.args) {
    Arg length = a.len == Len::ByArg ? r.call.args[a.n].kind : Arg::None;
    if (length == Arg::Int || length == Arg::Uint) a.unit = 32;
  }
  return r;
}
constexpr Row plain(int nr, const char* name, Args args, int traits = 0) {
  return row(nr, name, How::Plain, args, traits);
}
constexpr Row special(int nr, const char* name, Args args, int traits = 0) {
  return row(nr, name, How::Special, args, traits);
}
constexpr Row refuse(int nr, const char* name, Args args = {}, int traits = 0) {
  return row(nr, name, How::Refuse, args, traits);
}
// Known by name, but what it writes is beyond a table: memory is compared.
constexpr Row compare(int nr, const char* name, Args args, int traits = 0) {
  return row(nr, name, How::Unknown, args, traits);
}
// Numbers that were given away and never (or no longer) implemented: the kernel itself says ENOSYS.
constexpr Row absent(int nr, const char* name) {
  return row(nr, name, How::Refuse, {}, 0);
}

}  // namespace backstep::guest::build
