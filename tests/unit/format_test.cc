// What people read: sizes, times, commands, tables.
#include "cli/format.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace backstep::cli {
namespace {

TEST(Format, CountsAreExactAndGrouped) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(~0ull), "18,446,744,073,709,551,615");
}

TEST(Format, SizesHaveThreeDigits) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(999), "999 B");
  EXPECT_EQ(format_size(1000), "1.00 kB");
  EXPECT_EQ(format_size(12345), "12.3 kB");
  EXPECT_EQ(format_size(999'700), "1.00 MB");
  EXPECT_EQ(format_size(3'900'000), "3.90 MB");
  EXPECT_EQ(format_size(5'000'000'000'000'000), "5000 TB");
}

TEST(Format, DurationsChooseTheirUnit) {
  EXPECT_EQ(format_duration(0), "0 ns");
  EXPECT_EQ(format_duration(1'240'000), "1.24 ms");
  EXPECT_EQ(format_duration(999'600), "1.00 ms");
  EXPECT_EQ(format_duration(3'020'000'000), "3.02 s");
  EXPECT_EQ(format_duration(59'970'000'000), "1 min 00 s");
  EXPECT_EQ(format_duration(125'000'000'000), "2 min 05 s");
  EXPECT_EQ(format_duration(11'520'000'000'000), "3 h 12 min");
  EXPECT_EQ(format_duration(-5000), "-5.00 µs");
}

TEST(Format, TimesAreLocalForPeopleAndUtcForPrograms) {
  setenv("TZ", "UTC-2", 1);
  tzset();
  EXPECT_EQ(format_time(1'700'000'000'123'456'789), "2023-11-15 00:13:20");
  EXPECT_EQ(format_time_iso(1'700'000'000'123'456'789), "2023-11-14T22:13:20.123456789Z");
}

TEST(Format, AControlPointCanBePastedBack) {
  EXPECT_EQ(format_point({12345, 0x401136}), "@12345:0x401136");
}

TEST(Format, CommandsCanBeTypedAgain) {
  EXPECT_EQ(format_command({"sort", "-k", "2", "a.txt"}), "sort -k 2 a.txt");
  EXPECT_EQ(format_command({"echo", "", "a b", "it's", "$HOME"}), "echo '' 'a b' 'it'\\''s' '$HOME'");
  EXPECT_EQ(format_command({"a\nb'c"}), "$'a\\nb\\'c'");
}

TEST(Format, BytesAreQuotedAsInC) {
  EXPECT_EQ(quote_bytes("a\"\\\n\t\r", 6, 32), R"("a\"\\\n\t\r")");
  EXPECT_EQ(quote_bytes("\0x\0001\377", 5, 32), R"("\0x\0001\377")");
  EXPECT_EQ(quote_bytes("hello", 5, 3), "\"hel\"...");
  EXPECT_EQ(quote_bytes("", 0, 3), "\"\"");
}

TEST(Format, ShortenKeepsCharactersWhole) {
  EXPECT_EQ(shorten("hello", 5), "hello");
  EXPECT_EQ(shorten("hello!", 5), "hell…");
  EXPECT_EQ(shorten("ääääää", 4), "äää…");
}

TEST(Format, JsonTextIsAlwaysUtf8) {
  EXPECT_EQ(to_utf8("naïve €"), "naïve €");
  EXPECT_EQ(to_utf8("a\xff"
                    "b\xc3"),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd");
  EXPECT_EQ(to_utf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Format, TablesAlign) {
  Table table({"NAME", ">SIZE", "END"});
  table.add({"a", "1", "x"});
  table.add({"größer", "1,000", ""});
  EXPECT_EQ(table.text(),
            "NAME     SIZE  END\n"
            "a           1  x\n"
            "größer  1,000\n");
}

}  // namespace
}  // namespace backstep::cli
