#pragma once
// `r2ccl sim papers`: our figures beside the papers'.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_sim_papers(Command& sim, const Context& context);

}  // namespace r2ccl::apps
