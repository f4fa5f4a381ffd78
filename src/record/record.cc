// `backstep record`: make the folder, load the program, become it.
#include "record/record.h"

#include <filesystem>

#include "base/room_for_fds.h"
#include "record/recorder.h"
#include "recording/library.h"

namespace backstep {

int record(const RecordOptions& options) {
  const guest::Limits limits = recorder::inherited_limits();
  recording::Library library = recording::Library::standard();
  std::string program = std::filesystem::path(options.command.at(0)).filename().string();
  // The program may change its folder; its children must find the recording all the same.
  recording::Recording recording(
      std::filesystem::absolute(library.create(program.empty() ? "program" : program, options.output).dir()));
  if (options.made) options.made(recording.dir());
  // Lives until the process ends, in run().
  recorder::Recorder* recorder = nullptr;
  RoomForFds room;
  try {
    recorder = new recorder::Recorder(options, limits, library, recording);
    recorder->load();
  } catch (...) {
    delete recorder;
    library.discard(recording);
    throw;
  }
  room.give_back();
  recorder->run();
}

}  // namespace backstep
