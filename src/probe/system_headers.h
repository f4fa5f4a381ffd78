// The headers of the machine's own compiler: which one declares what, and which names the usual ones declare.
#pragma once
#include <set>
#include <string>

namespace backstep::probe {

bool is_system_header(const std::string& path);

// "<vector>" for ".../c++/12/bits/stl_vector.h"; one that has everything if it is not known.
std::string cpp_header(const std::string& path);
// … for a name of namespace std ("map"); empty: none in particular.
std::string cpp_header_of(const std::string& name);

// What snippets are compiled with: "#include <stdio.h>\n…".
std::string usual_headers();
// Names that preprocessed code declares outside of functions and namespaces: types, functions, variables,
// enumerators.
std::set<std::string, std::less<>> declared_names(const std::string& preprocessed);

}  // namespace backstep::probe
