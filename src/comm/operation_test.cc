// Goal: what surrounds a schedule is right: factors before it, divisions after it, copies where there is none, and
// inputs untouched.
// Method: the operations of two ranks over a network in memory; one rank, where there is nothing to send.

#include "comm/operation.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "testing/memory_network.h"

namespace r2ccl {
namespace {

const CpuDevice kDevice;

// No message may be sent.
class NoCourier final : public Courier {
 public:
  Status send(std::uint32_t, std::uint32_t, std::optional<NicId>, MemoryRef, std::uint64_t) override {
    return fail(Fault::kBug, "one rank sends nothing");
  }
  Status receive(std::uint32_t, std::uint32_t, MemoryRef, std::uint64_t) override {
    return fail(Fault::kBug, "one rank receives nothing");
  }
};

template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

class OperationTest : public testing::Test {
 protected:
  template <class T>
  static Call call_of(CallKind kind, const std::vector<T>& input, std::vector<T>& output, std::uint64_t count,
                      DataType type, ReduceOp op = {}) {
    return {.kind = kind, .input = input.data(), .output = output.data(), .count = count, .type = type, .op = op};
  }
  Operation::Place place(std::uint32_t rank, std::uint32_t size, Courier& courier) {
    return {
        .rank = rank, .size = size, .device = kDevice, .courier = courier, .pool = pool_[rank], .cache = cache_[rank]};
  }
  Status run_alone(const Call& call) {
    NoCourier courier;
    Operation operation(call, place(0, 1, courier), nullptr, 1);
    for (int i = 0; i < 100 && !operation.over(); ++i) operation.step();
    EXPECT_TRUE(operation.over());
    EXPECT_FALSE(operation.step()) << "over, nothing moves";
    return operation.result();
  }
  static std::shared_ptr<const RankPlan> plan_of(const Call& call, std::uint32_t rank) {
    const Cluster cluster = Cluster::uniform(2, 1, 1, 1e9);
    const Request request{.collective = collective_of(call.kind), .bytes = vector_bytes(call, 2), .root = call.peer};
    const Plan made = plan("auto", request, cluster).value();
    return std::make_shared<const RankPlan>(RankPlan{made.header, made.lanes(rank)});
  }
  // Both ranks' calls.
  void run_two(const Call& zero, const Call& one) {
    std::vector<std::unique_ptr<Operation>> running;
    const Call* const calls[2] = {&zero, &one};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      if (!plans_[rank]) plans_[rank] = plan_of(*calls[rank], rank);
      running.push_back(
          std::make_unique<Operation>(*calls[rank], place(rank, 2, network_.courier(rank)), plans_[rank], 1));
    }
    std::vector<example::MemoryNetwork::Completion> told;
    for (int i = 0; i < 100'000 && !(running[0]->over() && running[1]->over()); ++i) {
      for (const auto& one_of_two : running) one_of_two->step();
      network_.act(told);
      for (const auto& done : std::exchange(told, {})) running[done.rank]->on_completion(done.token, {});
    }
    EXPECT_EQ(network_.wrong(), "");
    for (const auto& one_of_two : running) {
      ASSERT_TRUE(one_of_two->over());
      EXPECT_TRUE(one_of_two->result());
    }
  }

