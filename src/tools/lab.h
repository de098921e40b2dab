#pragma once
// An emulated cluster with real interfaces on this machine: `r2ccl lab`.

#include "tools/command.h"

namespace r2ccl::tools {

void add_lab(Command& app, const Context& context);

}  // namespace r2ccl::tools
