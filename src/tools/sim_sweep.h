#pragma once
// auto against the bound over random failures: `r2ccl sim sweep`. And samples as JSON.

#include <nlohmann/json.hpp>
#include <vector>

#include "sim/cluster/sweep.h"
#include "tools/command.h"

namespace r2ccl::tools {

void add_sim_sweep(CLI::App& sim, const Context& context, Action& chosen);

nlohmann::ordered_json samples_json(const std::vector<sim::Sample>& samples);
nlohmann::ordered_json summary_json(const sim::Summary& summary);

}  // namespace r2ccl::tools
