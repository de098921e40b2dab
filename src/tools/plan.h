#pragma once
// What the planner would do: `r2ccl plan`.

#include "tools/command.h"

namespace r2ccl::tools {

void add_plan(Command& app, const Context& context);

}  // namespace r2ccl::tools
