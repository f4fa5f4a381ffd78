// Compares how often functions were called in two recordings: compare RECORDING RECORDING FUNCTION...
#include <iomanip>
#include <iostream>

#include <backstep/session.h>

namespace {

std::vector<std::uint64_t> counts(const std::string& recording, const std::vector<std::string>& functions) {
  std::vector<std::string> events;
  for (const std::string& function : functions) events.push_back("call " + function);
  return backstep::Session::open(recording).counts(events);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) throw backstep::Error("usage: compare RECORDING RECORDING FUNCTION...");
  const std::vector<std::string> functions(argv + 3, argv + argc);
  const auto a = counts(argv[1], functions), b = counts(argv[2], functions);
  for (std::size_t i = 0; i < functions.size(); i++)
    std::cout << std::setw(10) << a[i] << ' ' << std::setw(10) << b[i] << "  " << functions[i]
              << (a[i] == b[i] ? "" : "  <--") << '\n';
} catch (const backstep::Error& e) {
  std::cerr << "compare: " << e.what() << '\n';
  return 2;
}
