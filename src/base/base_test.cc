// Ids, addresses, bytes and assertions: small things with small tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/address.h"
#include "base/assert.h"
#include "base/bytes.h"
#include "base/id.h"

namespace r2ccl {
namespace {

TEST(Id, PathsPackAndPrint) {
  const PathId path{{1}, {2}};
  EXPECT_EQ(PathId::unpack(path.packed()), path);
  EXPECT_EQ(to_text(path), "1-2");
  EXPECT_EQ(to_text(ProcessId{0xab}), "00000000000000ab");
}

TEST(Address, TextRoundTrips) {
  for (const char* text : {"10.0.0.1", "127.0.0.5:5000", "::1", "fe80::1", "[fe80::1]:5000", "fe80::1%eth0",
                           "[fe80::1%eth0]:5000", "fe80::1%2", "0.0.0.0"}) {
    const auto address = Address::parse(text);
    ASSERT_TRUE(address.has_value()) << text;
    EXPECT_EQ(to_text(*address), text);
  }
  EXPECT_EQ(Address::parse("127.0.0.1:80").value(), Address::v4(127, 0, 0, 1, 80));
  EXPECT_EQ(Address::parse("::ffff:127.0.0.1").value(), Address::v4(127, 0, 0, 1));
  EXPECT_TRUE(Address::parse("127.0.0.1")->is_v4());
  EXPECT_FALSE(Address::parse("::1")->is_v4());
}

TEST(Address, LoopbackIsTheWholeNetOfVersionFourAndOneOfSix) {
  for (const char* inside : {"127.0.0.1", "127.41.2.3:80", "::1", "[::1]:80"})
    EXPECT_TRUE(Address::parse(inside)->is_loopback()) << inside;
  for (const char* outside : {"128.0.0.1", "10.0.0.127", "::2", "fe80::1", "::"})
    EXPECT_FALSE(Address::parse(outside)->is_loopback()) << outside;
}

TEST(Address, AZoneIsOfLinkLocalAddressesAndStaysAtHome) {
  const Address address = Address::parse("[fe80::1%eth0]:5000").value();
  EXPECT_STREQ(address.zone.data(), "eth0");
  EXPECT_NE(address, Address::parse("[fe80::1%eth1]:5000").value());
  Bytes bytes;
  Writer out(bytes);
  address.write(out);
  Reader in(bytes);
  EXPECT_EQ(to_text(Address::read(in)), "[fe80::1]:5000");
  EXPECT_TRUE(Address::parse("febf::1")->is_link_local());
  EXPECT_FALSE(Address::parse("fec0::1")->is_link_local());
  EXPECT_TRUE(Address::parse("::")->is_unspecified());
  EXPECT_TRUE(Address::parse("0.0.0.0")->is_unspecified());
  EXPECT_FALSE(Address::parse("0.0.0.1")->is_unspecified());
}

TEST(Address, MalformedTextGetsASentence) {
  for (const char* text : {"", "10.0.0", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:x", "10.0.0.256", "[::1", "[::1]5",
                           "[10.0.0.1]:5", "host", "::1:::", "1.2.3.4:-1", "[]:1", "fe80::1%", "10.0.0.1%eth0",
                           "2001:db8::1%eth0", "fe80::1%a-name-of-16-byt"}) {
    const auto address = Address::parse(text);
    ASSERT_FALSE(address.has_value()) << text;
    EXPECT_EQ(address.error().fault, Fault::kMisuse);
  }
}

TEST(Address, WireFormRoundTripsAndShortInputIsNoticed) {
  const Address address = Address::parse("[fe80::1]:5000").value();
  Bytes bytes;
  Writer out(bytes);
  address.write(out);
  ASSERT_EQ(bytes.size(), Address::kWireSize);
  Reader in(bytes);
  EXPECT_EQ(Address::read(in), address);
  EXPECT_TRUE(in.done());
  Reader cut(ByteView(bytes).first(17));
  Address::read(cut);
  EXPECT_FALSE(cut.ok());
}

TEST(Bytes, ReaderGivesZerosAfterItRanShort) {
  Bytes bytes;
  Writer out(bytes);
  out.put(std::uint32_t{0x01020304});
  out.put(std::uint8_t{9});
  EXPECT_EQ(bytes[0], std::byte{4});
  Reader in(bytes);
  EXPECT_EQ(in.get<std::uint32_t>(), 0x01020304u);
  EXPECT_EQ(in.get<std::uint64_t>(), 0u);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.get<std::uint8_t>(), 0u);
  EXPECT_EQ(in.left(), 0u);
  EXPECT_FALSE(in.done());
}

TEST(Bytes, SizedStringsRoundTripAndTooLongOnesAreABug) {
  Bytes bytes;
  Writer out(bytes);
  const Bytes text(300, std::byte{7});
  out.put_sized(text);
  Reader in(bytes);
  EXPECT_TRUE(std::ranges::equal(in.take_sized(), text));
  EXPECT_TRUE(in.done());
  EXPECT_THROW(out.put_sized(Bytes(65536)), Bug);
}

TEST(Assert, FailureThrowsABugThatNamesThePlace) {
  try {
    R2CCL_ASSERT(1 > 2, "one is not above two");
    FAIL() << "must throw";
  } catch (const Bug& bug) {
    const std::string what = bug.what();
    EXPECT_NE(what.find("base/base_test.cc"), std::string::npos) << what;
    EXPECT_NE(what.find("1 > 2"), std::string::npos) << what;
    EXPECT_NE(what.find("one is not above two"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace r2ccl
