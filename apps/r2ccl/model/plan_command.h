#pragma once
// What the planner would do: `r2ccl plan`.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_plan(Command& app, const Context& context);

}  // namespace r2ccl::apps
