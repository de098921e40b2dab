#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/perf/perf_data.h"
#include "apps/r2ccl/perf/perf_options.h"
#include "apps/r2ccl/perf/perf_report.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/scalar.h"
#include "testing/test_console.h"

namespace r2ccl::apps {
namespace {

using testing::HasSubstr;

const PerfCollective& named(std::string_view name) {
  return *find_collective(name).value();
}

constexpr ReduceName kOps[] = {ReduceName::kSum, ReduceName::kProd, ReduceName::kMax,
                               ReduceName::kMin, ReduceName::kAvg,  ReduceName::kPreMulSum};

// ---- what is sent and expected ----------------------------------------------------------------------------------

std::uint64_t wrong_in(const PerfData& data, const std::vector<std::byte>& memory, std::uint64_t count) {
  return data.count_wrong(memory, {.reduced = true, .count = count});
}

std::vector<std::byte> input_of(const PerfData& data, DataType type, std::uint32_t rank, std::uint64_t count) {
  std::vector<std::byte> memory(count * size_of(type));
  data.fill(memory, rank);
  return memory;
}

// As a communicator does it, the ranks in the given order.
std::vector<std::byte> reduce_on_device(const PerfData& data, DataType type, ReduceName op,
                                        const std::vector<std::uint32_t>& order, std::uint64_t count) {
  const CpuDevice device;
  const auto ranks = static_cast<std::uint32_t>(order.size());
  const bool average = op == ReduceName::kAvg;
  std::vector<std::byte> result;
  for (const std::uint32_t rank : order) {
    std::vector<std::byte> input = input_of(data, type, rank, count);
    std::array<std::byte, 8> scalar{};
    if (average && is_float(type)) reciprocal(ranks, type, scalar);
    if (op == ReduceName::kPreMulSum) {
      const std::uint64_t bits = premul_scalar(type, ranks, rank);
      std::memcpy(scalar.data(), &bits, sizeof bits);
    }
    if ((average && is_float(type) && ranks > 1) || op == ReduceName::kPreMulSum)
      device.scale(input.data(), input.data(), count, type, scalar.data());
    const ReduceKind kind = op == ReduceName::kProd  ? ReduceKind::kProd
                            : op == ReduceName::kMax ? ReduceKind::kMax
                            : op == ReduceName::kMin ? ReduceKind::kMin
                                                     : ReduceKind::kSum;
    if (result.empty()) {
      result = input;
    } else {
      device.reduce(result.data(), result.data(), input.data(), count, type, kind);
    }
  }
  if (average && !is_float(type)) device.divide(result.data(), count, type, ranks);
  return result;
}

TEST(PerfData, ReductionsAreExactInEveryTypeAndOrder) {
  constexpr std::uint64_t kCount = 2 * kPeriod + 5;
  for (std::size_t number = 0; number < kDataTypes; ++number) {
    const auto type = static_cast<DataType>(number);
    for (const ReduceName op : kOps) {
      for (const std::uint32_t ranks : {1u, 2u, 3u, 4u, 7u, 12u, 33u}) {
        PerfData data(type, op, ranks);
        data.draw(ranks);
        std::vector<std::uint32_t> order(ranks);
        for (std::uint32_t i = 0; i < ranks; ++i) order[i] = i;
        for (int round = 0; round < 2; ++round) {
          EXPECT_EQ(wrong_in(data, reduce_on_device(data, type, op, order, kCount), kCount), 0u)
              << to_text(type) << " " << to_text(op) << " " << ranks << " ranks";
          std::ranges::reverse(order);
          if (ranks > 3) std::swap(order[0], order[2]);
        }
      }
    }
  }
}

TEST(PerfData, OneBitOfOneElementIsOneWrong) {
  constexpr std::uint64_t kCount = 3 * kPeriod;
  PerfData data(DataType::kFloat16, ReduceName::kSum, 2);
  data.draw(1);
  for (const std::uint64_t element : {std::uint64_t{0}, kPeriod - 1, kPeriod, kCount - 1}) {
    std::vector<std::byte> memory = input_of(data, DataType::kFloat16, 1, kCount);
    const Expected expected{.source = 1, .count = kCount};
    EXPECT_EQ(data.count_wrong(memory, expected), 0u);
    memory[element * 2] ^= std::byte{1};
    EXPECT_EQ(data.count_wrong(memory, expected), 1u) << element;
  }
}

TEST(PerfData, OtherRanksOperationsAndPlacesDiffer) {
  constexpr std::uint64_t kCount = 1000;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat8e5m2, DataType::kInt8}) {
    PerfData data(type, ReduceName::kSum, 4);
    data.draw(7);
    const std::vector<std::byte> memory = input_of(data, type, 2, kCount);
    EXPECT_EQ(data.count_wrong(memory, {.source = 2, .count = kCount}), 0u);
    EXPECT_GT(data.count_wrong(memory, {.source = 1, .count = kCount}), kCount / 4) << "another rank";
    EXPECT_GT(data.count_wrong(memory, {.source = 2, .from = 1, .count = kCount}), kCount / 4) << "another place";
    EXPECT_GT(data.count_wrong(memory, {.source = 2, .from = 4096, .count = kCount}), kCount / 4) << "another chunk";
    data.draw(8);
    EXPECT_GT(data.count_wrong(memory, {.source = 2, .count = kCount}), kCount / 4) << "another operation";
  }
}

