// Is the program, and are its sources, what was recorded?
#pragma once
#include <string>
#include <vector>

#include "probe/binary_check.h"
#include "probe/build.h"
#include "probe/regions.h"

namespace backstep::probe {

struct Check {
  std::vector<BinaryCheck> binaries;
  std::vector<SourceCheck> sources;

  // Nothing differs that matters to debug code.
  bool same() const;
};

// `program`: the program's own file, if it is not where it was recorded; empty: it is. `folder`: for
// intermediate files. Throws Error.
Check check(session::Session& session, const std::string& program, const std::vector<SourceFile>& sources,
            const std::string& folder);

}  // namespace backstep::probe
