// Accesses to memory.
#include "session/kind.h"

#include "events/reader.h"
#include "session/memory_place.h"

namespace backstep::session {
namespace {

void read_data(events::Reader& r, events::Spec& s) {
  if (size_t at = r.find("size"); at != std::string::npos) {
    events::Reader size = r.behind(at, 4);
    s.size = events::need_number(size, size.at(), size.rest(), "a number of bytes");
    if (*s.size == 0) size.fail("no bytes are never touched: the least is 1");
    r.cut(at);
  }
  s.name = r.rest();
  if (s.name.empty()) r.fail("what is to be watched is missing here: a variable, or an address and 'size N'");
}

template <timeline::Tap::Kind kAccess>
void data_taps(Resolving& r, const events::Spec& spec) {
  for (const MemoryPlace& place : memory_of_threads(r.session, spec.name, spec.size, r.result.notes)) {
    ResolvedTap& tap = r.tap(kAccess);
    tap.offers.addr = tap.offers.new_value = true;
    tap.offers.old_value = kAccess != timeline::Tap::Read;
    tap.offers.value_type = place.type;
    tap.tap.start = place.address, tap.tap.length = place.size;
    tap.tap.from = place.from, tap.tap.to = place.to;
    tap.tap.guard = place.guard;
  }
}

}  // namespace

extern const KindOfEvent kWrite{
    {"write",
     read_data,
     {{"write X [size N]",
       "memory is written to: a variable, or an address with a size; $old, $new, $addr"}}},
    data_taps<timeline::Tap::Store>,
    true};
extern const KindOfEvent kChange{
    {"change", read_data, {{"change X, read X, access X", "… and is different then; is read; either"}}},
    data_taps<timeline::Tap::Write>,
    true};
extern const KindOfEvent kRead{{"read", read_data}, data_taps<timeline::Tap::Read>, true};
extern const KindOfEvent kAccess{{"access", read_data}, data_taps<timeline::Tap::Access>, true};

}  // namespace backstep::session
