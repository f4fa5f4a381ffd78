// Assembly refers to everything by name, static functions and variables too, which object files do no more.
// So this is where a copy of the program's code is told apart from the program: a definition that the
// recorded program has is renamed, and what is left of it are references, which the linker resolves to the
// recorded program's addresses.
#include "probe/assembly.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace backstep::probe {
namespace {

bool in_symbol(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
}

std::string_view word(std::string_view line, size_t from) {
  while (from < line.size() && (line[from] == ' ' || line[from] == '\t')) from++;
  size_t end = from;
  while (end < line.size() && in_symbol(line[end])) end++;
  return line.substr(from, end - from);
}

std::string_view directive(std::string_view line) {
  return line.starts_with("\t.") ? word(line, 1) : std::string_view();
}

template <class F>
void each_line(std::string_view text, F f) {
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string_view::npos) end = text.size();
    f(text.substr(at, end - at));
    at = end + 1;
  }
}

// .file 1 "folder" "name" or .file 1 "name"
std::string file_name(std::string_view line) {
  std::vector<std::string> parts;
  for (size_t at = line.find('"'); at != std::string_view::npos;) {
    const size_t end = line.find('"', at + 1);
    if (end == std::string_view::npos) break;
    parts.emplace_back(line.substr(at + 1, end - at - 1));
    at = line.find('"', end + 1);
  }
  if (parts.empty()) return "";
  return parts.size() == 1 || parts[1].starts_with('/') ? parts.back() : parts[0] + "/" + parts[1];
}

// What the compiler says of a function in comments (-dA), where debug information is.
struct FunctionEntry {
  int line = 0;
  unsigned long of = 0;  // the entry that has the rest: of a class's member, say
  std::string code;      // its first label
  std::string name;
  bool mangled = false;  // it has another name, too
};

// "	.value	0xa1c	# DW_AT_decl_line"
unsigned long number_in(std::string_view line) {
  const size_t digits = line.find_first_of("0123456789");
  return digits == std::string_view::npos
             ? 0
             : std::strtoul(std::string(line.substr(digits)).c_str(), nullptr, 0);
}

// \t.long .LASF3 # DW_AT_name: "walk", or \t.ascii "f\0" # DW_AT_name
std::string text_in(std::string_view line) {
  const size_t from = line.find('"'), to = line.rfind('"');
  if (from == to) return "";
  const std::string_view text = line.substr(from + 1, to - from - 1);
  return std::string(text.substr(0, text.find('\\')));
}

bool is_start_function(const std::string& name) {
  return name.starts_with("_GLOBAL__sub_I") ||
         name.find("static_initialization_and_destruction") != std::string::npos;
}

}  // namespace

Assembly::Assembly(std::string text) : text_(std::move(text)) {
  std::map<int, std::string> files;
  std::set<std::string> globals, weak, functions, objects, thread_locals;
  Symbol* now = nullptr;
  std::string section, name;
  each_line(text_, [&](std::string_view line) {
    const std::string_view d = directive(line);
    if (d.empty()) {
      const size_t colon = line.find(':');
      if (!line.empty() && in_symbol(line[0]) && !line.starts_with(".L") && colon != std::string_view::npos) {
        name = line.substr(0, colon);
        if (!functions.count(name) && !objects.count(name)) return;
        now = &defined_[name];
        now->function = functions.count(name) > 0;
        now->global = globals.count(name) > 0, now->weak = weak.count(name) > 0;
        now->thread_specific = section.starts_with(".tbss") || section.starts_with(".tdata");
        now->read_only = section.starts_with(".rodata") || section.starts_with(".data.rel.ro");
      } else if (is_start_function(name) && line.find("call") != std::string_view::npos) {
        called_at_start_.emplace(word(line, line.find("call") + 4));
      }
      return;
    }
    auto argument = [&] { return std::string(word(line, 1 + d.size() + 1)); };
    if (d == ".section") {
      section = argument();
      if (section.starts_with(".init_array") || section.starts_with(".ctors")) constructors_ = true;
    } else if (d == ".text" || d == ".data" || d == ".bss") {
      section = d;
    } else if (d == ".globl") {
      globals.insert(argument());
    } else if (d == ".weak") {
      weak.insert(argument());
    } else if (d == ".type") {
      (line.find("@function") != std::string_view::npos ? functions : objects).insert(argument());
    } else if (d == ".comm") {
      defined_[argument()].global = true;
    } else if (d == ".size") {
      if (now && argument() == name) now = nullptr;
    } else if (d == ".file") {
      const std::string number = argument();
      if (!number.empty() && std::isdigit(static_cast<unsigned char>(number[0])))
        files[std::atoi(number.c_str())] = file_name(line);
    } else if (d == ".loc" && now && now->function) {
      int file = 0, number = 0;
      if (sscanf(std::string(line).c_str(), " .loc %d %d", &file, &number) != 2 || number == 0) return;
      const std::string& path = files[file];
      if (now->first_line == 0) now->first_line = number, now->first_file = path;
      now->lines[path].insert(number);
    }
  });
  take_debug_information();
}

