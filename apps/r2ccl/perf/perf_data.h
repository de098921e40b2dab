#pragma once
// What the ranks of `r2ccl perf` send and must receive. All values are whole numbers so small that every type holds
// them, and every partial result in any order, exactly: a right result has the right bits.
//
// Each rank's data repeats after kPeriod elements, so that filling and checking cost only what copying and comparing
// do. What is repeated is drawn anew for every operation, and the period is a prime, of which no chunk, piece or block
// is a multiple: so data from another rank, operation or place differs.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/r2ccl/perf/perf_collective.h"
#include "comm/call.h"
#include "device/data_type.h"

namespace r2ccl::apps {

inline constexpr std::uint64_t kPeriod = 4093;

// The scalar of premulsum at a rank: one element of the type.
std::uint64_t premul_scalar(DataType type, std::uint32_t ranks, std::uint32_t rank);

class PerfData final {
 public:
  PerfData(DataType type, ReduceName op, std::uint32_t ranks);

  // Draws everything for one operation; the same on all ranks.
  void draw(std::uint64_t operation);

  // What `rank` sends, from its element `from` on. The memory holds whole elements.
  void fill(std::span<std::byte> memory, std::uint32_t rank, std::uint64_t from = 0) const;
  // How many elements are not what they must be, bit by bit.
  std::uint64_t count_wrong(std::span<const std::byte> memory, const Expected& expected) const;

  // For tests: the numbers behind the bits.
  double sent(std::uint32_t rank, std::uint64_t element) const { return sent_[rank][element % kPeriod]; }
  double reduced(std::uint64_t element) const;

 private:
  using Bits = std::vector<std::byte>;  // of one period
  double draw_one(std::uint64_t random, std::uint32_t rank, std::uint64_t element) const;
  Bits encode(std::span<const double> values) const;

  const DataType type_;
  const ReduceName op_;
  const std::uint32_t ranks_;
  std::vector<double> averages_;  // kAvg of floats: what divides well
  std::vector<std::vector<double>> sent_;
  std::vector<Bits> sent_bits_;
  Bits reduced_bits_;
};

}  // namespace r2ccl::apps
