#pragma once
// The cluster model: `r2ccl sim`, `r2ccl sim sweep`, `r2ccl sim papers`.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_sim(Command& app, const Context& context);

}  // namespace r2ccl::apps
