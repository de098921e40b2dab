#pragma once
// `r2ccl soak`: random collectives under random faults, every element checked.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_soak(Command& app, const Context& context);

}  // namespace r2ccl::apps
