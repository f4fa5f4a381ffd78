// The program's own file and the libraries that it was built with are compared; libraries of the system are
// not, since debug code does not need those that lie there now.
#include "probe/check.h"

#include <algorithm>

#include "probe/toolchain.h"
#include "session/modules.h"

namespace backstep::probe {

bool Check::same() const {
  return std::none_of(binaries.begin(), binaries.end(),
                      [](const BinaryCheck& b) { return b.state == BinaryCheck::Changed; }) &&
         std::none_of(sources.begin(), sources.end(), [](const SourceCheck& s) {
           return std::any_of(s.functions.begin(), s.functions.end(),
                              [](const FunctionCheck& f) { return f.state == FunctionCheck::Changed; });
         });
}

Check check(session::Session& session, const std::string& program, const std::vector<SourceFile>& sources,
            const std::string& folder) {
  Check check;
  // What a process maps first is its program. (Modules stand in the order of their addresses.)
  const auto& files = session.timeline().log().files();
  const std::string executable = files.empty() ? "" : files.front().path;
  for (const symbols::Module& module : session.program().modules()) {
    if (session::is_of_the_system(module.name)) continue;
    const bool own = module.name == executable;
    const std::string& file = own && !program.empty() ? program : module.name;
    if (std::any_of(check.binaries.begin(), check.binaries.end(),
                    [&](const BinaryCheck& b) { return b.name == module.name; }))
      continue;
    check.binaries.push_back(check_binary(session.program(), module, file));
  }
  if (sources.empty()) return check;
  const Toolchain tools(folder);
  Variables variables(session.program());
  const Names usual;
  Binder binder(variables, usual, {}, {}, "check");
  Regions regions(session, tools, variables, binder);
  for (const SourceFile& source : sources) check.sources.push_back(regions.check(source));
  return check;
}

}  // namespace backstep::probe
