#pragma once
// `r2ccl exec`: any program with our libnccl.so.2, or with stock NCCL and our net plugin. `r2ccl paths`: where they
// lie.
//
// Ours is loaded before anything else (LD_PRELOAD): a library that brings its own path to an NCCL, as PyTorch's does
// (DT_RPATH), finds that one whatever LD_LIBRARY_PATH says, unless one of the same name is loaded already.

#include <string>
#include <string_view>
#include <vector>

#include "apps/r2ccl/common/command.h"
#include "base/result.h"

namespace r2ccl::apps {

void add_exec(Command& app, const Context& context);
void add_paths(Command& app, const Context& context);

// The lines that replace those of `environment` ("NAME=value") for such a program; a line without a value takes the
// name away. `path` is that of our libnccl.so.2: it comes first in LD_PRELOAD, once, before what is there.
Result<std::vector<std::string>> with_our_nccl(const std::string& path,
                                               const std::vector<std::string_view>& environment);
// The same for stock NCCL with our plugin. `path` is the plugin's, `nccl` that of our libnccl.so.2, which must not
// stand in for stock NCCL here.
std::vector<std::string> with_our_plugin(const std::string& path, const std::string& nccl,
                                         const std::vector<std::string_view>& environment);

}  // namespace r2ccl::apps
