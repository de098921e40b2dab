#pragma once
// One rank of the demo: a process that runs one AllReduce after the other with the other ranks, and checks every
// element.

#include "apps/r2ccl/common/child.h"
#include "apps/r2ccl/demo/demo_plan.h"
#include "base/result.h"
#include "env/settings.h"

namespace r2ccl::apps {

// The body of a child; in a lab it moves into its server first. Says {"ready"}, waits for {"go": instant}, reports
// (demo_report.h), and some time after {"stop"}, with all other ranks, ends and says {"totals"}. An error when
// something is not as it should be. On loopback the faults' times count from `start`; in a lab they are not its
// business.
Status run_demo_rank(const DemoPlan& plan, std::uint32_t rank, Instant start, const Settings& settings,
                     LineChannel& parent);

}  // namespace r2ccl::apps
