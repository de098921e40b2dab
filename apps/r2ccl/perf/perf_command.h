#pragma once
// Measures and checks collectives: `r2ccl perf`.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_perf(Command& app, const Context& context);

}  // namespace r2ccl::apps
