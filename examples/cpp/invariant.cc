// Finds where an invariant was broken first: invariant PLACE CONDITION [RECORDING]
//
// PLACE is where the condition is to hold, such as list.c:42. Goes to the first time that it does not and
// shows the stack.
#include <iostream>

#include <backstep/session.h>

int main(int argc, char** argv) try {
  if (argc < 3) throw backstep::Error("usage: invariant PLACE CONDITION [RECORDING]");
  const std::string place = argv[1], condition = argv[2];
  auto session = backstep::Session::open(argc > 3 ? argv[3] : "");
  const auto times = session.count(place);
  const auto broken = session.log(place + " if !(" + condition + ")", {}, {.limit = 1}).next();
  if (!broken) {
    std::cout << condition << " holds all " << times << " times\n";
    return 0;
  }
  const auto good = session.count(place, {.end = broken->at});
  std::cout << condition << " holds " << good << " times, and not at " << broken->at << ":\n";
  session.go_to(broken->at);
  for (const backstep::Frame& frame : session.stack()) {
    std::cout << "  " << (frame.function.empty() ? "?" : frame.function);
    if (frame.line) std::cout << " (" << frame.file << ':' << frame.line << ')';
    std::cout << '\n';
  }
  return 1;
} catch (const backstep::Error& e) {
  std::cerr << "invariant: " << e.what() << '\n';
  return 2;
}
