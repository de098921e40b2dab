#pragma once
// `r2ccl demo`: ranks run AllReduces while faults hit their NICs, and every element is checked.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_demo(Command& app, const Context& context);

}  // namespace r2ccl::apps
