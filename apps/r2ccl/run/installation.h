#pragma once
// Where the things lie that are shipped beside this tool. They are found from the tool's own place, so a prefix may be
// moved after it was installed, and a build tree works like a prefix.

#include <filesystem>

#include "base/result.h"

namespace r2ccl::apps {

enum class Shipped {
  kNccl,    // our libnccl.so.2
  kPlugin,  // the net plugin for stock NCCL
  kHeaders  // the folder of nccl.h and r2ccl.h
};

// An absolute path. Where it is not there, the sentence names the places that were looked at and how to put it there.
// `tool` is the file of the `r2ccl` that runs.
Result<std::filesystem::path> find_shipped(Shipped what, const std::filesystem::path& tool);

// The file of the program that runs.
Result<std::filesystem::path> this_tool();

}  // namespace r2ccl::apps
