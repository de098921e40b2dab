#pragma once
// `r2ccl sim sweep`: auto against the bound over random failures. Its samples as JSON serve `r2ccl sim` too.

#include <vector>

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/common/json.h"
#include "sim/study/sweep.h"

namespace r2ccl::apps {

void add_sim_sweep(Command& sim, const Context& context);

Json samples_json(const std::vector<sim::Sample>& samples);
Json summary_json(const sim::Summary& summary);

}  // namespace r2ccl::apps
