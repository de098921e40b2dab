// What names of newer NCCLs do where they have a meaning on host memory, over the fake World.

#include "bindings/nccl/entry/later_names.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/nccl/fake_world.h"
#include "env/settings.h"

namespace r2ccl::bindings {
namespace {

constexpr unsigned int kMagic = 0xcafebeef;
// The environment is read by the first call that needs it, which is after this.
[[maybe_unused]] const int kSecretWasSet = setenv("R2CCL_SECRET", "hush-hush", 1);

// The only rank of a communicator.
struct Alone {
  Alone() {
    EXPECT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclSuccess);
    take_fake_log();
  }
  ~Alone() { ncclCommDestroy(comm); }
  ncclComm_t comm = nullptr;
};

std::string what_was_said() {
  return ncclGetLastError(nullptr);
}

ncclCollConfig_t coll_config() {
  constexpr int kUnset = NCCL_CONFIG_UNDEF_INT;
  return {
      sizeof(ncclCollConfig_t), kMagic, 23203, nullptr, kUnset, kUnset, kUnset, kUnset, nullptr, 1, kUnset, 0, nullptr};
}

ncclResult_t all_reduce(ncclComm_t comm, const ncclCollConfig_t* config) {
  float data[4] = {1, 2, 3, 4};
  return ncclAllReduceConfig(data, data, 4, ncclFloat, ncclSum, comm, nullptr, config);
}

TEST(LaterNames, ACollectiveWithAConfigIsTheCollective) {
  Alone alone;
  const ncclCollConfig_t config = coll_config();
  const ncclComm_t comm = alone.comm;
  float from[4] = {1, 2, 3, 4};
  float to[4] = {};
  const ncclResult_t results[] = {
      ncclAllReduceConfig(from, to, 4, ncclFloat, ncclSum, comm, nullptr, &config),
      ncclReduceConfig(from, to, 4, ncclFloat, ncclSum, 0, comm, nullptr, &config),
      ncclBroadcastConfig(from, to, 4, ncclFloat, 0, comm, nullptr, &config),
      ncclAllGatherConfig(from, to, 4, ncclFloat, comm, nullptr, &config),
      ncclReduceScatterConfig(from, to, 4, ncclFloat, ncclSum, comm, nullptr, &config),
      ncclAlltoAllConfig(from, to, 4, ncclFloat, comm, nullptr, &config),
      ncclGatherConfig(from, to, 4, ncclFloat, 0, comm, nullptr, nullptr),
      ncclScatterConfig(from, to, 4, ncclFloat, 0, comm, nullptr, nullptr),
  };
  for (const ncclResult_t result : results) EXPECT_EQ(result, ncclSuccess) << what_was_said();
  EXPECT_EQ(take_fake_log(), (std::vector<std::string>{"AllReduce 4", "Reduce 4", "Broadcast 4", "AllGather 4",
                                                       "ReduceScatter 4", "AlltoAll 4", "Gather 4", "Scatter 4"}));
}

TEST(LaterNames, TheResultOfAReductionWithAConfigIsThere) {
  Alone alone;
  const ncclCollConfig_t config = coll_config();
  float from[2] = {1, 2};
  float to[2] = {};
  ASSERT_EQ(ncclAllReduceConfig(from, to, 2, ncclFloat, ncclSum, alone.comm, nullptr, &config), ncclSuccess);
  EXPECT_EQ(to[1], 2);
}

TEST(LaterNames, WishesAboutKernelsChangeNothingButTheirRangesCount) {
  Alone alone;
  ncclCollConfig_t config = coll_config();
  config.minCTAs = 2;
  config.maxCTAs = 4;
  config.userProfilerTag = 77;
  ncclConfigExt_t foreign = {};
  config.ext = &foreign;
  EXPECT_EQ(all_reduce(alone.comm, &config), ncclSuccess) << what_was_said();
  config.maxCTAs = 1;
  EXPECT_EQ(all_reduce(alone.comm, &config), ncclInvalidArgument);
  config = coll_config();
  config.CTAPolicy = 8;
  EXPECT_EQ(all_reduce(alone.comm, &config), ncclInvalidArgument);
  EXPECT_NE(what_was_said().find("ncclAllReduceConfig: config.CTAPolicy is 8"), std::string::npos) << what_was_said();
  config = coll_config();
  config.magic = 0;
  EXPECT_EQ(all_reduce(alone.comm, &config), ncclInvalidArgument);
}

TEST(LaterNames, WishesThatMustBeGrantedAreRefused) {
  Alone alone;
  ncclCollConfig_t config = coll_config();
  config.algSelection = "NVLS";
  EXPECT_EQ(all_reduce(alone.comm, &config), ncclInvalidUsage);
  EXPECT_NE(what_was_said().find("R2CCL_ALGO"), std::string::npos) << what_was_said();
  config.forceAlgSelection = 0;
  EXPECT_EQ(all_reduce(alone.comm, &config), ncclSuccess);
  config.launchCompletionEvent = reinterpret_cast<CUevent_st*>(&config);
  EXPECT_EQ(all_reduce(alone.comm, &config), ncclInvalidUsage);
  config.size = offsetof(ncclCollConfig_t, launchCompletionEvent);  // a caller of 2.31 has no event
  EXPECT_EQ(all_reduce(alone.comm, &config), ncclSuccess) << what_was_said();
}

TEST(LaterNames, ABadConfigCancelsItsGroup) {
  Alone alone;
  ncclCollConfig_t bad = coll_config();
  bad.minCTAs = 0;
  ncclGroupStart();
  EXPECT_EQ(all_reduce(alone.comm, nullptr), ncclSuccess);
  EXPECT_EQ(all_reduce(alone.comm, &bad), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_TRUE(take_fake_log().empty());
}

TEST(LaterNames, ACommunicatorsConfigOfANewerCallerIsUnderstoodAsFarAsItIsKnown) {
  struct {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int newer[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  } config;
  config.known.size = sizeof(config);
  config.known.version = 23203;
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config.known), ncclSuccess) << what_was_said();
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(LaterNames, NoDeviceMemoryIsHeld) {
  Alone alone;
  for (const auto stat : {ncclStatGpuMemSuspend, ncclStatGpuMemSuspended, ncclStatGpuMemPersist, ncclStatGpuMemTotal}) {
    std::uint64_t value = 5;
    EXPECT_EQ(ncclCommMemStats(alone.comm, stat, &value), ncclSuccess);
    EXPECT_EQ(value, 0u);
  }
  std::uint64_t value = 5;
  EXPECT_EQ(ncclCommMemStats(alone.comm, static_cast<ncclCommMemStat_t>(4), &value), ncclInvalidArgument);
  EXPECT_EQ(value, 5u);
  EXPECT_EQ(ncclCommMemStats(alone.comm, ncclStatGpuMemTotal, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommMemStats(nullptr, ncclStatGpuMemTotal, &value), ncclInvalidArgument);
}

TEST(LaterNames, PropertiesSayWhoWeAreAndThatThereIsNoDevice) {
  ncclComm_t comms[2];
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess);
  ncclCommProperties props;
  std::memset(&props, 0xff, sizeof(props));
  props.size = sizeof(props);
  props.magic = kMagic;
  ASSERT_EQ(ncclCommQueryProperties(comms[1], &props), ncclSuccess) << what_was_said();
  EXPECT_EQ(props.size, sizeof(props));
  EXPECT_EQ(props.rank, 1);
  EXPECT_EQ(props.nRanks, 2);
  int device = 7;
  ASSERT_EQ(ncclCommCuDevice(comms[1], &device), ncclSuccess);
  EXPECT_EQ(props.cudaDev, device);
  EXPECT_FALSE(props.deviceApiSupport || props.multimemSupport || props.hostRmaSupport || props.cftSupport);
  EXPECT_EQ(props.ginType, NCCL_GIN_TYPE_NONE);
  for (const ncclComm_t comm : comms) ncclCommDestroy(comm);
}

TEST(LaterNames, PropertiesOfAnOlderCallerAreNotWrittenBeyondTheirEnd) {
  Alone alone;
  for (const std::size_t size : {offsetof(ncclCommProperties, ginType), offsetof(ncclCommProperties, commHash)}) {
    unsigned char bytes[sizeof(ncclCommProperties)];
    std::memset(bytes, 0xaa, sizeof(bytes));
    std::memcpy(bytes, &size, sizeof(size));
    std::memcpy(bytes + offsetof(ncclCommProperties, magic), &kMagic, sizeof(kMagic));
    ASSERT_EQ(ncclCommQueryProperties(alone.comm, reinterpret_cast<ncclCommProperties*>(bytes)), ncclSuccess);
    EXPECT_EQ(bytes[size - 1], 0);
    for (std::size_t i = size; i < sizeof(bytes); ++i) ASSERT_EQ(bytes[i], 0xaa) << i;
  }
  ncclCommProperties props = {};
  EXPECT_EQ(ncclCommQueryProperties(alone.comm, &props), ncclInvalidArgument);
  EXPECT_EQ(ncclCommQueryProperties(alone.comm, nullptr), ncclInvalidArgument);
}

TEST(LaterNames, EncryptionIsGrantedOnlyWhereNoneIsAskedFor) {
  ncclEncryptionConfig_t config = {sizeof(config), kMagic, 23203, NCCL_ENCRYPTION_MODE_NONE, nullptr};
  EXPECT_EQ(ncclSetEncryption(&config), ncclSuccess);
  config.mode = NCCL_ENCRYPTION_MODE_PSK;
  config.psk = "a key";
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidUsage);
  EXPECT_NE(what_was_said().find("not encrypted"), std::string::npos) << what_was_said();
  EXPECT_EQ(what_was_said().find("a key"), std::string::npos) << "keys are never shown";
  config.mode = 2;
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidArgument);
}

