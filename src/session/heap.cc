// The heap is what the functions of the allocator say it is: blocks begin when one of them returns a pointer
// and end when one that frees is entered, because from then on another thread may get the same memory.
//
// Allocators call each other: `new[]` calls `new`, that calls malloc, and a wrapper in front of malloc calls
// the real one. Such a chain is one block, which belongs to the outermost: if a function returns a pointer
// that was allocated since it was entered, on the same thread, it is the same block. This needs no stack to
// be followed, so signal handlers that interrupt malloc and coroutines are right by themselves. Likewise what
// is freed while it is being freed by the same thread is freed once.
//
// realloc ends a block and begins another, even if it stays where it is: the two are linked. While it runs it
// may have freed the old block already, so that another thread can be given its memory before it returns.
#include "session/heap.h"

#include <algorithm>

#include "isa/decode.h"

namespace backstep::session {
namespace {

using FunctionKind = HeapFunction::Kind;

const HeapFunction& function_of(const KnownCall& call) {
  return heap_functions()[call.function];
}

bool frees(const KnownCall& call) {
  return function_of(call).kind != FunctionKind::Allocate && call.args[0] != 0;
}

class Books {
 public:
  using Pointers = std::map<std::pair<Tick, Address>, Address>;  // what posix_memalign gave, by its return

  Books(Session& session, const HeapRequest& request, const HeapListener& listener, Pointers pointers)
      : session_(session), request_(request), listener_(listener), pointers_(std::move(pointers)) {}

  bool take(const KnownCall& call) {
    if (!request_.frees && request_.last && call.at.tick > *request_.last && !is_open(*request_.last))
      return false;
    if (call.kind == KnownCall::Enter) return enter(call);
    const OpenCalls::Chain chain = open_.leave(call);
    return chain.empty() || leave(chain.front(), call);
  }

  // Tells of those that are left.
  bool end() {
    if (enough_) return false;
    // What has not returned runs to the end: a free that aborts the program. (`new` may have thrown.)
    for (const OpenCalls::Chain& chain : open_.rest())
      if (listener_.inside && function_of(chain.front()).family == HeapFamily::Malloc)
        listener_.inside(chain.front().thread, chain.front().at.tick, ~0ull);
    std::vector<const HeapBlock*> rest;
    for (const auto& [address, block] : live_) rest.push_back(&block);
    std::sort(rest.begin(), rest.end(),
              [](const HeapBlock* a, const HeapBlock* b) { return a->number < b->number; });
    for (const HeapBlock* b : rest)
      if (!tell(*b)) return false;
    return true;
  }

 private:
  bool tell(const HeapBlock& b) {
    return enough_ = enough_ || (listener_.block && !listener_.block(b)), !enough_;
  }
  // Has a call that began in this tick or before not returned?
  bool is_open(Tick tick) const {
    return open_.any([&](const KnownCall& c) { return c.at.tick <= tick; });
  }

  bool enter(const KnownCall& call) {
    open_.enter(call);
    if (!frees(call)) return true;
    if (function_of(call).kind == FunctionKind::Free) return free(call);
    if (live_.count(call.args[0]))
      resizing_.try_emplace(call.args[0], deed_of(call));  // the outermost
    else
      complain_about_free(call);
    return true;
  }

  static HeapDeed deed_of(const KnownCall& c) { return {c.at, c.at.tick, c.thread, &function_of(c), c.back}; }

  // Is this part of another call that frees the same?
  bool is_freed_by_caller(const KnownCall& call) const {
    return open_.any([&](const KnownCall& o) {
      return o.at != call.at && o.thread == call.thread && frees(o) && o.args[0] == call.args[0] &&
             o.stack >= call.stack;
    });
  }

  bool free(const KnownCall& call) {
    const Address address = call.args[0];
    auto found = live_.find(address);
    if (found == live_.end()) {
      complain_about_free(call);
      return true;
    }
    HeapDeed deed = deed_of(call);
    // Inside of a realloc it is that one's doing.
    if (auto r = resizing_.find(address); r != resizing_.end() && r->second.thread == deed.thread) {
      deed = r->second;
      resizing_.erase(r);
    } else {
      complain_about_kind(call, found->second);
    }
    return end_block(found, deed);
  }

  using Live = std::map<Address, HeapBlock>;
  HeapBlock take_out(Live::iterator block) {
    HeapBlock b = std::move(block->second);
    bytes_ -= b.size;
    live_.erase(block);
    return b;
  }
  bool end_block(Live::iterator block, const HeapDeed& deed) {
    HeapBlock over = take_out(block);
    over.freed = deed;
    freed_[over.address] = over;
    // A block that realloc ends is linked to what becomes of it before it is told of.
    if (deed.function->kind == FunctionKind::Resize) {
      moved_.push_back(over);
      return true;
    }
    return tell(over);
  }

