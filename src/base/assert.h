#pragma once
// R2CCL_ASSERT guards our own invariants and is always compiled in. A failure throws Bug: tests and the simulator
// let it end the run and print the seed; the border of the library turns it into a failed communicator. A library
// never kills its host process.

#include <stdexcept>
#include <string>

namespace r2ccl {

struct Bug : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void raise_bug(const char* condition, const char* file, int line, const std::string& detail);

}  // namespace r2ccl

#define R2CCL_ASSERT(condition, detail)                                        \
  do {                                                                         \
    if (!(condition)) [[unlikely]]                                             \
      ::r2ccl::raise_bug(#condition, __FILE__, __LINE__, std::string(detail)); \
  } while (false)
