// What no recorder can have written is not read, however good its checksums are.
#include "recording/event_check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/layout.h"

namespace backstep::recording {
namespace {

Event of(EventKind kind) {
  Event e;
  e.kind = kind;
  return e;
}

TEST(EventCheck, KeepsTheEnginesMemoryFromAllThatIsWrittenOrMapped) {
  for (uint64_t at : {layout::kCacheStart, layout::kHotPage, layout::kArenas, layout::kJumpTable}) {
    EXPECT_FALSE(is_guest_range(at, 1));
    EXPECT_FALSE(is_guest_range(at - 4096, 8192));
    Event map = of(EventKind::Map), memory = of(EventKind::Memory), shared = of(EventKind::Shared);
    map.addr = memory.addr = shared.addr = at;
    map.length = memory.length = 4096;
    EXPECT_TRUE(wrong_with(map));
    EXPECT_TRUE(wrong_with(memory));
    EXPECT_TRUE(wrong_with(shared));
  }
  EXPECT_FALSE(is_guest_range(~0ull - 4095, 8192));
  EXPECT_TRUE(is_guest_range(layout::kStackEnd - 4096, 4096));
  Event read = of(EventKind::Syscall);  // nr 0: read
  const std::byte bytes[8] = {};
  Piece piece;
  piece.arg = 1, piece.kind = PieceKind::OutAtArg, piece.addr = layout::kHotPage, piece.bytes = bytes;
  read.pieces = {piece};
  EXPECT_TRUE(wrong_with(read));
  read.pieces[0].addr = layout::kStackEnd - 4096;
  EXPECT_FALSE(wrong_with(read));
}

TEST(EventCheck, KnowsArgumentsSignalsThreadsAndEnds) {
  Event read = of(EventKind::Syscall);
  read.pieces.resize(1);
  read.pieces[0].arg = 7, read.pieces[0].kind = PieceKind::Text;
  EXPECT_TRUE(wrong_with(read));
  Event signal = of(EventKind::Signal);
  const std::vector<std::byte> info(128);
  signal.body = info;
  for (int signo : {-1, 0, 65, 1 << 30}) {
    signal.signo = signo;
    EXPECT_TRUE(wrong_with(signal)) << signo;
  }
  signal.signo = 64;
  EXPECT_FALSE(wrong_with(signal));
  signal.body = signal.body.first(20);
  EXPECT_TRUE(wrong_with(signal));
  Event turn = of(EventKind::Turn);
  turn.next_thread = -2;
  EXPECT_TRUE(wrong_with(turn));
  Event end = of(EventKind::End);
  end.end = static_cast<EndKind>(4);
  EXPECT_TRUE(wrong_with(end));
}

TEST(EventCheck, KnowsRegistersThatNoCpuLoads) {
  Event gap = of(EventKind::Gap);
  gap.values.assign(22, 0);
  std::vector<std::byte> vectors(kGapVectors);
  gap.body = vectors;
  EXPECT_FALSE(wrong_with(gap));
  gap.values[18] = 1ull << 60;
  EXPECT_TRUE(wrong_with(gap));
  gap.values[18] = 0, gap.values[17] = 0x100;
  EXPECT_TRUE(wrong_with(gap));
  gap.values[17] = 0, vectors[27] = std::byte{0x80};  // MXCSR
  EXPECT_TRUE(wrong_with(gap));
}

}  // namespace
}  // namespace backstep::recording
