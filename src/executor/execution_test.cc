// One rank at a time, with a courier that does what the test says. That whole collectives come out right is shown
// for every planned algorithm in comm/execution_test.cc.

#include "executor/execution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace r2ccl {
namespace {

using testing::ElementsAre;

struct Given {
  bool is_send = false;
  std::uint32_t peer = 0;
  std::uint32_t channel = 0;
  MemoryRef memory;
  std::uint64_t token = 0;
  std::optional<NicId> nic{};

  std::uint64_t* data() const { return reinterpret_cast<std::uint64_t*>(memory.region->host() + memory.offset); }
};

class Script final : public Courier {
 public:
  Status send(std::uint32_t to, std::uint32_t channel, std::optional<NicId> nic, MemoryRef memory,
              std::uint64_t token) override {
    return take({true, to, channel, memory, token, nic});
  }
  Status receive(std::uint32_t from, std::uint32_t channel, MemoryRef memory, std::uint64_t token) override {
    return take({false, from, channel, memory, token});
  }
  std::vector<Given> given;
  Status answer;

 private:
  Status take(const Given& g) {
    if (answer) given.push_back(g);
    return answer;
  }
};

// first * 3 + second, so that the order shows. Counts.
class OrderDevice final : public Device {
 public:
  void copy(std::byte* destination, const std::byte* source, std::size_t bytes) const override {
    worked += bytes;
    if (touches) std::memcpy(destination, source, bytes);
  }
  void reduce(std::byte* destination, const std::byte* first, const std::byte* second, std::uint64_t count, DataType,
              ReduceKind) const override {
    worked += count * 8;
    for (std::uint64_t i = 0; i < count && touches; ++i) {
      std::uint64_t a = 0;
      std::uint64_t b = 0;
      std::memcpy(&a, first + i * 8, 8);
      std::memcpy(&b, second + i * 8, 8);
      a = 3 * a + b;
      std::memcpy(destination + i * 8, &a, 8);
    }
  }
  void scale(std::byte*, const std::byte*, std::uint64_t, DataType, const std::byte*) const override {}
  void divide(std::byte*, std::uint64_t, DataType, std::uint64_t) const override {}

  mutable std::uint64_t worked = 0;
  bool touches = true;
};

Step step(StepKind kind, std::uint32_t piece, Buffer source, Buffer destination, std::vector<Wait> waits = {}) {
  Step s{.kind = kind, .from = fixed(1), .to = fixed(2), .span = fixed(piece)};
  s.source.buffer = source;
  s.destination.buffer = destination;
  s.waits = std::move(waits);
  return s;
}
Step send(std::uint32_t piece, std::vector<Wait> waits = {}) {
  return step(StepKind::kSend, piece, Buffer::kInput, Buffer::kNone, std::move(waits));
}
Step recv(std::uint32_t piece, std::vector<Wait> waits = {}) {
  return step(StepKind::kRecv, piece, Buffer::kNone, Buffer::kOutput, std::move(waits));
}
Step recv_reduce(std::uint32_t piece, std::vector<Wait> waits = {}) {
  return step(StepKind::kRecvReduce, piece, Buffer::kInput, Buffer::kOutput, std::move(waits));
}
Step copy(std::uint32_t piece, std::vector<Wait> waits = {}) {
  return step(StepKind::kCopy, piece, Buffer::kInput, Buffer::kOutput, std::move(waits));
}
Step on_channel(std::uint32_t channel, Step s) {
  s.channel_in = channel;
  return s;
}
Lane lane(std::vector<Step> steps, std::uint32_t outer = 1) {
  return {.outer = outer, .steps = std::move(steps)};
}

// Rank 0 of three, with eight pieces of which piece i has i + 1 elements: sizes tell messages apart.
class ExecutionTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kElements = 36;

  void start(std::vector<Lane> lanes) {
    header_.ranks = 3;
    header_.scratch_slots = 1;
    header_.layout.bounds = {0, 1, 3, 6, 10, 15, 21, 28, 36};
    lanes_ = std::move(lanes);
    input_.resize(kElements);
    std::iota(input_.begin(), input_.end(), 100);
    output_.assign(kElements, 7);
    make({.input = reinterpret_cast<std::byte*>(input_.data()),
          .output = reinterpret_cast<std::byte*>(output_.data()),
          .count = kElements});
    go();
  }
  void make(const ExecutionBuffers& buffers) {
    execution_ = std::make_unique<Execution>(header_, lanes_, 0, buffers, DataType::kUint64, ReduceKind::kSum, device_,
                                             courier_, pool_);
  }
  void go() {
    while (execution_->step()) {
    }
  }
  // Completes the n-th thing that was given to the courier, and goes on.
  void complete(std::size_t n, std::uint64_t value = 0) {
    ASSERT_LT(n, courier_.given.size());
    const Given& g = courier_.given[n];
    if (!g.is_send) std::fill_n(g.data(), g.memory.length / 8, value);
    execution_->on_completion(g.token, {});
    go();
  }
  // Elements of all that was given, in order; sends are negative.
  std::vector<int> given() const {
    std::vector<int> sizes;
    for (const Given& g : courier_.given) {
      const int elements = static_cast<int>(g.memory.length / 8);
      sizes.push_back(g.is_send ? -elements : elements);
    }
    return sizes;
  }

