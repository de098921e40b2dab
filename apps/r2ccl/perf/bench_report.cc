#include "apps/r2ccl/perf/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/common/table.h"
#include "base/units.h"

namespace r2ccl::apps {
namespace {

constexpr double kThroughputRatioMin = 0.9;
constexpr double kRoundtripRatioMax = 1.5;
constexpr double kIdleCpuPercentMax = 2;

// How fast the machine is changes with time, so measurements that follow each other are compared first.
double median_ratio(const std::vector<double>& ours, const std::vector<double>& bare) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(ours.size(), bare.size()); ++i) ratios.push_back(ours[i] / bare[i]);
  return median(ratios);
}

std::string gigabytes(double bytes_s) {
  return fmt::format("{:.2f} GB/s", bytes_s / 1e9);
}

std::string microseconds(double seconds) {
  return fmt::format("{:.1f} us", seconds * 1e6);
}

Cell judged(std::string text, bool good) {
  return {std::move(text), good ? Colour::kGreen : Colour::kRed};
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void BenchSamples::add(const Json& report) {
  if (report.contains("bytes")) {
    const double bytes = report.at("bytes");
    bare_bytes_s.push_back(bytes / report.at("bare_s").get<double>());
    plain_bytes_s.push_back(bytes / report.at("plain_s").get<double>());
    checksum_bytes_s.push_back(bytes / report.at("checksum_s").get<double>());
  } else if (report.contains("trips")) {
    const double trips = report.at("trips");
    bare_trip_s.push_back(report.at("bare_trip_s").get<double>() / trips);
    our_trip_s.push_back(report.at("our_trip_s").get<double>() / trips);
  } else {
    idle_cpu_percent.push_back(report.at("idle_cpu_percent"));
  }
}

BenchSummary summarize(const BenchSamples& samples) {
  BenchSummary summary;
  summary.bare_bytes_s = median(samples.bare_bytes_s);
  summary.plain_bytes_s = median(samples.plain_bytes_s);
  summary.checksum_bytes_s = median(samples.checksum_bytes_s);
  summary.bare_trip_s = median(samples.bare_trip_s);
  summary.our_trip_s = median(samples.our_trip_s);
  summary.throughput_ratio = median_ratio(samples.plain_bytes_s, samples.bare_bytes_s);
  summary.throughput_ratio_checksum = median_ratio(samples.checksum_bytes_s, samples.bare_bytes_s);
  summary.roundtrip_ratio = median_ratio(samples.our_trip_s, samples.bare_trip_s);
  if (!samples.idle_cpu_percent.empty()) summary.idle_cpu_percent = std::ranges::max(samples.idle_cpu_percent);
  return summary;
}

std::string summary_json(const BenchSummary& summary) {
  return json_text(Json{{"throughput_ratio", summary.throughput_ratio},
                        {"throughput_ratio_checksum", summary.throughput_ratio_checksum},
                        {"roundtrip_ratio", summary.roundtrip_ratio},
                        {"idle_cpu_percent", summary.idle_cpu_percent},
                        {"bare_bytes_s", summary.bare_bytes_s},
                        {"bytes_s", summary.plain_bytes_s},
                        {"bytes_s_checksum", summary.checksum_bytes_s},
                        {"bare_roundtrip_us", summary.bare_trip_s * 1e6},
                        {"roundtrip_us", summary.our_trip_s * 1e6}}) +
         "\n";
}

std::string summary_text(const BenchSummary& summary, const BenchLinkOptions& options, const Console& console) {
  Table table({{"measured"},
               {"bare sockets", Align::kRight},
               {"R²CCL", Align::kRight},
               {"ratio", Align::kRight},
               {"aim", Align::kRight}});
  table.add({"throughput, checksum off", gigabytes(summary.bare_bytes_s), gigabytes(summary.plain_bytes_s),
             judged(fmt::format("{:.2f}", summary.throughput_ratio), summary.throughput_ratio >= kThroughputRatioMin),
             fmt::format(">= {}", kThroughputRatioMin)});
  table.add({"throughput, checksum on", gigabytes(summary.bare_bytes_s), gigabytes(summary.checksum_bytes_s),
             fmt::format("{:.2f}", summary.throughput_ratio_checksum)});
  table.add({"8-byte round trip", microseconds(summary.bare_trip_s), microseconds(summary.our_trip_s),
             judged(fmt::format("{:.2f}", summary.roundtrip_ratio), summary.roundtrip_ratio <= kRoundtripRatioMax),
             fmt::format("<= {}", kRoundtripRatioMax)});
  table.add({"processor while idle", "",
             judged(fmt::format("{:.2f} %", summary.idle_cpu_percent), summary.idle_cpu_percent < kIdleCpuPercentMax),
             "", fmt::format("< {} %", kIdleCpuPercentMax)});
  return fmt::format("{} paths on loopback, messages of {}, two processes; medians of {} alternations\n\n{}",
                     options.paths, bytes_text(options.message_bytes), options.rounds, table.text(console));
}

}  // namespace r2ccl::apps
