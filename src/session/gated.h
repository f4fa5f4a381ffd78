// A sweep for an event that is made of several, which does not look for its frequent parts where they cannot
// matter.
#pragma once
#include <vector>

#include "events/spec.h"
#include "timeline/timeline.h"

namespace backstep::session {

// As Timeline::sweep, with the same matches of the whole: `sweep.record` has the same records but those of
// simple events at moments where they could not matter. `spec`: of each tap, which simple event it is of.
timeline::Swept sweep_gated(timeline::Timeline& timeline, const timeline::Sweep& sweep,
                            const events::Event& event, const std::vector<size_t>& spec);

}  // namespace backstep::session
