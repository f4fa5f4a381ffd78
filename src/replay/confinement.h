// What a process in which a recorded program runs again may do outside of itself.
#pragma once
#include "recording/library.h"

namespace backstep::replayer {

// Confines the calling process, and all that it forks, for ever: no new programs, no sockets, no signals to
// others, no other process's memory. If the recording is a stranger's (recording/made_here.h), also: no files
// but for reading its own folder, the store and /proc, and for writing its checkpoints if it makes some.
void confine(const recording::Library& library, const recording::Recording& recording, bool checkpoints);
// That was the case, and the kernel can do it.
bool is_confined_to_its_files();

}  // namespace backstep::replayer
