#pragma once
// The shipped protocol under the deterministic network: `r2ccl fuzz-net`.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_fuzz_net(Command& app, const Context& context);

}  // namespace r2ccl::apps