  PlanHeader header_;
  std::vector<Lane> lanes_;
  std::vector<std::uint64_t> input_;
  std::vector<std::uint64_t> output_;
  OrderDevice device_;
  Script courier_;
  Pool pool_;
  std::unique_ptr<Execution> execution_;
};

TEST_F(ExecutionTest, SumsAreMessageThenSourceOrDestinationThenSource) {
  Step forwarded = step(StepKind::kRecvReduceSend, 0, Buffer::kInput, Buffer::kNone);
  Step kept = step(StepKind::kRecvReduceCopySend, 0, Buffer::kInput, Buffer::kOutput);
  start({lane({recv_reduce(0), step(StepKind::kReduce, 0, Buffer::kInput, Buffer::kOutput), forwarded, kept})});
  complete(0, 5);
  EXPECT_EQ(output_[0], 3 * (3 * 5 + 100) + 100);
  ASSERT_THAT(given(), ElementsAre(1, 1, 1));  // staging is posted at once
  complete(1, 6);
  ASSERT_THAT(given(), ElementsAre(1, 1, 1, -1));
  EXPECT_EQ(*courier_.given[3].data(), 3 * 6 + 100);
  complete(2, 8);
  ASSERT_THAT(given(), ElementsAre(1, 1, 1, -1, -1));
  EXPECT_EQ(output_[0], 3 * 8 + 100);
  EXPECT_EQ(courier_.given[4].data(), output_.data());
}

TEST_F(ExecutionTest, AStagedMessageLiesInItsLineAsTheInputDoes) {
  header_.slots = 8;
  start({lane({recv_reduce(0), recv_reduce(1), recv_reduce(2), recv_reduce(3), recv_reduce(4), recv_reduce(5)})});
  ASSERT_THAT(given(), ElementsAre(1, 2, 3, 4, 5, 6));
  const auto in_line = [](const std::uint64_t* data) { return reinterpret_cast<std::uintptr_t>(data) % 64; };
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(in_line(courier_.given[i].data()), in_line(input_.data() + header_.layout.bounds[i])) << "piece " << i;
    if (i > 0) {
      EXPECT_GE(courier_.given[i].data(), courier_.given[i - 1].data() + i) << "messages overlap";
    }
  }
}

TEST_F(ExecutionTest, WithoutASourceTheMessageIsStored) {
  Step accumulated = recv_reduce(0);
  accumulated.source.buffer = Buffer::kOutput;
  accumulated.has_first = true;
  Lane two = lane({accumulated});
  two.inner = 2;
  start({two});
  complete(0, 5);
  EXPECT_EQ(output_[0], 5U);
  complete(1, 6);
  EXPECT_EQ(output_[0], 3 * 6 + 5);
  EXPECT_TRUE(execution_->over());
}

TEST_F(ExecutionTest, AMessageLeavesOnlyWhenTheOneSlotsBeforeHasItsReceipt) {
  start({lane({send(0), send(1), send(2), send(3)})});
  EXPECT_THAT(given(), ElementsAre(-1, -2));
  complete(1);  // out of order: message 2 still waits for message 0
  EXPECT_THAT(given(), ElementsAre(-1, -2));
  complete(0);
  EXPECT_THAT(given(), ElementsAre(-1, -2, -3, -4));
  complete(3);
  EXPECT_FALSE(execution_->over());
  complete(2);
  EXPECT_TRUE(execution_->over());
  EXPECT_TRUE(execution_->result());
}

TEST_F(ExecutionTest, EmptyRangesMoveNothing) {
  header_.layout = Layout::equal(8);
  header_.ranks = 3;
  lanes_ = {lane(
      {send(0), recv(1), recv_reduce(2), copy(3), step(StepKind::kRecvCopySend, 4, Buffer::kNone, Buffer::kNone)})};
  input_.assign(1, 1);
  output_.assign(1, 2);
  make({.input = reinterpret_cast<std::byte*>(input_.data()),
        .output = reinterpret_cast<std::byte*>(output_.data()),
        .count = 1});
  go();
  EXPECT_TRUE(execution_->over());
  EXPECT_TRUE(courier_.given.empty());
  EXPECT_EQ(output_[0], 2U);
  make({});
  EXPECT_TRUE(execution_->over());
}

