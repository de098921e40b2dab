// The C interface over the fake World: ranks of one process, no network.

#include <gtest/gtest.h>
#include <r2ccl.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/nccl/fake_world.h"

namespace r2ccl::bindings {
namespace {

using testing::Test;

// Some ranks of one communicator, all held by this thread.
struct Ranks {
  explicit Ranks(int size) : comms(static_cast<std::size_t>(size)) {
    EXPECT_EQ(ncclCommInitAll(comms.data(), size, nullptr), ncclSuccess) << ncclGetLastError(nullptr);
    take_fake_log();
  }
  ~Ranks() {
    for (const ncclComm_t comm : comms) ncclCommDestroy(comm);
  }
  std::vector<ncclComm_t> comms;
};

struct Stream {
  Stream() { EXPECT_EQ(r2cclStreamCreate(&handle), ncclSuccess); }
  ~Stream() { r2cclStreamDestroy(handle); }
  cudaStream_t handle = nullptr;
};

std::string last_error() {
  return ncclGetLastError(nullptr);
}

ncclResult_t sum_ones(ncclComm_t comm, std::vector<float>& data, cudaStream_t stream = nullptr) {
  return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, comm, stream);
}

ncclResult_t wait_for(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess) return ncclInternalError;
  }
  return state;
}

