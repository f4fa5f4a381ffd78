// Names of processes that do not depend on the numbers that the kernel gave out, nor on who was faster: only
// on who created whom, and in which order.
//
//   A/server         the program that was recorded on host A
//   A/server.2       the second process that it forked
//   A/server.2.1     the first one that this one forked
//   A/sh/ls          ls, run by sh; A/sh/ls#2 is the second one
//   A/server         after `exec server` in a shell: the shell's own name was A/sh
#pragma once
#include <string>
#include <vector>

#include "recording/tree.h"

namespace backstep::cluster {

// One for each of `processes`, in their order.
std::vector<std::string> virtual_names(const std::string& host,
                                       const std::vector<recording::ProcessInfo>& processes);

}  // namespace backstep::cluster
