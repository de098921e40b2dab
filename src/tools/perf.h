#pragma once
// Measures and checks collectives: `r2ccl perf`.

#include "tools/command.h"

namespace r2ccl::tools {

void add_perf(CLI::App& app, const Context& context, Action& chosen);

}  // namespace r2ccl::tools