TEST(PerfData, MemoryNobodyWroteIsAllWrong) {
  for (std::size_t number = 0; number < kDataTypes; ++number) {
    const auto type = static_cast<DataType>(number);
    PerfData data(type, ReduceName::kMax, 3);
    data.draw(1);
    const std::vector<std::byte> memory(100 * size_of(type), std::byte{0xee});
    EXPECT_EQ(wrong_in(data, memory, 100), 100u) << to_text(type);
  }
}

// ---- collectives ------------------------------------------------------------------------------------------------

TEST(PerfCollective, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(named("all_reduce"), 4), 1.5);
  for (const char* name : {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"})
    EXPECT_DOUBLE_EQ(bus_factor(named(name), 4), 0.75) << name;
  for (const char* name : {"broadcast", "reduce", "sendrecv"}) EXPECT_DOUBLE_EQ(bus_factor(named(name), 4), 1) << name;
  EXPECT_DOUBLE_EQ(bus_factor(named("all_reduce"), 1), 0);
}

TEST(PerfCollective, SizesCountTheLargerBufferInWholeBlocks) {
  EXPECT_EQ(count_for(named("all_reduce"), 1000, 4, 3), 250u);
  EXPECT_EQ(count_for(named("all_gather"), 1000, 4, 3), 83u);
  EXPECT_EQ(bytes_of(named("all_gather"), 83, 4, 3), 996u);
  EXPECT_EQ(count_for(named("scatter"), 8, 4, 3), 0u);
  EXPECT_EQ(bytes_of(named("sendrecv"), 10, 4, 3), 40u);
}

// All ranks in one memory: what the definition of each collective says arrives is what is expected, in place or not.
TEST(PerfCollective, WhatIsExpectedIsWhatTheCollectiveDelivers) {
  constexpr std::uint32_t kRanks = 3;
  constexpr std::uint64_t kCount = 2000;
  constexpr DataType kType = DataType::kInt32;
  PerfData data(kType, ReduceName::kSum, kRanks);
  data.draw(3);
  for (const PerfCollective& collective : perf_collectives()) {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      const PerfCase one{
          .collective = &collective, .count = kCount, .type = kType, .root = 1, .rank = rank, .ranks = kRanks};
      std::uint64_t output = 0;
      for (const Expected& expected : expected_of(one)) {
        output += expected.count;
        PerfCase source = one;
        source.rank = expected.source;
        if (!expected.reduced) {
          EXPECT_LE(expected.from + expected.count, source.input_count()) << collective.name;
        }
      }
      EXPECT_EQ(output, one.output_count()) << collective.name << " at " << rank;
      const InPlace place = in_place_of(one);
      EXPECT_LE(place.input + one.input_count(), place.memory) << collective.name;
      EXPECT_LE(place.output + one.output_count(), place.memory) << collective.name;
      for (const Call& call : calls_of(one, &data, &data))
        EXPECT_TRUE(validate(call, rank, kRanks)) << collective.name << " at " << rank;
    }
  }
}

