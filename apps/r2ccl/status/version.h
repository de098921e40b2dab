#pragma once
// What `r2ccl --version` says.

#include <string>

namespace r2ccl::apps {

// The release, and the versions of what others meet us by: NCCL's programming interface, its net plugin's, our wire protocol's.
std::string version_line();

}  // namespace r2ccl::apps
