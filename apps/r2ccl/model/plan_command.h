#pragma once
// `r2ccl plan`: what the planner would do on a cluster, and how long it would take.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_plan(Command& app, const Context& context);

}  // namespace r2ccl::apps
