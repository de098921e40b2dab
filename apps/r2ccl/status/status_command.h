#pragma once
// `r2ccl status`: how the running processes of this machine get on.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_status(Command& app, const Context& context);

}  // namespace r2ccl::apps
