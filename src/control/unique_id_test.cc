#include "control/unique_id.h"

#include <gtest/gtest.h>

#include "testing/control_net.h"

namespace r2ccl {
namespace {

UniqueId sample(std::size_t addresses) {
  test::CountingRandom random;
  std::vector<Address> root;
  for (std::size_t i = 0; i < addresses; ++i)
    root.push_back(Address::v4(127, 0, 0, static_cast<std::uint8_t>(i + 1), 5000));
  return UniqueId::make(random, root);
}

TEST(UniqueId, SurvivesPackingWithOneToFourAddresses) {
  for (std::size_t count = 1; count <= UniqueId::kAddressesMax; ++count) {
    const UniqueId id = sample(count);
    const auto again = UniqueId::unpack(id.pack());
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->secret, id.secret);
    EXPECT_EQ(again->root, id.root);
  }
}

TEST(UniqueId, KeepsTheFirstFourAddresses) {
  EXPECT_EQ(sample(7).root.size(), UniqueId::kAddressesMax);
}

TEST(UniqueId, SurvivesHexInEitherCase) {
  const UniqueId id = sample(2);
  std::string text = id.to_hex();
  EXPECT_EQ(text.size(), 256u);
  EXPECT_EQ(UniqueId::from_hex(text)->root, id.root);
  for (char& c : text) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(UniqueId::from_hex(text)->secret, id.secret);
}

TEST(UniqueId, AnySingleDamagedByteIsNoticed) {
  const auto packed = sample(3).pack();
  for (std::size_t i = 0; i < packed.size(); ++i) {
    auto damaged = packed;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(UniqueId::unpack(damaged).has_value()) << "byte " << i;
  }
}

TEST(UniqueId, WrongLengthAndWrongDigitsAreNamed) {
  EXPECT_NE(UniqueId::unpack(Bytes(5)).error().what.find("5 bytes"), std::string::npos);
  EXPECT_NE(UniqueId::from_hex("abc").error().what.find("3 characters"), std::string::npos);
  EXPECT_NE(UniqueId::from_hex(std::string(256, 'g')).error().what.find("hexadecimal"), std::string::npos);
}

TEST(UniqueId, ErrorsDoNotShowTheSecret) {
  auto packed = sample(1).pack();
  packed[127] ^= std::byte{1};
  EXPECT_EQ(UniqueId::unpack(packed).error().what,
            "The unique id can not be read: its checksum is wrong, so it was damaged on its way.");
}

}  // namespace
}  // namespace r2ccl
