#pragma once
// Our figures beside the papers': `r2ccl sim papers`.

#include "tools/command.h"

namespace r2ccl::tools {

void add_sim_papers(CLI::App& sim, const Context& context, Action& chosen);

}  // namespace r2ccl::tools
