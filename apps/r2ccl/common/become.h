#pragma once
// Turns this process, a child that was forked for it, into the program that a user named.

#include <string>
#include <vector>

#include "base/result.h"

namespace r2ccl::apps {

inline constexpr int kExitNoProgram = 127;  // the status with which shells say that there is no such program

// The program gets this process's environment, in which `lines` (NAME=value) replace what has their names; a line
// without a value takes the name away. Returns only when it fails, with the sentence.
Error become(const std::vector<std::string>& program, const std::vector<std::string>& lines);

}  // namespace r2ccl::apps