TEST(PerfCollective, InPlaceIsTheOwnBlock) {
  const PerfCase gather{.collective = &named("all_gather"), .count = 10, .rank = 2, .ranks = 4};
  EXPECT_EQ(in_place_of(gather).input, 20u);
  EXPECT_EQ(in_place_of(gather).output, 0u);
  EXPECT_EQ(in_place_of(gather).memory, 40u);
  const PerfCase scatter{.collective = &named("reduce_scatter"), .count = 10, .rank = 2, .ranks = 4};
  EXPECT_EQ(in_place_of(scatter).input, 0u);
  EXPECT_EQ(in_place_of(scatter).output, 20u);
}

// ---- figures ----------------------------------------------------------------------------------------------------

TEST(PerfReport, SpreadIsOfTimesThatWere) {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i) times.push_back(i);
  const Spread spread = spread_of(times);
  EXPECT_DOUBLE_EQ(spread.mean_us, 50.5);
  EXPECT_EQ(spread.min_us, 1);
  EXPECT_EQ(spread.p50_us, 50);
  EXPECT_EQ(spread.p99_us, 99);
  EXPECT_EQ(spread.max_us, 100);
  EXPECT_EQ(spread_of({7}).p99_us, 7);
  EXPECT_EQ(spread_of({}).max_us, 0);
}

PerfRow row_of(std::string_view name, double time_us, bool in_place) {
  PerfRow row;
  row.one = {.collective = &named(name), .count = 250'000, .ranks = 4, .in_place = in_place};
  row.bytes = 1'000'000;
  row.time = spread_of({time_us});
  row.wrong = 0;
  row.algorithm = "ring";
  row.health_version = 2;
  return row;
}

TEST(PerfReport, BandwidthsAreThoseOfNcclTests) {
  const PerfRow row = row_of("all_reduce", 1000, false);
  EXPECT_DOUBLE_EQ(row.algbw_gbs(), 1.0);
  EXPECT_DOUBLE_EQ(row.busbw_gbs(), 1.5);
  EXPECT_EQ(perf_line(row, row_of("all_reduce", 12345.6, true)),
            "      1000000       250000    float     sum    -1    1000.0    1.00    1.50      0     12346    0.08    "
            "0.12      0\n");
  EXPECT_THAT(perf_line(row_of("sendrecv", 10, false), std::nullopt), HasSubstr("N/A     N/A     N/A    N/A\n"));
}

TEST(PerfReport, ColumnsStandUnderTheirTitles) {
  const std::string header = perf_header();
  const std::string line = perf_line(row_of("all_reduce", 1000, false), row_of("all_reduce", 1000, true));
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = header.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string title = header.substr(begin, end - begin);
    if (title.find("count") != std::string::npos) {
      EXPECT_EQ(title.size() + 1, line.size());
    }
  }
}

TEST(PerfReport, WrongValuesAreAddedUpAndSaid) {
  PerfRow bad = row_of("all_reduce", 1000, true);
  bad.wrong = 5;
  EXPECT_THAT(perf_summary({row_of("all_reduce", 1000, false), bad}), HasSubstr(": 5 FAILED"));
  EXPECT_THAT(perf_summary({row_of("all_reduce", 1000, false)}), HasSubstr(": 0 OK"));
  bad.wrong.reset();
  EXPECT_THAT(perf_summary({bad}), HasSubstr("not checked"));
  EXPECT_THAT(perf_summary({bad}), HasSubstr("algorithm ring, health version 2"));
}

TEST(PerfReport, JsonHasTheKeysThatScriptsRelyOn) {
  std::set<std::string> keys;
  const Json object = to_json(row_of("broadcast", 1000, false));
  for (const auto& [key, value] : object.items()) keys.insert(key);
  for (const char* key : {"collective", "bytes", "count", "type", "op", "root", "in_place", "time_us", "algbw_gbs",
                          "busbw_gbs", "wrong", "min_us", "p50_us", "p99_us", "max_us", "algorithm", "health_version"})
    EXPECT_TRUE(keys.contains(key)) << key;
  EXPECT_EQ(object["op"], "none");
  EXPECT_EQ(object["root"], 0);
}

