#pragma once
// `r2ccl sim`, `r2ccl sim sweep`, `r2ccl sim papers`: what is asked of the cluster model.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_sim(Command& app, const Context& context);

}  // namespace r2ccl::apps