void Assembly::take_debug_information() {
  std::map<std::string, std::string, std::less<>> functions;  // by their first labels
  std::map<unsigned long, FunctionEntry> entries;
  FunctionEntry* entry = nullptr;
  std::string name;
  each_line(text_, [&](std::string_view line) {
    if (line.starts_with(".LFB")) functions.emplace(line.substr(0, line.find(':')), name);
    if (!line.empty() && in_symbol(line[0]) && line[0] != '.') name = word(line, 0);
    if (const size_t die = line.find("# (DIE ("); die != std::string_view::npos) {
      const bool function = line.find("DW_TAG_subprogram", die) != std::string_view::npos;
      entry = function ? &entries[number_in(line.substr(die))] : nullptr;
    }
    if (!entry) return;
    if (line.find("# DW_AT_decl_line") != std::string_view::npos)
      entry->line = static_cast<int>(number_in(line));
    else if (line.find("# DW_AT_specification") != std::string_view::npos ||
             line.find("# DW_AT_abstract_origin") != std::string_view::npos)
      entry->of = number_in(line);
    else if (line.find("# DW_AT_linkage_name") != std::string_view::npos)
      entry->mangled = true;
    else if (line.find("# DW_AT_name") != std::string_view::npos)
      entry->name = text_in(line);
    else if (line.find("# DW_AT_low_pc") != std::string_view::npos)
      entry->code = word(line, 1 + directive(line).size());
  });
  for (const auto& [at, function] : entries) {
    const auto named = functions.find(function.code);
    if (named == functions.end()) continue;
    const auto symbol = defined_.find(named->second);
    const FunctionEntry* says = &function;
    for (int depth = 0; depth < 4 && says->line == 0 && entries.count(says->of); depth++)
      says = &entries.at(says->of);
    if (symbol == defined_.end() || says->line == 0) continue;
    symbol->second.first_line = says->line;
    if (says->name.empty() || says->mangled || function.mangled) continue;
    const auto [plain, fresh] = plainly_named_.try_emplace(says->name, named->second);
    if (!fresh) plain->second.clear();
  }
}

std::string Assembly::without_definitions(const std::set<std::string>& symbols) const {
  std::string out;
  out.reserve(text_.size());
  bool in_debug = false;
  each_line(text_, [&](std::string_view line) {
    const std::string_view d = directive(line);
    std::string own;
    if (d.empty() && !line.empty() && in_symbol(line[0])) {
      const size_t colon = line.find(':');
      const std::string name(line.substr(0, colon));
      if (colon != std::string_view::npos && symbols.count(name))
        own = "backstep_own." + name + std::string(line.substr(colon));
    } else if (d == ".globl" || d == ".weak" || d == ".local" || d == ".type" || d == ".size" ||
               d == ".comm" || d == ".set" || d == ".hidden") {
      const std::string name(word(line, 1 + d.size() + 1));
      if (symbols.count(name)) {
        if (d == ".type")
          own = "\t.type\tbackstep_own." + name + std::string(line.substr(line.find(',')));
        else if (d == ".comm" || d == ".set")
          own = "\t" + std::string(d) + "\tbackstep_own." + name + std::string(line.substr(line.find(',')));
        else
          own = "# " + name;
      }
    } else if (d == ".section") {
      in_debug = word(line, 9).starts_with(".debug");
    } else if (d == ".quad" && in_debug && symbols.count(std::string(word(line, 7)))) {
      // Debug information is not to need what nobody else does.
      own = "\t.quad\tbackstep_own." + std::string(line.substr(7));
    }
    out += own.empty() ? line : std::string_view(own);
    out += '\n';
  });
  return out;
}

std::string Assembly::without_constructors(const std::string& text) {
  std::string out;
  bool skip = false;
  each_line(text, [&](std::string_view line) {
    const std::string_view d = directive(line);
    if (d == ".section" || d == ".text" || d == ".data" || d == ".bss")
      skip = d == ".section" &&
             (word(line, 9).starts_with(".init_array") || word(line, 9).starts_with(".ctors"));
    if (skip && (d == ".quad" || d == ".align")) return;
    out += line;
    out += '\n';
  });
  return out;
}

std::set<std::string> Assembly::mentioned() const {
  std::set<std::string> names;
  each_line(text_, [&](std::string_view line) {
    const std::string_view d = directive(line);
    if (!line.starts_with('\t') || (!d.empty() && d != ".quad" && d != ".long")) return;
    for (size_t i = 1; i < line.size();) {
      if (line[i] == '%') {  // a register
        for (i++; i < line.size() && in_symbol(line[i]);) i++;
      } else if (std::isalpha(static_cast<unsigned char>(line[i])) || line[i] == '_') {
        const std::string_view w = word(line, i);
        names.emplace(w);
        i += w.size();
      } else if (line[i] == '$') {  // an address as a number: movl $counter, %edi
        i++;
      } else {
        // numbers and local labels
        if (in_symbol(line[i]))
          while (i < line.size() && in_symbol(line[i])) i++;
        else
          i++;
      }
    }
  });
  return names;
}

}  // namespace backstep::probe