// ---- the command line -------------------------------------------------------------------------------------------

PerfOptions options_of(const char* collective) {
  PerfOptions options;
  options.collective = collective;
  return options;
}

TEST(PerfOptions, SizesGoUpByFactorOrStep) {
  PerfOptions options = options_of("all_reduce");
  EXPECT_EQ(work_of(options, 2)->sizes.front(), 8192u);
  EXPECT_EQ(work_of(options, 2)->sizes.back(), 64u << 20);
  options.min_bytes = 1u << 30;
  EXPECT_EQ(work_of(options, 2)->sizes, std::vector<std::uint64_t>{1u << 30});
  options.min_bytes = 10;
  options.max_bytes = 35;
  options.step_bytes = 10;
  EXPECT_EQ(work_of(options, 2)->sizes, (std::vector<std::uint64_t>{10, 20, 30}));
  options.min_bytes = 0;
  options.max_bytes = 0;
  options.step_bytes.reset();
  EXPECT_EQ(work_of(options, 2)->sizes, std::vector<std::uint64_t>{0});
}

TEST(PerfOptions, AllMeansEveryOne) {
  PerfOptions options = options_of("reduce");
  options.type = options.op = options.root = "all";
  const PerfWork work = work_of(options, 3).value();
  EXPECT_EQ(work.types.size(), kDataTypes);
  EXPECT_EQ(work.ops.size(), 6u);
  EXPECT_EQ(work.roots, (std::vector<std::uint32_t>{0, 1, 2}));
  options.collective = "all_gather";
  EXPECT_EQ(work_of(options, 3)->ops.size(), 1u) << "nothing is reduced";
  EXPECT_EQ(work_of(options, 3)->roots.size(), 1u) << "there is no root";
}

std::string complaint(const std::vector<std::string>& line, const std::vector<std::string_view>& environment = {}) {
  TestConsole console;
  EXPECT_EQ(run_command_line(line, {console, environment}), kExitUsage);
  EXPECT_EQ(std::ranges::count(console.err_text, '\n'), 1) << console.err_text;
  EXPECT_EQ(console.out_text, "");
  return console.err_text;
}

TEST(PerfOptions, BadInputIsOneSentence) {
  EXPECT_THAT(complaint({"perf", "all_reuce"}), HasSubstr("there is no collective 'all_reuce'; there are all_reduce"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "-d", "quad"}), HasSubstr("there is no type 'quad'"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "-o", "xor"}), HasSubstr("there is no operation 'xor'"));
  EXPECT_THAT(complaint({"perf", "reduce", "-r", "2", "--servers", "2"}), HasSubstr("'2' is not one of the 2 ranks"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "-b", "8", "-e", "4"}), HasSubstr("-e 4 is less than -b 8"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "-b", "8", "-e", "1G", "-i", "1"}), HasSubstr("sizes are asked for"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "-f", "2", "-i", "8"}), HasSubstr("excludes"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "-f", "1"}), HasSubstr("is not from 2 to"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "-b", "8Q"}), HasSubstr("8Q"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "--algo", "magic"}), HasSubstr("there is no algorithm 'magic'"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "--fault", "at=1s"}), HasSubstr("at=1s"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "--fault", "at=1s server=2 nic=0 kind=down"}),
              HasSubstr("there are 2 servers with 2 NICs"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "--fabric", "torus"}), HasSubstr("torus"));
  EXPECT_THAT(complaint({"perf"}), HasSubstr("collective"));
  EXPECT_THAT(complaint({"perf", "all_reduce"}, {"RANK=1"}), HasSubstr("RANK is set but WORLD_SIZE is not"));
  EXPECT_THAT(complaint({"perf", "all_reduce", "--nics", "2"}, {"RANK=0", "WORLD_SIZE=1"}),
              HasSubstr("torchrun started this rank"));
  EXPECT_THAT(complaint({"run", "--servers", "2"}), HasSubstr("program"));
  EXPECT_THAT(complaint({"run", "--servers", "0", "--", "true"}), HasSubstr("--servers"));
  EXPECT_THAT(complaint({"run", "--fault", "x", "--", "true"}), HasSubstr("x"));
}

}  // namespace
}  // namespace r2ccl::apps
