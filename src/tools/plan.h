#pragma once
// What the planner would do: `r2ccl plan`.

#include "tools/command.h"

namespace r2ccl::tools {

void add_plan(CLI::App& app, const Context& context, Action& chosen);

}  // namespace r2ccl::tools