  example::MemoryNetwork network_{2, 7};  // kept executions go on with it
  Pool pool_[2];
  ExecutionCache cache_[2];
  std::shared_ptr<const RankPlan> plans_[2];
};

TEST_F(OperationTest, AloneTheResultIsACopyOfTheInput) {
  const std::vector<std::int32_t> input{1, 2, 3};
  for (const CallKind kind : {CallKind::kAllReduce, CallKind::kAllGather, CallKind::kBroadcast, CallKind::kAllToAll}) {
    std::vector<std::int32_t> output(4, -1);
    ASSERT_TRUE(run_alone(call_of(kind, input, output, 3, DataType::kInt32)));
    EXPECT_EQ(output, (std::vector<std::int32_t>{1, 2, 3, -1})) << to_text(kind);
  }
}

TEST_F(OperationTest, AloneInPlaceNothingChanges) {
  std::vector<std::int32_t> data{1, 2, 3};
  ASSERT_TRUE(run_alone(call_of(CallKind::kAllReduce, data, data, 3, DataType::kInt32, {ReduceName::kAvg})));
  EXPECT_EQ(data, (std::vector<std::int32_t>{1, 2, 3}));
}

TEST_F(OperationTest, LargeCopiesTakeSeveralSteps) {
  const std::vector<std::int32_t> input(Execution::kBytesPerStep, 5);
  std::vector<std::int32_t> output(input.size());
  NoCourier courier;
  const Call call = call_of(CallKind::kAllReduce, input, output, input.size(), DataType::kInt32);
  Operation operation(call, place(0, 1, courier), nullptr, 1);
  int steps = 0;
  for (; !operation.over(); ++steps) operation.step();
  EXPECT_GE(steps, static_cast<int>(sizeof(std::int32_t)));
  EXPECT_EQ(output, input);
}

TEST_F(OperationTest, WithoutElementsItIsOverAtOnce) {
  NoCourier courier;
  Operation operation({.count = 0}, place(0, 2, courier), nullptr, 1);
  EXPECT_TRUE(operation.over());
  EXPECT_TRUE(operation.result());
}

TEST_F(OperationTest, PreMulSumMultipliesEachRanksInputByItsOwnFactor) {
  const std::vector<std::int32_t> a{1, 2}, b{10, 20};
  std::vector<std::int32_t> out_a(2), out_b(2);
  run_two(call_of(CallKind::kAllReduce, a, out_a, 2, DataType::kInt32, {ReduceName::kPreMulSum, bits_of(3)}),
          call_of(CallKind::kAllReduce, b, out_b, 2, DataType::kInt32, {ReduceName::kPreMulSum, bits_of(5)}));
  EXPECT_EQ(out_a, (std::vector<std::int32_t>{53, 106}));
  EXPECT_EQ(out_b, out_a);
  EXPECT_EQ(a, (std::vector<std::int32_t>{1, 2})) << "inputs stay as they were";
}

TEST_F(OperationTest, AnAverageOfIntegersIsDividedAfterTheSum) {
  const std::vector<std::int32_t> a{3, 3, -3}, b{4, 3, -4};
  std::vector<std::int32_t> out_a(3), out_b(3);
  run_two(call_of(CallKind::kAllReduce, a, out_a, 3, DataType::kInt32, {ReduceName::kAvg}),
          call_of(CallKind::kAllReduce, b, out_b, 3, DataType::kInt32, {ReduceName::kAvg}));
  EXPECT_EQ(out_a, (std::vector<std::int32_t>{3, 3, -3})) << "3 / 2 + 4 / 2 would be 3, too, but 3 / 2 + 3 / 2 is 2";
  EXPECT_EQ(out_b, out_a);
}

TEST_F(OperationTest, AnAverageOfFloatsIsScaledBeforeTheSum) {
  const float large = 3e38F;  // twice this is infinite
  const std::vector<float> a{large, 1}, b{large, 2};
  std::vector<float> out_a(2), out_b(2);
  run_two(call_of(CallKind::kAllReduce, a, out_a, 2, DataType::kFloat32, {ReduceName::kAvg}),
          call_of(CallKind::kAllReduce, b, out_b, 2, DataType::kFloat32, {ReduceName::kAvg}));
  EXPECT_EQ(out_a, (std::vector<float>{large, 1.5F}));
  EXPECT_EQ(out_b, out_a);
}

TEST_F(OperationTest, AnAverageOfBlocksDividesOnlyTheRanksOwn) {
  const std::vector<std::int32_t> a{2, 4}, b{6, 8};
  std::vector<std::int32_t> out_a(2, -1), out_b(2, -1);
  run_two(call_of(CallKind::kReduceScatter, a, out_a, 1, DataType::kInt32, {ReduceName::kAvg}),
          call_of(CallKind::kReduceScatter, b, out_b, 1, DataType::kInt32, {ReduceName::kAvg}));
  EXPECT_EQ(out_a, (std::vector<std::int32_t>{4, -1}));
  EXPECT_EQ(out_b, (std::vector<std::int32_t>{6, -1}));
}

TEST_F(OperationTest, AReduceGivesTheRootAlone) {
  const std::vector<std::int32_t> a{2}, b{7};
  std::vector<std::int32_t> out_a(1, -1), out_b(1, -1);
  Call zero = call_of(CallKind::kReduce, a, out_a, 1, DataType::kInt32, {ReduceName::kPreMulSum, bits_of(10)});
  Call one = call_of(CallKind::kReduce, b, out_b, 1, DataType::kInt32, {ReduceName::kPreMulSum, bits_of(1)});
  zero.peer = one.peer = 1;
  run_two(zero, one);
  EXPECT_EQ(out_b[0], 27);
  EXPECT_EQ(out_a[0], -1) << "the other ranks' outputs are not touched";
  EXPECT_EQ(a[0], 2);
  EXPECT_EQ(b[0], 7) << "the factor went into memory of its own";
}

TEST_F(OperationTest, AnAverageAtTheRootIsDividedThereAlone) {
  const std::vector<std::int32_t> a{2}, b{8};
  std::vector<std::int32_t> out_a(1, -7), out_b(1, -7);
  run_two(call_of(CallKind::kReduce, a, out_a, 1, DataType::kInt32, {ReduceName::kAvg}),
          call_of(CallKind::kReduce, b, out_b, 1, DataType::kInt32, {ReduceName::kAvg}));
  EXPECT_EQ(out_a[0], 5);
  EXPECT_EQ(out_b[0], -7);
}

TEST_F(OperationTest, AllToAllInPlaceIsWhatItIsOutOfPlace) {
  std::vector<std::int32_t> a{1, 2, 3, 4}, b{5, 6, 7, 8};
  run_two(call_of(CallKind::kAllToAll, a, a, 2, DataType::kInt32),
          call_of(CallKind::kAllToAll, b, b, 2, DataType::kInt32));
  EXPECT_EQ(a, (std::vector<std::int32_t>{1, 2, 5, 6}));
  EXPECT_EQ(b, (std::vector<std::int32_t>{3, 4, 7, 8}));
  EXPECT_GT(pool_[0].idle_bytes(), 0u) << "what was borrowed has come back";
}

TEST_F(OperationTest, AnEqualCallTakesTheExecutionOfTheLastOne) {
  for (int turn = 1; turn <= 3; ++turn) {
    const std::vector<std::int32_t> a{turn}, b{10 * turn};
    std::vector<std::int32_t> out_a(1), out_b(1);
    run_two(call_of(CallKind::kAllReduce, a, out_a, 1, DataType::kInt32),
            call_of(CallKind::kAllReduce, b, out_b, 1, DataType::kInt32));
    EXPECT_EQ(out_a[0], 11 * turn) << "on the buffers of its own call";
    EXPECT_EQ(cache_[0].take(*plans_[0], DataType::kInt32, ReduceKind::kSum, 2), nullptr);
    EXPECT_EQ(cache_[0].take(*plans_[0], DataType::kInt32, ReduceKind::kMax, 1), nullptr);
    EXPECT_EQ(cache_[0].take(*plans_[0], DataType::kUint32, ReduceKind::kSum, 1), nullptr);
    EXPECT_EQ(cache_[0].take(*plans_[1], DataType::kInt32, ReduceKind::kSum, 1), nullptr);
    auto kept = cache_[0].take(*plans_[0], DataType::kInt32, ReduceKind::kSum, 1);
    ASSERT_NE(kept, nullptr);
    EXPECT_EQ(cache_[0].take(*plans_[0], DataType::kInt32, ReduceKind::kSum, 1), nullptr) << "there is one";
    cache_[0].put({plans_[0], DataType::kInt32, ReduceKind::kSum, 1, std::move(kept)});
  }
}

TEST_F(OperationTest, TheCacheKeepsAFewSmallOnes) {
  ExecutionCache cache;
  NoCourier courier;
  const std::vector<std::int8_t> input(ExecutionCache::kBytesMax + 1);
  std::vector<std::int8_t> output(input.size());
  const auto plan = plan_of(call_of(CallKind::kAllReduce, input, output, 100, DataType::kInt8), 0);
  const auto put = [&](std::uint64_t count) {
    const ExecutionBuffers buffers{.input = reinterpret_cast<const std::byte*>(input.data()),
                                   .output = reinterpret_cast<std::byte*>(output.data()),
                                   .count = count};
    auto execution = std::make_unique<Execution>(plan->header, plan->lanes, 0, buffers, DataType::kInt8,
                                                 ReduceKind::kSum, kDevice, courier, pool_[0]);
    cache.put({plan, DataType::kInt8, ReduceKind::kSum, count, std::move(execution)});
  };
  const auto kept = [&](std::uint64_t count) {
    return cache.take(*plan, DataType::kInt8, ReduceKind::kSum, count) != nullptr;
  };
  put(ExecutionCache::kBytesMax + 1);
  EXPECT_FALSE(kept(ExecutionCache::kBytesMax + 1));
  for (std::uint64_t count = 0; count <= ExecutionCache::kKept; ++count) put(count);
  EXPECT_FALSE(kept(0)) << "the oldest went";
  for (std::uint64_t count = 1; count <= ExecutionCache::kKept; ++count) EXPECT_TRUE(kept(count)) << count;
}

TEST_F(OperationTest, AVectorHasABlockOfEachRankWhereBlocksAreCounted) {
  Call call{.kind = CallKind::kAllReduce, .count = 10, .type = DataType::kFloat64};
  EXPECT_EQ(vector_bytes(call, 4), 80u);
  call.kind = CallKind::kAllGather;
  EXPECT_EQ(vector_bytes(call, 4), 320u);
}

}  // namespace
}  // namespace r2ccl