TEST(Api, OneThreadReducesForAllItsRanksInOneGroup) {
  Ranks ranks(3);
  std::vector<std::vector<float>> data(3, std::vector<float>(5, 1));
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(sum_ones(ranks.comms[i], data[i]), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << last_error();
  for (const auto& buffer : data) EXPECT_EQ(buffer, std::vector<float>(5, 3));
}

TEST(Api, NothingBeginsBeforeTheOutermostGroupEnds) {
  Ranks ranks(1);
  std::vector<float> data(4, 1);
  ncclGroupStart();
  ncclGroupStart();
  ASSERT_EQ(sum_ones(ranks.comms[0], data), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_TRUE(take_fake_log().empty());
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(take_fake_log(), std::vector<std::string>{"AllReduce 4"});
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST(Api, OneBadCallCancelsItsGroup) {
  Ranks ranks(1);
  std::vector<float> data(4, 1);
  ncclGroupStart();
  EXPECT_EQ(sum_ones(ranks.comms[0], data), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(nullptr, data.data(), 4, ncclFloat, ncclSum, ranks.comms[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_TRUE(take_fake_log().empty());
  EXPECT_EQ(sum_ones(ranks.comms[0], data), ncclSuccess) << "the next group starts clean";
}

TEST(Api, SimulatingAGroupDropsItAndTellsHowLongItWouldTake) {
  Ranks ranks(1);
  std::vector<float> data(4, 1);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ncclGroupStart();
  EXPECT_EQ(sum_ones(ranks.comms[0], data), ncclSuccess);
  ncclGroupStart();
  EXPECT_EQ(sum_ones(ranks.comms[0], data), ncclSuccess);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
  EXPECT_EQ(info.estimatedTime, NCCL_UNDEF_FLOAT) << "only the outermost knows all of it";
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
  EXPECT_FLOAT_EQ(info.estimatedTime, 2);
  EXPECT_TRUE(take_fake_log().empty());
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidUsage);
  for (ncclSimInfo_t* const bad : {static_cast<ncclSimInfo_t*>(nullptr), &info}) {
    info.magic = 0;
    ncclGroupStart();
    EXPECT_EQ(ncclGroupSimulateEnd(bad), ncclInvalidArgument);
  }
}

TEST(Api, BadArgumentsAreNamed) {
  Ranks ranks(2);
  const ncclComm_t comm = ranks.comms[0];
  float data[4] = {};
  struct Case {
    ncclResult_t result;
    const char* says;
  };
  const auto check = [](ncclResult_t result, const char* says) {
    EXPECT_EQ(result, ncclInvalidArgument) << says;
    EXPECT_NE(last_error().find(says), std::string::npos) << last_error();
  };
  check(ncclAllReduce(data, data, 4, ncclFloat, ncclSum, nullptr, nullptr), "comm is null");
  check(ncclAllReduce(data, data, 4, static_cast<ncclDataType_t>(12), ncclSum, comm, nullptr), "data type 12");
  check(ncclAllReduce(data, data, 4, static_cast<ncclDataType_t>(-1), ncclSum, comm, nullptr), "data type -1");
  check(ncclAllReduce(data, data, 4, ncclFloat, static_cast<ncclRedOp_t>(5), comm, nullptr), "reduction 5");
  check(ncclBroadcast(data, data, 4, ncclFloat, 2, comm, nullptr), "root 2");
  check(ncclReduce(data, data, 4, ncclFloat, ncclSum, -1, comm, nullptr), "root -1");
  check(ncclSend(data, 4, ncclFloat, 7, comm, nullptr), "peer 7");
  check(ncclAllReduce(nullptr, data, 4, ncclFloat, ncclSum, comm, nullptr), "ncclAllReduce");
  check(ncclAllReduce(data, data, SIZE_MAX / 2, ncclFloat, ncclSum, comm, nullptr), "ncclAllReduce");
  check(ncclAllReduce(data, data, 4, ncclFloat, ncclSum, comm, reinterpret_cast<cudaStream_t>(data)), "stream");
  EXPECT_EQ(ncclSend(data, 4, ncclFloat, 0, comm, nullptr), ncclInvalidUsage) << "to itself, alone";
}

TEST(Api, HandlesThatWereDestroyedOrNeverWereAreRefused) {
  int count = 0;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommCount(comm, &count), ncclSuccess);
  EXPECT_EQ(count, 1);
  ASSERT_EQ(ncclCommDestroy(comm), ncclSuccess);
  ncclComm_t another = nullptr;
  ASSERT_EQ(ncclCommInitAll(&another, 1, nullptr), ncclSuccess);
  EXPECT_NE(another, comm) << "an old handle never names a new communicator";
  EXPECT_EQ(ncclCommCount(comm, &count), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comm), ncclInvalidArgument);
  EXPECT_EQ(ncclCommCount(reinterpret_cast<ncclComm_t>(&count), &count), ncclInvalidArgument);
  EXPECT_EQ(ncclCommAbort(another), ncclSuccess);
}

TEST(Api, AStreamKeepsOrderAcrossCommunicators) {
  Ranks a(2);
  Ranks b(2);
  Stream first;
  Stream second;
  Stream third;
  std::vector<float> a0(3, 1), a1(3, 1), b0(5, 1), b1(5, 1);
  ASSERT_EQ(sum_ones(a.comms[0], a0, first.handle), ncclSuccess);
  ASSERT_EQ(sum_ones(b.comms[0], b0, first.handle), ncclSuccess);
  ASSERT_EQ(sum_ones(b.comms[1], b1, second.handle), ncclSuccess);
  EXPECT_EQ(r2cclStreamQuery(second.handle), ncclInProgress) << "b waits on the first stream for a";
  ASSERT_EQ(sum_ones(a.comms[1], a1, third.handle), ncclSuccess);
  for (const auto* stream : {&first, &second, &third}) EXPECT_EQ(r2cclStreamSynchronize(stream->handle), ncclSuccess);
  EXPECT_EQ(take_fake_log(), (std::vector<std::string>{"AllReduce 3", "AllReduce 5"}));
  EXPECT_EQ(r2cclStreamQuery(first.handle), ncclSuccess);
}

TEST(Api, ACommunicatorKeepsOrderAcrossStreams) {
  Ranks a(2);
  Ranks b(2);
  Stream first, second, other;
  std::vector<float> block0(1, 1), block1(1, 1), x0(2, 1), y0(3, 1), x1(2, 1), y1(3, 1);
  // x waits on `first` behind a; y was issued later, on a stream with nothing before it.
  ASSERT_EQ(sum_ones(a.comms[0], block0, first.handle), ncclSuccess);
  ASSERT_EQ(sum_ones(b.comms[0], x0, first.handle), ncclSuccess);
  ASSERT_EQ(sum_ones(b.comms[0], y0, second.handle), ncclSuccess);
  ASSERT_EQ(sum_ones(b.comms[1], x1, other.handle), ncclSuccess);
  ASSERT_EQ(sum_ones(b.comms[1], y1, other.handle), ncclSuccess);
  ASSERT_EQ(sum_ones(a.comms[1], block1), ncclSuccess);
  for (const auto* stream : {&first, &second, &other}) EXPECT_EQ(r2cclStreamSynchronize(stream->handle), ncclSuccess);
  EXPECT_EQ(take_fake_log(), (std::vector<std::string>{"AllReduce 1", "AllReduce 2", "AllReduce 3"}));
  EXPECT_EQ(y0, std::vector<float>(3, 2));
}

TEST(Api, SendsAndReceivesOfAGroupRunTogether) {
  Ranks ranks(2);
  float to_other[2] = {1, 2}, from_other[2] = {}, to_self = 5, from_self = 0;
  ncclGroupStart();
  for (int i : {0, 1}) {
    ncclRecv(&from_other[i], 1, ncclFloat, 1 - i, ranks.comms[static_cast<std::size_t>(i)], nullptr);
    ncclSend(&to_other[i], 1, ncclFloat, 1 - i, ranks.comms[static_cast<std::size_t>(i)], nullptr);
  }
  ncclRecv(&from_self, 1, ncclFloat, 0, ranks.comms[0], nullptr);
  ncclSend(&to_self, 1, ncclFloat, 0, ranks.comms[0], nullptr);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << last_error();
  EXPECT_EQ(from_other[0], 2);
  EXPECT_EQ(from_other[1], 1);
  EXPECT_EQ(from_self, 5);
}

TEST(Api, ASplitOrdersByKeyAndGivesNothingWithoutAColour) {
  Ranks ranks(4);
  std::array<ncclComm_t, 4> made{};
  const int colors[4] = {1, NCCL_SPLIT_NOCOLOR, 1, 0};
  const int keys[4] = {9, 0, 3, 0};
  ncclGroupStart();
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(ncclCommSplit(ranks.comms[i], colors[i], keys[i], &made[i], nullptr), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << last_error();
  EXPECT_EQ(made[1], nullptr);
  const int expected_rank[4] = {1, -1, 0, 0};
  const int expected_size[4] = {2, -1, 2, 1};
  for (const std::size_t i : {0U, 2U, 3U}) {
    int rank = -1;
    int size = -1;
    EXPECT_EQ(ncclCommUserRank(made[i], &rank), ncclSuccess);
    EXPECT_EQ(ncclCommCount(made[i], &size), ncclSuccess);
    EXPECT_EQ(rank, expected_rank[i]);
    EXPECT_EQ(size, expected_size[i]);
    EXPECT_EQ(ncclCommAbort(made[i]), ncclSuccess);
  }
}

TEST(Api, AShrinkNeedsOnlyThoseWhoStay) {
  Ranks ranks(3);
  std::array<ncclComm_t, 3> made{};
  int exclude[] = {0};
  ncclGroupStart();
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_EQ(ncclCommShrink(ranks.comms[i], exclude, 1, &made[i], nullptr, NCCL_SHRINK_DEFAULT), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << last_error();
  int rank = -1;
  EXPECT_EQ(ncclCommUserRank(made[2], &rank), ncclSuccess);
  EXPECT_EQ(rank, 1);
  EXPECT_EQ(ncclCommShrink(ranks.comms[0], exclude, 1, &made[0], nullptr, NCCL_SHRINK_DEFAULT), ncclInvalidUsage);
  for (const std::size_t i : {1U, 2U}) ncclCommDestroy(made[i]);
}

TEST(Api, AShrinkThatAbortsNeedsNoWorkingParent) {
  Ranks ranks(3);
  std::array<ncclComm_t, 3> made{};
  int exclude[] = {1};
  std::vector<float> data(4, 1);
  ncclGroupStart();
  for (const std::size_t i : {0U, 2U})
    EXPECT_EQ(ncclCommShrink(ranks.comms[i], exclude, 1, &made[i], nullptr, NCCL_SHRINK_ABORT), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << last_error();
  EXPECT_NE(sum_ones(ranks.comms[0], data), ncclSuccess) << "the parent has ended";
  int count = 0;
  EXPECT_EQ(ncclCommCount(made[2], &count), ncclSuccess);
  EXPECT_EQ(count, 2);
  ncclComm_t again = nullptr;
  EXPECT_EQ(ncclCommShrink(ranks.comms[0], exclude, 1, &again, nullptr, NCCL_SHRINK_DEFAULT), ncclInvalidUsage);
  EXPECT_EQ(ncclCommShrink(ranks.comms[0], exclude, 1, &again, nullptr, 2), ncclInvalidArgument);
  for (const std::size_t i : {0U, 2U}) ncclCommDestroy(made[i]);
}

TEST(Api, ANonBlockingJoinAnswersInProgressUntilAllAreThere) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t first = nullptr, second = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&first, 2, id, 0, &config), ncclInProgress);
  ncclResult_t state = ncclSuccess;
  ASSERT_EQ(ncclCommGetAsyncError(first, &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  std::vector<float> data(1, 1);
  EXPECT_EQ(sum_ones(first, data), ncclInvalidArgument) << "not before it is there";
  ASSERT_EQ(ncclCommInitRankConfig(&second, 2, id, 1, &config), ncclInProgress);
  EXPECT_EQ(wait_for(first), ncclSuccess);
  EXPECT_EQ(wait_for(second), ncclSuccess);
  ncclComm_t child[2] = {};
  EXPECT_EQ(ncclCommSplit(first, 0, 0, &child[0], nullptr), ncclInProgress);
  EXPECT_EQ(ncclCommSplit(second, 0, 0, &child[1], nullptr), ncclInProgress);
  for (const ncclComm_t comm : {child[0], child[1], first, second}) EXPECT_EQ(wait_for(comm), ncclSuccess);
  for (const ncclComm_t comm : {first, second}) EXPECT_EQ(ncclCommFinalize(comm), ncclInProgress);
  for (const ncclComm_t comm : {first, second}) EXPECT_EQ(wait_for(comm), ncclSuccess);
  for (const ncclComm_t comm : {child[0], child[1], first, second}) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(Api, ConfigsAreCheckedAndOldOnesAreUnderstood) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  config.size = offsetof(ncclConfig_t, splitShare);
  config.shrinkShare = 77;  // beyond what an old caller has
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  id.internal[40] ^= 1;
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
}

TEST(Api, OneThreadFinalizesItsRanksOneByOne) {
  Ranks ranks(3);
  for (const ncclComm_t comm : ranks.comms) EXPECT_EQ(ncclCommFinalize(comm), ncclSuccess) << last_error();
  for (const ncclComm_t comm : ranks.comms) EXPECT_EQ(wait_for(comm), ncclSuccess);
  std::vector<float> data(1, 1);
  EXPECT_EQ(sum_ones(ranks.comms[0], data), ncclInvalidUsage);
  EXPECT_EQ(ncclCommFinalize(ranks.comms[0]), ncclInvalidUsage);
}

TEST(Api, PreMulSumIsOfOneCommunicatorAndOneType) {
  Ranks ranks(1);
  Ranks others(1);
  float three = 3;
  ncclRedOp_t op{};
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &three, ncclFloat, ncclScalarHostImmediate, ranks.comms[0]), ncclSuccess);
  three = 100;  // read already
  float data = 2;
  EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat, op, ranks.comms[0], nullptr), ncclSuccess);
  EXPECT_EQ(data, 6);
  EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclInt, op, ranks.comms[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(&data, &data, 1, ncclFloat, op, others.comms[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(op, others.comms[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(op, ranks.comms[0]), ncclSuccess);
  EXPECT_EQ(ncclRedOpDestroy(op, ranks.comms[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpDestroy(ncclSum, ranks.comms[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, &three, ncclFloat, ncclScalarDevice, ranks.comms[0]), ncclInvalidUsage);
}

TEST(Api, AnAbortEndsWhatWaitsOnStreams) {
  Ranks ranks(2);
  Stream stream;
  std::vector<float> data(3, 1);
  ASSERT_EQ(sum_ones(ranks.comms[0], data, stream.handle), ncclSuccess);
  ASSERT_EQ(ncclCommAbort(ranks.comms[1]), ncclSuccess);
  EXPECT_EQ(r2cclStreamSynchronize(stream.handle), ncclRemoteError);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(ranks.comms[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclRemoteError);
  EXPECT_NE(std::string(ncclGetLastError(ranks.comms[0])).find("ncclCommAbort"), std::string::npos);
  EXPECT_EQ(sum_ones(ranks.comms[0], data), ncclRemoteError) << "it stays failed";
}

TEST(Api, ARevokedCommunicatorIsQuietAndTakesNoCalls) {
  Ranks ranks(1);
  EXPECT_EQ(ncclCommRevoke(ranks.comms[0], 1), ncclInvalidArgument);
  ASSERT_EQ(ncclCommRevoke(ranks.comms[0], NCCL_REVOKE_DEFAULT), ncclSuccess);
  EXPECT_EQ(wait_for(ranks.comms[0]), ncclSuccess);
  std::vector<float> data(1, 1);
  EXPECT_EQ(sum_ones(ranks.comms[0], data), ncclInvalidUsage);
  EXPECT_EQ(ncclCommFinalize(ranks.comms[0]), ncclInvalidUsage);
}

TEST(Api, FailoverIsToldOnceWhenAnOperationEnds) {
  Ranks ranks(1);
  std::vector<r2cclNicState_t> told;
  const auto note = [](const r2cclNicInfo_t* nic, void* context) {
    static_cast<std::vector<r2cclNicState_t>*>(context)->push_back(nic->state);
  };
  ASSERT_EQ(r2cclCommOnFailover(ranks.comms[0], note, &told), ncclSuccess);
  std::vector<float> data(1, 1);
  EXPECT_EQ(sum_ones(ranks.comms[0], data), ncclSuccess);
  EXPECT_TRUE(told.empty());
  set_fake_nic_state("down");
  EXPECT_EQ(sum_ones(ranks.comms[0], data), ncclSuccess);
  EXPECT_EQ(sum_ones(ranks.comms[0], data), ncclSuccess);
  set_fake_nic_state("up");
  EXPECT_EQ(told, std::vector<r2cclNicState_t>{r2cclNicDown});
  r2cclStats_t stats = R2CCL_STATS_INITIALIZER;
  EXPECT_EQ(r2cclCommStats(ranks.comms[0], &stats), ncclSuccess);
  EXPECT_EQ(stats.calls, 3U);
  EXPECT_EQ(stats.bytes, 12U);
}

TEST(Api, MemoryAndRegistrationsAreCheckedWhenGivenBack) {
  Ranks ranks(1);
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 5000), ncclSuccess);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0U);
  void* handle = nullptr;
  EXPECT_EQ(ncclCommRegister(ranks.comms[0], memory, 5000, &handle), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(ranks.comms[0], handle), ncclSuccess);
  EXPECT_EQ(ncclCommDeregister(ranks.comms[0], handle), ncclInvalidArgument);
  EXPECT_EQ(ncclMemFree(static_cast<char*>(memory) + 1), ncclInvalidArgument);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
}

TEST(Api, WhatHostMemoryCanNotDoIsRefusedWithASentence) {
  Ranks ranks(1);
  ncclWindow_t window = nullptr;
  char buffer[16];
  EXPECT_EQ(ncclCommWindowRegister(ranks.comms[0], buffer, 16, &window, 0), ncclInvalidUsage);
  EXPECT_NE(last_error().find("ncclCommWindowRegister"), std::string::npos);
}

TEST(Api, NicsAreDrainedByTheirNumber) {
  Ranks ranks(1);
  EXPECT_EQ(r2cclCommDrain(ranks.comms[0], 0), ncclSuccess);
  EXPECT_EQ(r2cclCommUndrain(ranks.comms[0], 0), ncclSuccess);
  EXPECT_EQ(r2cclCommDrain(ranks.comms[0], 7), ncclInvalidArgument);
}

}  // namespace
}  // namespace r2ccl::bindings
