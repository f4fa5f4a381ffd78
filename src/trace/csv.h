// Rows as comma-separated values (RFC 4180, with a line feed at the end of a line).
#pragma once
#include <string>
#include <vector>

#include "trace/database.h"
#include "trace/value.h"

namespace backstep::trace {

// Lines without their end. NULL is nothing, an empty text "": who looks closely can tell them apart, as
// PostgreSQL does. Bytes are hexadecimal.
std::string csv_heading(const std::vector<Heading>& headings);
std::string csv_line(const Row& row);

std::string hexadecimal(const std::string& bytes);

}  // namespace backstep::trace
