#pragma once
// Independent simulations on several threads; each of them stays on one. The only place in sim/ that starts threads.

#include <cstdint>
#include <functional>

#include "base/result.h"

namespace r2ccl::sim {

// Does task number i; what it keeps between tasks belongs to its thread.
using NumberedTask = std::function<Status(std::uint64_t i)>;

// Runs the tasks i in [0, count), each once. `make_worker` is called once per thread. After the first failure no
// new task is begun, and the failure of the lowest number among those that failed is returned. `progress(done)` is
// called from the calling thread.
Status side_by_side(std::uint64_t count, unsigned threads, const std::function<NumberedTask()>& make_worker,
                    const std::function<void(std::uint64_t done)>& progress = {});

}  // namespace r2ccl::sim