TEST_F(ExecutionTest, AWaitForASendEndsWithItsReceipt) {
  start({lane({send(0), send(1)}), lane({copy(0, {{.lane = 0, .step = 1}})})});
  complete(0);
  EXPECT_EQ(device_.worked, 0U);
  EXPECT_THAT(execution_->waiting_for(), ElementsAre(2));
  complete(1);
  EXPECT_EQ(device_.worked, 8U);
  EXPECT_TRUE(execution_->over());
}

// Four messages through two slots: a buffer is not written before what was relayed from it has its receipt.
TEST_F(ExecutionTest, ARelaysBufferIsPostedAgainOnlyAfterTheReceipt) {
  for (const StepKind kind : {StepKind::kRecvCopySend, StepKind::kRecvReduceSend}) {
    courier_.given.clear();
    start({lane({step(kind, 0, Buffer::kNone, Buffer::kNone)}, 12)});
    ASSERT_THAT(given(), ElementsAre(1, 1, 1, 1));  // two slots, and two more for what lacks its receipt
    for (const std::size_t n : {0, 1, 2, 3}) complete(n, 40 + n);
    ASSERT_THAT(given(), ElementsAre(1, 1, 1, 1, -1, -1));
    EXPECT_EQ(courier_.given[4].data(), courier_.given[0].data());
    EXPECT_EQ(*courier_.given[4].data(), 40U);
    complete(4);  // frees the first buffer, and the slot for the third message
    ASSERT_THAT(given(), ElementsAre(1, 1, 1, 1, -1, -1, 1, -1));
    EXPECT_EQ(courier_.given[6].data(), courier_.given[0].data());
    EXPECT_EQ(*courier_.given[7].data(), 42U);
  }
}

TEST_F(ExecutionTest, ReceivesThatOnlyLandArePostedAheadUpToTheSlots) {
  start({lane({recv(0), recv(1), recv(2)})});
  ASSERT_THAT(given(), ElementsAre(1, 2));
  EXPECT_EQ(courier_.given[1].data(), output_.data() + 1);
  complete(1, 9);
  ASSERT_THAT(given(), ElementsAre(1, 2));
  complete(0, 8);
  ASSERT_THAT(given(), ElementsAre(1, 2, 3));
  EXPECT_THAT(std::vector(output_.begin(), output_.begin() + 4), ElementsAre(8, 9, 9, 7));
}

TEST_F(ExecutionTest, NothingLandsAheadWhereAStepBetweenTouchesTheMemory) {
  Step reads = recv_reduce(3);
  reads.source.buffer = Buffer::kOutput;
  reads.destination.buffer = Buffer::kScratch;
  start({lane({reads, on_channel(1, recv(4)), on_channel(1, recv(3))})});
  ASSERT_THAT(given(), ElementsAre(4, 5));
  complete(0);
  ASSERT_THAT(given(), ElementsAre(4, 5, 4));
}

TEST_F(ExecutionTest, NothingLandsAheadOfAWaitBeforeIt) {
  const Wait sent{.lane = 1, .step = 0};
  for (const Step& waits : {copy(1, {sent}), recv(1, {sent}), recv_reduce(1, {sent})}) {
    SCOPED_TRACE(to_text(waits.kind));
    courier_.given.clear();
    start({lane({waits, on_channel(1, recv(4))}), lane({send(7)})});
    EXPECT_THAT(given(), testing::Not(testing::Contains(5)));
    const auto sent_here = std::ranges::find(courier_.given, true, &Given::is_send) - courier_.given.begin();
    complete(static_cast<std::size_t>(sent_here));
    if (waits.kind == StepKind::kRecvReduce) complete(0);  // was posted before its wait was over
    EXPECT_THAT(given(), testing::Contains(5));
  }
}

TEST_F(ExecutionTest, LanesThatShareAConnectionReceiveInTheOrderOfTheirWaits) {
  start({lane({recv_reduce(0), recv_reduce(2, {{.lane = 1, .step = 0}})}),
         lane({recv_reduce(1, {{.lane = 0, .step = 0}})})});
  EXPECT_THAT(given(), ElementsAre(1));
  complete(0);
  EXPECT_THAT(given(), ElementsAre(1, 2));
  complete(1);
  EXPECT_THAT(given(), ElementsAre(1, 2, 3));
  complete(2);
  EXPECT_TRUE(execution_->over());
}

TEST_F(ExecutionTest, SendsNameTheNicOfTheirLanesRail) {
  Lane pinned = lane({send(0)});
  pinned.rail = 1;
  start({pinned, lane({send(1)})});
  EXPECT_EQ(courier_.given[0].nic, NicId{1});
  EXPECT_EQ(courier_.given[1].nic, std::nullopt);

  courier_.given.clear();
  header_.nic_of_rail = {0, 2, 2, 0, 1, 2, 0, 1, 2};  // rail 1 of server 0 goes over NIC 2
  start({pinned});
  EXPECT_EQ(courier_.given[0].nic, NicId{2});
}

