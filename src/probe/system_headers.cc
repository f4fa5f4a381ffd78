// Debug code has a C and a C++ library of its own, whose types come from their headers. Where debug
// information of the program says that a type is from such a header, this is how we get at it again.
#include "probe/system_headers.h"

#include <map>

#include "probe/tokens.h"

namespace backstep::probe {
namespace {

using namespace std::string_literals;

// Parts of the library by the file that they are declared in, and by their names.
const std::map<std::string, std::string, std::less<>> kByFile{{"stl_vector.h", "<vector>"},
                                                              {"stl_bvector.h", "<vector>"},
                                                              {"basic_string.h", "<string>"},
                                                              {"stringfwd.h", "<string>"},
                                                              {"char_traits.h", "<string>"},
                                                              {"stl_map.h", "<map>"},
                                                              {"stl_multimap.h", "<map>"},
                                                              {"stl_set.h", "<set>"},
                                                              {"stl_multiset.h", "<set>"},
                                                              {"stl_tree.h", "<map>"},
                                                              {"stl_list.h", "<list>"},
                                                              {"stl_deque.h", "<deque>"},
                                                              {"unordered_map.h", "<unordered_map>"},
                                                              {"unordered_set.h", "<unordered_set>"},
                                                              {"hashtable.h", "<unordered_map>"},
                                                              {"stl_pair.h", "<utility>"},
                                                              {"unique_ptr.h", "<memory>"},
                                                              {"shared_ptr.h", "<memory>"},
                                                              {"shared_ptr_base.h", "<memory>"},
                                                              {"allocator.h", "<memory>"},
                                                              {"std_function.h", "<functional>"},
                                                              {"std_mutex.h", "<mutex>"},
                                                              {"unique_lock.h", "<mutex>"},
                                                              {"std_thread.h", "<thread>"},
                                                              {"forward_list.h", "<forward_list>"},
                                                              {"stl_queue.h", "<queue>"},
                                                              {"stl_stack.h", "<stack>"},
                                                              {"random.h", "<random>"},
                                                              {"atomic_base.h", "<atomic>"},
                                                              {"fs_path.h", "<filesystem>"}};

const std::map<std::string, std::string, std::less<>> kByName{{"map", "<map>"},
                                                              {"multimap", "<map>"},
                                                              {"set", "<set>"},
                                                              {"multiset", "<set>"},
                                                              {"unordered_map", "<unordered_map>"},
                                                              {"unordered_set", "<unordered_set>"},
                                                              {"vector", "<vector>"},
                                                              {"string", "<string>"},
                                                              {"to_string", "<string>"},
                                                              {"string_view", "<string_view>"},
                                                              {"list", "<list>"},
                                                              {"deque", "<deque>"},
                                                              {"array", "<array>"},
                                                              {"pair", "<utility>"},
                                                              {"tuple", "<tuple>"},
                                                              {"cout", "<iostream>"},
                                                              {"cerr", "<iostream>"},
                                                              {"endl", "<iostream>"},
                                                              {"ostream", "<iostream>"},
                                                              {"ofstream", "<fstream>"},
                                                              {"ifstream", "<fstream>"},
                                                              {"stringstream", "<sstream>"},
                                                              {"ostringstream", "<sstream>"},
                                                              {"istringstream", "<sstream>"},
                                                              {"function", "<functional>"},
                                                              {"unique_ptr", "<memory>"},
                                                              {"shared_ptr", "<memory>"},
                                                              {"make_unique", "<memory>"},
                                                              {"make_shared", "<memory>"},
                                                              {"optional", "<optional>"},
                                                              {"sort", "<algorithm>"},
                                                              {"min", "<algorithm>"},
                                                              {"max", "<algorithm>"},
                                                              {"find", "<algorithm>"},
                                                              {"find_if", "<algorithm>"},
                                                              {"count", "<algorithm>"},
                                                              {"count_if", "<algorithm>"},
                                                              {"accumulate", "<numeric>"},
                                                              {"setw", "<iomanip>"},
                                                              {"hex", "<iostream>"},
                                                              {"dec", "<iostream>"},
                                                              {"queue", "<queue>"},
                                                              {"priority_queue", "<queue>"},
                                                              {"stack", "<stack>"},
                                                              {"bitset", "<bitset>"},
                                                              {"variant", "<variant>"},
                                                              {"any_of", "<algorithm>"},
                                                              {"all_of", "<algorithm>"},
                                                              {"span", "<span>"},
                                                              {"isnan", "<cmath>"},
                                                              {"abs", "<cmath>"}};

// Declared by what is in braces: still the outside.
bool is_linkage(const std::vector<Token>& tokens, size_t brace) {
  return brace >= 2 && tokens[brace - 1].kind == Token::Kind::Text && tokens[brace - 2].text == "extern";
}

}  // namespace

bool is_system_header(const std::string& path) {
  for (const char* folder : {"/usr/include/", "/usr/lib/gcc", "/usr/local/lib/gcc", "/usr/lib/llvm"})
    if (path.starts_with(folder)) return true;
  return path.find("/include/c++/") != std::string::npos || path.find("/sysdeps/") != std::string::npos;
}

std::string cpp_header(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  if (auto found = kByFile.find(name); found != kByFile.end()) return found->second;
  if (name.find('.') == std::string::npos && !name.empty() && path.find("/bits/") == std::string::npos &&
      path.find("/c++/") != std::string::npos)
    return "<" + name + ">";
  return "<bits/stdc++.h>";
}

std::string cpp_header_of(const std::string& name) {
  auto found = kByName.find(name);
  return found == kByName.end() ? "" : found->second;
}

std::string usual_headers() {
  std::string out;
  for (const char* name :
       {"stddef.h",     "stdint.h",     "stdio.h",     "stdlib.h",   "string.h",   "stdarg.h",
        "limits.h",     "ctype.h",      "errno.h",     "math.h",     "inttypes.h", "locale.h",
        "wchar.h",      "time.h",       "setjmp.h",    "signal.h",   "pthread.h",  "semaphore.h",
        "unistd.h",     "fcntl.h",      "dirent.h",    "poll.h",     "pwd.h",      "regex.h",
        "termios.h",    "netdb.h",      "sys/types.h", "sys/stat.h", "sys/time.h", "sys/resource.h",
        "sys/select.h", "sys/socket.h", "sys/un.h",    "sys/uio.h",  "sys/wait.h", "netinet/in.h"})
    out += "#include <"s + name + ">\n";
  return out;
}

std::set<std::string, std::less<>> declared_names(const std::string& preprocessed) {
  const auto tokens = tokens_of(preprocessed);
  std::set<std::string, std::less<>> names;
  std::vector<bool> outside;  // of each brace: is it as good as none, or that of an enum
  size_t inside = 0, brackets = 0;
  bool in_enum = false;
  for (size_t i = 0; i < tokens.size(); i++) {
    const Token& t = tokens[i];
    if (t.text == "{") {
      const bool linkage = inside == 0 && is_linkage(tokens, i);
      const bool enumerators = inside == 0 && !linkage && i >= 1 &&
                               (tokens[i - 1].text == "enum" || (i >= 2 && tokens[i - 2].text == "enum"));
      outside.push_back(linkage);
      in_enum = enumerators;
      inside += !linkage;
    } else if (t.text == "}" && !outside.empty()) {
      if (!outside.back()) inside--;
      outside.pop_back();
      in_enum = false;
    } else if (t.text == "(") {
      brackets++;
    } else if (t.text == ")" && brackets) {
      brackets--;
    } else if (t.kind == Token::Kind::Name && brackets == 0 && !is_keyword(t.text)) {
      if (inside == 0 || in_enum) names.emplace(t.text);
    }
  }
  return names;
}

}  // namespace backstep::probe
