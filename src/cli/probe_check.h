// What `backstep probe --check` has found, in words.
#pragma once
#include "probe/check.h"

namespace backstep::cli {

void print_check(const probe::Check& check, bool json);

}  // namespace backstep::cli
