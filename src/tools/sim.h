#pragma once
// The cluster model: `r2ccl sim`, `r2ccl sim sweep`, `r2ccl sim papers`.

#include "tools/command.h"

namespace r2ccl::tools {

void add_sim(CLI::App& app, const Context& context, Action& chosen);

}  // namespace r2ccl::tools
