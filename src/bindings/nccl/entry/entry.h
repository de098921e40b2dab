#pragma once
// The border between C and C++.

#include <nccl.h>

#include <exception>
#include <new>

#include "bindings/nccl/entry/outcome.h"

// Defines the function `name` of the public interface. The body is that of its twin p<name>; <name> itself is weak, so
// that a profiler may take its place.
#define R2CCL_ENTRY(result, name, ...)                                         \
  extern "C" result name(__VA_ARGS__) __attribute__((weak, alias("p" #name))); \
  extern "C" result p##name(__VA_ARGS__)

namespace r2ccl::bindings {

// Runs a body that returns an Outcome; nothing thrown gets past it. Keeps the sentence for ncclGetLastError().
template <class Body>
ncclResult_t guarded(Body&& body) noexcept {
  try {
    const Outcome outcome = body();
    if (!outcome.ok() && outcome.code != ncclInProgress) set_last_error(outcome.what);
    return outcome.code;
  } catch (const std::bad_alloc&) {
    return ncclSystemError;  // without a sentence: it would need memory
  } catch (const std::exception& bug) {
    set_last_error(bug.what());
    return ncclInternalError;
  } catch (...) {
    return ncclInternalError;
  }
}

}  // namespace r2ccl::bindings
