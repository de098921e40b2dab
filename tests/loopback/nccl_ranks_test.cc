// The library as a program uses it: loaded, through NCCL's interface, one process per rank. Tests split and shrunk
// communicators under NIC faults, the NIC that R2CC_MODE loses, and ends with work pending.

#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "include/nccl.h"
#include "include/r2ccl.h"
#include "tests/loopback/support/rank_processes.h"

namespace r2ccl::loopback {
namespace {

using testing::AnyOf;
using Clock = std::chrono::steady_clock;

// The functions of the library that is built beside the tool.
struct Nccl {
  void* const library = open();
  template <typename Function>
  Function* find(const char* name) const {
    void* const found = ::dlsym(library, name);
    if (found == nullptr) throw std::runtime_error(fmt::format("{} is missing", name));
    return reinterpret_cast<Function*>(found);
  }
#define R2CCL_FIND(name) decltype(::name)* const name = find<decltype(::name)>(#name)
  R2CCL_FIND(ncclGetUniqueId);
  R2CCL_FIND(ncclCommInitRank);
  R2CCL_FIND(ncclCommSplit);
  R2CCL_FIND(ncclCommShrink);
  R2CCL_FIND(ncclCommUserRank);
  R2CCL_FIND(ncclCommCount);
  R2CCL_FIND(ncclCommFinalize);
  R2CCL_FIND(ncclCommDestroy);
  R2CCL_FIND(ncclCommAbort);
  R2CCL_FIND(ncclCommRevoke);
  R2CCL_FIND(ncclCommGetAsyncError);
  R2CCL_FIND(ncclGetLastError);
  R2CCL_FIND(ncclAllReduce);
  R2CCL_FIND(r2cclCommNicCount);
  R2CCL_FIND(r2cclCommNicInfo);
  R2CCL_FIND(r2cclCommStats);
#undef R2CCL_FIND
  ncclResult_t (*const stream_create)(cudaStream_t*) = find<ncclResult_t(cudaStream_t*)>("r2cclStreamCreate");
  ncclResult_t (*const stream_synchronize)(cudaStream_t) = find<ncclResult_t(cudaStream_t)>("r2cclStreamSynchronize");

