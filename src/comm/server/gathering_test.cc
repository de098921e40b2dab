#include "comm/server/gathering.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace r2ccl {
namespace {

// Ranks in this process; `servers`: where each is. Letters are carried until none is left.
class GatheringTest : public testing::Test {
 protected:
  void gather(const std::vector<std::uint64_t>& servers, std::optional<std::uint32_t> unwilling = {}) {
    std::vector<ProcessInfo> members(servers.size());
    for (std::size_t i = 0; i < servers.size(); ++i) members[i].server = {servers[i]};
    ranks_.clear();
    for (std::uint32_t rank = 0; rank < servers.size(); ++rank)
      ranks_.push_back(std::make_unique<Gathering>(members, rank, unwilling != rank, 1000 + rank));
    letters_ = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t from = 0; from < ranks_.size(); ++from) {
        for (const Gathering::Out& out : ranks_[from]->take_out()) {
          EXPECT_LE(out.bytes.size(), ranks_[out.to]->letter_bytes_max());
          EXPECT_TRUE(
              ranks_[out.to]->on_letter(from, static_cast<Letter>(out.bytes[0]), ByteView(out.bytes).subspan(1)));
          ++letters_;
          moved = true;
        }
      }
    }
    for (const auto& rank : ranks_) EXPECT_TRUE(rank->over());
  }
  bool has_board(std::uint32_t rank) { return ranks_[rank]->neighbours().board() != nullptr; }
  bool has_peer_copy(std::uint32_t rank) { return ranks_[rank]->neighbours().peer_copy() != nullptr; }

  std::vector<std::unique_ptr<Gathering>> ranks_;
  int letters_ = 0;
};

TEST_F(GatheringTest, OneRankIsThereAtOnce) {
  gather({7});
  EXPECT_EQ(letters_, 0);
}

TEST_F(GatheringTest, RanksOfDifferentServersOnlyMeet) {
  gather({7, 8, 9});
  EXPECT_EQ(letters_, 4) << "here and go";
  for (const std::uint32_t rank : {0U, 1U, 2U}) EXPECT_FALSE(has_board(rank) || has_peer_copy(rank));
}

TEST_F(GatheringTest, RanksOfOneServerShare) {
  gather({7, 7, 7});
  EXPECT_EQ(letters_, 8);
  for (const std::uint32_t rank : {0U, 1U, 2U}) EXPECT_TRUE(has_board(rank) && has_peer_copy(rank));
  Board& written = *ranks_[2]->neighbours().board();
  written.slot(0)[0] = std::byte{42};
  written.post(9);
  EXPECT_TRUE(ranks_[0]->neighbours().board()->posted(2, 0));
  EXPECT_EQ(ranks_[1]->neighbours().board()->read(2, 0)[0], std::byte{42});
}

TEST_F(GatheringTest, ServersShareEachForItself) {
  gather({7, 8, 7, 9, 8});
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    EXPECT_FALSE(has_board(rank)) << "not all ranks are here";
    EXPECT_EQ(has_peer_copy(rank), rank != 3);
  }
}

TEST_F(GatheringTest, OneThatWillNotKeepsItsServerFromSharing) {
  gather({7, 7, 8, 8}, 3);
  EXPECT_TRUE(has_peer_copy(0) && has_peer_copy(1));
  EXPECT_FALSE(has_peer_copy(2) || has_peer_copy(3));
  gather({7, 7, 7}, 0);  // the one that would make it
  for (const std::uint32_t rank : {0U, 1U, 2U}) EXPECT_FALSE(has_board(rank) || has_peer_copy(rank));
  EXPECT_FALSE(ranks_[1]->why_not_shared().empty());
}

TEST_F(GatheringTest, WhatHasNoPlaceIsRefused) {
  gather({7, 7});
  EXPECT_FALSE(ranks_[0]->on_letter(1, Letter::kHere, {})) << "it is over";
  std::vector<ProcessInfo> members(2);
  Gathering root(members, 0, true, 1);
  EXPECT_FALSE(root.on_letter(1, Letter::kGo, {})) << "rank 0 says that";
  const Bytes noise(3);
  EXPECT_FALSE(root.on_letter(1, Letter::kHere, noise));
}

}  // namespace
}  // namespace r2ccl
