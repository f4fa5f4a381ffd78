// The way back of a value, byte by byte.
//
// A value is a list of bytes, each in one place (of memory, or of a register of a thread). The last step that
// wrote one of them is found (flow_trail.h); if that only moved the byte, the byte's place is another one
// from there on back; if it made the byte, that is its origin. When all bytes have an origin those that
// belong together are parts of the value. An origin that is a computation has inputs, which are values again,
// at that moment.
//
// What is followed is data: what a byte was made of. What decided that this was done (branches), and where in
// memory it was looked up (addresses), is not, unless asked for.
#include "session/flow.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include <fmt/format.h>

#include "base/error.h"
#include "recording/library.h"
#include "session/flow_origins.h"
#include "session/flow_trail.h"
#include "session/present.h"

namespace backstep::session {
namespace {

using replayer::StepRecord;
using Kind = FlowOrigin::Kind;

constexpr uint64_t kMostBytes = 4096;   // of a value
constexpr unsigned kMostMoves = 20000;  // of one value's bytes

class Tracker;

// What the parts of one question share.
struct Inquiry {
  FlowRequest request;
  Watcher watcher;
  std::unique_ptr<Recorded> recorded;
  unsigned origins = 0;
  bool stopped = false;
  // Other processes that the way leads to.
  struct Neighbour;
  std::map<uint64_t, std::unique_ptr<Neighbour>> neighbours;
  Tracker& tracker_of(const recording::Recording& recording, uint64_t process);
};

struct CopyStep {
  StepRecord step;
  std::shared_ptr<CopyStep> newer;
};

struct MovingByte {
  uint64_t index;  // in the value
  Loc loc;
};

struct Group {
  Position at;
  int thread = 1;  // whose registers
  std::vector<MovingByte> bytes;
  std::shared_ptr<CopyStep> copies;
};

// What is known of one byte in the end.
struct Ended {
  uint64_t index = 0;
  Loc loc;
  std::shared_ptr<CopyStep> copies;
  ByteSource source;
  Trail::Definition::Kind kind{};
  StepRecord step{};
  std::optional<Change> change;
  int thread = 1;
  bool moved_on = false;  // it was not followed any further
};

class Tracker {
 public:
  Tracker(Session& session, Inquiry& inquiry)
      : session_(session), inquiry_(inquiry), trail_(session), origins_(session, trail_, *inquiry.recorded) {}

  // `locs`: where each byte of the value is at that moment.
  void follow(FlowValue& value, const std::vector<Loc>& locs, const Position& at, int thread, uint64_t depth);
  Trail& trail() { return trail_; }
  Origins& origins() { return origins_; }
  std::vector<uint8_t> read(const Loc& first, uint64_t count, const Position& at, const uint64_t* gpr);

 private:
  void advance(Group group, std::deque<Group>& work, std::vector<Ended>& ended);
  FlowPart part_of(const std::vector<Ended>& run, const FlowValue& value, uint64_t depth);
  std::shared_ptr<FlowOrigin> origin_of(const std::vector<Ended>& run, const FlowPart& part, uint64_t depth);
  void follow_inputs(FlowOrigin& origin, const StepRecord& step, uint64_t depth);
  void follow_writers(FlowOrigin& origin, uint64_t depth);
  void follow_sharer(FlowOrigin& origin, const Ended& e, const std::vector<uint8_t>& bytes, uint64_t depth);
  bool follow_writer(FlowOrigin& origin, const Origins::Piece& piece, uint64_t depth);
  std::string computed_text(const FlowOrigin& origin, const Effect& effect, const StepRecord& step);

