// A parcel is made by a process on another machine and read by the one that gathers: between them lie file
// systems, copies by rsync, jobs that are killed while they write. So nothing of it is believed before its
// checksums hold, and a table is unpacked once here, which checks it, before it is written into the
// recording.
//
//   header | body          the body is compressed; it has the windows one after the other
#include "recording/parcel.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

#include "base/build_id.h"
#include "base/error.h"
#include "base/version.h"
#include "recording/backlinks.h"
#include "recording/codec.h"
#include "recording/shared_folder.h"

namespace backstep::recording {
namespace {

constexpr char kParcelMagic[8] = {'B', 'K', 'S', 'T', 'E', 'P', 'T', 'P'};
constexpr uint32_t kParcelVersion = 2;
constexpr int kParcelLevel = 3;               // of compression
constexpr uint64_t kSaneParcel = 4ull << 30;  // bytes, uncompressed

struct ParcelHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_size;
  uint64_t process, log, build;
  uint64_t windows;
  uint64_t body_size, body_raw_size;
  uint64_t body_check;  // XXH3-64 of the compressed bytes
  uint64_t check;       // XXH3-64 of the bytes before it
};
static_assert(sizeof(ParcelHeader) == 80);

void put_number(std::vector<uint8_t>& out, uint64_t v) {
  uint8_t bytes[10];
  out.insert(out.end(), bytes, put_varint(bytes, v));
}

void put_bytes(std::vector<uint8_t>& out, const std::vector<uint8_t>& bytes) {
  put_number(out, bytes.size());
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::vector<uint8_t> body_of(const Parcel& parcel) {
  std::vector<uint8_t> raw;
  put_number(raw, static_cast<uint64_t>(parcel.level));
  for (const Parcel::Window& w : parcel.windows) {
    const WindowBounds& b = w.bounds;
    for (uint64_t n : {b.from_tick, b.from_event, b.from_pc, b.to_tick, b.to_event, b.to_pc})
      put_number(raw, n);
    if (parcel.level == 1) {
      put_bytes(raw, w.packed);
      continue;
    }
    put_number(raw, w.parts.size());
    for (const Parcel::Window::Part& p : w.parts) {
      put_number(raw, p.count);
      put_bytes(raw, p.links);
      put_bytes(raw, p.stores);
    }
  }
  return raw;
}

bool put_all(int fd, const void* bytes, size_t size) {
  for (auto* p = static_cast<const char*>(bytes); size > 0;) {
    const ssize_t n = ::write(fd, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    p += n, size -= static_cast<size_t>(n);
  }
  return true;
}

std::vector<uint8_t> bytes_of(const std::string& path) {
  Fd fd(open_file(path, O_RDONLY | O_CLOEXEC));
  struct stat st {};
  if (!fd || fstat(fd.get(), &st) != 0)
    throw Error(fmt::format("cannot open {}: {}", path, errno_text(errno)));
  if (!S_ISREG(st.st_mode) || static_cast<uint64_t>(st.st_size) > kSaneParcel)
    throw Error(fmt::format("{} is not what a job writes", path));
  std::vector<uint8_t> bytes(static_cast<size_t>(st.st_size));
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = pread(fd.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error(fmt::format("cannot read {}: {}", path, errno_text(n ? errno : EIO)));
    at += static_cast<size_t>(n);
  }
  return bytes;
}

std::tuple<uint64_t, uint64_t, uint64_t> begin_of(const WindowBounds& b) {
  return {b.from_tick, b.from_event, b.from_pc};
}
std::tuple<uint64_t, uint64_t, uint64_t> end_of(const WindowBounds& b) {
  return {b.to_tick, b.to_event, b.to_pc};
}

// Without a gap; the end of a window may be known by its tick only.
bool follows(const WindowBounds& before, const WindowBounds& b) {
  return b.from_tick == before.to_tick && begin_of(b) >= end_of(before);
}

std::vector<uint8_t> take_bytes(Cursor& in) {
  const uint64_t size = in.varint();
  const uint8_t* p = in.ok ? in.bytes(size) : nullptr;
  return p ? std::vector<uint8_t>(p, p + size) : std::vector<uint8_t>();
}

// Throws if what is packed makes no sense. False: the bytes are not what body_of makes.
bool read_trace(Cursor& in, int level, Parcel::Window& w) {
  constexpr uint64_t kLeast = 3;  // bytes of a part
  const uint64_t parts = in.varint();
  if (!in.ok || parts > static_cast<uint64_t>(in.end - in.p) / kLeast) return false;
  for (uint64_t i = 0; i < parts; i++) {
    Parcel::Window::Part p;
    p.count = in.varint();
    p.links = take_bytes(in);
    p.stores = take_bytes(in);
    if (!in.ok || (level == 2 && !p.stores.empty())) return false;
    Backlinks::unpack(p.links);
    // Stores are looked at when they are needed, as all that a recording has.
    w.parts.push_back(std::move(p));
  }
  return true;
}

// False: the bytes are not what body_of makes.
bool read_body(std::span<const uint8_t> raw, uint64_t count, Parcel& parcel) {
  Cursor in{raw.data(), raw.data() + raw.size()};
  constexpr uint64_t kLeast = 7;  // bytes of a window
  const uint64_t level = in.varint();
  if (count > raw.size() / kLeast || level < 1 || level > 3) return false;
  parcel.level = static_cast<int>(level);
  for (uint64_t i = 0; i < count; i++) {
    Parcel::Window w;
    WindowBounds& b = w.bounds;
    for (uint64_t* n : {&b.from_tick, &b.from_event, &b.from_pc, &b.to_tick, &b.to_event, &b.to_pc})
      *n = in.varint();
    if (!in.ok || begin_of(b) >= end_of(b)) return false;
    if (!parcel.windows.empty() && !follows(parcel.windows.back().bounds, b)) return false;
    if (parcel.level == 1) {
      w.packed = take_bytes(in);
      if (!w.packed.empty()) Contents::unpack(w.packed);  // throws if it makes no sense
    } else if (!read_trace(in, parcel.level, w)) {
      return false;
    }
    if (!in.ok) return false;
    parcel.windows.push_back(std::move(w));
  }
  return in.p == in.end;
}

}  // namespace

ParcelIdentity ParcelIdentity::of(const Recording& recording, uint64_t process) {
  const std::string_view id = build_id().empty() ? std::string_view(kVersion) : build_id();
  return {process, CheckpointFolder(recording, process).log_identity(), XXH3_64bits(id.data(), id.size())};
}

void Parcel::write(const std::string& path, const ParcelIdentity& identity) const {
  const std::vector<uint8_t> raw = body_of(*this);
  if (raw.size() > kSaneParcel) throw Error("the tables of a job would be larger than 4 GB");
  std::vector<uint8_t> packed(ZSTD_compressBound(raw.size()));
  const size_t n = ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), kParcelLevel);
  if (ZSTD_isError(n)) throw Error(fmt::format("cannot compress tables: {}", ZSTD_getErrorName(n)));
  ParcelHeader h{};
  std::memcpy(h.magic, kParcelMagic, sizeof h.magic);
  h.version = kParcelVersion;
  h.header_size = sizeof h;
  h.process = identity.process, h.log = identity.log, h.build = identity.build;
  h.windows = windows.size();
  h.body_size = n;
  h.body_raw_size = raw.size();
  h.body_check = XXH3_64bits(packed.data(), n);
  h.check = XXH3_64bits(&h, offsetof(ParcelHeader, check));
  const std::string temporary = fmt::format("{}.new-{}", path, getpid());
  Fd fd(make_file(temporary, O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (fd && put_all(fd.get(), &h, sizeof h) && put_all(fd.get(), packed.data(), n) && fsync(fd.get()) == 0 &&
      rename(temporary.c_str(), path.c_str()) == 0)
    return;
  const Error error(fmt::format("cannot write {}: {}", path, errno_text(errno)));
  unlink(temporary.c_str());
  throw error;
}

Parcel Parcel::read(const std::string& path, const ParcelIdentity& identity) {
  const std::vector<uint8_t> bytes = bytes_of(path);
  auto not_used = [&](const char* why) { return Error(fmt::format("{} is not used: {}", path, why)); };
  ParcelHeader h;
  if (bytes.size() < sizeof h) throw not_used("it is damaged");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (std::memcmp(h.magic, kParcelMagic, sizeof h.magic) != 0) throw not_used("it is damaged");
  if (h.version != kParcelVersion || h.header_size != sizeof h) throw not_used("it is of another version");
  if (h.check != XXH3_64bits(&h, offsetof(ParcelHeader, check)) || h.body_raw_size > kSaneParcel ||
      h.body_size != bytes.size() - sizeof h)
    throw not_used("it is damaged");
  if (h.process != identity.process || h.log != identity.log)
    throw not_used("it belongs to another recording");
  if (h.build != identity.build) throw not_used("another build of backstep has made it");
  const uint8_t* body = bytes.data() + sizeof h;
  if (XXH3_64bits(body, h.body_size) != h.body_check) throw not_used("it is damaged");
  std::vector<uint8_t> raw(h.body_raw_size);
  if (ZSTD_decompress(raw.data(), raw.size(), body, h.body_size) != raw.size())
    throw not_used("it is damaged");
  Parcel parcel;
  if (!read_body(raw, h.windows, parcel)) throw not_used("it makes no sense");
  return parcel;
}

}  // namespace backstep::recording
