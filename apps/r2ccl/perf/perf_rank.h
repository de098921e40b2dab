#pragma once
// One rank of `r2ccl perf`: joins the others, measures and checks every row with them; rank 0 prints.

#include <string_view>
#include <vector>

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/perf/perf_options.h"
#include "process/launched_by.h"

namespace r2ccl::apps {

// kExitFailed when anything was wrong anywhere; the same on every rank. An error when the communicator failed.
Result<int> run_perf_rank(const PerfOptions& options, const Launched& launch, const Settings& settings,
                          Console& console);

}  // namespace r2ccl::apps
