#pragma once
// One rank of `r2ccl soak`: joins the others and runs what the plan draws until its time is over; rank 0 tells.

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/soak/soak_plan.h"
#include "env/settings.h"
#include "process/launched_by.h"

namespace r2ccl::apps {

struct SoakFigures {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;    // of the larger buffer of each, as perf counts
  std::uint64_t faults = 0;   // that began
  std::uint64_t wrong = 0;    // elements, over all ranks
  double worst_stall_ms = 0;  // the longest that a collective of any rank waited for its next chunk
  // By how much the most of the second half exceeds the most of the first, at the rank where that is most.
  std::uint64_t rss_growth_bytes = 0;
  std::uint64_t fd_growth = 0;  // of open files, counted in the same way
  double seconds = 0;
};

// Every rank gets the figures of all ranks. An error when the communicator failed.
Result<SoakFigures> run_soak_rank(const SoakPlan& plan, const Launched& launch, const Settings& settings,
                                  Console& console);

}  // namespace r2ccl::apps
