// What the guest reads in /proc/self.
#pragma once
#include <optional>
#include <string>

#include "guest/process.h"

namespace backstep::recorder {

// The text of /proc/self/NAME as the guest should see it; nullopt: the kernel's own will do.
std::optional<std::string> proc_file(const std::string& name, const guest::Process& process);

}  // namespace backstep::recorder