TEST_F(ExecutionTest, ABusyCourierIsAskedAgain) {
  courier_.answer = fail(Fault::kBusy, "full");
  start({lane({send(0)}), lane({recv_reduce(1)})});
  EXPECT_THAT(execution_->waiting_for(), ElementsAre(1, 2));
  courier_.answer = {};
  go();
  EXPECT_THAT(given(), ElementsAre(-1, 2));
}

TEST_F(ExecutionTest, AFailureEndsIt) {
  start({lane({send(0), send(1), send(2)}), lane({recv(3)})});
  const std::size_t before = courier_.given.size();
  execution_->on_completion(courier_.given[0].token, fail(Fault::kPeerDown, "gone"));
  EXPECT_TRUE(execution_->over());
  EXPECT_EQ(execution_->result().error().what, "gone");
  EXPECT_TRUE(execution_->waiting_for().empty());
  execution_->on_completion(courier_.given[1].token, {});
  EXPECT_FALSE(execution_->step());
  EXPECT_EQ(courier_.given.size(), before);

  courier_.answer = fail(Fault::kAborted, "stop");
  start({lane({send(0)})});
  EXPECT_TRUE(execution_->over());
  EXPECT_EQ(execution_->result().error().fault, Fault::kAborted);
}

TEST_F(ExecutionTest, ItSaysForWhomItWaits) {
  Step to_one = send(2);
  to_one.to = fixed(1);
  start({lane({send(0), send(1), send(3)}), lane({to_one, copy(0, {{.lane = 1, .step = 0}})}),
         lane({on_channel(3, recv(4))})});
  EXPECT_THAT(execution_->waiting_for(), ElementsAre(1, 2));
  const auto complete_all_to = [&](std::uint32_t peer, bool sends) {
    for (std::size_t n = 0; n < courier_.given.size(); ++n) {
      if (courier_.given[n].peer == peer && courier_.given[n].is_send == sends) complete(n);
    }
  };
  complete_all_to(1, true);
  complete_all_to(1, false);
  EXPECT_THAT(execution_->waiting_for(), ElementsAre(2));
  complete_all_to(2, true);
  EXPECT_TRUE(execution_->over());
  EXPECT_TRUE(execution_->waiting_for().empty());
}

TEST_F(ExecutionTest, OneCallWorksOnSoMuchOnly) {
  constexpr std::uint64_t kCalls = 5;
  header_.layout = Layout::equal(1);
  lanes_ = {lane({copy(0)}), lane({copy(0)})};
  device_.touches = false;
  make({.input = reinterpret_cast<std::byte*>(1ULL << 40),
        .output = reinterpret_cast<std::byte*>(1ULL << 41),
        .count = kCalls * Execution::kBytesPerStep / 8});
  for (std::uint64_t i = 1; i <= 2 * kCalls; ++i) {
    EXPECT_FALSE(execution_->over());
    EXPECT_TRUE(execution_->step());
    EXPECT_EQ(device_.worked, i * Execution::kBytesPerStep);
  }
  EXPECT_TRUE(execution_->over());
}

TEST_F(ExecutionTest, LargeMessagesAndOffsetsAreWhole) {
  header_.layout = Layout::equal(3);
  header_.ranks = 3;
  lanes_ = {lane({send(2), recv(2), copy(2)})};
  device_.touches = false;
  const std::uint64_t block = (1ULL << 32) + 5;
  make({.input = reinterpret_cast<std::byte*>(1ULL << 40),
        .output = reinterpret_cast<std::byte*>(1ULL << 42),
        .output_first = 2 * block,
        .count = 3 * block});
  go();
  ASSERT_EQ(courier_.given.size(), 2U);
  const auto which = [&](bool sends) { return *std::ranges::find(courier_.given, sends, &Given::is_send); };
  EXPECT_EQ(which(true).memory.offset, 2 * block * 8);
  EXPECT_EQ(which(true).memory.length, block * 8);
  EXPECT_EQ(which(false).memory.offset, 0U);
  EXPECT_EQ(which(false).memory.length, block * 8);
  for (const bool sends : {true, false}) execution_->on_completion(which(sends).token, {});
  go();
  EXPECT_TRUE(execution_->over());
  EXPECT_EQ(device_.worked, block * 8);
}

TEST_F(ExecutionTest, ItsMemoryGoesBackToThePool) {
  start({lane({recv_reduce(7)}, 3)});
  EXPECT_EQ(pool_.idle_bytes(), 0U);
  execution_.reset();
  EXPECT_GE(pool_.idle_bytes(), 2 * 8 * 8U);
}

}  // namespace
}  // namespace r2ccl
