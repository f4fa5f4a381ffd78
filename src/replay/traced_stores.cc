// Blocks are told to the encoder as the engine has them, once; what they report goes there word by word. As
// much as a chunk holds is packed at once, here, in the process that replays: what leaves it is small.
#include "replay/traced_stores.h"

#include <algorithm>

#include "engine/cache.h"

namespace backstep::replayer {
namespace {

using recording::TracedBlock;

// Does any other site need the word that has what was there before a store?
bool is_shared(const engine::ReportBlock& block, const engine::ReportSite* sites,
               const engine::ReportSite& s) {
  return std::any_of(sites, sites + block.sites, [&](const engine::ReportSite& other) {
    return other.address_at == s.old_at || (other.store && other.new_at == s.old_at) ||
           (&other != &s && other.old_at == s.old_at);
  });
}

TracedBlock traced(const engine::ReportBlock& block, const engine::ReportSite* sites) {
  TracedBlock traced;
  traced.guest = block.guest;
  traced.words = static_cast<uint16_t>(block.words - 2);  // without head and tick
  for (const engine::ReportSite* s = sites; s != sites + block.sites; s++) {
    if (!s->store) continue;
    traced.sites.push_back({s->add, s->value, s->address_at, s->old_at, s->new_at, s->pc, s->size,
                            s->instruction, s->old_at != 0 && !is_shared(block, sites, *s)});
  }
  return traced;
}

}  // namespace

void TracedStores::begin_buffer() {
  if (std::exchange(generation_, engine::bs_cache.report_generation) == engine::bs_cache.report_generation)
    return;
  // The engine has forgotten its blocks, and we all that there is to be known of them.
  if (!encoder_->empty()) log();
  ids_.clear();
  encoder_.emplace(level_);
  encoder_->context(event_, thread_);
}

uint32_t TracedStores::block_of(uint32_t unit) {
  if (unit >= ids_.size()) ids_.resize(std::max<size_t>(unit + 1, 2 * ids_.size()));
  if (!ids_[unit])
    ids_[unit] = encoder_->add_block(traced(*engine::report_block(unit), engine::report_sites(unit)));
  return ids_[unit];
}

void TracedStores::context(const engine::ReportContext& context) {
  event_ = context.event, thread_ = context.thread;
  encoder_->context(event_, thread_);
}

void TracedStores::store(const engine::ReportedAccess& a) {
  if (!a.store) return;
  encoder_->store(
      {{a.tick, a.event, a.pc, a.thread}, a.address, a.old_value, a.new_value, a.size, a.by_kernel});
  if (encoder_->full()) log();
}

const uint64_t* TracedStores::blocks(const uint64_t* at, const uint64_t* end) {
  while (at < end) {
    const uint64_t* record = at;
    const engine::ReportHead head = engine::report_head(record[0]);
    if (head.unit < engine::kFirstReportUnit) break;
    at += head.words;
    const uint32_t id = head.unit < ids_.size() && ids_[head.unit] ? ids_[head.unit] : block_of(head.unit);
    encoder_->executed(id, record + 1, record[head.words - 1], head.cut);
    if (encoder_->full()) [[unlikely]]
      log();
  }
  return at;
}

void TracedStores::log() {
  const recording::TraceChunk chunk = encoder_->take();
  taps_.log_trace(chunk.count, chunk.last.pack(), chunk.stores);
}

void TracedStores::finish() {
  log();
}

}  // namespace backstep::replayer
