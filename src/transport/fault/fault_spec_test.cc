#include "transport/fault/fault_spec.h"

#include <gtest/gtest.h>

#include <random>

namespace r2ccl {
namespace {

std::string refusal(std::string_view text) {
  const auto specs = parse_faults(text);
  return specs ? "" : specs.error().what;
}

TEST(FaultSpec, EveryKindParses) {
  const auto specs = parse_faults(
      "at=2s server=0 nic=1 kind=down; at=0 server=1 nic=0 kind=cable for=5s;at=1.5s server=0 nic=3 kind=blackhole;"
      "at=op:12 server=2 nic=0 kind=reset ; at=bytes:40% server=0 nic=1 kind=slow:50mbit for=1m;"
      "kind=flap:200ms nic=7 server=9 at=10ms;");
  ASSERT_TRUE(specs) << specs.error().what;
  ASSERT_EQ(specs->size(), 6u);
  EXPECT_EQ((*specs)[0].at.time, 2s);
  EXPECT_EQ((*specs)[0].nic.value, 1);
  EXPECT_EQ((*specs)[0].lasting, 0s);
  EXPECT_EQ((*specs)[1].lasting, 5s);
  EXPECT_EQ((*specs)[2].at.time, 1500ms);
  EXPECT_EQ((*specs)[3].at.unit, FaultStart::Unit::kOperation);
  EXPECT_EQ((*specs)[3].at.operation, 12u);
  EXPECT_EQ((*specs)[4].at.unit, FaultStart::Unit::kBytes);
  EXPECT_EQ((*specs)[4].at.share_ppm, 400'000u);
  EXPECT_EQ((*specs)[4].rate_bytes_s, 6'250'000u);
  EXPECT_EQ((*specs)[5].kind, FaultKind::kFlap);
  EXPECT_EQ((*specs)[5].period, 200ms);
  EXPECT_EQ((*specs)[5].server.value, 9u);
}

TEST(FaultSpec, TextOfAParsedFaultIsTheFaultAgain) {
  for (const char* text :
       {"at=2s server=0 nic=1 kind=down", "at=0s server=18446744073709551615 nic=255 kind=cable for=1ns",
        "at=op:12 server=0 nic=1 kind=reset", "at=bytes:12.5% server=0 nic=1 kind=blackhole",
        "at=bytes:0.0001% server=0 nic=1 kind=slow:1500kbit for=90s",
        "at=bytes:100% server=0 nic=1 kind=flap:200ms for=5s"}) {
    const auto spec = parse_fault(text);
    ASSERT_TRUE(spec) << spec.error().what;
    EXPECT_EQ(to_text(*spec), text);
  }
  EXPECT_EQ(to_text(std::vector<FaultSpec>{}), "");
}

TEST(FaultSpec, RandomFaultsSurviveTheRoundTrip) {
  std::mt19937_64 random(7);
  std::vector<FaultSpec> specs(500);
  for (FaultSpec& spec : specs) {
    spec.kind = static_cast<FaultKind>(random() % 6);
    spec.server.value = random();
    spec.nic.value = static_cast<std::uint8_t>(random());
    switch (random() % 3) {
      case 0:
        spec.at.time = Duration(random() % 1'000'000'000'000);
        break;
      case 1:
        spec.at = {.unit = FaultStart::Unit::kOperation, .operation = random()};
        break;
      default:
        spec.at = {.unit = FaultStart::Unit::kBytes, .share_ppm = static_cast<std::uint32_t>(random() % 1'000'001)};
    }
    if (spec.kind == FaultKind::kSlow) spec.rate_bytes_s = 125 + random() % 50'000'000'000;
    if (spec.kind == FaultKind::kFlap) spec.period = 1ms + Duration(random() % 1'000'000'000);
    if (spec.kind != FaultKind::kReset && random() % 2 == 0) spec.lasting = Duration(1 + random() % 1'000'000'000'000);
  }
  const auto again = parse_faults(to_text(specs));
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(*again, specs);
}

TEST(FaultSpec, NothingIsNoFault) {
  for (const char* text : {"", " ", ";", " ; ; "}) {
    const auto specs = parse_faults(text);
    ASSERT_TRUE(specs);
    EXPECT_TRUE(specs->empty());
  }
}

TEST(FaultSpec, MalformedFaultsGetOneSentenceThatQuotesThem) {
  EXPECT_EQ(refusal("at=2s server=0 nic=1"), "fault 'at=2s server=0 nic=1': kind= is missing");
  EXPECT_EQ(refusal("server=0 nic=1 kind=down"), "fault 'server=0 nic=1 kind=down': at= is missing");
  EXPECT_EQ(refusal("at=1s at=2s"), "fault 'at=1s at=2s': at= is given twice");
  EXPECT_EQ(refusal("when=2s"), "fault 'when=2s': 'when=2s' is none of at=, server=, nic=, kind=, for=");
  EXPECT_EQ(refusal("for"), "fault 'for': 'for' is none of at=, server=, nic=, kind=, for=");
  EXPECT_EQ(refusal("at=bytes:140% server=0 nic=1 kind=down"),
            "fault 'at=bytes:140% server=0 nic=1 kind=down': at=: 'bytes:140%' is not a share like bytes:40%");
  EXPECT_EQ(
      refusal("kind=broken"),
      "fault 'kind=broken': kind=: 'broken' is not a kind: down, cable, blackhole, reset, slow:50mbit or flap:200ms");
}

TEST(FaultSpec, OutOfRangeAndHalfWrittenValuesAreRefused) {
  const std::string rest = " server=0 nic=1 kind=down";
  for (const char* at : {"at=", "at=-1s", "at=2", "at=op:", "at=op:x", "at=bytes:40", "at=bytes:%", "at=bytes:1.%",
                         "at=bytes:.5%", "at=bytes:1.00000%", "at=99999999h"}) {
    EXPECT_NE(refusal(at + rest), "") << at;
  }
  for (const char* kind : {"kind=", "kind=slow", "kind=slow:", "kind=slow:0mbit", "kind=slow:fast", "kind=flap",
                           "kind=flap:0s", "kind=flap:1us", "kind=down:1s", "kind=reset for=1s", "kind=down for=0s"}) {
    EXPECT_NE(refusal(std::string("at=1s server=0 nic=1 ") + kind), "") << kind;
  }
  EXPECT_NE(refusal("at=1s server=0 nic=256 kind=down"), "");
  EXPECT_NE(refusal("at=1s server=-1 nic=0 kind=down"), "");
}

TEST(FaultSpec, TooManyFaultsAreRefused) {
  std::string text;
  for (std::size_t i = 0; i <= kFaultsMax; ++i) text += "at=1s server=0 nic=0 kind=down;";
  EXPECT_NE(refusal(text), "");
}

}  // namespace
}  // namespace r2ccl
