// Prints all values that a global variable ever had: values VARIABLE [RECORDING]
#include <iostream>

#include <backstep/session.h>

int main(int argc, char** argv) try {
  if (argc < 2) throw backstep::Error("usage: values VARIABLE [RECORDING]");
  const std::string variable = argv[1];
  auto session = backstep::Session::open(argc > 2 ? argv[2] : "");
  session.go_to("start");
  std::cout << "start " << session.value(variable) << '\n';
  for (const backstep::Hit& hit : session.log("change " + variable, {"$new"}))
    std::cout << hit.at << ' ' << hit.values["$new"] << '\n';
} catch (const backstep::Error& e) {
  std::cerr << "values: " << e.what() << '\n';
  return 2;
}
