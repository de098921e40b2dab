#pragma once
// `r2ccl fuzz-net`: runs the shipped protocol under a hostile, deterministic network, one run for each seed.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_fuzz_net(Command& app, const Context& context);

}  // namespace r2ccl::apps
