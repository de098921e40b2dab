#include "apps/r2ccl/perf/perf_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace r2ccl::apps {
namespace {

// Nothing reduced and no root are written as nccl-tests does.
std::string op_text(const PerfCase& one) {
  return one.collective->reduces ? std::string(to_text(one.op.name)) : "none";
}
std::int64_t root_number(const PerfCase& one) {
  return one.collective->has_root ? static_cast<std::int64_t>(one.root) : -1;
}

// Always four digits or so.
std::string figure(double value) {
  if (value >= 9999.5) return fmt::format("{:.0f}", value);
  if (value >= 99.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

std::string placement(const PerfRow& row) {
  return fmt::format(" {:>9} {:>7} {:>7} {:>6}", figure(row.time.mean_us), figure(row.algbw_gbs()),
                     figure(row.busbw_gbs()), row.wrong ? fmt::format("{}", *row.wrong) : "N/A");
}

std::string spread_line(const PerfRow& row) {
  return fmt::format("# {} bytes {}: min {} us, p50 {} us, p99 {} us, max {} us; algorithm {}, health version {}\n",
                     row.bytes, row.one.in_place ? "in place" : "out of place", figure(row.time.min_us),
                     figure(row.time.p50_us), figure(row.time.p99_us), figure(row.time.max_us), row.algorithm,
                     row.health_version);
}

}  // namespace

Spread spread_of(std::vector<double> times_us) {
  if (times_us.empty()) return {};
  std::ranges::sort(times_us);
  const auto quantile = [&](double share) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(times_us.size())));
    return times_us[std::max<std::size_t>(rank, 1) - 1];
  };
  return {.mean_us = std::accumulate(times_us.begin(), times_us.end(), 0.0) / static_cast<double>(times_us.size()),
          .min_us = times_us.front(),
          .p50_us = quantile(0.5),
          .p99_us = quantile(0.99),
          .max_us = times_us.back()};
}

double PerfRow::algbw_gbs() const {
  return time.mean_us > 0 ? static_cast<double>(bytes) / time.mean_us / 1e3 : 0;
}

double PerfRow::busbw_gbs() const {
  return algbw_gbs() * bus_factor(*one.collective, one.ranks);
}

std::string perf_header() {
  constexpr std::string_view kRow = "# {:>11} {:>12} {:>8} {:>7} {:>5}{}{}\n";
  const std::string columns = fmt::format(" {:>9} {:>7} {:>7} {:>6}", "time", "algbw", "busbw", "#wrong");
  const std::string units = fmt::format(" {:>9} {:>7} {:>7} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  return fmt::format("# {:>47}{:^33}{:^33}\n", "", "out-of-place", "in-place") +
         fmt::format(fmt::runtime(kRow), "size", "count", "type", "redop", "root", columns, columns) +
         fmt::format(fmt::runtime(kRow), "(B)", "(elements)", "", "", "", units, units);
}

std::string perf_line(const PerfRow& out_of_place, const std::optional<PerfRow>& in_place) {
  const PerfCase& one = out_of_place.one;
  const std::string second =
      in_place ? placement(*in_place) : fmt::format(" {:>9} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A");
  return fmt::format("  {:>11} {:>12} {:>8} {:>7} {:>5}{}{}\n", out_of_place.bytes, one.count, to_text(one.type),
                     op_text(one), root_number(one), placement(out_of_place), second);
}

std::string perf_summary(const std::vector<PerfRow>& rows) {
  std::uint64_t wrong = 0;
  bool checked = false;
  double busbw = 0;
  for (const PerfRow& row : rows) {
    wrong += row.wrong.value_or(0);
    checked |= row.wrong.has_value();
    busbw += row.busbw_gbs();
  }
  std::string text;
  const std::size_t last = std::min<std::size_t>(rows.size(), !rows.empty() && rows.back().one.in_place ? 2 : 1);
  for (std::size_t i = rows.size() - last; i < rows.size(); ++i) text += spread_line(rows[i]);
  text += checked ? fmt::format("# Wrong values        : {} {}\n", wrong, wrong == 0 ? "OK" : "FAILED")
                  : "# Wrong values        : not checked\n";
  text += fmt::format("# Avg bus bandwidth   : {:.6g}\n", rows.empty() ? 0 : busbw / static_cast<double>(rows.size()));
  return text;
}

Json to_json(const PerfRow& row) {
  return {{"collective", row.one.collective->name},
          {"bytes", row.bytes},
          {"count", row.one.count},
          {"type", to_text(row.one.type)},
          {"op", op_text(row.one)},
          {"root", root_number(row.one)},
          {"in_place", row.one.in_place},
          {"time_us", row.time.mean_us},
          {"algbw_gbs", row.algbw_gbs()},
          {"busbw_gbs", row.busbw_gbs()},
          {"wrong", row.wrong ? Json(*row.wrong) : Json()},
          {"min_us", row.time.min_us},
          {"p50_us", row.time.p50_us},
          {"p99_us", row.time.p99_us},
          {"max_us", row.time.max_us},
          {"algorithm", row.algorithm},
          {"health_version", row.health_version},
          {"begun_ms", row.begun_ms}};
}

}  // namespace r2ccl::apps
