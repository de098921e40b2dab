#pragma once
// Work that a call started and does not wait for.

#include <functional>

namespace r2ccl::bindings {

// Runs it on a thread of its own. The process's exit waits for such work for a bounded time (kExitWait in
// background.cc), so that peers hear a farewell instead of finding a broken connection.
void in_background(std::function<void()> work);

}  // namespace r2ccl::bindings
