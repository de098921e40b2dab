#pragma once
// A queue of numbers by time, for a clock that only moves on. Time is cut into grains; numbers come out grain by grain,
// and inside a grain in the order in which they went in. It is a ring of buckets, one for each grain, so adding and
// taking cost the same however many numbers there are.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace r2ccl::sim {

class Calendar final {
 public:
  // Numbers are below `count`, each at most once in the calendar.
  Calendar(std::size_t count, double grain_s)
      : grains_per_s_(1 / grain_s), next_(count, kNone), buckets_(kBuckets), used_(kBuckets / 64) {}

  void add(std::uint32_t number, double time_s) {
    const auto ahead = static_cast<std::int64_t>(std::min(time_s * grains_per_s_ - now_grains_, kBuckets - 1.0));
    const std::uint64_t grain = now_ + static_cast<std::uint64_t>(std::max<std::int64_t>(ahead, 0));
    const std::size_t at = grain % kBuckets;
    Bucket& bucket = buckets_[at];
    next_[number] = kNone;
    (bucket.first == kNone ? bucket.first : next_[bucket.last]) = number;
    bucket.last = number;
    used_[at / 64] |= std::uint64_t{1} << (at % 64);
    ++size_;
  }

  // UINT32_MAX: empty. A number whose time is further ahead than the ring is long comes too early; later() says so, and
  // the caller adds it again.
  std::uint32_t take() {
    if (size_ == 0) return kNone;
    std::uint64_t in_word = now_ % 64;
    std::uint64_t word = used_[now_ % kBuckets / 64] >> in_word;
    while (word == 0) {
      now_ += 64 - in_word;
      in_word = 0;
      word = used_[now_ % kBuckets / 64];
    }
    now_ += static_cast<std::uint64_t>(std::countr_zero(word));
    now_grains_ = static_cast<double>(static_cast<std::int64_t>(now_));
    const std::size_t at = now_ % kBuckets;
    const std::uint32_t number = buckets_[at].first;
    buckets_[at].first = next_[number];
    if (buckets_[at].first == kNone) used_[at / 64] &= ~(std::uint64_t{1} << (at % 64));
    --size_;
    return number;
  }

  // The time lies after the grain of what was taken last.
  bool later(double time_s) const { return time_s * grains_per_s_ >= now_grains_ + 1; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::uint64_t kBuckets = 1 << 14;
  struct Bucket {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
  };

  double grains_per_s_;
  std::uint64_t now_ = 0;  // grain
  double now_grains_ = 0;  // the same; conversions would be a twentieth of the time
  std::size_t size_ = 0;
  std::vector<std::uint32_t> next_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint64_t> used_;  // a bit per bucket
};

}  // namespace r2ccl::sim