  Session& session_;
  Inquiry& inquiry_;
  Trail trail_;
  Origins origins_;
  std::map<std::tuple<Tick, uint64_t, Address>, std::shared_ptr<FlowOrigin>> computed_;
};

struct Inquiry::Neighbour {
  Session session;
  Tracker tracker;
  Neighbour(const ReplayOptions& options, const recording::Recording& recording, Inquiry& inquiry)
      : session(options, recording::Library::standard(), recording), tracker(session, inquiry) {}
};

std::vector<uint8_t> Tracker::read(const Loc& first, uint64_t count, const Position& at,
                                   const uint64_t* gpr) {
  std::vector<uint8_t> bytes(count);
  if (first.kind == Loc::General && gpr) {
    std::memcpy(bytes.data(), reinterpret_cast<const uint8_t*>(&gpr[first.number()]) + first.byte(),
                std::min<uint64_t>(count, 8 - first.byte()));
    return bytes;
  }
  if (first.kind != Loc::Memory && first.kind != Loc::Vector) return {};
  timeline::Timeline& timeline = session_.timeline();
  if (timeline.now() != at) timeline.go_to(at);
  if (first.kind == Loc::Memory) return Present(session_).memory(first.where, count);
  const timeline::Registers r = Present(session_).registers(0);
  constexpr unsigned kLow = 160, kHigh = 576;  // of the XSAVE area
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t byte = first.byte() + i;
    bytes[i] = byte < 16   ? r.xsave[kLow + 16 * first.number() + byte]
               : byte < 32 ? r.xsave[kHigh + 16 * first.number() + byte - 16]
                           : 0;
  }
  return bytes;
}

// One step back for the bytes of a group.
void Tracker::advance(Group group, std::deque<Group>& work, std::vector<Ended>& ended) {
  std::vector<Loc> wanted;
  for (const MovingByte& b : group.bytes) wanted.push_back(b.loc);
  const Trail::Definition d = trail_.last_write(wanted, group.at, group.thread);
  if (d.kind == Trail::Definition::Stopped) {
    inquiry_.stopped = true;
    return;
  }
  if (d.kind != Trail::Definition::Step) {
    for (const MovingByte& b : group.bytes)
      ended.push_back({b.index, b.loc, group.copies, {}, d.kind, d.step, {}, group.thread});
    return;
  }
  Group rest{d.step.at, group.thread, {}, group.copies};
  // Its registers are those of the thread that made the step.
  Group registers{d.step.at, d.step.thread, {}, nullptr}, memory{d.step.at, d.step.thread, {}, nullptr};
  for (const MovingByte& b : group.bytes) {
    const Change* change = nullptr;
    // Of several that cover it the last one counts: a mapped file is told behind the call.
    for (const Change& c : d.changes)
      if (c.covers(b.loc) && (!change || !c.weak)) change = &c;
    if (!change) {
      rest.bytes.push_back(b);
      continue;
    }
    const ByteSource source =
        change->written ? change->written->source_of(b.loc.where - change->first.where) : ByteSource{};
    if (change->how == Change::Instruction && source.kind == ByteSource::Copy) {
      (source.from.in_register() ? registers : memory).bytes.push_back({b.index, source.from});
      continue;
    }
    ended.push_back({b.index, b.loc, group.copies, source, d.kind, d.step, *change, group.thread});
  }
  if (!rest.bytes.empty()) work.push_back(std::move(rest));
  if (registers.bytes.empty() && memory.bytes.empty()) return;
  auto copies = std::make_shared<CopyStep>(CopyStep{d.step, group.copies});
  for (Group* g : {&registers, &memory}) {
    if (g->bytes.empty()) continue;
    g->copies = copies;
    work.push_back(std::move(*g));
  }
}

void Tracker::follow(FlowValue& value, const std::vector<Loc>& locs, const Position& at, int thread,
                     uint64_t depth) {
  std::deque<Group> work;
  std::vector<Ended> ended;
  Group registers{at, thread, {}, nullptr}, memory{at, thread, {}, nullptr};
  for (uint64_t i = 0; i < locs.size(); i++)
    (locs[i].in_register() ? registers : memory).bytes.push_back({i, locs[i]});
  for (Group* g : {&registers, &memory})
    if (!g->bytes.empty()) work.push_back(std::move(*g));
  unsigned moves = 0;
  auto run = [&] {
    while (!work.empty() && !inquiry_.stopped && moves++ < kMostMoves) {
      Group group = std::move(work.front());
      work.pop_front();
      advance(std::move(group), work, ended);
    }
    // A loop that hands it on from turn to turn.
    for (const Group& group : work)
      for (const MovingByte& b : group.bytes) {
        Ended e{b.index, b.loc, group.copies, {}, Trail::Definition::TooFar, {}, {}, group.thread};
        if (group.copies) e.step = group.copies->step;
        e.moved_on = true;
        ended.push_back(std::move(e));
      }
    work.clear();
  };
  run();
  // Only the extension of a narrower value: what that was.
  auto is_extension = [](const Ended& e) {
    return e.change && e.change->how == Change::Instruction && e.source.kind == ByteSource::Extension;
  };
  if (!ended.empty() && std::all_of(ended.begin(), ended.end(), is_extension)) {
    const Ended first = ended.front();
    ended.clear();
    work.push_back({first.step.at, first.step.thread, {{first.index, first.source.from}}, first.copies});
    run();
  } else {
    std::erase_if(ended, is_extension);
  }
  std::sort(ended.begin(), ended.end(), [](const Ended& a, const Ended& b) { return a.index < b.index; });
  // Bytes beside each other that were made together are one part.
  for (size_t i = 0; i < ended.size() && !inquiry_.stopped;) {
    size_t n = 1;
    for (; i + n < ended.size(); n++) {
      const Ended &a = ended[i + n - 1], &b = ended[i + n];
      if (b.index != a.index + 1 || b.kind != a.kind || b.step.at != a.step.at) break;
      if (a.kind == Trail::Definition::Step &&
          (a.change->how != b.change->how || a.source.kind != b.source.kind ||
           a.change->event != b.change->event))
        break;
      const bool made = a.kind == Trail::Definition::Step && a.change->how == Change::Instruction;
      if (!made && b.loc != a.loc + 1) break;
    }
    value.parts.push_back(
        part_of({ended.begin() + static_cast<ptrdiff_t>(i), ended.begin() + static_cast<ptrdiff_t>(i + n)},
                value, depth));
    i += n;
  }
}

FlowPart Tracker::part_of(const std::vector<Ended>& run, const FlowValue& value, uint64_t depth) {
  FlowPart part;
  part.offset = run.front().index;
  for (const Ended& e : run)
    if (e.index < value.bytes.size()) part.bytes.push_back(value.bytes[e.index]);
  std::vector<FlowCopy> oldest_first;
  for (auto c = run.front().copies; c; c = c->newer) {
    FlowPlace place = origins_.place(c->step);
    FlowCopy* last = oldest_first.empty() ? nullptr : &oldest_first.back();
    if (last && !inquiry_.request.copies && last->place.function == place.function &&
        last->place.line == place.line && last->place.file == place.file) {
      last->steps++;
      continue;
    }
    oldest_first.push_back({std::move(place), 1});
  }
  part.copies.assign(oldest_first.rbegin(), oldest_first.rend());
  part.origin = origin_of(run, part, depth);
  // A copy is never another value: a constant that is not what was followed would be our mistake.
  const bool fits = std::all_of(run.begin(), run.end(), [&](const Ended& e) {
    return e.source.kind != ByteSource::Constant || e.index >= value.bytes.size() ||
           e.source.value == value.bytes[e.index];
  });
  if (!fits) {
    part.origin->kind = Kind::Unknown;
    part.origin->sentence = "what was found here is not the value that was followed: a mistake of backstep's";
  }
  return part;
}

std::shared_ptr<FlowOrigin> Tracker::origin_of(const std::vector<Ended>& run, const FlowPart& part,
                                               uint64_t depth) {
  const Ended& e = run.front();
  const bool computed = e.kind == Trail::Definition::Step && e.change->how == Change::Instruction &&
                        e.source.kind == ByteSource::Computed;
  const auto key = std::tuple(e.step.at.tick, e.step.at.event, e.step.at.pc);
  if (computed)
    if (auto known = computed_.find(key); known != computed_.end()) return known->second;
  auto origin = std::make_shared<FlowOrigin>();
  origin->number = ++inquiry_.origins;
  if (inquiry_.watcher.progress)
    inquiry_.watcher.progress(
        std::min(1.0, static_cast<double>(origin->number) / static_cast<double>(inquiry_.request.most)));
  switch (e.kind) {
    case Trail::Definition::Beginning:
      origins_.tell_beginning(*origin, e.loc, run.size(), e.thread);
      return origin;
    case Trail::Definition::Untold:
      origin->place = origins_.place(e.step);
      origin->sentence = "changed here, in a way that is not followed";
      return origin;
    case Trail::Definition::TooFar:
      origin->place = origins_.place(e.step);
      if (e.moved_on) {
        origin->sentence = fmt::format(
            "handed on from copy to copy: followed through {} of them, up to here, where it is {} {}",
            kMostMoves, e.loc.in_register() ? "in" : "at",
            e.loc.in_register() ? register_name(e.loc, run.size()) : fmt::format("{:#x}", e.loc.where));
        return origin;
      }
      origin->sentence =
          fmt::format("in {} for longer than the {} million instructions that are looked through",
                      register_name(e.loc, run.size()), trail_.reach / 1'000'000);
      return origin;
    default:
      break;
  }
  if (e.change->how != Change::Instruction) {
    origins_.tell_change(*origin, *e.change, e.step, e.loc, run.size());
    follow_writers(*origin, depth);
    if (e.change->how == Change::FromOutside) follow_sharer(*origin, e, part.bytes, depth);
    return origin;
  }
  origin->place = origins_.place(e.step);
  if (e.source.kind == ByteSource::Constant) {
    origin->kind = Kind::Constant;
    const std::string text = flow_number(part.bytes);
    if (origin->place.instruction.starts_with("call"))
      origin->sentence = "the return address of a call";
    else if (origin->place.instruction.starts_with("lea"))
      origin->sentence = fmt::format("an address in the code: {}", text);
    else
      origin->sentence = fmt::format("a constant in the code: {}", text);
    return origin;
  }
  origin->kind = Kind::Computed;
  computed_[key] = origin;
  follow_inputs(*origin, e.step, depth);
  return origin;
}

std::string Tracker::computed_text(const FlowOrigin& origin, const Effect& effect, const StepRecord& step) {
  static const std::map<ZydisMnemonic, const char*> kOperators = {
      {ZYDIS_MNEMONIC_ADD, "+"},  {ZYDIS_MNEMONIC_SUB, "-"},
      {ZYDIS_MNEMONIC_IMUL, "*"}, {ZYDIS_MNEMONIC_AND, "&"},
      {ZYDIS_MNEMONIC_OR, "|"},   {ZYDIS_MNEMONIC_XOR, "^"},
      {ZYDIS_MNEMONIC_SHL, "<<"}, {ZYDIS_MNEMONIC_SHR, ">>"},
      {ZYDIS_MNEMONIC_SAR, ">>"}, {ZYDIS_MNEMONIC_CMP, "compared with"},
      {ZYDIS_MNEMONIC_TEST, "&"},
  };
  const DecodedStep& d = trail_.decoder().decode(step);
  auto op = kOperators.find(d.in.mnemonic);
  std::vector<std::string> terms;
  for (const FlowValue& v : origin.inputs)
    if (!v.text.empty()) terms.push_back(v.text);
  for (uint64_t c : effect.constants) terms.push_back(fmt::format("{}", static_cast<int64_t>(c)));
  if (d.in.mnemonic == ZYDIS_MNEMONIC_LEA) {
    const auto& m = d.operands[1].mem;
    std::string text;
    if (m.base != ZYDIS_REGISTER_NONE) text = terms.empty() ? "?" : terms[0];
    if (m.index != ZYDIS_REGISTER_NONE) {
      const size_t index = m.base != ZYDIS_REGISTER_NONE && m.base != m.index ? 1 : 0;
      text += (text.empty() ? "" : " + ") + (index < terms.size() ? terms[index] : std::string("?"));
      if (m.scale > 1) text += fmt::format(" * {}", m.scale);
    }
    if (m.disp.value) text += fmt::format(" {} {}", m.disp.value < 0 ? "-" : "+", std::abs(m.disp.value));
    return "computed: " + text;
  }
  if (op != kOperators.end() && terms.size() == 2)
    return fmt::format("computed: {} {} {}", terms[0], op->second, terms[1]);
  if (op != kOperators.end() && terms.size() == 1)
    return fmt::format("computed: {} {} {}", terms[0], op->second, terms[0]);
  return "computed by " + origin.place.instruction.substr(0, origin.place.instruction.find(' '));
}

void Tracker::follow_inputs(FlowOrigin& origin, const StepRecord& step, uint64_t depth) {
  const Effect effect = trail_.decoder().effect(step);
  std::vector<FlowInput> inputs;
  for (const FlowInput& i : effect.inputs) {
    if (i.address && !inquiry_.request.addresses) continue;
    const bool there = std::any_of(inputs.begin(), inputs.end(), [&](const FlowInput& o) {
      return o.first == i.first && o.count >= i.count;
    });
    if (!there) inputs.push_back(i);
  }
  for (const FlowInput& i : inputs) {
    FlowValue v;
    v.name = i.first.kind == Loc::Memory ? fmt::format("{} bytes at {:#x}", i.count, i.first.where)
                                         : register_name(i.first, i.count);
    if (i.address) v.name += " (address)";
    if (i.count <= 64) v.bytes = read(i.first, i.count, step.at, step.gpr);
    v.text = flow_number(v.bytes);
    origin.inputs.push_back(std::move(v));
  }
  origin.sentence = computed_text(origin, effect, step);
  for (size_t i = 0; i < inputs.size() && !inquiry_.stopped; i++) {
    if (depth == 0 || i >= inquiry_.request.width || inquiry_.origins >= inquiry_.request.most) {
      origin.cut = true;
      break;
    }
    std::vector<Loc> locs;
    for (uint64_t b = 0; b < std::min<uint64_t>(inputs[i].count, 64); b++)
      locs.push_back(inputs[i].first + b);
    follow(origin.inputs[i], locs, step.at, step.thread, depth - 1);
  }
}

// Where in memory the bytes lie that a call writes: the buffer, or pieces of it.
std::vector<Loc> written_from(Session& session, const Transfer& write, uint64_t byte, uint64_t count) {
  constexpr uint64_t kIovec = 16, kMostPieces = 1024;
  auto word = [&](Address at) {
    uint64_t value = 0;
    const auto bytes = Present(session).memory(at, sizeof value);
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  };
  std::vector<std::pair<Address, uint64_t>> buffers;
  if (write.nr == SYS_write || write.nr == SYS_sendto) {
    buffers.push_back({write.args[1], write.bytes});
  } else {
    const bool message = write.nr == SYS_sendmsg;
    const Address list = message ? word(write.args[1] + 16) : write.args[1];
    const uint64_t pieces = message ? word(write.args[1] + 24) : write.args[2];
    for (uint64_t i = 0; i < std::min(pieces, kMostPieces); i++)
      buffers.push_back({word(list + i * kIovec), word(list + i * kIovec + 8)});
  }
  std::vector<Loc> locs;
  uint64_t begin = 0;
  for (auto [address, size] : buffers) {
    for (uint64_t b = std::max(begin, byte); b < byte + count && b - begin < size; b++)
      locs.push_back({Loc::Memory, address + (b - begin)});
    begin += size;
  }
  return locs;
}

// Into the processes that wrote what came out of a pipe or a socket.
void Tracker::follow_writers(FlowOrigin& origin, uint64_t depth) {
  const std::vector<Origins::Piece> pieces = origins_.pieces;  // others come on the way
  for (size_t i = 0; i < pieces.size() && !inquiry_.stopped; i++)
    if (depth == 0 || i >= inquiry_.request.width || inquiry_.origins >= inquiry_.request.most ||
        !follow_writer(origin, pieces[i], depth)) {
      origin.cut = true;
      return;
    }
}

Tracker& Inquiry::tracker_of(const recording::Recording& recording, uint64_t process) {
  auto& neighbour = neighbours[process];
  if (!neighbour) {
    ReplayOptions options;
    options.recording = recording.dir();
    options.process = process;
    options.quiet = true;
    neighbour = std::make_unique<Inquiry::Neighbour>(options, recording, *this);
  }
  return neighbour->tracker;
}

// Into the process that wrote it, in memory that they share: of those that have it there with this value, the
// one whose last store to it came last.
void Tracker::follow_sharer(FlowOrigin& origin, const Ended& e, const std::vector<uint8_t>& bytes,
                            uint64_t depth) {
  const timeline::LogIndex& log = session_.timeline().log();
  const auto got = inquiry_.recorded->owner(log.process(), e.change->event);
  if (!got || bytes.empty()) return;
  if (depth == 0 || inquiry_.origins >= inquiry_.request.most) {
    origin.cut = true;
    return;
  }
  SharedPlaces& shared = inquiry_.recorded->shared();
  struct Writer {
    uint64_t order;
    SharedPlace place;
    std::vector<Loc> locs;
    Position at;
  };
  std::optional<Writer> last;
  size_t writers = 0;
  for (const SharedPlace& place : shared.elsewhere(got->process, got->event, e.loc.where)) {
    Tracker& there = inquiry_.tracker_of(session_.recording(), place.process);
    timeline::Timeline& timeline = there.session_.timeline();
    timeline.go_to(place.before);
    if (Present(there.session_).memory(place.address, bytes.size()) != bytes) continue;
    Writer w{0, place, {}, timeline.now()};
    for (uint64_t i = 0; i < bytes.size(); i++) w.locs.push_back({Loc::Memory, place.address + i});
    const Trail::Definition d = there.trail_.last_write(w.locs, w.at, 1);
    if (d.kind == Trail::Definition::Stopped) {
      inquiry_.stopped = true;
      return;
    }
    if (d.kind != Trail::Definition::Step || d.step.at.event < timeline.log().own())
      continue;  // an ancestor's
    const bool others = std::any_of(d.changes.begin(), d.changes.end(), [&](const Change& c) {
      return c.how == Change::FromOutside && !c.weak && c.covers(w.locs[0]);
    });
    if (others) continue;  // from somebody else
    writers++;
    w.order = shared.order_before(place.process, d.step.at.event - timeline.log().own());
    if (!last || w.order > last->order) last = std::move(w);
  }
  if (!last) {
    origin.sentence += "; no recorded one is known to have written it";
    return;
  }
  Tracker& there = inquiry_.tracker_of(session_.recording(), last->place.process);
  origin.sentence = fmt::format("written by process #{}, in memory that they share{}", last->place.process,
                                writers > 1 ? " (the last one by the order of the events)" : "");
  FlowValue v;
  v.name =
      fmt::format("{} bytes at {:#x} of process #{}", bytes.size(), last->place.address, last->place.process);
  v.bytes = bytes;
  v.text = flow_number(bytes);
  there.follow(v, last->locs, last->at, 1, depth - 1);
  origin.inputs.push_back(std::move(v));
}

bool Tracker::follow_writer(FlowOrigin& origin, const Origins::Piece& piece, uint64_t depth) {
  const Transfer& write = *piece.write;
  Tracker& there = inquiry_.tracker_of(session_.recording(), write.process);
  timeline::Timeline& timeline = there.session_.timeline();
  timeline.go_to({write.began, 0, write.pc});
  const Position at = timeline.now();
  const std::vector<Loc> locs = written_from(there.session_, write, piece.byte, piece.count);
  if (locs.empty()) return false;
  FlowValue v;
  v.name = fmt::format("{} bytes at {:#x} of process #{}", locs.size(), locs.front().where, write.process);
  for (const Loc& l : locs) {
    const auto byte = Present(there.session_).memory(l.where, 1);
    if (byte.empty()) return false;
    v.bytes.push_back(byte[0]);
  }
  v.text = flow_number(v.bytes);
  there.follow(v, locs, at, write.thread, depth - 1);
  origin.inputs.push_back(std::move(v));
  return true;
}

// --- what the question is about ---

struct Subject {
  std::vector<Loc> locs;
  std::string type;
};

uint64_t number_in(const std::string& text, size_t* used) {
  try {
    return std::stoull(text, used, 0);
  } catch (const std::exception&) {
    *used = 0;
    return 0;
  }
}

// "0x7ffc1000:16": so many bytes there.
std::optional<Subject> bare_address(const std::string& text) {
  size_t used = 0, rest = 0;
  const uint64_t address = number_in(text, &used);
  if (used == 0 || used >= text.size() || text[used] != ':') return std::nullopt;
  const std::string size = text.substr(used + 1);
  const uint64_t count = number_in(size, &rest);
  if (rest != size.size() || count == 0) return std::nullopt;
  Subject s;
  for (uint64_t i = 0; i < std::min(count, kMostBytes); i++) s.locs.push_back({Loc::Memory, address + i});
  return s;
}

// A variable that the compiler keeps in a register: its bytecode is that register, extended to its type.
std::optional<Loc> register_of(const symbols::Compiled& compiled) {
  constexpr unsigned kHardware[16] = {RAX, RBX, RCX, RDX, RSI, RDI, RBP, RSP, 8, 9, 10, 11, 12, 13, 14, 15};
  const std::vector<uint8_t>& code = compiled.code.code;
  if (compiled.code.capture != replayer::Capture::Scalar || code.size() < 3) return std::nullopt;
  size_t at = 0;
  Loc loc;
  if (code[0] == replayer::kReg) {
    const unsigned number = code[1] * 256u + code[2];
    if (number >= 16) return std::nullopt;
    loc = {Loc::General, kHardware[number] * 64ull};
    at = 3;
  } else if (code[0] == replayer::kVector && code[1] < 16) {
    loc = {Loc::Vector, code[1] * 64ull};
    at = 2;
  } else {
    return std::nullopt;
  }
  while (at < code.size()) {
    const uint8_t op = code[at];
    if (op == replayer::kEnd) return loc;
    if (op == replayer::kExt || op == replayer::kZeroExt)
      at += 2;
    else if (op == replayer::kFloatWiden)
      at++;
    else
      return std::nullopt;
  }
  return loc;
}

Subject subject_in_frame(Session& session, const std::string& text, int tid, size_t frame, Address pc) {
  Subject s;
  try {
    const auto place = session.compiler().compile_place(text, pc);
    const ValueFacts address = Present(session).value("(unsigned long)&(" + text + ")", tid, frame);
    if (!address.why.empty() || !address.json.is_number())
      throw Error(fmt::format("'{}' has no address at this moment: {}", text, address.why), kExitUsage);
    if (place.type) s.type = place.type->text_name();
    if (place.size > kMostBytes)
      throw Error(fmt::format("'{}' is {} bytes long: ask for a part of it", text, place.size), kExitUsage);
    for (uint64_t i = 0; i < place.size; i++)
      s.locs.push_back({Loc::Memory, address.json.get<uint64_t>() + i});
    return s;
  } catch (const symbols::ExpressionError&) {
    const symbols::Compiled compiled = session.compiler().compile(text, pc);
    if (compiled.optimized_out)
      throw Error(fmt::format("'{}' is optimized out here: {}", text, compiled.why), kExitUsage);
    const auto loc = register_of(compiled);
    if (!loc)
      throw Error(fmt::format("'{}' is in no one place that could be followed: ask for a variable, memory "
                              "(*p, s->name), a register ($rax) or ADDRESS:SIZE",
                              text),
                  kExitUsage);
    if (frame > 0)
      throw Error(
          fmt::format("'{}' is in a register of an outer frame: name a moment (--at) in that function", text),
          kExitUsage);
    if (compiled.type) s.type = compiled.type->text_name();
    const uint64_t size =
        compiled.type && compiled.type->size ? std::min<uint64_t>(compiled.type->size, 16) : 8;
    for (uint64_t i = 0; i < size; i++) s.locs.push_back(*loc + i);
    return s;
  }
}

}  // namespace

