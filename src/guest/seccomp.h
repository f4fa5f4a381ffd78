// System-call filters that the program installs for itself (seccomp(2)). They are meant for the program's
// calls, not for ours, so the kernel never sees them: they are kept here and run by ourselves.
#pragma once
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace backstep::guest {

// One filter and those that were there before it: a thread has the newest, and shares the rest with others.
struct SeccompFilter {
  std::vector<sock_filter> program;
  std::shared_ptr<const SeccompFilter> before;
};
using SeccompFilters = std::shared_ptr<const SeccompFilter>;  // null: none

// As the kernel judges a program: 0, or the errno (positive) for it.
int check_filter(const std::vector<sock_filter>& program);
// … and whether there is room for one more on top of those; likewise.
int check_stack(const std::vector<sock_filter>& program, const SeccompFilters& before);

// What one filter returns for a call.
uint32_t run_filter(const std::vector<sock_filter>& program, const seccomp_data& data);
// … and all of them together: the strictest action wins, the newest of equals.
uint32_t run_filters(const SeccompFilters& filters, const seccomp_data& data);

size_t count(const SeccompFilters& filters);
bool is_ancestor(const SeccompFilters& ancestor, const SeccompFilters& filters);

// Oldest first, as bytes: for a new program, and back.
std::vector<std::string> save_filters(const SeccompFilters& filters);
SeccompFilters load_filters(const std::vector<std::string>& saved);
// For a program that runs without us: from here on the kernel applies them, to everything we do as well.
void hand_to_kernel(const SeccompFilters& filters);

}  // namespace backstep::guest
