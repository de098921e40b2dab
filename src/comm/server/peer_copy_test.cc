#include "comm/server/peer_copy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <random>
#include <vector>

namespace r2ccl {
namespace {

// Ranks 3 and 5 of one server, both in this process.
class AlleyTest : public testing::Test {
 protected:
  AlleyTest() : memory_(PeerCopy::bytes_for(2) + 64) {
    void* at = memory_.data();
    std::size_t space = memory_.size();
    std::align(64, PeerCopy::bytes_for(2), at, space);
    for (const std::uint32_t rank : {3U, 5U}) {
      ends_.push_back(std::make_unique<PeerCopy>(static_cast<std::byte*>(at), std::vector{3U, 5U}, rank,
                                                 static_cast<std::uint32_t>(::getpid())));
    }
  }
  PeerCopy& three() { return *ends_[0]; }
  PeerCopy& five() { return *ends_[1]; }
  static std::vector<PeerCopy::Done> step(PeerCopy& end) {
    std::vector<PeerCopy::Done> done;
    end.step(done);
    return done;
  }

  std::vector<std::byte> memory_;
  std::vector<std::unique_ptr<PeerCopy>> ends_;
};

TEST_F(AlleyTest, KnowsWhoIsThere) {
  EXPECT_TRUE(three().has(5));
  EXPECT_FALSE(three().has(4));
  EXPECT_TRUE(three().reaches(5));
  EXPECT_TRUE(five().reaches(3));
}

TEST_F(AlleyTest, ASendIsDoneWhenItsBytesWereCopied) {
  const std::vector<std::byte> from(1000, std::byte{7});
  std::vector<std::byte> to(1000);
  three().send(5, 1, from.data(), from.size(), 99, 11);
  EXPECT_TRUE(step(five()).empty()) << "nobody has asked for it";
  EXPECT_TRUE(step(three()).empty());
  five().receive(3, 1, to.data(), to.size(), 22);
  EXPECT_TRUE(five().waits());
  const auto received = step(five());
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].token, 22U);
  EXPECT_EQ(received[0].tag, 99U);
  EXPECT_EQ(received[0].rank, 3U);
  EXPECT_EQ(to, from);
  const auto sent = step(three());
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].token, 11U);
  EXPECT_FALSE(three().waits());
  EXPECT_FALSE(five().waits());
}

// More messages than the ring holds, on several streams, with receives posted before and after.
TEST_F(AlleyTest, OrderHoldsOnEveryStreamHoweverManyThereAre) {
  constexpr std::uint64_t kMessages = 1000;
  std::mt19937_64 dice(1);
  std::vector<std::uint64_t> out(kMessages);
  std::vector<std::uint64_t> in(kMessages, UINT64_MAX);
  std::vector<std::uint64_t> sent(3);
  std::vector<std::uint64_t> asked(3);
  std::size_t done = 0;
  for (std::uint64_t turns = 0; done < 2 * kMessages; ++turns) {
    ASSERT_LT(turns, 100'000U);
    const std::uint64_t stream = dice() % 3;
    if (const std::uint64_t i = 3 * sent[stream] + stream; i < kMessages && dice() % 4 != 0) {
      out[i] = i;
      three().send(5, stream, reinterpret_cast<std::byte*>(&out[i]), sizeof out[i], 0, i);
      ++sent[stream];
    }
    const std::uint64_t other = dice() % 3;
    if (const std::uint64_t i = 3 * asked[other] + other; i < kMessages && dice() % 4 == 0) {
      five().receive(3, other, reinterpret_cast<std::byte*>(&in[i]), sizeof in[i], i);
      ++asked[other];
    }
    if (dice() % 8 == 0) done += step(five()).size();
    if (dice() % 8 == 0) done += step(three()).size();
  }
  EXPECT_EQ(in, out);
}

TEST_F(AlleyTest, TooLongIsRefused) {
  const std::vector<std::byte> from(10);
  std::vector<std::byte> to(9);
  three().send(5, 1, from.data(), from.size(), 0, 1);
  five().receive(3, 1, to.data(), to.size(), 2);
  const auto received = step(five());
  ASSERT_EQ(received.size(), 1U);
  EXPECT_FALSE(received[0].status);
}

TEST_F(AlleyTest, WhatWasSentBeforeItsSenderLetGoDoesNotCount) {
  const std::vector<std::byte> from(10, std::byte{1});
  std::vector<std::byte> to(10);
  three().send(5, 1, from.data(), from.size(), 0, 1);
  three().close();
  five().receive(3, 1, to.data(), to.size(), 2);
  EXPECT_TRUE(step(five()).empty());
  EXPECT_TRUE(five().waits());
}

TEST_F(AlleyTest, MemoryThatIsGoneIsNotReadFrom) {
  std::vector<std::byte> to(10);
  three().send(5, 1, nullptr, 10, 0, 1);
  five().receive(3, 1, to.data(), to.size(), 2);
  EXPECT_TRUE(step(five()).empty());
}

}  // namespace
}  // namespace r2ccl
