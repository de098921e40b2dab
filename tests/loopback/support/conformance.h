#pragma once
// Makes random calls of every kind, type and operation, the same on all ranks of a communicator, and checks each
// against a computation of one element at a time. Values are small integers, so that sums and products are exact in
// every type; the average of floats is compared within its rounding.

#include <cstdint>

#include "process/world.h"

namespace r2ccl::loopback {

// Makes one call drawn from the seed; fails the running test with a description when an element is wrong.
void conform(Comm& comm, std::uint64_t seed, std::uint64_t count_max);

}  // namespace r2ccl::loopback
