// Copying files of which most is a hole.
#pragma once
#include <cstdint>

namespace backstep {

// Makes [start, end) of `to` what it is in `from`, as far as that reaches, and holes where it has holes. The
// size of `to` stays as it is; both descriptors are our own: their positions move. False: errno says why.
bool copy_data(int from, int to, uint64_t start, uint64_t end);

}  // namespace backstep
