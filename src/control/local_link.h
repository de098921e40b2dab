#pragma once
// Two links inside one process, joined end to end. The process that hosts the root reaches it this way, without a
// network, so that no NIC's fault takes the root away from it. They carry only frames without payload.
//
// Threads    Both ends belong to the same driver.

#include <memory>
#include <utility>

#include "transport/link.h"

namespace r2ccl {

inline constexpr std::size_t kLocalQueueBytes = 1024 * 1024;  // per direction; post() says kBusy beyond it

// `first` is the connecting end; `hello` is what it said. Both are up at once.
std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> make_local_links(const Hello& hello, ProcessId accepting);

}  // namespace r2ccl
