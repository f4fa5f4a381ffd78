#include "symbols/local_names.h"

#include <dwarf.h>

#include "base/error.h"
#include "symbols/elf_facts.h"
#include "symbols/variables.h"

namespace backstep::symbols {
namespace {

constexpr unsigned kDeepestBlock = 64;  // blocks in blocks

class LocalSearch {
 public:
  explicit LocalSearch(const std::string& name) : name_(name) {}

  std::optional<LocalName> in_unit(Dwarf_Die unit) {
    outside(unit, 0);
    return found_;
  }

 private:
  // Namespaces and classes, and functions in them.
  void outside(Dwarf_Die parent, unsigned depth) {
    if (depth > kDeepestBlock) return;
    each_child(parent, [&](Dwarf_Die child) {
      if (found_) return;
      switch (dwarf_tag(&child)) {
        case DW_TAG_subprogram:
          function_ = die_name(child);
          inside(child, 0);
          break;
        case DW_TAG_namespace:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
          outside(child, depth + 1);
          break;
        default:
          break;
      }
    });
  }
  void inside(Dwarf_Die parent, unsigned depth) {
    if (depth > kDeepestBlock) return;
    each_child(parent, [&](Dwarf_Die child) {
      if (found_) return;
      const int tag = dwarf_tag(&child);
      if (tag == DW_TAG_lexical_block) inside(child, depth + 1);
      if ((tag != DW_TAG_variable && tag != DW_TAG_formal_parameter) || die_name(child) != name_) return;
      found_ = LocalName{function_, "", 0};
      Dwarf_Die origin = die_origin(child);
      if (const char* file = dwarf_decl_file(&origin)) {
        const std::string path = file;
        found_->file = path.substr(path.rfind('/') + 1);
      }
      if (dwarf_decl_line(&origin, &found_->line) != 0) found_->line = 0;
    });
  }

  const std::string& name_;
  std::string function_;
  std::optional<LocalName> found_;
};

}  // namespace

std::optional<LocalName> find_local(const Program& program, const std::string& name) {
  for (const Module& module : program.modules()) {
    try {
      Dwarf* dwarf = module.elf().dwarf();
      if (!dwarf || !is_executable(module.elf().elf())) continue;
      Dwarf_CU* cu = nullptr;
      Dwarf_Die unit;
      LocalSearch search(name);
      while (dwarf_get_units(dwarf, cu, &cu, nullptr, nullptr, &unit, nullptr) == 0)
        if (auto found = search.in_unit(unit)) return found;
    } catch (const Error&) {  // a file that cannot be read says nothing
    }
  }
  return {};
}

}  // namespace backstep::symbols
