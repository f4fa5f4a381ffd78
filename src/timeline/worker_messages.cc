#include "timeline/worker_messages.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "timeline/worker.h"

namespace backstep::timeline {

bool send_message(int socket, const std::vector<uint8_t>& bytes, int fd) {
  iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  for (;;) {
    if (sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

std::vector<uint8_t> receive_message(int socket, Fd* fd) {
  static std::vector<uint8_t> buffer(kMaxMessage + 4096);
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n;
  do n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n <= 0) return {};
  if (cmsghdr* c = CMSG_FIRSTHDR(&message); c && c->cmsg_type == SCM_RIGHTS) {
    int got;
    std::memcpy(&got, CMSG_DATA(c), sizeof got);
    if (fd) {
      fd->reset(got);
    } else {
      ::close(got);
    }
  }
  return {buffer.begin(), buffer.begin() + n};
}

void pack(Packer& p, const Taps& taps) {
  p.put(static_cast<uint32_t>(taps.list.size()));
  for (const Tap& t : taps.list) {
    p.put(t.kind).put(t.action).put(t.start).put(t.length).put(t.strict).put(t.stack);
    p.put(t.after).put(t.from).put(t.to).put(t.off).put(t.function).put(t.vector);
    p.put_bytes(t.guard.data(), t.guard.size());
    p.put_bytes(t.moments.data(), t.moments.size() * sizeof(Tap::MomentAt));
    p.put_bytes(t.data.data(), t.data.size() * sizeof(Tap::Range));
    p.put_bytes(t.code.data(), t.code.size() * sizeof(Tap::Range));
    p.put(static_cast<uint32_t>(t.numbers.size()));
    for (uint64_t n : t.numbers) p.put(n);
    p.put(static_cast<uint32_t>(t.conditions.size())).put(static_cast<uint32_t>(t.values.size()));
    for (const auto& c : t.conditions) p.put_bytes(c.data(), c.size());
    for (const auto& v : t.values) p.put(v.capture).put(v.size).put_bytes(v.code.data(), v.code.size());
  }
  p.put(taps.thread);
}

Taps unpack_taps(Unpacker& u) {
  Taps taps;
  taps.list.resize(u.get<uint32_t>());
  for (Tap& t : taps.list) {
    t.kind = u.get<Tap::Kind>(), t.action = u.get<Tap::Action>();
    t.start = u.get<Address>(), t.length = u.get<uint64_t>();
    t.strict = u.get<bool>(), t.stack = u.get<bool>();
    t.after = u.get<bool>(), t.from = u.get<Tick>(), t.to = u.get<Tick>(), t.off = u.get<bool>();
    t.function = u.get<Address>(), t.vector = u.get<bool>();
    t.guard = u.get_bytes();
    auto get_list = [&u](auto& list) {
      const std::vector<uint8_t> bytes = u.get_bytes();
      list.resize(bytes.size() / sizeof list[0]);
      if (!bytes.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
    };
    get_list(t.moments);
    get_list(t.data);
    get_list(t.code);
    for (auto n = u.get<uint32_t>(); n > 0; n--) t.numbers.insert(u.get<uint64_t>());
    t.conditions.resize(u.get<uint32_t>());
    t.values.resize(u.get<uint32_t>());
    for (auto& c : t.conditions) c = u.get_bytes();
    for (auto& v : t.values) {
      v.capture = u.get<replayer::Capture>(), v.size = u.get<uint32_t>();
      v.code = u.get_bytes();
    }
  }
  taps.thread = u.get<int>();
  return taps;
}

void pack(Packer& p, const std::optional<recording::Written>& written) {
  p.put(written.has_value());
  if (!written) return;
  p.put(written->tick).put(written->event).put(written->pc);
  p.put_bytes(written->ranges.data(), written->ranges.size() * sizeof(recording::AddressRange));
  p.put(written->code_known);
  p.put_bytes(written->code.data(), written->code.size() * sizeof(recording::AddressRange));
}

std::optional<recording::Written> unpack_written(Unpacker& u) {
  if (!u.get<bool>()) return std::nullopt;
  recording::Written written;
  written.tick = u.get<uint64_t>(), written.event = u.get<uint64_t>(), written.pc = u.get<uint64_t>();
  auto ranges = [&] {
    const std::vector<uint8_t> bytes = u.get_bytes();
    std::vector<recording::AddressRange> list(bytes.size() / sizeof(recording::AddressRange));
    if (!list.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
    return list;
  };
  written.ranges = ranges();
  written.code_known = u.get<bool>();
  written.code = ranges();
  return written;
}

void pack(Packer& p, const replayer::DebugAnswer& answer) {
  p.put_bytes(answer.failure.data(), answer.failure.size());
  pack(p, answer.taps);
  p.put_bytes(answer.pcs.data(), answer.pcs.size() * sizeof answer.pcs[0]);
  p.put_bytes(answer.text.data(), answer.text.size());
}

replayer::DebugAnswer unpack_answer(Unpacker& u) {
  replayer::DebugAnswer answer;
  answer.failure = u.get_text();
  answer.taps = unpack_taps(u);
  const std::vector<uint8_t> pcs = u.get_bytes();
  answer.pcs.resize(pcs.size() / sizeof answer.pcs[0]);
  if (!pcs.empty()) std::memcpy(answer.pcs.data(), pcs.data(), answer.pcs.size() * sizeof answer.pcs[0]);
  answer.text = u.get_text();
  return answer;
}

Fd new_file() {
  Fd file(memfd_create("backstep-answer", MFD_CLOEXEC));
  if (!file) throw Error("cannot make a memory file: " + errno_text(errno));
  return file;
}

void hand_over(const Fd& file, const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(file.get(), bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error("cannot write down an answer: " + errno_text(errno));
    bytes += n, size -= static_cast<size_t>(n);
  }
}

void take_over(const Fd& file, void* data, size_t size) {
  auto* to = static_cast<char*>(data);
  for (size_t done = 0; done < size;) {
    const ssize_t n = pread(file.get(), to + done, size - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error("cannot read the answer of a replay: " + errno_text(errno));
    done += static_cast<size_t>(n);
  }
}

static_assert(std::is_trivially_copyable_v<Until> && std::is_trivially_copyable_v<Arrival>);

}  // namespace backstep::timeline
