// The state of debug code, as a file that another process goes on with: whoever moves to another moment and
// wants to keep it (--debug-state=keep) has a process there that has none.
//
// It is what the debug code has written to, and what is known of that here: its mappings, and the callbacks
// that it has asked for, which are looked up anew, since what they wait for depends on the moment. Files that
// it has open are not among it.
//
//   header, then `callbacks` callbacks and their texts, `retired` addresses, `mapped` pairs of addresses, and
//   `pages` pages, each behind its address
#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "engine/entry.h"
#include "replay/debug_world.h"

namespace backstep::replayer {
namespace {

struct DebugStateHeader {
  Address done, finish, stack, fs_base;
  uint64_t calls, next_callback;
  Address brk, brk_mapped;
  uint64_t callbacks, retired, mapped, pages;
};

struct StoredDebugCallback {
  uint64_t id, kind, function, cookie, owner, address, size;
  int64_t number;
  uint64_t text;  // its length
};

class DebugStateWriter {
 public:
  template <class T>
  void put(const T& value) {
    const auto* p = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof value);
  }
  void put(const void* from, size_t size) {
    const auto* p = static_cast<const uint8_t*>(from);
    bytes_.insert(bytes_.end(), p, p + size);
  }
  void finish(const Fd& to) const {
    for (size_t done = 0; done < bytes_.size();) {
      const ssize_t n =
          pwrite(to.get(), bytes_.data() + done, bytes_.size() - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw Error("cannot keep the state of debug code: " + errno_text(n ? errno : ENOSPC));
      done += static_cast<size_t>(n);
    }
  }

 private:
  std::vector<uint8_t> bytes_;
};

class DebugStateReader {
 public:
  explicit DebugStateReader(const Fd& from) : from_(from) {}
  void get(void* to, size_t size) {
    for (size_t done = 0; done < size;) {
      const ssize_t n = pread(from_.get(), static_cast<uint8_t*>(to) + done, size - done, at_);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) throw Error("internal error: the state of debug code is cut off");
      done += static_cast<size_t>(n);
      at_ += n;
    }
  }
  template <class T>
  T get() {
    T value;
    get(&value, sizeof value);
    return value;
  }

 private:
  const Fd& from_;
  off_t at_ = 0;
};

struct DebugPage {
  uint8_t bytes[layout::kPage];
  bool operator==(const DebugPage&) const = default;
};

}  // namespace

void DebugWorld::save(const Fd& to) const {
  const DebugMemory::Books books = memory_.books();
  std::vector<std::pair<Address, DebugPage>> pages;
  const engine::DataRange image = memory_.ranges().front();
  for (const engine::DataRange& range : memory_.ranges())
    for (Address at = range.start; at < range.end; at += layout::kPage) {
      DebugPage page;
      const bool its_image = at >= image.start && at < image.end;
      if (!bs_guarded_copy(page.bytes, reinterpret_cast<const void*>(at), sizeof page)) continue;
      if (its_image || !(page == DebugPage{})) pages.emplace_back(at, page);
    }
  DebugStateWriter out;
  out.put(DebugStateHeader{bs_debug.done, bs_debug.finish, bs_debug.stack, bs_debug.fs_base, bs_debug.calls,
                           static_cast<uint64_t>(next_callback_), books.brk, books.brk_mapped,
                           callbacks_.size(), retired_.size(), books.mapped.size(), pages.size()});
  for (const auto& [id, c] : callbacks_) {
    out.put(StoredDebugCallback{static_cast<uint64_t>(id), c.kind, c.function, c.cookie, c.owner,
                                c.what.address, c.what.size, c.what.number, c.text.size()});
    out.put(c.text.data(), c.text.size());
  }
  for (const Address function : retired_) out.put(function);
  for (const auto& [start, end] : books.mapped) out.put(start), out.put(end);
  for (const auto& [at, page] : pages) out.put(at), out.put(page);
  out.finish(to);
}

void DebugWorld::restore(const guest::ElfImage& elf, const Fd& from) {
  memory_.reserve(process_.map);
  process_.map.set_listener(this);
  process_.engine().admit_probe(memory_.load(elf).code);
  DebugStateReader in(from);
  const auto header = in.get<DebugStateHeader>();
  std::vector<std::pair<int, Callback>> callbacks;
  for (uint64_t i = 0; i < header.callbacks; i++) {
    const auto stored = in.get<StoredDebugCallback>();
    Callback c;
    c.kind = stored.kind, c.function = stored.function, c.cookie = stored.cookie;
    c.owner = static_cast<uint32_t>(stored.owner);
    c.what = {stored.address, stored.size, stored.number, nullptr};
    c.text.resize(stored.text);
    in.get(c.text.data(), c.text.size());
    callbacks.emplace_back(static_cast<int>(stored.id), std::move(c));
  }
  for (uint64_t i = 0; i < header.retired; i++) retired_.insert(in.get<Address>());
  DebugMemory::Books books{header.brk, header.brk_mapped, {}};
  for (uint64_t i = 0; i < header.mapped; i++) {
    const auto start = in.get<Address>();
    books.mapped[start] = in.get<Address>();
  }
  memory_.restore(books);
  for (uint64_t i = 0; i < header.pages; i++) {
    const auto at = in.get<Address>();
    const auto page = in.get<DebugPage>();
    auto* const to = reinterpret_cast<void*>(at);
    if (std::memcmp(to, page.bytes, sizeof page) != 0) std::memcpy(to, page.bytes, sizeof page);
  }
  bs_debug.done = header.done, bs_debug.finish = header.finish, bs_debug.stack = header.stack;
  bs_debug.fs_base = header.fs_base, bs_debug.calls = header.calls;
  bs_debug.ready = true;
  next_callback_ = static_cast<int>(header.next_callback);
  bs_debug.at = {context().tick, 0, context().rip};
  bs_debug.tap = Tap::kNobodys;
  for (auto& [id, callback] : callbacks) {
    int64_t error = 0;
    if (!find_taps(callback, error).empty()) continue;
    callbacks_.emplace(id, std::move(callback));
    callbacks_changed_ = true;
  }
}

}  // namespace backstep::replayer
