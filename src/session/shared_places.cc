// A mapping is told in the log with the file, or the nameless object, that it is of. So the same byte of the
// same object is found in the other logs. A page of shared memory belongs to one process at a time, and who
// gets it has a number in the order of all processes: what the others had done by then is what their logs
// have before that number.
#include "session/shared_places.h"

#include <sys/mman.h>

#include <algorithm>

#include "recording/log_reader.h"

namespace backstep::session {
namespace {

using recording::Event;
using recording::EventKind;

// Calls f(event) for each mapping that a process makes or inherits, up to an event of its own log.
template <class F>
void each_mapping(const timeline::LogIndex& log, uint64_t up_to, F&& f) {
  log.each(0, [&](const timeline::Moment& m, std::span<const uint8_t> bytes) {
    if (up_to != ~0ull && m.event >= log.own() + up_to) return false;
    Event e;
    Tick tick = 0;
    if (m.kind == EventKind::Map && recording::decode_event(bytes, tick, e) &&
        !(e.flags & recording::kRights))
      f(e);
    return true;
  });
}

}  // namespace

const std::vector<std::pair<uint64_t, uint64_t>>& SharedPlaces::orders(uint64_t process) {
  auto [place, fresh] = orders_.try_emplace(process);
  if (!fresh) return place->second;
  recording::LogReader reader(recording_.log_path(process), recording::first_thread(recording_, process));
  for (Event e; reader.next(e);)
    if (e.order) place->second.push_back({e.number, e.order.number()});
  return place->second;
}

uint64_t SharedPlaces::order_before(uint64_t process, uint64_t event) {
  uint64_t order = 0;
  for (auto [number, place] : orders(process)) {
    if (number >= event) break;
    order = std::max(order, place);
  }
  return order;
}

std::optional<SharedPlaces::Object> SharedPlaces::object_at(uint64_t process, uint64_t event,
                                                            Address address) const {
  std::optional<Object> object;
  const timeline::LogIndex log(recording_, process);
  each_mapping(log, event, [&](const Event& e) {
    if (address < e.addr || address - e.addr >= e.length) return;
    object.reset();
    if (!(e.flags & recording::kGone) && (e.map_flags & MAP_SHARED))
      object = Object{e.dev, e.inode, e.offset + (address - e.addr)};
  });
  return object;
}

std::optional<SharedPlace> SharedPlaces::place_in(uint64_t process, const Object& object, uint64_t order) {
  const auto& numbered = orders(process);
  const auto later =
      std::find_if(numbered.begin(), numbered.end(), [&](const auto& n) { return n.second > order; });
  if (later == numbered.begin()) return std::nullopt;  // it was not born yet
  const timeline::LogIndex log(recording_, process);
  SharedPlace place{process, 0, log.last().position()};
  uint64_t up_to = ~0ull;
  if (later != numbered.end()) {
    up_to = later->first;
    if (const auto moment = log.at(log.own() + up_to)) place.before = moment->position();
  }
  each_mapping(log, up_to, [&](const Event& e) {
    const bool gone = e.flags & recording::kGone;
    if (place.address >= e.addr && place.address - e.addr < e.length) place.address = 0;
    if (!gone && (e.map_flags & MAP_SHARED) && e.dev == object.dev && e.inode == object.inode &&
        object.offset >= e.offset && object.offset - e.offset < e.length)
      place.address = e.addr + (object.offset - e.offset);
  });
  return place.address ? std::optional(place) : std::nullopt;
}

std::vector<SharedPlace> SharedPlaces::elsewhere(uint64_t process, uint64_t event, Address address) {
  constexpr size_t kMostPlaces = 64;
  std::vector<SharedPlace> places;
  uint64_t order = 0;
  for (auto [number, place] : orders(process))
    if (number == event) order = place;
  if (!order) return places;
  const auto object = object_at(process, event, address);
  if (!object) return places;
  for (const auto& p : processes_) {
    if (p.number == process || p.empty || p.damaged || places.size() == kMostPlaces) continue;
    if (const auto place = place_in(p.number, *object, order)) places.push_back(*place);
  }
  return places;
}

}  // namespace backstep::session
