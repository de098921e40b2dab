#pragma once
// Message streams between processes that survive injected faults: `r2ccl demo`.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_demo(Command& app, const Context& context);

}  // namespace r2ccl::apps
