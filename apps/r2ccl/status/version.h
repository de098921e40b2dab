#pragma once
// What `r2ccl --version` says: the release, and the versions by which others meet us.

#include <string>

namespace r2ccl::apps {

// One line: our release, NCCL's programming interface, its net plugin's interfaces, our wire protocol.
std::string version_line();

}  // namespace r2ccl::apps
