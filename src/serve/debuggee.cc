#include "serve/debuggee.h"

#include <cstring>
#include <utility>

#include "base/error.h"

namespace backstep::serve {
namespace {

ReplayOptions about(ReplayOptions options, uint64_t log) {
  options.process = log;
  return options;
}

recording::Manifest manifest_of(const recording::Recording& recording, const timeline::LogIndex& log) {
  try {
    return recording::Manifest::load(recording.manifest_path(log.image()));
  } catch (const Error&) {
    // A process that was killed has none: the first file that was mapped is the program.
    recording::Manifest manifest = recording.manifest();
    if (!log.files().empty()) manifest.exe = log.files().front().path;
    return manifest;
  }
}

}  // namespace

Debuggee::Debuggee(const ReplayOptions& options, const recording::Library& library,
                   const recording::Recording& recording, uint64_t log, const timeline::Attention& ear)
    : session(about(options, log), library, recording, ear),
      manifest(manifest_of(recording, timeline.log())),
      layout(manifest.cpu.shown.count("xcr0") ? manifest.cpu.shown.at("xcr0") : 7),
      monitor(session, recording) {
  pid = timeline.log().pid() ? timeline.log().pid() : state().tid;
  // The auxiliary vector stands behind the environment on the first stack; the program may overwrite it
  // later.
  Address at = timeline.log().start_stack();
  auto word = [&](Address a) {
    auto bytes = timeline.present().read(a, 8);
    uint64_t value = 0;
    if (bytes.size() == 8) std::memcpy(&value, bytes.data(), 8);
    return value;
  };
  at += 8 * (word(at) + 2);
  while (word(at)) at += 8;
  at += 8;
  for (int i = 0; i < 64; i++, at += 16) {
    auto pair = timeline.present().read(at, 16);
    auxv_.insert(auxv_.end(), pair.begin(), pair.end());
    if (word(at) == 0) break;
  }
}

const timeline::WorkerState& Debuggee::state() {
  if (!state_) state_ = timeline.present().state();
  return *state_;
}

const timeline::Registers& Debuggee::registers_of(int tid) {
  auto found = registers_.find(tid);
  if (found == registers_.end()) found = registers_.emplace(tid, timeline.present().registers(tid)).first;
  return found->second;
}

void Debuggee::set_registers(int tid, const timeline::Registers& registers) {
  timeline.divert().set_registers(tid, registers);
  if (std::exchange(sent_in_, timeline.diversions()) != timeline.diversions()) sent_.clear();
  std::erase(sent_, tid);
  if (registers.rip != timeline.recorded().registers(tid).rip) sent_.push_back(tid);
  registers_[tid] = registers;
}

std::optional<int> Debuggee::sent_thread() const {
  if (!timeline.diverted() || sent_in_ != timeline.diversions() || sent_.empty()) return std::nullopt;
  return sent_.back();
}

void Debuggee::forget() {
  state_.reset();
  registers_.clear();
}

ReadGuest Debuggee::memory() {
  return [this](Address at, uint64_t n) { return timeline.present().read(at, n); };
}

std::string Debuggee::thread_name(int thread) {
  if (!thread_names_) {
    const std::string program = manifest.argv.empty() ? manifest.exe : manifest.argv.front();
    thread_names_.emplace(timeline.log(), program.substr(program.rfind('/') + 1));
  }
  return thread_names_->at(thread, timeline.now().event);
}

}  // namespace backstep::serve
