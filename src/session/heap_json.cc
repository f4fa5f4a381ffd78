// A report about the heap for scripts.
#include "session/heap_report.h"
#include "timeline/moments.h"

namespace backstep::session {
namespace {

using Json = nlohmann::ordered_json;

std::string heap_moment(const Position& at) {
  return timeline::point_text(at.tick, at.pc);
}

Json totals_json(const HeapTotals& t) {
  return {{"blocks", t.blocks}, {"bytes", t.bytes}};
}

Json deed_json(const HeapDeed& deed, const StackAt& stack) {
  Json object{{"at", heap_moment(deed.at)}, {"thread", deed.thread}, {"function", deed.function->name}};
  object["stack"] = frames_json(stack.frames);
  return object;
}

Json finding_json(const HeapFinding& f) {
  Json object{{"kind", f.kind},
              {"at", heap_moment(f.at)},
              {"thread", f.thread},
              {"address", f.address},
              {"count", f.count}};
  if (f.size) object["size"] = f.size;
  if (f.is_access) object["access"] = f.store ? "store" : "load";
  object["stack"] = frames_json(f.stack.frames);
  if (!f.block) return object;
  Json block{{"address", f.block->address}, {"size", f.block->size}};
  block["allocated"] = deed_json(f.block->allocated, f.allocated);
  if (f.block->freed) block["freed"] = deed_json(*f.block->freed, f.freed);
  object["block"] = block;
  return object;
}

}  // namespace

Json heap_json(const HeapReport& report) {
  Json object;
  object["allocated"] = totals_json(report.allocated);
  object["freed"] = totals_json(report.freed);
  object["peak"] = {{"bytes", report.peak},
                    {"at", timeline::point_text(report.peak_at.tick, report.peak_at.pc)}};
  if (report.leaks_known) {
    constexpr const char* kKeys[kHeapReaches] = {"lost", "indirect", "reachable"};
    for (size_t i = 0; i < kHeapReaches; i++) object[kKeys[i]] = totals_json(report.left[i]);
    Json leaks = Json::array();
    for (const HeapLeak& l : report.leaks) {
      Json leak{{"reach", kKeys[static_cast<size_t>(l.reach)]},
                {"blocks", l.blocks},
                {"bytes", l.bytes},
                {"address", l.first.address},
                {"size", l.first.size}};
      leak["allocated"] = deed_json(l.first.allocated, l.stack);
      leaks.push_back(leak);
    }
    object["leaks"] = leaks;
  }
  if (report.errors_known) {
    object["errors"] = Json::array();
    for (const HeapFinding& f : report.findings) object["errors"].push_back(finding_json(f));
  }
  return object;
}

}  // namespace backstep::session
