#pragma once
// The same loop for everybody: float sum AllReduce of so many bytes in place, back to back; rank 0 prints "bytes
// microseconds", the best of some rounds' mean: a few rounds, and for small messages so many that 0.4 s are measured,
// because connections need a while to get into step. ROUNDS in the environment: so many instead.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace peers {

constexpr std::chrono::milliseconds kLeast{400};

inline std::size_t bytes_of(int argc, char** argv) {
  return argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 8;
}

// `all_reduce(data, count)` sums in place over all ranks.
inline void measure(std::size_t bytes, int rank, const std::function<void(float*, std::size_t)>& all_reduce) {
  using Clock = std::chrono::steady_clock;
  const std::size_t count = bytes / sizeof(float);
  std::vector<float> data(count, 0.0F);
  const int per_round = static_cast<int>(std::clamp<std::size_t>((16 << 20) / bytes, 2, 200));
  const char* const set = std::getenv("ROUNDS");
  const int rounds = set != nullptr ? std::atoi(set) : bytes >= (32 << 20) ? 3 : 5;
  const auto start = Clock::now();
  // The first rank's clock counts for all of them: the sum tells whether it wants to go on.
  const auto go_on = [&](int round) {
    data[0] = rank == 0 && (round < rounds || (set == nullptr && Clock::now() < start + kLeast)) ? 1.0F : 0.0F;
    all_reduce(data.data(), count);
    return data[0] != 0;
  };
  double best = 1e30;
  for (int round = 0; go_on(round); ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < per_round; ++i) all_reduce(data.data(), count);
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / per_round);
  }
  if (rank == 0) std::printf("%zu %.2f\n", bytes, best);
}

}  // namespace peers
