#pragma once
// The transport beside bare sockets: `r2ccl bench-link`.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_bench_link(Command& app, const Context& context);

}  // namespace r2ccl::apps
