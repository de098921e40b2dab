#pragma once
// A child that turns into the program a user named.

#include <string>
#include <vector>

#include "base/result.h"

namespace r2ccl::apps {

inline constexpr int kExitNoProgram = 127;  // as shells say it

// With this process's environment, where `lines` (NAME=value) replace what has their names; one without a value takes the name away.
// Returns only when it can not, with the sentence.
Error become(const std::vector<std::string>& program, const std::vector<std::string>& lines);

}  // namespace r2ccl::apps