TEST(LaterNames, ParametersAreTheSettings) {
  const char** keys = nullptr;
  int count = 0;
  ASSERT_EQ(ncclParamGetAllParameterKeys(&keys, &count), ncclSuccess);
  const auto list = Settings::list();
  ASSERT_EQ(static_cast<std::size_t>(count), list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(keys[i], list[i].name);
    const char* value = nullptr;
    int length = -1;
    ncclParamHandle_t handle = nullptr;
    ASSERT_EQ(ncclParamGetParameter(keys[i], &value, &length), ncclSuccess);
    EXPECT_EQ(static_cast<int>(std::strlen(value)), length);
    ASSERT_EQ(ncclParamBind(&handle, keys[i]), ncclSuccess);
    const char* same = nullptr;
    ASSERT_EQ(ncclParamGetStr(handle, &same), ncclSuccess);
    EXPECT_STREQ(same, value);
  }
  const char* value = nullptr;
  EXPECT_EQ(ncclParamGetParameter("NCCL_NO_SUCH", &value, nullptr), ncclInvalidArgument);
  EXPECT_NE(what_was_said().find("NCCL_NO_SUCH"), std::string::npos);
}

TEST(LaterNames, ParametersThatAreNumbersAreReadAsNumbers) {
  const auto bind = [](const char* key) {
    ncclParamHandle_t handle = nullptr;
    EXPECT_EQ(ncclParamBind(&handle, key), ncclSuccess) << key;
    return handle;
  };
  const ncclParamHandle_t chunk = bind("R2CCL_CHUNK_BYTES");
  std::int64_t wide = 0;
  std::uint32_t half = 0;
  std::int8_t narrow = 7;
  EXPECT_EQ(ncclParamGetI64(chunk, &wide), ncclSuccess) << what_was_said();
  EXPECT_EQ(wide, 512 * 1024);
  EXPECT_EQ(ncclParamGetU32(chunk, &half), ncclSuccess);
  EXPECT_EQ(half, 512u * 1024);
  EXPECT_EQ(ncclParamGetI8(chunk, &narrow), ncclInvalidUsage) << "it does not fit";
  EXPECT_EQ(narrow, 7);
  EXPECT_EQ(ncclParamGetI8(bind("R2CCL_SHM"), &narrow), ncclSuccess);
  EXPECT_EQ(narrow, 1);
  EXPECT_EQ(ncclParamGetI8(bind("R2CCL_RETRY_MAX"), &narrow), ncclInvalidUsage) << "a duration is no number";
  EXPECT_EQ(ncclParamGetI8(bind("R2CCL_RANK"), &narrow), ncclInvalidUsage) << "it is not set";
  ncclParamHandle_t stranger = reinterpret_cast<ncclParamHandle_t>(&wide);
  EXPECT_EQ(ncclParamGetI8(stranger, &narrow), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetI8(nullptr, &narrow), ncclInvalidArgument);
}

TEST(LaterNames, AllParametersAreDumpedWithoutASecret) {
  testing::internal::CaptureStderr();
  ncclParamDumpAll();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("R2CCL_CHUNK_BYTES=512K"), std::string::npos) << said;
  EXPECT_NE(said.find("R2CCL_SECRET=(set)"), std::string::npos) << said;
  EXPECT_EQ(said.find("hush"), std::string::npos) << said;
}

}  // namespace
}  // namespace r2ccl::bindings
