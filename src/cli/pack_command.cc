// `backstep pack`: a recording refers to mapped files in the shared store; packing copies them into its
// folder, which can then be moved, archived or sent.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/options.h"
#include "recording/library.h"

namespace backstep::cli {

int pack_command(const Args& args) {
  using recording::Library;
  using recording::Recording;
  std::string dir;
  bool quiet = false;
  CommandLine line(
      "pack", "[-q] [DIR]",
      "Copies the contents of all files that the program had mapped (its libraries and so on) from\n"
      "the shared store into the recording's folder. After that the folder needs nothing else:\n"
      "copy it to another machine and replay it there. DIR: a name or path; the latest if left out.",
      "Example:\n"
      "  backstep pack sort-1 && tar -C ~/.local/share/backstep -czf sort-1.tar.gz sort-1");
  line.add_flag("-q,--quiet", quiet, "print nothing");
  line.add_option("DIR", dir);
  if (auto status = line.parse_args(args)) return *status;
  Library library = Library::standard();
  Recording r = library.resolve(dir);
  uint64_t grown = library.pack(r);
  if (!quiet)
    fmt::print("{}: {} files, {} added; the folder is self-contained\n", r.dir(), r.keys().size(),
               format_size(grown));
  return 0;
}

}  // namespace backstep::cli
