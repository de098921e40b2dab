#pragma once
// The figures of `r2ccl perf` and how they are shown: nccl-tests' columns, or JSON. Values only.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/perf/perf_collective.h"

namespace r2ccl::apps {

// How the times of a row's iterations spread, in microseconds. p99 is a time that was measured: the smallest that 99 %
// of them do not exceed.
struct Spread {
  double mean_us = 0, min_us = 0, p50_us = 0, p99_us = 0, max_us = 0;
};
Spread spread_of(std::vector<double> times_us);

// One size, type, operation and root, in one placement.
struct PerfRow {
  PerfCase one;             // at rank 0
  std::uint64_t bytes = 0;  // what counts for the speed
  Spread time;
  std::optional<std::uint64_t> wrong;  // elements, over all ranks and iterations; nothing: not checked
  std::string algorithm;
  std::uint64_t health_version = 0;
  double begun_ms = 0;  // its first iteration, after the start of measuring; faults count from there, too

  double algbw_gbs() const;  // bytes over time, in 10^9 bytes a second
  double busbw_gbs() const;
};

std::string perf_header();
// A row of the table: both placements, or only one where the collective has no other.
std::string perf_line(const PerfRow& out_of_place, const std::optional<PerfRow>& in_place);
// After the table: wrong values, bus bandwidth over all rows, the spread of the last ones.
std::string perf_summary(const std::vector<PerfRow>& rows);

Json to_json(const PerfRow& row);

}  // namespace r2ccl::apps
