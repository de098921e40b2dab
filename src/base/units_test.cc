#include "base/units.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

TEST(Units, DurationsAreExact) {
  EXPECT_EQ(parse_duration("0").value(), 0ns);
  EXPECT_EQ(parse_duration("7ns").value(), 7ns);
  EXPECT_EQ(parse_duration("200us").value(), 200us);
  EXPECT_EQ(parse_duration("150ms").value(), 150ms);
  EXPECT_EQ(parse_duration("60s").value(), 60s);
  EXPECT_EQ(parse_duration("1.5s").value(), 1500ms);
  EXPECT_EQ(parse_duration("0.1ms").value(), 100us);
  EXPECT_EQ(parse_duration("10m").value(), 600s);
  EXPECT_EQ(parse_duration("1h").value(), 3600s);
}

TEST(Units, SizesCountIn1024) {
  EXPECT_EQ(parse_bytes("0").value(), 0u);
  EXPECT_EQ(parse_bytes("4096").value(), 4096u);
  EXPECT_EQ(parse_bytes("256K").value(), 262144u);
  EXPECT_EQ(parse_bytes("4M").value(), 4194304u);
  EXPECT_EQ(parse_bytes("4MiB").value(), 4194304u);
  EXPECT_EQ(parse_bytes("4mb").value(), 4194304u);
  EXPECT_EQ(parse_bytes("1.5G").value(), 1610612736u);
  EXPECT_EQ(parse_bytes("18446744073709551615").value(), ~0ull);
}

TEST(Units, RatesCountBitsIn1000) {
  EXPECT_EQ(parse_rate("8bit").value(), 1u);
  EXPECT_EQ(parse_rate("50mbit").value(), 6'250'000u);
  EXPECT_EQ(parse_rate("400gbit").value(), 50'000'000'000u);
  EXPECT_EQ(parse_rate("2.5Gbit").value(), 312'500'000u);
}

TEST(Units, MalformedTextGetsASentenceThatQuotesIt) {
  for (const char* text :
       {"", "60", "s", "-1s", "1 s", "1.s", ".5s", "1e3s", "1sec", "99999999999h", "1.0000000001s"}) {
    const auto result = parse_duration(text);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().fault, Fault::kMisuse);
    EXPECT_NE(result.error().what.find("'" + std::string(text) + "'"), std::string::npos);
  }
  for (const char* text : {"", "K", "-4K", "4X", "0x10", "18446744073709551616", "99999999T", "4 K"}) {
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
  }
  for (const char* text : {"", "50", "50mb", "mbit", "50 mbit", "99999999999tbit"}) {
    EXPECT_FALSE(parse_rate(text).has_value()) << text;
  }
  for (const char* text : {"", "-1", "1.0", "x", "1x", "18446744073709551616"}) {
    EXPECT_FALSE(parse_integer(text).has_value()) << text;
  }
}

TEST(Units, TextIsShort) {
  EXPECT_EQ(duration_text(4230us), "4.23 ms");
  EXPECT_EQ(duration_text(60s), "60 s");
  EXPECT_EQ(duration_text(500ns), "500 ns");
  EXPECT_EQ(duration_text(1234s), "1234 s");
  EXPECT_EQ(duration_text(-150ms), "-150 ms");
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(262144), "256 KiB");
  EXPECT_EQ(bytes_text(2202010), "2.1 MiB");
  EXPECT_EQ(rate_text(50'000'000'000), "400 gbit/s");
}

}  // namespace
}  // namespace r2ccl
