#pragma once
// What `r2ccl bench-link` concludes from its measurements, and how it says so. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "apps/r2ccl/common/console.h"
#include "apps/r2ccl/common/json.h"

namespace r2ccl::apps {

struct BenchLinkOptions {
  std::uint64_t paths = 4;
  std::uint64_t bytes = 1ull << 30;
  std::uint64_t message_bytes = 4ull << 20;
  std::uint64_t roundtrips = 20'000;
  std::uint64_t rounds = 5;
  bool json = false;
};

// What was measured. Bare sockets and ours take turns; lists have one entry for each turn.
struct BenchSamples {
  std::vector<double> bare_bytes_s, plain_bytes_s, checksum_bytes_s;
  std::vector<double> bare_trip_s, our_trip_s;  // one round trip
  std::vector<double> idle_cpu_percent;         // one per process

  // A line of a child: bytes with bare_s, plain_s, checksum_s; trips with bare_trip_s, our_trip_s; or idle_cpu_percent.
  void add(const Json& report);
};

struct BenchSummary {
  double bare_bytes_s = 0, plain_bytes_s = 0, checksum_bytes_s = 0;  // medians
  double bare_trip_s = 0, our_trip_s = 0;
  double throughput_ratio = 0, throughput_ratio_checksum = 0;  // medians of the ratios of each alternation
  double roundtrip_ratio = 0;
  double idle_cpu_percent = 0;  // of the busier process
};

double median(std::vector<double> values);  // 0 of none
BenchSummary summarize(const BenchSamples& samples);

std::string summary_json(const BenchSummary& summary);
std::string summary_text(const BenchSummary& summary, const BenchLinkOptions& options, const Console& console);

}  // namespace r2ccl::apps
