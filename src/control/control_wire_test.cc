#include "control/control_wire.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

ProcessInfo info(std::uint64_t process, std::size_t ports = 2) {
  ProcessInfo result{{process}, {7}, static_cast<std::uint32_t>(process), "host", {}};
  for (std::size_t i = 0; i < ports; ++i) {
    const auto number = static_cast<std::uint8_t>(i);
    result.ports.push_back({{number}, "eth" + std::to_string(i), Address::v4(127, 0, 0, number, 99), 1000});
  }
  return result;
}

TEST(ControlWire, RegisterSurvives) {
  const auto parsed = parse_register(encode_register(info(3, kPortsMax)));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->info, info(3, kPortsMax));
}

TEST(ControlWire, NamesAndPortsBeyondTheirLimitAreCut) {
  ProcessInfo big = info(3, kPortsMax + 5);
  big.host = std::string(1000, 'h');
  big.ports[0].name = std::string(1000, 'n');
  const auto parsed = parse_register(encode_register(big));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->info.host.size(), kHostMax);
  EXPECT_EQ(parsed->info.ports.size(), kPortsMax);
  EXPECT_EQ(parsed->info.ports[0].name.size(), kNicNameMax);
}

TEST(ControlWire, EveryTruncationAndEveryExtraByteIsRefused) {
  const Bytes body = encode_register(info(3));
  for (std::size_t size = 0; size < body.size(); ++size)
    EXPECT_FALSE(parse_register(ByteView(body).first(size))) << size;
  Bytes longer = body;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse_register(longer));
}

TEST(ControlWire, AnotherVersionIsRecognisedWhateverFollows) {
  Bytes body(9, std::byte{0xff});
  body[0] = std::byte{kControlVersion + 1};
  body[1] = std::byte{0};
  const auto parsed = parse_register(body);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->version, kControlVersion + 1);
}

TEST(ControlWire, OneNicListedTwiceIsRefused) {
  ProcessInfo twice = info(3);
  twice.ports[1].nic = twice.ports[0].nic;
  EXPECT_FALSE(parse_register(encode_register(twice)));
}

TEST(ControlWire, LargeRosterTravelsInParts) {
  std::vector<ProcessInfo> roster;
  for (std::uint64_t i = 1; i <= 500; ++i) roster.push_back(info(i, 8));
  std::vector<ProcessInfo> arrived;
  int parts = 0;
  for (std::size_t first = 0; first < roster.size(); ++parts) {
    std::size_t next = first;
    const Bytes body = encode_roster_part(roster, first, next);
    ASSERT_LE(body.size(), kBodyBytesMax);
    ASSERT_GT(next, first);
    const auto part = parse_roster_part(body);
    ASSERT_TRUE(part.has_value());
    EXPECT_EQ(part->first, first);
    arrived.insert(arrived.end(), part->members.begin(), part->members.end());
    first = next;
  }
  EXPECT_GT(parts, 1);
  EXPECT_EQ(arrived, roster);
}

TEST(ControlWire, RosterBeyondItsLimitIsRefused) {
  Bytes body;
  Writer out(body);
  out.put(static_cast<std::uint32_t>(kRosterMax + 1));
  out.put(std::uint32_t{0});
  std::size_t next = 0;
  const Bytes good = encode_roster_part({info(1)}, 0, next);
  body.insert(body.end(), good.begin() + 8, good.end());
  EXPECT_FALSE(parse_roster_part(body));
}

TEST(ControlWire, NoticeSurvivesAndItsKindIsChecked) {
  const Bytes payload(100, std::byte{5});
  const Bytes body = encode_notice({9}, NoticeKind::kProbeResult, payload);
  const auto notice = parse_notice(body);
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->process, ProcessId{9});
  EXPECT_TRUE(std::ranges::equal(notice->bytes, payload));
  Bytes odd = body;
  odd[8] = std::byte{99};
  EXPECT_FALSE(parse_notice(odd));
  EXPECT_FALSE(parse_notice(encode_notice({9}, NoticeKind::kSession, Bytes(kNoticeBytesMax + 1))));
}

TEST(ControlWire, ReachSurvivesAndItsLengthIsChecked) {
  std::vector<Address> addresses;
  for (std::uint8_t i = 0; i < kPortsMax + 3; ++i) addresses.push_back(Address::v4(10, 0, 0, i, 99));
  const Bytes body = encode_reach(addresses);
  addresses.resize(kPortsMax);
  EXPECT_EQ(parse_reach(body), addresses);
  for (std::size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(parse_reach(ByteView(body).first(size))) << size;
  Bytes longer = body;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse_reach(longer));
  Bytes many = body;
  many[0] = std::byte{kPortsMax + 1};
  many.resize(1 + (kPortsMax + 1) * Address::kWireSize);
  EXPECT_FALSE(parse_reach(many));
}

TEST(ControlWire, RefusalComesOutPrintable) {
  EXPECT_EQ(parse_refusal(encode_refusal("no\n\x1b[31m")), "no??[31m");
}

}  // namespace
}  // namespace r2ccl