  void complain_about_free(const KnownCall& call) {
    if (!listener_.error || is_freed_by_caller(call) || is_allocators_own(call)) return;
    HeapError e;
    e.deed = deed_of(call);
    e.address = call.args[0];
    auto next = live_.upper_bound(e.address);
    if (next != live_.begin() && std::prev(next)->second.holds(e.address)) {
      e.block = std::prev(next)->second;
    } else if (auto was = freed_.find(e.address); was != freed_.end()) {
      e.kind = HeapError::DoubleFree;
      e.block = was->second;
    }
    listener_.error(e);
  }

  // When a thread ends, the allocator frees what it keeps for it: blocks that the program has freed already,
  // and tables of its own. A library's allocator calls itself directly for that; others in the same library
  // go by the linker's tables, as the function may be replaced by another.
  bool is_allocators_own(const KnownCall& call) const {
    const symbols::Program& program = session_.program();
    const auto function = program.function_at(call.back - 1);
    if (function && function->name == "__malloc_arena_thread_freeres") return true;
    const auto& files = session_.timeline().log().files();
    const symbols::Module* module = program.module_at(call.back);
    if (!module || module != program.module_at(call.at.pc)) return false;
    if (files.empty() || module->name == files.front().path) return false;
    constexpr size_t kLength = 5;
    const std::string_view bytes = module->elf().bytes(call.back - kLength - module->bias, kLength);
    if (bytes.size() != kLength) return false;
    const isa::Insn in = isa::decode(reinterpret_cast<const uint8_t*>(bytes.data()), kLength);
    return in.cls == isa::Class::Call && call.back + static_cast<uint64_t>(int64_t{in.rel}) == call.at.pc;
  }

  void complain_about_kind(const KnownCall& call, const HeapBlock& block) {
    if (!listener_.error) return;
    HeapError e;
    e.deed = deed_of(call);
    e.address = block.address;
    e.block = block;
    if (function_of(call).family != block.allocated.function->family) {
      e.kind = HeapError::Mismatch;
      listener_.error(e);
    } else if (function_of(call).size_arg >= 0 && call.args[function_of(call).size_arg] != block.size) {
      e.kind = HeapError::WrongSize;
      e.size = call.args[function_of(call).size_arg];
      listener_.error(e);
    }
  }

  bool leave(const KnownCall& call, const KnownCall& leave) {
    if (listener_.inside) listener_.inside(call.thread, call.at.tick, leave.last_tick());
    const HeapFunction& f = function_of(call);
    if (f.kind == FunctionKind::Free) return true;
    Address result = leave.result;
    if (f.by_pointer) {
      auto known = pointers_.find({leave.at.tick, leave.at.pc});
      result = known == pointers_.end() ? 0 : known->second;
    }
    uint64_t size = call.args[f.size_arg];
    if (f.count_arg >= 0) size *= call.args[f.count_arg];
    const Address old = f.kind == FunctionKind::Resize ? call.args[0] : 0;
    if (!result) return fail(call, old, size, leave.last_tick());
    return begin_block(call, result, old, size, leave.last_tick());
  }

  bool fail(const KnownCall& call, Address old, uint64_t size, Tick done) {
    if (old && size == 0) {  // realloc(p, 0)
      auto found = live_.find(old);
      auto r = resizing_.find(old);
      const bool mine = r != resizing_.end() && r->second.thread == call.thread;
      if (mine) resizing_.erase(r);
      if (mine && found != live_.end() && !end_block(found, deed_of(call))) return false;
      return tell_moved(call, 0);
    }
    if (old) resizing_.erase(old);
    if (!request_.failures) return true;
    HeapBlock b;
    b.number = ++count_;
    b.size = size;
    b.allocated = deed_of(call);
    b.allocated.done = done;
    return tell(b);
  }

  bool begin_block(const KnownCall& call, Address address, Address old, uint64_t size, Tick done) {
    uint64_t number = 0, from = 0;
    auto there = live_.find(address);
    if (there != live_.end() && there->second.allocated.thread == call.thread &&
        there->second.allocated.at >= call.at) {
      // A function that this one called has allocated it.
      number = there->second.number, from = there->second.resized_from;
      take_out(there);
    } else if (there != live_.end() && address != old) {
      // Freed without our seeing it: by a realloc of another thread that has not returned, or by somebody
      // whose name we do not know.
      auto r = resizing_.find(address);
      if (r != resizing_.end()) {
        const HeapDeed deed = r->second;
        resizing_.erase(r);
        if (!end_block(there, deed)) return false;
      } else {
        HeapBlock gone = take_out(there);
        gone.reused = true;
        if (!tell(gone)) return false;
      }
    }
    if (!number) number = ++count_;
    if (old) {
      if (auto r = resizing_.find(old); r != resizing_.end() && r->second.thread == call.thread) {
        const HeapDeed deed = r->second;
        resizing_.erase(r);
        if (auto found = live_.find(old); found != live_.end()) end_block(found, deed);
      }
      for (const HeapBlock& b : moved_)
        if (b.address == old && b.freed->at == call.at) from = b.number;
      if (!tell_moved(call, number)) return false;
    }
    HeapBlock b;
    b.number = number;
    b.address = address;
    b.size = size;
    b.allocated = deed_of(call);
    b.allocated.done = done;
    b.resized_from = from;
    freed_.erase(address);
    live_[address] = b;
    bytes_ += size;
    if (bytes_ > peak_ && listener_.peak) listener_.peak(bytes_, call.at);
    peak_ = std::max(peak_, bytes_);
    return true;
  }

