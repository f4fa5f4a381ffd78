// Names as people write them and as compilers do: "f", "ns::f<int>(char)", "file.c:f".
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace backstep::symbols {

// A function's name taken apart. Parts of the text that it was made of, which must outlive it.
struct SplitName {
  std::vector<std::string_view> parts;         // "ns", "Class<int>", "f<char>"
  std::string_view qualified;                  // "ns::Class<int>::f<char>"
  std::optional<std::string_view> parameters;  // "(int, char) const"
};

// Of a demangled name or of one that somebody typed; a return type in front is left out.
SplitName split_name(std::string_view text);
// "f<int>" -> "f", "f[abi:cxx11]" -> "f"; operators keep their signs.
std::string_view without_arguments(std::string_view part);
// Whether a function is one of those that were asked for: `asked` may leave out outer scopes, template
// arguments and parameters.
bool matches(const SplitName& asked, const SplitName& function);

// What compilers append to the name of a function that they made a variant of.
struct CloneName {
  std::string_view base;  // "f" of "f.isra.0", "f" of "f@@VERSION"
  bool fragment = false;  // a part of the function that is entered in its middle: ".cold", ".part.0"
};
CloneName split_clone(std::string_view symbol);

// The names written out in a symbol: "ns" and "f" of "_ZN2ns1fEv", "f" of "f". Enough to find candidates
// without demangling hundreds of thousands of symbols.
void identifiers(std::string_view symbol, std::vector<std::string_view>& out);

// Function "ns::f" in "file.c:ns::f"; an empty file: none is given.
struct AskedFunction {
  std::string_view file, function;
};
AskedFunction split_file(std::string_view text);

// Whether the last components of `path` are those of `asked`: "b/c.c" and "/a/b/c.c".
bool path_ends_with(std::string_view path, std::string_view asked);
// Without ".", "..", and doubled slashes; relative ones are taken from `folder`.
std::string clean_path(std::string_view path, std::string_view folder);

}  // namespace backstep::symbols
