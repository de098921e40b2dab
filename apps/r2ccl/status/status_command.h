#pragma once
// How the running processes of this machine get on: `r2ccl status`.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_status(Command& app, const Context& context);

}  // namespace r2ccl::apps
