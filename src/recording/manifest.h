// What a recording says about itself: manifest.json. Written when recording starts (so that a recording whose
// recorder was killed can be replayed) and again, with the end, when it ends.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/context.h"
#include "recording/format.h"

namespace backstep::recording {

inline constexpr int kManifestVersion = 1;

struct Manifest {
  int version = kManifestVersion;  // of the recording as a whole: manifest, folder layout and log
  std::string backstep;            // version of the program that recorded

  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=value
  std::string cwd;
  std::string exe;  // absolute path of the ELF file that was loaded
  uint32_t uid = 0;
  uint32_t gid = 0;

  std::string hostname;
  std::string kernel;  // uname: "Linux 6.1.0-13-amd64"
  // Of a distributed run: the host's name there; the machine (hashed) and its boot, which say whose names of
  // pipes and sockets those in the log are. Empty: not known.
  std::string host, machine, boot;

  struct Cpu {
    std::string vendor;  // of the machine: "GenuineIntel"
    std::string model;   // brand string
    std::string level;   // feature level shown to the program: "x86-64-v3"
    // Feature words shown to the program, by cpuid leaf and register: "7.ebx" -> bits. Replay compares them
    // with its own machine.
    std::map<std::string, uint64_t> shown;
    friend bool operator==(const Cpu&, const Cpu&) = default;
  } cpu;

  int64_t start_ns = 0;            // CLOCK_REALTIME
  int64_t start_monotonic_ns = 0;  // CLOCK_MONOTONIC at the same moment; 0: not known
  int64_t start_cpu_ns = 0;        // what the process had used before that; not written down
  std::optional<uint64_t> chaos;   // seed, if recorded in chaos mode

  // Missing: the recorder is still at work, or was killed.
  struct End {
    EndKind kind = EndKind::Exit;
    int64_t status = 0;       // exit status or signal number
    int64_t duration_ns = 0;  // since start_ns
    Tick ticks = 0;
    uint64_t events = 0;
    std::optional<ControlPoint> crash;  // where it died of a signal
    int64_t cpu_ns = -1;                // processor time, with the recorder's work; -1: not known
    friend bool operator==(const End&, const End&) = default;
  };
  std::optional<End> end;
  std::vector<std::string> notes;  // what was unknown or is not exact, one sentence each
  std::string checkpoints_note;    // why record --checkpoints made none, or no more; empty: it did

  friend bool operator==(const Manifest&, const Manifest&) = default;

  // For the first process of a recording. `name`: empty for the machine's.
  void describe_host(const std::string& name);
  // The log that it is about begins, ends now.
  void start_now();
  void end_now(EndKind kind, int64_t status, Tick ticks, uint64_t events);

  // Throws Error: missing, not JSON, incomplete, or of a newer version.
  static Manifest load(const std::string& path);
  // Is the text of a manifest what was written? By its field `check`.
  static bool is_intact(std::string text);
  // Replaces the file in one step: a reader sees the old or the new one. `in_place`: without that, for a
  // fraction of the cost (new files are what short processes pay for).
  void save(const std::string& path, bool in_place = false) const;
};

// All that can be said before the program starts: argv as given, the environment, directory, user, machine
// and time of this process. `exe`, `cpu.level` and `cpu.shown` are the recorder's to fill in.
Manifest describe_start(const std::vector<std::string>& argv);

// "exited with status 0", "died of SIGSEGV", …
std::string end_text(const std::optional<Manifest::End>& end);

}  // namespace backstep::recording
