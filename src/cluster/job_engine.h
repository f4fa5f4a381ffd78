// What runs jobs: processes here, machines over ssh, Slurm.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "timeline/worker.h"

namespace backstep::cluster {

// The files of job number N, in the folder that the controller has made for them. The job itself needs
// nothing but the first one, and writes its result beside it.
std::string job_path(const std::string& folder, size_t number);     // job-N: what is to be done (job.h)
std::string result_path(const std::string& folder, size_t number);  // job-N.tables: recording/parcel.h
std::string output_path(const std::string& folder, size_t number);  // job-N.log: what it said

struct EngineWishes {
  std::string folder;                // where the jobs' files are; absolute
  std::string name;                  // of what is done, for people who look at queues
  std::string program;               // backstep, where jobs run
  std::string hosts;                 // ssh: names with commas between them, or a file with one in each line
  std::vector<std::string> options;  // for the engine's own program
  size_t at_once = 0;                // jobs, on each host where there are several; 0: as the engine likes
};

class JobEngine {
 public:
  // Whatever is still under way is ended.
  virtual ~JobEngine() = default;
  // Hands over jobs; those that could not be run go on to be under way until they have ended.
  // Throws Error: the engine itself does not work.
  virtual void start(const std::vector<size_t>& numbers) = 0;
  // Those that have ended since the last time, in whatever way; their results tell. Waits a little if there
  // are none, not longer than until `ear` hears something. Throws Error: the engine does not work any more.
  virtual std::vector<size_t> ended(const timeline::Attention& ear) = 0;
  // How many seconds the result of a job may take to be seen here after its end.
  virtual double lateness() const { return 0; }
  // What the engine knows of the end of a job: "exit status 1 on host b", "killed by signal 9".
  virtual std::string end_of(size_t number) const = 0;
};

// "local", "ssh" or "slurm". Throws Error.
std::unique_ptr<JobEngine> make_engine(const std::string& kind, const EngineWishes& wishes);
std::unique_ptr<JobEngine> make_local_engine(const EngineWishes& wishes);
std::unique_ptr<JobEngine> make_ssh_engine(const EngineWishes& wishes);
std::unique_ptr<JobEngine> make_slurm_engine(const EngineWishes& wishes);

// Until the ear hears something, or the time is over.
void listen_for(const timeline::Attention& ear, double seconds);
// As a word of a shell's command.
std::string shell_word(const std::string& text);

}  // namespace backstep::cluster
