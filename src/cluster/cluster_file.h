// cluster.toml: which programs run on which hosts, and how one starts something there.
//
//   output = "run"                                # folder of the run
//   launch = "ssh {host} {quoted}"                # how to start something on a host
//
//   [[host]]
//   name = "A"
//   command = "./server 80"                       # for a shell, or a list of words
//   folder = "/tmp/recording-A"                   # where it records; must not exist there
//   launch = "ip netns exec a {command}"          # another way for this one
//   fetch = "A:/tmp/recording-A"                  # what is gathered then; default: `folder`, here
//   record = ["--chaos"]                          # options of `backstep record`
//   backstep = "/opt/bin/backstep"                # the program there; default: "backstep", or us
//   daemon = true                                 # never ends: gets SIGTERM when all others have ended
#pragma once
#include <string>
#include <vector>

namespace backstep::cluster {

struct ClusterHost {
  std::string name, folder, launch, fetch, backstep;
  std::vector<std::string> command, record;
  bool daemon = false;
};
struct ClusterFile {
  std::string output;
  std::vector<ClusterHost> hosts;
  // Throws Error, with the line.
  static ClusterFile read(const std::string& path);
};

// The words that start the recording of a host: {command} stands for the words of it, {quoted} for all of
// them as one word for a shell, {host} for the name.
std::vector<std::string> launch_words(const ClusterHost& host);

}  // namespace backstep::cluster
