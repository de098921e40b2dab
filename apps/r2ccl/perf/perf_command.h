#pragma once
// `r2ccl perf`: measures and checks collectives, with nccl-tests' flags and table.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_perf(Command& app, const Context& context);

}  // namespace r2ccl::apps
