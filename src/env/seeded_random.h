#pragma once
// Random numbers that a seed repeats: xoshiro256** started by splitmix64. For simulator and tests; never for secrets.

#include <array>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "env/env.h"

namespace r2ccl {

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      std::uint64_t mixed = seed;
      mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
      mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
      word = mixed ^ mixed >> 31;
    }
  }

  void fill(std::span<std::byte> out) override {
    while (!out.empty()) {
      const std::uint64_t word = draw();
      const std::size_t count = out.size() < sizeof word ? out.size() : sizeof word;
      std::memcpy(out.data(), &word, count);
      out = out.subspan(count);
    }
  }

  // 0 .. n-1; n must not be 0.
  std::uint64_t below(std::uint64_t n) {
    R2CCL_ASSERT(n != 0, "there is no number below 0");
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(draw()) * n >> 64);
  }
  // low .. high, both included.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    R2CCL_ASSERT(low <= high, "a range needs low <= high");
    return high - low == ~0ull ? draw() : low + below(high - low + 1);
  }
  Duration between(Duration low, Duration high) {
    R2CCL_ASSERT(low <= high, "a range needs low <= high");
    return low + Duration(static_cast<Duration::rep>(between(0, static_cast<std::uint64_t>((high - low).count()))));
  }
  // True with this probability.
  bool chance(double probability) { return static_cast<double>(draw() >> 11) * 0x1p-53 < probability; }

 private:
  std::uint64_t draw() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace r2ccl
