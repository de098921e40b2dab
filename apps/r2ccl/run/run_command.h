#pragma once
// `r2ccl run`: starts a program as the ranks of a job on this machine.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_run(Command& app, const Context& context);

}  // namespace r2ccl::apps
