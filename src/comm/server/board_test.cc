// Collectives on a board: every kind, in any order of steps, one after another on the same slots, against what the API
// promises.

#include "comm/server/board.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "comm/server/board_run.h"
#include "device/cpu/cpu_device.h"

namespace r2ccl {
namespace {

using Element = std::uint32_t;
using Vector = std::vector<Element>;

struct Side {  // of one rank
  Vector input;
  Vector output;
};

// Ranks that make the same calls, each stepped when the dice say so.
class BoardTest : public testing::Test {
 protected:
  void make(std::uint32_t ranks) {
    memory_.assign(Board::bytes_for(ranks) + 64, std::byte{0});
    void* at = memory_.data();
    std::size_t space = memory_.size();
    std::align(64, Board::bytes_for(ranks), at, space);
    boards_.clear();
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      boards_.push_back(std::make_unique<Board>(static_cast<std::byte*>(at), ranks, rank));
  }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(boards_.size()); }
  std::uint32_t below(std::uint64_t end) { return static_cast<std::uint32_t>(dice_() % end); }

  Side side_of(const Call& call) {
    const bool blocks = counts_blocks(call.kind);
    Side side;
    side.input.resize(call.count * (blocks && !input_is_block(call.kind) ? ranks() : 1));
    for (Element& one : side.input) one = static_cast<Element>(dice_());
    side.output.assign(call.count * (blocks && !output_is_block(call.kind) ? ranks() : 1), 0xdeadbeef);
    return side;
  }

  // What rank's output should hold; empty: nothing is promised.
  Vector promised(const Call& call, const std::vector<Side>& sides, std::uint32_t rank) const {
    const auto block = [&](const Vector& from, std::uint64_t number) {
      const auto first = from.begin() + static_cast<std::ptrdiff_t>(number * call.count);
      return Vector(first, first + static_cast<std::ptrdiff_t>(call.count));
    };
    Vector out;
    const auto append = [&](const Vector& more) { out.insert(out.end(), more.begin(), more.end()); };
    const auto sum = [&](std::uint64_t number) {
      Vector total(call.count, 0);
      for (const Side& side : sides) {
        const Vector part = block(side.input, number);
        for (std::size_t i = 0; i < part.size(); ++i) total[i] += part[i];
      }
      return total;
    };
    const bool root = rank == call.peer;
    switch (call.kind) {
      case CallKind::kAllReduce:
        return sum(0);
      case CallKind::kReduce:
        return root ? sum(0) : out;
      case CallKind::kReduceScatter:
        return sum(rank);
      case CallKind::kBroadcast:
        return sides[call.peer].input;
      case CallKind::kScatter:
        return block(sides[call.peer].input, rank);
      case CallKind::kGather:
        if (!root) return out;
        [[fallthrough]];
      case CallKind::kAllGather:
        for (const Side& side : sides) append(side.input);
        return out;
      default:
        for (const Side& side : sides) append(block(side.input, rank));
        return out;
    }
  }

  // Puts the input where the API wants it to be when a call is in place; false: this kind has no such place.
  static bool move_in_place(const Call& call, Side& side, std::uint32_t rank, Call& own) {
    if (call.kind == CallKind::kAllToAll) return false;
    if (output_is_block(call.kind)) {
      own.output = side.input.data() + rank * call.count;
      return true;
    }
    Vector& out = side.output;
    Element* const at = input_is_block(call.kind) ? out.data() + rank * call.count : out.data();
    std::memcpy(at, side.input.data(), side.input.size() * sizeof(Element));
    own.input = at;
    return true;
  }

