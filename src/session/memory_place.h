// Memory that an expression names, once for a whole run: `total`, `list->value`, an address.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "symbols/expression.h"

namespace backstep::session {

class Session;

struct MemoryPlace {
  Address address = 0;
  uint64_t size = 0;
  symbols::TypeRef type;            // null: not known
  Tick from = 0, to = ~0ull;        // it is this memory in [from, to): as long as its thread lives
  std::vector<uint8_t> guard = {};  // bytecode: whether it is, within that; empty: always
};

// What an expression has to be is found out at the start of the process or, if it has no address then, at the
// end; `notes` says so. All throw Error.
MemoryPlace memory_of(Session& session, const std::string& lvalue, std::vector<std::string>& notes);
// The same, or `size` bytes where an expression points to; of what is thread-local each thread's.
std::vector<MemoryPlace> memory_of_threads(Session& session, const std::string& expression,
                                           std::optional<uint64_t> size, std::vector<std::string>& notes);
// `size` bytes where an expression points to.
MemoryPlace memory_at(Session& session, const std::string& address, uint64_t size,
                      std::vector<std::string>& notes);
// What an expression points to, as much as its type says; one byte, if it is a mere number.
MemoryPlace memory_behind(Session& session, const std::string& pointer, std::vector<std::string>& notes);
// An object that is named by itself or by a pointer to it.
MemoryPlace object_named(Session& session, const std::string& expression, std::vector<std::string>& notes);

}  // namespace backstep::session
