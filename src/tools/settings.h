#pragma once
// The settings, with default and meaning: `r2ccl settings`.

#include "tools/command.h"

namespace r2ccl::tools {

void add_settings(CLI::App& app, const Context& context, Action& chosen);

}  // namespace r2ccl::tools
