#pragma once
// What a call answers: a result code, and the sentence behind it.

#include <nccl.h>

#include <string>

#include "base/result.h"

namespace r2ccl::bindings {

struct Outcome {
  ncclResult_t code = ncclSuccess;
  std::string what;

  bool ok() const { return code == ncclSuccess; }
};

inline Outcome invalid_argument(std::string what) {
  return {ncclInvalidArgument, std::move(what)};
}
inline Outcome invalid_usage(std::string what) {
  return {ncclInvalidUsage, std::move(what)};
}

// `misuse` is the code for Fault::kMisuse: only the caller knows whether an argument is wrong or the moment.
Outcome to_outcome(const Error& error, ncclResult_t misuse = ncclInvalidUsage);
Outcome to_outcome(const Status& status, ncclResult_t misuse = ncclInvalidUsage);

// What ncclGetLastError() answers on this thread, until the next failure.
void set_last_error(const std::string& what);

}  // namespace r2ccl::bindings
