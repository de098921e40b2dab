#pragma once
// The only source of chance in a simulated run, and the running hash that proves two runs were the same.

#include <bit>
#include <cmath>
#include <cstring>

#include "env/env.h"

namespace r2ccl::sim {

inline std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

class SimRandom final : public Random {
 public:
  explicit SimRandom(std::uint64_t seed) : state_(mix64(seed ^ 0x72326363)) {}

  void fill(std::span<std::byte> out) override {
    while (!out.empty()) {
      const std::uint64_t value = draw();
      const std::size_t part = out.size() < 8 ? out.size() : 8;
      std::memcpy(out.data(), &value, part);
      out = out.subspan(part);
    }
  }
  std::uint64_t draw() {
    state_ += 0x9e3779b97f4a7c15ULL;
    return mix64(state_);
  }
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : draw() % limit; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + below(high - low + 1);
  }  // both inclusive
  Duration between(Duration low, Duration high) {
    return Duration(between(static_cast<std::uint64_t>(low.count()), static_cast<std::uint64_t>(high.count())));
  }
  // Every order of magnitude is as likely as any other.
  std::uint64_t log_uniform(double low, double high) {
    return static_cast<std::uint64_t>(low * std::pow(high / low, static_cast<double>(draw() >> 11) * 0x1p-53));
  }
  bool chance(double probability) { return static_cast<double>(draw() >> 11) * 0x1p-53 < probability; }
  SimRandom fork() { return SimRandom(draw()); }

 private:
  std::uint64_t state_;
};

// A running hash. Order matters: the same values in another order give another digest.
class Digest {
 public:
  void add(std::uint64_t value) { value_ = mix64(std::rotl(value_, 17) ^ value); }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace r2ccl::sim
