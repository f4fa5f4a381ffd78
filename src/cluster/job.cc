// A job is a file, so that all engines are given the same and a job can be run again by hand to see what is
// wrong with it: `backstep trace --job FILE`. It names moments in full (tick, event, pc), not windows by
// number: those would change if somebody made more checkpoints meanwhile.
//
// It replays one window after the other, on one processor: engines count processors by jobs.
#include "cluster/job.h"

#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "recording/parcel.h"
#include "timeline/traces_in_parts.h"

namespace backstep::cluster {
namespace {

constexpr int kJobVersion = 2;

nlohmann::json json_of(const timeline::Position& p) {
  return {p.tick, p.event, p.pc};
}
timeline::Position position_of(const nlohmann::json& j) {
  return {j.at(0).get<uint64_t>(), j.at(1).get<uint64_t>(), j.at(2).get<uint64_t>()};
}

}  // namespace

void Job::write(const std::string& path) const {
  const nlohmann::json j = {{"job", kJobVersion},         {"library", library},    {"recording", recording},
                            {"process", process},         {"build", build},        {"level", level},
                            {"from", json_of(span.from)}, {"to", json_of(span.to)}};
  std::ofstream out(path);
  out << j.dump(1) << '\n';
  if (!out.flush()) throw Error(fmt::format("cannot write {}", path));
}

Job Job::read(const std::string& path) {
  std::ifstream in(path);
  if (!in)
    throw Error(fmt::format("there is no job {}: who made it has gone, or does not see this folder", path));
  try {
    const auto j = nlohmann::json::parse(in);
    if (j.at("job") != kJobVersion) throw Error(fmt::format("{} is a job of another version", path));
    Job job;
    job.library = j.at("library");
    job.recording = j.at("recording");
    job.process = j.at("process");
    job.build = j.at("build");
    job.level = j.at("level");
    job.span = {position_of(j.at("from")), position_of(j.at("to"))};
    if (!(job.span.from < job.span.to) || job.level < 1 || job.level > 3)
      throw Error(fmt::format("the job {} makes no sense", path));
    return job;
  } catch (const nlohmann::json::exception& e) {
    throw Error(fmt::format("{} is not a job: {}", path, e.what()));
  }
}

void run_job(const std::string& path, ReplayOptions options) {
  const Job job = Job::read(path);
  const recording::Library library(job.library);
  const recording::Recording recording = library.resolve(job.recording);
  const auto identity = recording::ParcelIdentity::of(recording, job.process);
  if (identity.build != job.build)
    throw Error(
        "this is another build of backstep than the one that gave this job; install the same on all "
        "machines");
  options.recording = recording.dir();
  options.process = job.process;
  options.chosen = true;
  options.quiet = true;
  timeline::Timeline timeline(options, library, recording);
  if (timeline.log().last().position() < job.span.to)
    throw Error(fmt::format("{} is not the recording that the job is about: it ends earlier", job.recording));
  recording::Parcel parcel;
  parcel.level = job.level;
  auto window = [&](const timeline::Position& low, const timeline::Position& high) -> auto& {
    return parcel.windows.emplace_back(
        recording::Parcel::Window{{low.tick, low.event, low.pc, high.tick, high.event, high.pc}, {}, {}});
  };
  const bool done =
      job.level == 1
          ? timeline.sweep_contents(job.span, 1, nullptr,
                                    [&](const auto& low, const auto& high, std::span<const uint8_t> packed) {
                                      window(low, high).packed.assign(packed.begin(), packed.end());
                                    })
          : timeline::sweep_traces(
                timeline, job.level, job.span, 1, nullptr,
                [&](const auto& low, const auto& high, std::span<const timeline::TracePart> parts) {
                  auto& of = window(low, high);
                  for (const timeline::TracePart& p : parts)
                    of.parts.push_back(
                        {p.count, {p.links.begin(), p.links.end()}, {p.stores.begin(), p.stores.end()}});
                });
  if (!done) throw Error("the job was ended");
  parcel.write(path + ".tables", identity);
}

}  // namespace backstep::cluster
