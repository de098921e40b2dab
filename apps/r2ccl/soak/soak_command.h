#pragma once
// Random collectives under random faults, every element checked: `r2ccl soak`.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_soak(Command& app, const Context& context);

}  // namespace r2ccl::apps
