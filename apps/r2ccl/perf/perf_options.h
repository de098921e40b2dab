#pragma once
// The command line of `r2ccl perf`: nccl-tests' flags and some of our own. Values only.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/perf/perf_collective.h"
#include "apps/r2ccl/run/run_plan.h"
#include "base/result.h"
#include "device/data_type.h"

namespace r2ccl::apps {

struct PerfOptions {
  std::string collective;
  std::uint64_t min_bytes = 8 * 1024;
  std::optional<std::uint64_t> max_bytes;  // 64M, or min_bytes where that is more
  std::uint64_t factor = 2;
  std::optional<std::uint64_t> step_bytes;  // in place of the factor
  std::uint64_t iterations = 20;
  std::uint64_t warmups = 5;
  std::string type = "float";
  std::string op = "sum";
  std::string root = "0";
  std::uint64_t check = 1;
  std::uint64_t blocking = 1;       // -z, taken as nccl-tests does; every call is waited for anyway
  std::optional<std::string> json;  // a file; empty: stdout, in place of the table
  std::string algorithm;
  RunPlan run;  // of the ranks it starts itself
};

void add_perf_options(Command& command, PerfOptions& options);

// What the options ask for, on so many ranks.
struct PerfWork {
  const PerfCollective* collective = nullptr;
  std::vector<std::uint64_t> sizes;
  std::vector<DataType> types;
  std::vector<ReduceName> ops;       // one, without meaning, where nothing is reduced
  std::vector<std::uint32_t> roots;  // likewise
};
// kMisuse with one sentence.
Result<PerfWork> work_of(const PerfOptions& options, std::uint32_t ranks);

}  // namespace r2ccl::apps
