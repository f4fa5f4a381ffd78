// A manifest comes back as it was written, whatever bytes are in it, and a bad one is a sentence.
#include "recording/manifest.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/version.h"
#include "temp_dir.h"

namespace backstep::recording {
namespace {

using test::read_file;
using test::TempDir;
using test::write_file;

std::string error_of(const std::string& path) {
  try {
    Manifest::load(path);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Manifest, ComesBackAsItWasWritten) {
  TempDir dir;
  Manifest m = describe_start({"sort", "-r", "\xff\xfe not UTF-8", "", "naïve"});
  m.exe = "/usr/bin/sort";
  m.start_cpu_ns = 0;  // is not written down
  m.cpu.level = "x86-64-v3";
  m.cpu.shown = {{"1.ecx", 0x7ffafbff}, {"7.ebx", 0xffffffff}};
  m.notes = {"ioctl 0x1234 is unknown"};
  m.save(dir / "manifest.json");
  EXPECT_EQ(Manifest::load(dir / "manifest.json"), m);

  m.end = Manifest::End{EndKind::Signal, 11, 1'234'567, 99, 7, ControlPoint{99, 0x401000}};
  m.save(dir / "manifest.json");
  EXPECT_EQ(Manifest::load(dir / "manifest.json"), m);
}

TEST(Manifest, DescribesThisMachine) {
  Manifest m = describe_start({"true"});
  EXPECT_EQ(m.backstep, kVersion);
  EXPECT_FALSE(m.hostname.empty());
  EXPECT_FALSE(m.cpu.vendor.empty());
  EXPECT_TRUE(m.kernel.starts_with("Linux "));
  EXPECT_GT(m.start_ns, 1'600'000'000'000'000'000);
  EXPECT_FALSE(m.env.empty());
  EXPECT_FALSE(m.end);
}

TEST(Manifest, OfANewerVersionSaysWhatToDo) {
  TempDir dir;
  write_file(dir / "manifest.json", R"({"version": 99, "backstep": "9.9", "whatever": true})");
  EXPECT_NE(error_of(dir / "manifest.json").find("format version 99, made by backstep 9.9"),
            std::string::npos);
  EXPECT_NE(error_of(dir / "manifest.json").find("use a newer backstep"), std::string::npos);
}

TEST(Manifest, DamagedAtAnyByteIsNoticed) {
  TempDir dir;
  Manifest m = describe_start({"sort", "\xff"});
  m.env = {"A=b"};
  m.end = Manifest::End{};
  m.save(dir / "good");
  std::string text = read_file(dir / "good");
  for (size_t n = 0; n < text.size() - 2; n++) {
    write_file(dir / "cut", text.substr(0, n));
    EXPECT_FALSE(error_of(dir / "cut").empty()) << n;
  }
  for (size_t n = 0; n < text.size(); n++) {
    std::string flipped = text;
    flipped[n] = static_cast<char>(flipped[n] ^ 0x41);
    write_file(dir / "flipped", flipped);
    EXPECT_FALSE(error_of(dir / "flipped").empty()) << n;
  }
  EXPECT_FALSE(error_of(dir / "missing").empty());
}

TEST(Manifest, SayInWordsHowARunEnded) {
  EXPECT_EQ(end_text(Manifest::End{EndKind::Exit, 3, 0, 0, 0, {}}), "exited with status 3");
  EXPECT_EQ(end_text(Manifest::End{EndKind::Signal, 11, 0, 0, 0, {}}), "died of SIGSEGV");
  EXPECT_NE(end_text({}).find("not ended"), std::string::npos);
}

}  // namespace
}  // namespace backstep::recording
