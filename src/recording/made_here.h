// Was a recording made by this user on this machine? One that was not is a stranger's file: its program is
// replayed with fewer rights (replay/confinement.h), and leaves nothing behind that other runs would use.
#pragma once
#include <string>

namespace backstep::recording {

// Of the folder of a new recording.
void note_made_here(const std::string& dir);
bool was_made_here(const std::string& dir);
void forget_made_here(const std::string& dir);

}  // namespace backstep::recording