  // What this realloc has ended: it has become block `number`, or none.
  bool tell_moved(const KnownCall& call, uint64_t number) {
    for (size_t i = 0; i < moved_.size();) {
      if (moved_[i].freed->at != call.at) {
        i++;
        continue;
      }
      moved_[i].resized_to = number;
      const HeapBlock b = std::move(moved_[i]);
      moved_.erase(moved_.begin() + static_cast<ptrdiff_t>(i));
      if (!tell(b)) return false;
    }
    return true;
  }

  Session& session_;
  const HeapRequest& request_;
  const HeapListener& listener_;
  Pointers pointers_;
  OpenCalls open_;
  Live live_;
  std::unordered_map<Address, HeapBlock> freed_;    // the last one at each address that is free now
  std::unordered_map<Address, HeapDeed> resizing_;  // blocks that a realloc has been given
  std::vector<HeapBlock> moved_;                    // ended by a realloc that has not returned
  uint64_t count_ = 0;
  uint64_t bytes_ = 0, peak_ = 0;  // of live blocks
  bool enough_ = false;            // nobody wants more
};

std::vector<KnownFunction> known_heap_functions() {
  std::vector<KnownFunction> known;
  for (const HeapFunction& f : heap_functions())
    known.push_back({f.symbol, f.local, f.kind != FunctionKind::Free});
  return known;
}

// posix_memalign returns its pointer in memory. Where, is known only when it is entered, and what is there
// only when it has returned: so its calls are looked for first, and then what they gave, at the moments when
// they return.
Books::Pointers aligned_pointers(Session& session, const Stretch& stretch, const Watcher& watcher) {
  std::vector<KnownFunction> by_pointer;
  for (const HeapFunction& f : heap_functions())
    if (f.by_pointer) by_pointer.push_back({f.symbol, f.local, true});
  Books::Pointers pointers;
  const KnownCalls calls(session, by_pointer);
  if (!calls.any() || std::none_of(by_pointer.begin(), by_pointer.end(),
                                   [&](const KnownFunction& f) { return calls.is_named_elsewhere(f.name); }))
    return pointers;
  std::unordered_map<uint64_t, Address> places;      // by stack pointer
  std::map<Address, std::vector<Position>> returns;  // … and when it was known what is there
  calls.run(
      stretch,
      [&](const KnownCall& c) {
        if (c.kind == KnownCall::Enter) places[c.stack] = c.args[0];
        auto place = places.find(c.stack);
        if (c.kind != KnownCall::Leave || place == places.end()) return true;
        if (c.result == 0) returns[place->second].push_back(c.at);
        places.erase(place);
        return true;
      },
      watcher);
  if (returns.empty()) return pointers;
  timeline::Sweep sweep;
  for (const auto& [place, moments] : returns) {
    timeline::Tap& tap = sweep.taps.list.emplace_back();
    tap.kind = timeline::Tap::Moment;
    tap.action = timeline::Tap::Log;
    tap.values = {session.compiler().compile("*(unsigned long *)" + std::to_string(place), 0).code};
    for (const Position& p : moments) tap.moments.push_back({p, 0});
  }
  sweep.from = Position{};
  sweep.record = [&](const replayer::TapRecord& record, const uint8_t* bytes) {
    Address pointer = 0;
    const uint8_t* at = bytes + sizeof(uint32_t);
    std::copy(at, at + sizeof pointer, reinterpret_cast<uint8_t*>(&pointer));
    pointers[{record.tick, record.pc}] = pointer;
    return true;
  };
  session.timeline().sweep(sweep);
  return pointers;
}

}  // namespace

const char* heap_error_name(HeapError::Kind kind) {
  constexpr const char* kNames[] = {"double free", "bad free", "mismatched free", "wrong size"};
  return kNames[kind];
}

bool heap(Session& session, const HeapRequest& request, const HeapListener& listener,
          const Watcher& watcher) {
  const KnownCalls calls(session, known_heap_functions());
  if (!calls.any()) return true;
  const Stretch stretch{Position{}, request.to};
  Books books(session, request, listener, aligned_pointers(session, stretch, watcher));
  calls.run(
      stretch, [&](const KnownCall& c) { return books.take(c); }, watcher);
  return !session.timeline().attention.stop_asked && books.end();
}

}  // namespace backstep::session
