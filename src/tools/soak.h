#pragma once
// Random collectives under random faults, every element checked: `r2ccl soak`.

#include "tools/command.h"

namespace r2ccl::tools {

void add_soak(Command& app, const Context& context);

}  // namespace r2ccl::tools
