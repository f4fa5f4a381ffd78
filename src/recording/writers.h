// Who may change a file, and whether its times would tell.
#pragma once
#include <sys/stat.h>

namespace backstep::recording {

enum class Writers { None, Some, Unknown };
// Does anybody have the file open for writing, or mapped so? Not everybody may ask, nor of every file system.
Writers writers_of(int fd);

// If the times and the size of the file are the same at a later look, are its contents?
bool times_tell(int fd, const struct stat& st);

}  // namespace backstep::recording