  void run(const Call& call, bool in_place, std::uint64_t tag) {
    std::vector<Side> sides;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) sides.push_back(side_of(call));
    std::vector<Vector> right;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) right.push_back(promised(call, sides, rank));
    std::vector<std::unique_ptr<BoardRun>> runs;
    std::vector<Call> calls;
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      Call own = call;
      own.input = sides[rank].input.data();
      own.output = sides[rank].output.data();
      if (in_place) move_in_place(call, sides[rank], rank, own);
      calls.push_back(own);
      runs.push_back(std::make_unique<BoardRun>(*boards_[rank], device_, own, ReduceKind::kSum, tag));
    }
    std::uint32_t over = 0;
    for (std::uint64_t steps = 0; over < ranks(); ++steps) {
      ASSERT_LT(steps, 1'000'000U) << "it does not get on";
      const std::uint32_t rank = below(ranks());
      if (runs[rank]->over()) continue;
      const bool moved = runs[rank]->step();
      ASSERT_FALSE(runs[rank]->mismatched());
      EXPECT_TRUE(moved || !runs[rank]->waiting_for().empty());
      over += runs[rank]->over() ? 1 : 0;
    }
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      const auto* const out = static_cast<const Element*>(calls[rank].output);
      for (std::size_t i = 0; i < right[rank].size(); ++i) {
        ASSERT_EQ(out[i], right[rank][i])
            << fmt::format("{} of {}, {} ranks, root {}, {}: rank {}, element {}", to_text(call.kind), call.count,
                           ranks(), call.peer, in_place ? "in place" : "out of place", rank, i);
      }
    }
  }

  std::mt19937_64 dice_{7};
  CpuDevice device_;
  std::vector<std::byte> memory_;
  std::vector<std::unique_ptr<Board>> boards_;
};

TEST_F(BoardTest, EveryCollectiveComesOutRight) {
  for (const std::uint32_t ranks : {2U, 3U, 4U, 8U, 17U}) {
    make(ranks);
    const std::uint64_t most = 3 * boards_[0]->slot_bytes() / sizeof(Element);
    for (std::uint64_t i = 0; i < 60 && !HasFatalFailure(); ++i) {
      Call call{.kind = static_cast<CallKind>(below(8)), .type = DataType::kUint32};
      call.peer = below(ranks);
      const std::uint64_t end = below(8) == 0 ? most : below(2) == 0 ? 40'000 : 200;
      call.count = 1 + below(counts_blocks(call.kind) ? end / ranks + 1 : end);
      run(call, below(2) == 0, i + 1);
    }
  }
}

// Ranks of which one posts and goes, as a broadcast's root does, are never more than a round ahead of those that read.
TEST_F(BoardTest, ASlotThatIsStillReadIsNotWritten) {
  make(2);
  const Call call{.kind = CallKind::kBroadcast, .count = 10, .type = DataType::kUint32, .peer = 0};
  std::vector<Vector> inputs(3, Vector(10));
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].assign(10, static_cast<Element>(i));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Call own = call;
    own.input = inputs[i].data();
    own.output = inputs[i].data();
    BoardRun root(*boards_[0], device_, own, ReduceKind::kSum, i);
    EXPECT_EQ(root.step(), i < 1) << "rank 1 has read nothing";
    if (i >= 1) {
      EXPECT_EQ(root.waiting_for(), std::vector{1U});
      return;
    }
  }
}

TEST_F(BoardTest, TheNextSlotIsFetchedOnlyWhenNobodyReadsIt) {
  make(3);
  for (const auto& board : boards_) board->post(7);
  boards_[0]->post(8);
  boards_[1]->post(8);
  boards_[0]->fetch_next();
  EXPECT_EQ(boards_[2]->tag(0, 0), 7u) << "rank 2 may not have read it";
  boards_[2]->post(8);
  boards_[0]->fetch_next();
  EXPECT_EQ(boards_[2]->tag(0, 0), 0u);
  EXPECT_EQ(boards_[2]->tag(0, 1), 8u);
}

TEST_F(BoardTest, AnotherCallIsFoundOut) {
  make(2);
  Vector values(10, 1);
  const Call call{.kind = CallKind::kAllReduce,
                  .input = values.data(),
                  .output = values.data(),
                  .count = 10,
                  .type = DataType::kUint32};
  BoardRun first(*boards_[0], device_, call, ReduceKind::kSum, 1);
  BoardRun second(*boards_[1], device_, call, ReduceKind::kSum, 2);
  EXPECT_FALSE(first.step());
  EXPECT_TRUE(second.step());
  EXPECT_EQ(second.mismatched(), 0U);
  EXPECT_FALSE(second.step());
  EXPECT_FALSE(second.over());
  EXPECT_TRUE(first.step());
  EXPECT_EQ(first.mismatched(), 1U);
}

}  // namespace
}  // namespace r2ccl
