#pragma once
// `r2ccl lab`: an emulated cluster with real interfaces on this machine.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_lab(Command& app, const Context& context);

}  // namespace r2ccl::apps
