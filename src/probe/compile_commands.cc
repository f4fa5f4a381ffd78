// Debug code is compiled by our compiler with our own optimisation. Of the program's flags those are taken
// over that decide what the source says: macros, include folders, the language, and what changes the layout
// of types.
#include "probe/compile_commands.h"

#include <array>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

namespace backstep::probe {
namespace {

namespace fs = std::filesystem;

constexpr std::array kWithValue{"-I",       "-D",      "-U",         "-include", "-imacros",
                                "-isystem", "-iquote", "-idirafter", "-std",     "--sysroot"};
constexpr std::array kWhole{
    "-fshort-enums",      "-fsigned-char", "-funsigned-char", "-fpack-struct",   "-fms-extensions",
    "-fplan9-extensions", "-fpermissive",  "-fno-rtti",       "-fno-exceptions", "-fcoroutines",
    "-fconcepts",         "-fchar8_t",     "-fno-char8_t",    "-fno-builtin",    "-ffreestanding",
    "-mms-bitfields",     "-ansi",         "-pthread"};

std::vector<std::string> meaning(const std::vector<std::string>& flags) {
  std::vector<std::string> out;
  for (size_t i = 0; i < flags.size(); i++) {
    const std::string& f = flags[i];
    for (const std::string_view with : kWithValue)
      if (f == with && i + 1 < flags.size()) {
        out.push_back(f);
        out.push_back(flags[++i]);
        break;
      } else if (f.starts_with(with) && f != with) {
        out.push_back(f);
        break;
      }
    for (const std::string_view whole : kWhole)
      if (f.starts_with(whole)) out.push_back(f);
    if (f.starts_with("-m") && f != "-m64" && !f.starts_with("-mms") && !f.starts_with("-mcmodel") &&
        !f.starts_with("-mtune"))
      out.push_back(f);  // macros such as __AVX2__
  }
  return out;
}

bool read_database(const fs::path& database, const fs::path& source, CompileCommand& to) {
  std::ifstream file(database);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_array()) return false;
  for (const auto& entry : json) {
    if (!entry.is_object()) continue;
    const std::string folder = entry.value("directory", ""), name = entry.value("file", "");
    std::error_code failed;
    if (!fs::equivalent(fs::path(folder) / name, source, failed)) continue;
    std::vector<std::string> all;
    if (entry.contains("arguments") && entry["arguments"].is_array()) {
      for (const auto& a : entry["arguments"])
        if (a.is_string()) all.push_back(a.get<std::string>());
    } else {
      all = words_of(entry.value("command", ""));
    }
    to.folder = folder;
    to.flags = meaning(all);
    return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> words_of(const std::string& command) {
  std::vector<std::string> out;
  std::string word;
  bool any = false;
  char quote = 0;
  for (size_t i = 0; i < command.size(); i++) {
    const char c = command[i];
    if (c == '\\' && quote != '\'' && i + 1 < command.size()) {
      word += command[++i];
      any = true;
    } else if (quote ? c == quote : c == '"' || c == '\'') {
      quote = quote ? 0 : c;
      any = true;
    } else if (!quote && (c == ' ' || c == '\t' || c == '\n')) {
      if (any) out.push_back(word);
      word.clear();
      any = false;
    } else {
      word += c;
      any = true;
    }
  }
  if (any) out.push_back(word);
  return out;
}

CompileCommand compile_command(const std::string& path, const std::vector<std::string>& given) {
  CompileCommand command;
  command.c = path.ends_with(".c");
  if (!given.empty()) {
    command.flags = meaning(given);
    return command;
  }
  std::error_code failed;
  const fs::path source = fs::absolute(path, failed);
  for (fs::path folder = source.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    for (const char* where : {"compile_commands.json", "build/compile_commands.json"})
      if (fs::is_regular_file(folder / where, failed) && read_database(folder / where, source, command))
        return command;
    if (folder == folder.root_path()) break;
  }
  return command;
}

}  // namespace backstep::probe
