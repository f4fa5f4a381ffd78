// From debug code to a debug module (module.h).
#pragma once
#include <set>
#include <string>
#include <vector>

#include "probe/module.h"
#include "session/session.h"

namespace backstep::probe {

// Debug code that is not in the program's source: run whenever the program comes to a place.
struct Snippet {
  std::string place;  // as for `backstep log`: parse.c:42, a function, call f, 0xADDRESS
  std::string code;
  std::string file;  // that the code is in; empty: on the command line
};

// `code`: "@FILE" stands for what is in that file. Throws Error: it is not there.
Snippet snippet(const std::string& place, const std::string& code);

// A source file of the program with debug regions in it, or one that has debug code only.
struct SourceFile {
  std::string path;
  std::vector<std::string>
      flags;  // of the compiler; empty: from compile_commands.json, if that knows the file
};

// What the build found out about a place, for people.
struct BoundVariable {
  std::string name, type;
  std::string where;  // "memory", "a register", "a constant", "gone: …"
};
struct BoundPlace {
  uint64_t pc = 0;
  std::string function, file;  // around it
  int line = 0;
  std::vector<BoundVariable> variables;
};

struct Built {
  Module module;
  std::vector<BoundPlace> places;  // one for each of module.places
  std::vector<std::string> notes;  // sentences: lines that moved, regions that no code was made of
};

struct BuildRequest {
  std::vector<Snippet> snippets;
  std::vector<SourceFile> sources;
  uint64_t base = 0;   // of the module; see module.h
  std::string folder;  // where the module and all intermediate files go
};

// By its name.
bool is_source_file(const std::string& path);

// Throws Error: the compiler's complaints at the lines of the debug code, or sentences about what is not
// there.
Built build(session::Session& session, const BuildRequest& request);

}  // namespace backstep::probe
