#pragma once
// Work that a call started and does not wait for.

#include <functional>

namespace r2ccl::bindings {

// Runs it on a thread of its own. When the process exits, exit waits for such work, at most kExitWait: a peer then hears a farewell
// instead of finding a broken connection.
void in_background(std::function<void()> work);

}  // namespace r2ccl::bindings
