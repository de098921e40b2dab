#pragma once
// `r2ccl bench-link`: throughput and latency of the transport beside bare sockets.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_bench_link(Command& app, const Context& context);

}  // namespace r2ccl::apps
