#pragma once
// The same loop for everybody: float sum AllReduce in place, sizes by fours and the last, back to back; rank 0 prints one line a size,
// "bytes microseconds", the best of some rounds' mean: a few rounds, and for small messages so many that 0.4 s are
// measured, because connections need a while to get into step. ROUNDS in the environment: so many instead.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace peers {

constexpr std::chrono::milliseconds kLeast{400};

struct Sizes {
  std::size_t first = 8;
  std::size_t last = 256 << 20;
};

inline Sizes sizes_of(int argc, char** argv) {
  Sizes sizes;
  if (argc > 1) sizes.first = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) sizes.last = std::strtoull(argv[2], nullptr, 10);
  return sizes;
}

// `all_reduce(data, count)` sums in place over all ranks.
inline void measure(const Sizes& sizes, int rank, const std::function<void(float*, std::size_t)>& all_reduce) {
  using Clock = std::chrono::steady_clock;
  std::vector<float> data(sizes.last / sizeof(float), 0.0F);
  std::vector<std::size_t> ladder;
  for (std::size_t bytes = sizes.first; bytes < sizes.last; bytes *= 4) ladder.push_back(bytes);
  ladder.push_back(sizes.last);
  for (const std::size_t bytes : ladder) {
    const std::size_t count = bytes / sizeof(float);
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
    if (rank == 0) {
      std::printf("%zu %.2f\n", bytes, best);
      std::fflush(stdout);
    }
  }
}

}  // namespace peers
