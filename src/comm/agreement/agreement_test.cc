// All ranks' state machines joined by queues that deliver in a random order between pairs, in order within one.

#include "comm/agreement/agreement.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

namespace r2ccl {
namespace {

Placement placement_of(std::uint32_t servers, std::uint32_t gpus, std::uint32_t nics) {
  return {.servers = servers,
          .gpus = gpus,
          .nics = nics,
          .sharing = std::vector<std::uint32_t>(servers, 1),
          .nic_rate = std::vector<double>(std::size_t{servers} * nics, 1e9)};
}

struct Ring {
  Ring(std::uint32_t servers, std::uint32_t gpus, std::uint32_t nics)
      : placement(placement_of(servers, gpus, nics)), number(servers * gpus, 0) {
    for (std::uint32_t rank = 0; rank < servers * gpus; ++rank) ranks.emplace_back(rank, servers * gpus, placement);
  }

  void report(std::uint32_t rank, std::vector<Permille> nics) { ranks[rank].report(nics); }
  // Steps everybody and moves letters; only some, at random, when `random` is given.
  void turn(std::mt19937* random = nullptr) {
    for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].step(now);
      for (Agreement::Out& out : ranks[rank].take_out()) letters[{rank, out.to}].push_back(std::move(out.bytes));
    }
    for (auto& [ends, queue] : letters) {
      while (!queue.empty() && !deaf.contains(ends.second) && (random == nullptr || (*random)() % 2 == 0)) {
        EXPECT_TRUE(ranks[ends.second].on_message(ends.first, queue.front()));
        queue.pop_front();
      }
    }
  }
  void settle(Duration time = 50ms) {
    for (const Instant end = now + time; now < end; now += 1ms) turn();
  }
  // The next collective of a rank, if it may begin: its map is noted, and must be what the others had for that number.
  bool begin(std::uint32_t rank) {
    const std::uint64_t next = number[rank] + 1;
    if (!ranks[rank].may_start(next)) return false;
    ranks[rank].started(next);
    number[rank] = next;
    const auto [used, first] = version_of.emplace(next, ranks[rank].map());
    EXPECT_EQ(used->second, ranks[rank].map()) << "collective " << next << " on rank " << rank;
    return true;
  }

  Placement placement;
  std::vector<Agreement> ranks;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Bytes>> letters;
  std::set<std::uint32_t> deaf;
  std::vector<std::uint64_t> number;
  std::map<std::uint64_t, HealthMap> version_of;
  Instant now{1h};
};

TEST(Agreement, NewsBecomeTheMapOfTheNextCollective) {
  Ring ring(3, 1, 2);
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(ring.begin(rank));
  ring.report(2, {kWhole, 0});
  ring.settle();
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(ring.begin(rank));
  EXPECT_EQ(ring.version_of[1].version, 0u);
  EXPECT_EQ(ring.version_of[2].version, 1u);
  EXPECT_EQ(ring.version_of[2].nic, (std::vector<Permille>{kWhole, kWhole, kWhole, kWhole, kWhole, 0}));
  ring.report(2, {kWhole, kWhole});
  ring.settle();
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(ring.begin(rank));
  EXPECT_EQ(ring.version_of[3].nic, std::vector<Permille>(6, kWhole)) << "the old plan comes back";
}

TEST(Agreement, OneRankAloneAgreesWithItself) {
  Ring ring(1, 1, 2);
  ring.report(0, {0, kWhole});
  ring.settle();
  EXPECT_TRUE(ring.begin(0));
  EXPECT_EQ(ring.version_of[1].nic, (std::vector<Permille>{0, kWhole}));
}

TEST(Agreement, ANicThatAnyRankOfTheServerUsesIsUp) {
  Ring ring(2, 2, 2);
  ring.report(0, {kWhole, 0});
  ring.report(1, {kUnseen, kWhole});
  ring.settle();
  EXPECT_TRUE(ring.begin(3));
  EXPECT_EQ(ring.version_of[1].version, 0u) << "rank 1 reaches others over NIC 1";
  ring.report(1, {kUnseen, kUnseen});
  ring.settle();
  EXPECT_TRUE(ring.begin(0));
  EXPECT_TRUE(ring.begin(3));
  EXPECT_TRUE(ring.begin(3));
  EXPECT_EQ(ring.version_of[2].nic[1], 0);
}

TEST(Agreement, WithdrawsWhenSomebodyDoesNotAnswerAndTriesAgain) {
  Ring ring(3, 1, 1);
  ring.deaf = {1};
  ring.report(2, {500});
  ring.settle(100ms);
  EXPECT_FALSE(ring.begin(2)) << "held";
  ring.settle(Agreement::kPatience);
  EXPECT_TRUE(ring.begin(2)) << "withdrawn";
  EXPECT_TRUE(ring.begin(0));
  ring.deaf.clear();
  ring.settle(Agreement::kRetry + 100ms);
  for (std::uint32_t rank : {0u, 1u, 1u, 2u}) EXPECT_TRUE(ring.begin(rank));
  EXPECT_EQ(ring.version_of[1].version, 0u);
  EXPECT_EQ(ring.version_of[2].nic[2], 500);
}

TEST(Agreement, NeverMixesMapsWhateverTheOrder) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const std::uint32_t servers = 1 + random() % 5;
    const std::uint32_t gpus = 1 + random() % 3;
    Ring ring(servers, gpus, 3);
    for (int i = 0; i < 400; ++i) {
      ring.now += 1ms;
      if (random() % 10 == 0) {
        std::vector<Permille> nics(3);
        for (Permille& nic : nics) nic = random() % 3 == 0 ? 0 : kWhole;
        ring.report(random() % ring.ranks.size(), nics);
      }
      // A rank is at most one collective ahead of the slowest, as collectives are.
      const auto slowest = *std::ranges::min_element(ring.number);
      const auto rank = static_cast<std::uint32_t>(random() % ring.ranks.size());
      if (ring.number[rank] <= slowest) ring.begin(rank);
      ring.turn(&random);
    }
    ring.settle(5s);
    EXPECT_TRUE(ring.begin(0)) << "nobody is held for ever, seed " << seed;
  }
}

TEST(Agreement, RefusesWhatItCanNotRead) {
  Ring ring(2, 1, 2);
  EXPECT_FALSE(ring.ranks[0].on_message(1, {}));
  EXPECT_FALSE(ring.ranks[0].on_message(7, Bytes(17, std::byte{1})));
  EXPECT_FALSE(ring.ranks[0].on_message(1, Bytes(3, std::byte{1})));
  EXPECT_FALSE(ring.ranks[1].on_message(0, Bytes(40, std::byte{2})));
  EXPECT_FALSE(ring.ranks[1].on_message(0, Bytes(9, std::byte{99})));
}

}  // namespace
}  // namespace r2ccl
