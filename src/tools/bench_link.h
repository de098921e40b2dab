#pragma once
// The transport beside bare sockets: `r2ccl bench-link`.

#include "tools/command.h"

namespace r2ccl::tools {

void add_bench_link(CLI::App& app, const Context& context, Action& chosen);

}  // namespace r2ccl::tools
