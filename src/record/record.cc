// `backstep record`: make the folder, load the program, become it.
#include "record/record.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/room_for_fds.h"
#include "record/recorder.h"
#include "recording/library.h"

namespace backstep {
namespace {

// What a recording is named after: the program; of an interpreter that runs a script, the script.
std::string name_of(const std::vector<std::string>& command) {
  static constexpr std::string_view kInterpreters[] = {"sh",     "bash",   "dash",  "zsh",     "ksh",
                                                       "python", "perl",   "ruby",  "node",    "php",
                                                       "lua",    "luajit", "tclsh", "Rscript", "pypy"};
  const auto file_name = [](const std::string& path) {
    return std::filesystem::path(path).filename().string();
  };
  const std::string program = file_name(command.at(0));
  std::string plain = program;
  while (!plain.empty() && (isdigit(static_cast<unsigned char>(plain.back())) || plain.back() == '.'))
    plain.pop_back();
  const bool interprets =
      std::find(std::begin(kInterpreters), std::end(kInterpreters), plain) != std::end(kInterpreters);
  std::error_code ec;
  if (interprets && command.size() > 1 && !command[1].starts_with('-') &&
      std::filesystem::is_regular_file(command[1], ec))
    return file_name(command[1]);
  return program.empty() ? "program" : program;
}

}  // namespace

int record(const RecordOptions& options) {
  const guest::Limits limits = recorder::inherited_limits();
  recording::Library library = recording::Library::standard();
  // The program may change its folder; its children must find the recording all the same.
  recording::Recording recording(
      std::filesystem::absolute(library.create(name_of(options.command), options.output).dir()));
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