const char* flow_kind_name(FlowOrigin::Kind kind) {
  static const char* const kNames[] = {"computed", "constant",    "image",  "zero",    "argument", "read",
                                       "result",   "instruction", "signal", "outside", "unknown"};
  return kNames[static_cast<size_t>(kind)];
}

FlowAnswer why(Session& session, const FlowRequest& request, const Watcher& watcher) {
  timeline::Timeline& timeline = session.timeline();
  const Position present = timeline.now();
  timeline.end_diversion();
  request.at ? timeline.go_to(*request.at) : timeline.go_to_end();
  FlowAnswer answer;
  Inquiry inquiry;
  inquiry.request = request;
  inquiry.watcher = watcher;
  inquiry.recorded = std::make_unique<Recorded>(session.recording());
  Tracker tracker(session, inquiry);

  const Position at = timeline.now();
  const auto state = timeline.present().state();
  const int tid = request.tid ? request.tid : state.tid;
  int thread = 1;
  for (const auto& t : state.threads)
    if (t.tid == tid) thread = t.name;
  const Address pc = timeline.present().registers(tid).rip;
  answer.value.name = request.expression;

  std::optional<Subject> subject = bare_address(request.expression);
  if (!subject) {
    bool complete = false;
    const auto frames = Present(session).stack(tid, &complete);
    std::vector<Address> real;  // of each frame that is not inlined
    for (const StackFrame& f : frames)
      if (!f.inlined) real.push_back(f.pc);
    if (real.empty()) real.push_back(pc);
    std::optional<Error> first;
    const size_t low = request.frame.value_or(0);
    const size_t high = request.frame ? low + 1 : std::min<size_t>(real.size(), 64);
    for (size_t i = low; i < high && !subject; i++) {
      try {
        const Address look = i < real.size() ? (i == 0 ? real[0] : real[i] - 1) : 0;
        subject = subject_in_frame(session, request.expression, tid, i, look);
        const ValueFacts facts = Present(session).value(request.expression, tid, i);
        answer.value.text = facts.text;
      } catch (const Error& e) {
        if (!first) first = e;
      }
    }
    if (!subject) throw Error(*first);
  }
  answer.type = subject->type;
  replayer::StepRecord here{};
  here.at = at;
  here.thread = thread;
  answer.place = tracker.origins().place(here);

  const timeline::Registers registers = timeline.present().registers(tid);
  for (const Loc& l : subject->locs) {
    const auto byte = tracker.read(l, 1, at, registers.gpr);
    if (byte.empty())
      throw Error(fmt::format("'{}' cannot be read at this moment", request.expression), kExitUsage);
    answer.value.bytes.push_back(byte[0]);
  }
  if (answer.value.text.empty()) answer.value.text = flow_number(answer.value.bytes);
  tracker.follow(answer.value, subject->locs, at, thread, request.depth);
  answer.origins = inquiry.origins;
  answer.steps = tracker.trail().replayed_steps();
  answer.searches = tracker.trail().searches();
  answer.complete = !inquiry.stopped;
  timeline.go_to(present);
  return answer;
}

}  // namespace backstep::session
