// `backstep probe --python`.
#pragma once
#include "cli/asking.h"
#include "probe/companion.h"

namespace backstep::cli {

// Becomes the Python that runs the snippets (python/backstep/probe.py). Throws Error.
int run_python(const Asking& asking, const probe::CompanionCode& code, bool tag);

}  // namespace backstep::cli