  static void* open() {
    const auto path = std::filesystem::path(R2CCL_TOOL).parent_path().parent_path() / "lib" / "libr2ccl.so";
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    return library;
  }
  void must(ncclResult_t result) const {
    if (result != ncclSuccess) throw std::runtime_error(fmt::format("{}: {}", int(result), ncclGetLastError(nullptr)));
  }
};

struct Job {
  std::uint32_t ranks = 2;
  std::string fault = {};
  std::vector<std::string> settings;  // "NAME=value"
  std::string host = {};              // where they meet; empty: at the first NIC of rank 0
  std::uint32_t per_server = 1;
  std::uint32_t nics = 3;
  bool dealt = false;  // ranks go round the servers
  std::uint32_t server_of(std::uint32_t rank) const { return dealt ? rank % (ranks / per_server) : rank / per_server; }
};

struct Rank {
  const Nccl& nccl;
  ncclComm_t comm;
  std::uint32_t number;
  const RankProcesses::Tell& tell;
};

void set(const std::string& setting) {
  const auto equals = setting.find('=');
  ::setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
}

// Servers have the numbers by which faults name them, or only names, as where nobody has numbered them.
RankProcesses::Program program_of(const Job& job, const std::function<void(const Rank&)>& body) {
  return [=](std::uint32_t number, const Address& place, const RankProcesses::Tell& tell) {
    ::unsetenv("LONG_TESTS");  // the library would refuse a name it does not know
    const std::uint32_t server = job.server_of(number);
    std::string nics;
    for (std::uint32_t nic = 0; nic < job.nics; ++nic) nics += fmt::format("127.{}.0.{},", 10 + nic, server + 1);
    set("R2CCL_NICS=" + nics);
    set(job.fault.empty() ? fmt::format("NCCL_HOSTID=host{}", server) : fmt::format("R2CCL_SERVER={}", server));
    set("NCCL_COMM_ID=" + (job.host.empty() ? to_text(place) : fmt::format("{}:{}", job.host, place.port)));
    set("R2CCL_FAULT=" + job.fault);
    for (const std::string& setting : job.settings) set(setting);
    try {
      const Nccl nccl;
      ncclUniqueId id;
      ncclComm_t comm = nullptr;
      nccl.must(nccl.ncclGetUniqueId(&id));
      nccl.must(nccl.ncclCommInitRank(&comm, static_cast<int>(job.ranks), id, static_cast<int>(number)));
      body({nccl, comm, number, tell});
    } catch (const std::exception& error) {
      tell(std::string("error: ") + error.what());
    }
  };
}

void sum_once(const Rank& rank) {
  int size = 0;
  rank.nccl.must(rank.nccl.ncclCommCount(rank.comm, &size));
  auto data = static_cast<std::int32_t>(rank.number);
  rank.nccl.must(rank.nccl.ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, rank.comm, nullptr));
  if (data != size * (size - 1) / 2) throw std::runtime_error(fmt::format("the sum is {}", data));
}

// Makes sums and checks them, for so long by the clock of the communicator's first rank.
void sum_for(const Nccl& nccl, ncclComm_t comm, Duration most) {
  int rank = 0;
  int size = 0;
  nccl.must(nccl.ncclCommUserRank(comm, &rank));
  nccl.must(nccl.ncclCommCount(comm, &size));
  std::vector<std::int32_t> data(500'000);
  for (const auto begin = Clock::now();;) {
    for (std::size_t i = 1; i < data.size(); ++i) data[i] = static_cast<std::int32_t>(i) * (rank + 1);
    data[0] = rank == 0 && Clock::now() > begin + most ? 1 : 0;
    nccl.must(nccl.ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, nullptr));
    for (std::size_t i = 1; i < data.size(); ++i) {
      if (data[i] != static_cast<std::int32_t>(i) * (size * (size + 1) / 2))
        throw std::runtime_error(fmt::format("element {} is wrong", i));
    }
    if (data[0] != 0) return;
  }
}

void end(const Nccl& nccl, ncclComm_t comm) {
  nccl.must(nccl.ncclCommFinalize(comm));
  nccl.must(nccl.ncclCommDestroy(comm));
}

constexpr const char* kCut = "at=500ms server=2 nic=1 kind=down;at=700ms server=2 nic=0 kind=reset";

// The log tells of both faults.
void expect_repairs(const std::string& log) {
  EXPECT_NE(log.find("both ends agree"), std::string::npos) << log;
  EXPECT_NE(log.find("NIC 127.11.0.3 (server 2)"), std::string::npos) << log;
  EXPECT_NE(log.find("down (reset"), std::string::npos) << log;
}

TEST(NcclRanks, SplitCommunicatorsSurviveANicThatIsCut) {
  const LogFiles log;
  const Job job{.ranks = 4, .fault = kCut, .settings = {log.setting(), "NCCL_DEBUG=INFO"}};
  RankProcesses ranks(job.ranks, program_of(job, [](const Rank& rank) {
                        ncclComm_t half = nullptr;
                        const int number = static_cast<int>(rank.number);
                        rank.nccl.must(rank.nccl.ncclCommSplit(rank.comm, number % 2, -number, &half, nullptr));
                        sum_for(rank.nccl, half, 1500ms);
                        sum_for(rank.nccl, rank.comm, 0ms);
                        end(rank.nccl, half);
                        end(rank.nccl, rank.comm);
                        rank.tell("exact");
                      }));
  for (std::uint32_t rank = 0; rank < job.ranks; ++rank) EXPECT_EQ(ranks.next_line(rank), "exact") << "rank " << rank;
  expect_repairs(log.text());
}

// No NIC has these addresses; a split meets at the NICs all the same.
TEST(NcclRanks, NcclCommIdMayBeAnyAddressOfRankZerosServer) {
  for (const char* host : {"127.99.0.1", "localhost", "[::1]"}) {
    const Job job{.settings = {"NCCL_DEBUG=VERSION"}, .host = host};
    RankProcesses ranks(
        job.ranks, program_of(job, [](const Rank& rank) {
          ncclComm_t turned = nullptr;
          rank.nccl.must(rank.nccl.ncclCommSplit(rank.comm, 0, -static_cast<int>(rank.number), &turned, nullptr));
          sum_for(rank.nccl, turned, 0ms);
          end(rank.nccl, turned);
          end(rank.nccl, rank.comm);
          rank.tell("exact");
        }));
    for (std::uint32_t rank = 0; rank < job.ranks; ++rank) EXPECT_EQ(ranks.next_line(rank), "exact") << host;
  }
}

TEST(NcclRanks, AShrunkCommunicatorSurvivesANicThatIsCut) {
  const LogFiles log;
  const Job job{.ranks = 4, .fault = kCut, .settings = {log.setting(), "NCCL_DEBUG=INFO"}};
  RankProcesses ranks(job.ranks, program_of(job, [](const Rank& rank) {
                        if (rank.number != 1) {
                          ncclComm_t rest = nullptr;
                          int gone = 1;
                          rank.nccl.must(rank.nccl.ncclCommShrink(rank.comm, &gone, 1, &rest, nullptr, 0));
                          sum_for(rank.nccl, rest, 1500ms);
                          end(rank.nccl, rest);
                        }
                        end(rank.nccl, rank.comm);
                        rank.tell("exact");
                      }));
  for (std::uint32_t rank = 0; rank < job.ranks; ++rank) EXPECT_EQ(ranks.next_line(rank), "exact") << "rank " << rank;
  expect_repairs(log.text());
}

// Ranks of one server may report the same loss in different turns, so how many maps lead to the one in use is not said.
std::string plan_of_a_call(const Rank& rank) {
  sum_once(rank);
  r2cclStats_t stats = R2CCL_STATS_INITIALIZER;
  rank.nccl.must(rank.nccl.r2cclCommStats(rank.comm, &stats));
  return fmt::format("{} for {}", stats.algorithm, stats.healthVersion == 0 ? "all NICs" : "what is left");
}

// The NICs of this rank's server that carry nothing, as "1 2".
std::string lost_nics(const Rank& rank) {
  int count = 0;
  rank.nccl.must(rank.nccl.r2cclCommNicCount(rank.comm, &count));
  std::string lost;
  for (int i = 0; i < count; ++i) {
    r2cclNicInfo_t info = R2CCL_NIC_INFO_INITIALIZER;
    rank.nccl.must(rank.nccl.r2cclCommNicInfo(rank.comm, i, &info));
    if (info.state == r2cclNicDown) lost += fmt::format("{}{}", lost.empty() ? "" : " ", info.id);
  }
  return lost;
}

// Waits a while until the idle NICs are these; returns what they are.
std::string lost_nics_at_last(const Rank& rank, const std::string& expected) {
  std::string lost = lost_nics(rank);
  for (const auto end = Clock::now() + 5s; lost != expected && Clock::now() < end;) lost = lost_nics(rank);
  return lost;
}

std::size_t count_of(const std::string& what, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

struct SeedMode {
  const char* number;
  const char* plan;  // of the first call and of the last
  const char* lost;  // of the NICs of rank 0's server
  bool at_once;      // before the first call
};

// With that variable alone: no R2CCL_FAULT, no R2CCL_SERVER, and nothing from a launcher.
TEST(NcclRanks, TheModesOfTheFirstR2cclLoseOneNicOfOneServer) {
  for (const SeedMode& mode :
       {SeedMode{"0", "ring for all NICs", "", false}, SeedMode{"1", "ring for all NICs", "1", false},
        SeedMode{"2", "balance for what is left", "1", true}, SeedMode{"3", "r2 for what is left", "1", true}}) {
    const LogFiles log;
    const Job job{.ranks = 6, .settings = {log.setting(), std::string("R2CC_MODE=") + mode.number}, .per_server = 2};
    RankProcesses ranks(job.ranks, program_of(job, [&](const Rank& rank) {
                          rank.tell(plan_of_a_call(rank));
                          const std::string first = mode.at_once ? mode.lost : "";
                          rank.tell("lost: " + (rank.number == 0 ? lost_nics_at_last(rank, first) : first));
                          sum_for(rank.nccl, rank.comm, 300ms);
                          rank.tell("lost: " + lost_nics_at_last(rank, rank.number < job.per_server ? mode.lost : ""));
                          rank.tell(plan_of_a_call(rank));
                          end(rank.nccl, rank.comm);
                          rank.tell("exact");
                        }));
    for (std::uint32_t rank = 0; rank < job.ranks; ++rank) {
      SCOPED_TRACE(fmt::format("R2CC_MODE={}, rank {}", mode.number, rank));
      EXPECT_EQ(ranks.next_line(rank), mode.plan);
      EXPECT_EQ(ranks.next_line(rank), std::string("lost: ") + (mode.at_once ? mode.lost : ""));
      EXPECT_EQ(ranks.next_line(rank), std::string("lost: ") + (rank < job.per_server ? mode.lost : ""));
      EXPECT_EQ(ranks.next_line(rank), mode.plan);
      EXPECT_EQ(ranks.next_line(rank), "exact");
    }
    EXPECT_EQ(count_of("R2CC_MODE=", log.text()), *mode.lost != 0 ? 1u : 0u) << log.text();
  }
}

// As with mpirun --map-by node: plans take every rank for a server, and the NIC is lost at two of them.
TEST(NcclRanks, RanksThatGoRoundTheServersKnowOfTheLostNicBeforeTheFirstCall) {
  const Job job{
      .ranks = 4, .settings = {"NCCL_DEBUG=VERSION", "R2CC_MODE=2"}, .per_server = 2, .nics = 3, .dealt = true};
  RankProcesses ranks(job.ranks, program_of(job, [&](const Rank& rank) {
                        rank.tell(plan_of_a_call(rank));
                        sum_for(rank.nccl, rank.comm, 100ms);
                        rank.tell("lost: " + lost_nics_at_last(rank, job.server_of(rank.number) == 0 ? "1" : ""));
                        rank.tell(plan_of_a_call(rank));
                        end(rank.nccl, rank.comm);
                      }));
  for (std::uint32_t rank = 0; rank < job.ranks; ++rank) {
    SCOPED_TRACE(fmt::format("rank {}", rank));
    EXPECT_EQ(ranks.next_line(rank), "balance for what is left");
    EXPECT_EQ(ranks.next_line(rank), job.server_of(rank) == 0 ? "lost: 1" : "lost: ");
    EXPECT_EQ(ranks.next_line(rank), "balance for what is left");
  }
}

TEST(NcclRanks, AModeOfTheFirstR2cclLosesNothingWhereAServerHasOneNic) {
  const LogFiles log;
  const Job job{.settings = {log.setting(), "R2CC_MODE=2"}, .nics = 1};
  RankProcesses ranks(job.ranks, program_of(job, [](const Rank& rank) {
                        sum_for(rank.nccl, rank.comm, 100ms);
                        rank.tell("lost: " + lost_nics(rank));
                        end(rank.nccl, rank.comm);
                      }));
  for (std::uint32_t rank = 0; rank < job.ranks; ++rank) EXPECT_EQ(ranks.next_line(rank), "lost: ");
  EXPECT_EQ(count_of("R2CC_MODE=2: no NIC is lost", log.text()), 1u) << log.text();
}

// Sums until another rank ends the communicator, or this one's process goes.
void sum_until_the_end(const Rank& rank) {
  try {
    for (;;) sum_for(rank.nccl, rank.comm, 0ms);
  } catch (const std::runtime_error&) {
  }
}

// For whichever rank: rank 0 leads the agreement, and its process hosts the control network.
TEST(NcclRanks, SurvivorsOfAKilledRankShrinkAndGoOn) {
  for (const std::uint32_t victim : {0u, 2u}) {
    const Job job{.ranks = 4, .settings = {"NCCL_DEBUG=VERSION"}};
    RankProcesses ranks(
        job.ranks, program_of(job, [victim](const Rank& rank) {
          sum_for(rank.nccl, rank.comm, 0ms);
          rank.tell("ready");
          sum_until_the_end(rank);
          ncclComm_t rest = nullptr;
          int gone = static_cast<int>(victim);
          rank.nccl.must(rank.nccl.ncclCommShrink(rank.comm, &gone, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
          rank.nccl.must(rank.nccl.ncclCommDestroy(rank.comm));
          sum_for(rank.nccl, rest, 100ms);
          end(rank.nccl, rest);
          rank.tell("exact");
        }));
    for (std::uint32_t rank = 0; rank < job.ranks; ++rank) ASSERT_EQ(ranks.next_line(rank), "ready") << "rank " << rank;
    ranks.kill(victim, SIGKILL);
    for (std::uint32_t rank = 0; rank < job.ranks; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(ranks.next_line(rank), "exact") << "rank " << rank << ", " << victim << " killed";
    }
  }
}

// The first of those that stay dies before it has told the others where to meet.
TEST(NcclRanks, AShrinkWhoseFirstRankIsGoneIsTheNamedError) {
  const Job job{.ranks = 3, .settings = {"NCCL_DEBUG=VERSION", "R2CCL_PEER_TIMEOUT=2s"}};
  RankProcesses ranks(
      job.ranks, program_of(job, [](const Rank& rank) {
        sum_for(rank.nccl, rank.comm, 0ms);
        rank.tell("ready");
        sum_until_the_end(rank);
        ncclComm_t rest = nullptr;
        int gone = 0;
        rank.nccl.must(rank.nccl.ncclCommShrink(rank.comm, &gone, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
      }));
  for (std::uint32_t rank = 0; rank < job.ranks; ++rank) ASSERT_EQ(ranks.next_line(rank), "ready") << "rank " << rank;
  for (const std::uint32_t victim : {1u, 0u}) ranks.kill(victim, SIGKILL);
  const std::string error = ranks.next_line(2);
  EXPECT_TRUE(error.starts_with(fmt::format("error: {}: Rank 1 ", int(ncclRemoteError)))) << error;
  EXPECT_NE(error.find("is gone"), std::string::npos) << error;
}

TEST(NcclRanks, ARevokedCommunicatorIsSplitAndShrunk) {
  const Job job{.ranks = 4, .settings = {"NCCL_DEBUG=VERSION"}};
  RankProcesses ranks(
      job.ranks, program_of(job, [](const Rank& rank) {
        const int number = static_cast<int>(rank.number);
        if (number == 0)
          sum_for(rank.nccl, rank.comm, 0ms);
        else
          sum_until_the_end(rank);
        rank.nccl.must(rank.nccl.ncclCommRevoke(rank.comm, NCCL_REVOKE_DEFAULT));
        ncclComm_t part = nullptr;
        for (int round = 0; round < 2; ++round) {
          const int color = number == 3 ? NCCL_SPLIT_NOCOLOR : number % 2;
          rank.nccl.must(rank.nccl.ncclCommSplit(rank.comm, color, -number, &part, nullptr));
          if (part == nullptr) continue;
          sum_for(rank.nccl, part, 10ms);
          end(rank.nccl, part);
        }
        int gone = 2;
        if (number != gone) {
          rank.nccl.must(rank.nccl.ncclCommShrink(rank.comm, &gone, 1, &part, nullptr, NCCL_SHRINK_DEFAULT));
          sum_for(rank.nccl, part, 10ms);
          end(rank.nccl, part);
        }
        rank.nccl.must(rank.nccl.ncclCommDestroy(rank.comm));
        rank.tell("exact");
      }));
  for (std::uint32_t rank = 0; rank < job.ranks; ++rank) EXPECT_EQ(ranks.next_line(rank), "exact") << "rank " << rank;
}

// Rank 1 never calls; it looks whether the communicator still works.
void wait_for_the_end(const Rank& rank) {
  ncclResult_t state = ncclSuccess;
  for (const auto end = Clock::now() + 10s; state == ncclSuccess && Clock::now() < end;)
    rank.nccl.must(rank.nccl.ncclCommGetAsyncError(rank.comm, &state));
  rank.tell(fmt::format("{} {}", int(state), rank.nccl.ncclGetLastError(rank.comm)));
}

// A collective on a stream that the other rank never joins.
cudaStream_t begin_alone(const Rank& rank, std::vector<float>& data) {
  cudaStream_t stream = nullptr;
  rank.nccl.must(rank.nccl.stream_create(&stream));
  rank.nccl.must(rank.nccl.ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, rank.comm, stream));
  return stream;
}

std::string ms_since(Clock::time_point begin) {
  return Clock::now() - begin < 2s ? "soon" : fmt::format("after {} ms", (Clock::now() - begin) / 1ms);
}

TEST(NcclRanks, AbortWithACollectivePendingEndsItHereAndThere) {
  const Job job{.settings = {"NCCL_DEBUG=VERSION"}};
  RankProcesses ranks(job.ranks, program_of(job, [](const Rank& rank) {
                        sum_for(rank.nccl, rank.comm, 0ms);  // both are there
                        if (rank.number == 1) return wait_for_the_end(rank);
                        std::vector<float> data(1'000'000);
                        const cudaStream_t stream = begin_alone(rank, data);
                        const auto begin = Clock::now();
                        rank.nccl.must(rank.nccl.ncclCommAbort(rank.comm));
                        const ncclResult_t waited = rank.nccl.stream_synchronize(stream);
                        rank.tell(ms_since(begin));
                        rank.tell(fmt::format("{} {}", int(waited), rank.nccl.ncclGetLastError(nullptr)));
                      }));
  EXPECT_EQ(ranks.next_line(0), "soon");
  EXPECT_EQ(ranks.next_line(0), fmt::format("{} rank 0 called ncclCommAbort", int(ncclInvalidUsage)));
  // The error comes when it asks, or already in the sum, which may end later here than there.
  EXPECT_THAT(ranks.next_line(1), AnyOf(fmt::format("{} rank 0 called ncclCommAbort", int(ncclRemoteError)),
                                        fmt::format("error: {}: rank 0 called ncclCommAbort", int(ncclRemoteError))));
}

// The handle is gone at once; when the process then goes, the other one hears who it was.
TEST(NcclRanks, DestroyWithACollectivePendingReturnsAtOnceAndExitIsNamed) {
  const Job job{.settings = {"NCCL_DEBUG=VERSION"}};
  RankProcesses ranks(job.ranks, program_of(job, [](const Rank& rank) {
                        sum_for(rank.nccl, rank.comm, 0ms);  // both are there
                        if (rank.number == 1) return wait_for_the_end(rank);
                        std::vector<float> data(1'000'000);
                        begin_alone(rank, data);
                        const auto begin = Clock::now();
                        rank.nccl.must(rank.nccl.ncclCommDestroy(rank.comm));
                        rank.tell(ms_since(begin));
                        std::exit(0);  // as main() would: the library may delay it, but not for long
                      }));
  EXPECT_EQ(ranks.next_line(0), "soon");
  const auto leaving = Clock::now();
  EXPECT_EQ(ranks.next_line(0), "") << "it says nothing more";
  EXPECT_LT(Clock::now() - leaving, 5s) << "exit may take two seconds";
  const std::string error = ranks.next_line(1);
  EXPECT_TRUE(error.starts_with(fmt::format("{} ", int(ncclRemoteError)))) << error;
  EXPECT_NE(error.find("rank 0"), std::string::npos) << error;
}

}  // namespace
}  // namespace r2ccl::loopback
