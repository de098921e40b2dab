// Four ranks in one process sum a vector each, twice: once waiting in the call, once on host streams.
//
//   g++ -std=c++17 -Iinclude examples/allreduce.cc -Lbuild/lib -lr2ccl -Wl,-rpath,$PWD/build/lib -o allreduce
//   ./allreduce

#include <r2ccl.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result), ncclGetLastError(nullptr));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

constexpr int kRanks = 4;
constexpr std::size_t kCount = 1 << 20;

struct Rank {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<float> data = std::vector<float>(kCount, 1.0F);
};

void sum(std::vector<Rank>& ranks, bool on_streams) {
  CHECK(ncclGroupStart());  // one thread holds all ranks: they have to begin together
  for (Rank& rank : ranks) {
    CHECK(ncclAllReduce(rank.data.data(), rank.data.data(), kCount, ncclFloat, ncclSum, rank.comm,
                        on_streams ? rank.stream : nullptr));
  }
  CHECK(ncclGroupEnd());
}

}  // namespace

int main() {
  std::vector<Rank> ranks(kRanks);
  ncclComm_t comms[kRanks];
  CHECK(ncclCommInitAll(comms, kRanks, nullptr));
  for (int i = 0; i < kRanks; ++i) {
    ranks[i].comm = comms[i];
    CHECK(r2cclStreamCreate(&ranks[i].stream));
  }
  sum(ranks, false);
  sum(ranks, true);  // returns at once
  for (Rank& rank : ranks) CHECK(r2cclStreamSynchronize(rank.stream));

  for (const Rank& rank : ranks) {
    for (const float value : rank.data) {
      if (value != kRanks * kRanks) return std::printf("wrong: %g\n", value), 1;
    }
  }
  r2cclStats_t stats = R2CCL_STATS_INITIALIZER;
  CHECK(r2cclCommStats(comms[0], &stats));
  std::printf("%d ranks, %zu floats: right, by %s\n", kRanks, kCount, stats.algorithm);
  for (const Rank& rank : ranks) {
    CHECK(r2cclStreamDestroy(rank.stream));
    CHECK(ncclCommDestroy(rank.comm));
  }
}
