// Where a function's prologue ends. At -O0 the arguments are in their places only then, so a breakpoint on a
// function belongs there; and it should be where gdb puts it, which people know. So this is gdb's rule for
// x86-64:
//
//   * clang's line tables say it: the second line of a function begins where the prologue ends.
//   * gcc's do not, in optimised code. There, "push %rbp; mov %rsp,%rbp" is the prologue, and it goes on to
//   the end of
//     the line that this is in. A function without them is taken to have none.
//   * In units with location lists, gcc says for each instruction where a variable is: nothing is skipped.
#include <algorithm>

#include "symbols/program_index.h"

namespace backstep::symbols {
namespace {

// Rows that gdb does not keep are as good as not there.
const LineRow* kept_at(const Unit& unit, uint64_t address) {
  const LineRow* row = unit.row_at(address);
  while (row && !row->kept) {
    if (row == unit.rows().data() || (row - 1)->end) return nullptr;
    row--;
  }
  return row;
}

uint64_t kept_end(const Unit& unit, const LineRow* row) {
  const LineRow* last = unit.rows().data() + unit.rows().size();
  for (const LineRow* next = row; next != last; next++)
    if (next->address > row->address && (next->kept || next->end)) return next->address;
  return row->address;
}

Range range_around(const Unit& unit, const Scope& function, uint64_t address) {
  for (const Range& range : unit.ranges(function))
    if (range.contains(address)) return range;
  return {address, address};
}

bool is_inlined(const Unit& unit, uint64_t address) {
  const Scope* scope = unit.scope_at(address);
  return scope && scope->kind == Scope::kInlined;
}

// The end of the function's first line; 0: the table does not tell.
uint64_t end_of_first_line(const Unit& unit, const Scope& function) {
  uint64_t end = range_around(unit, function, function.entry).end;
  const LineRow* first = kept_at(unit, function.entry);
  if (!first) return 0;
  // Two lines at one address: the first has no code.
  if (first->address == function.entry)
    for (const LineRow* row = first; row != unit.rows().data() && (row - 1)->address == first->address; row--)
      if ((row - 1)->kept && (row - 1)->file == first->file) return function.entry;
  uint64_t behind = kept_end(unit, first);
  if (behind >= end) return 0;
  // The compiler may have moved code of earlier lines into the prologue.
  while (behind < end) {
    const LineRow* row = kept_at(unit, behind);
    if (!row || row->line >= first->line || row->file != first->file || is_inlined(unit, behind)) break;
    first = row;
    uint64_t next = kept_end(unit, row);
    if (next <= behind) break;
    behind = next;
  }
  return behind < end ? behind : first->address;
}

// Behind "push %rbp; mov %rsp,%rbp", which may follow "endbr64"; `entry` if the function begins otherwise.
uint64_t behind_frame_setup(const ElfFile& elf, uint64_t entry) {
  std::string_view code = elf.bytes(entry, 16);
  size_t at = code.starts_with("\xf3\x0f\x1e\xfa") ? 4 : 0;
  if (code.substr(at).starts_with("\x40\x55")) at++;
  if (!code.substr(at).starts_with("\x55")) return entry;
  std::string_view rest = code.substr(at + 1);
  return rest.starts_with("\x48\x89\xe5") || rest.starts_with("\x48\x8b\xec") ? entry + at + 4 : entry;
}

}  // namespace

uint64_t ModuleIndex::body(const Unit& unit, const Scope& function) const {
  if (function.kind != Scope::kFunction || unit.locations_at_entry()) return function.entry;
  uint64_t pc = unit.is_llvm() ? end_of_first_line(unit, function) : 0;
  if (pc == 0) pc = behind_frame_setup(*elf_, function.entry);
  const LineRow* row = kept_at(unit, pc);
  if (!row || row->address == pc) return pc;
  // In the middle of a line: at its end, if that is in the function still.
  uint64_t end = kept_end(unit, row);
  return range_around(unit, function, function.entry).contains(end) ? std::max(pc, end) : pc;
}

}  // namespace backstep::symbols
