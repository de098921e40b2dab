#pragma once
// The settings, with default and meaning: `r2ccl settings`.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_settings(Command& app, const Context& context);

}  // namespace r2ccl::apps
