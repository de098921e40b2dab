#pragma once
// `r2ccl settings`: what can be set, with default and meaning.

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {

void add_settings(Command& app, const Context& context);

}  // namespace r2ccl::apps
