#include "transport/shm/arena.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <string>

namespace r2ccl {
namespace {

// Mappings of this process that are shared memory of ours.
int mappings() {
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) found += line.find("memfd:r2ccl") != std::string::npos ? 1 : 0;
  return found;
}

TEST(ArenaTest, WhatOneWritesTheOtherReads) {
  const auto made = Arena::make(100'000, 7);
  ASSERT_TRUE(made) << made.error().what;
  const auto mapped = Arena::map(made->ticket());
  ASSERT_TRUE(mapped) << mapped.error().what;
  EXPECT_NE(made->data(), mapped->data());
  EXPECT_EQ(made->data()[99'999], std::byte{0});
  made->data()[99'999] = std::byte{42};
  EXPECT_EQ(mapped->data()[99'999], std::byte{42});
}

TEST(ArenaTest, TicketTravels) {
  const Arena::Ticket ticket{12, 34, 56, 78};
  Bytes bytes;
  Writer out(bytes);
  ticket.put(out);
  EXPECT_EQ(bytes.size(), Arena::Ticket::kWireSize);
  Reader in(bytes);
  EXPECT_EQ(Arena::Ticket::get(in), ticket);
  EXPECT_TRUE(in.done());
}

TEST(ArenaTest, WhatWasNotOfferedIsRefused) {
  const auto made = Arena::make(4096, 7);
  ASSERT_TRUE(made);
  auto ticket = made->ticket();
  ticket.nonce = 8;  // another one under the same number
  EXPECT_FALSE(Arena::map(ticket));
  ticket = made->ticket();
  ticket.bytes = 1 << 20;  // would be read beyond its end
  EXPECT_FALSE(Arena::map(ticket));
  ticket = made->ticket();
  ticket.descriptor = 0;  // some other file
  EXPECT_FALSE(Arena::map(ticket));
}

TEST(ArenaTest, SealedIsClosedForLaterOnesAndGoesWithTheLast) {
  const int before = mappings();
  {
    auto made = Arena::make(4096, 7);
    ASSERT_TRUE(made);
    made->seal();
    EXPECT_FALSE(Arena::map(made->ticket()));
    made->data()[0] = std::byte{1};
    EXPECT_EQ(mappings(), before + 1);
  }
  EXPECT_EQ(mappings(), before);
}

}  // namespace
}  // namespace r2ccl
