#pragma once
// Groups: what a thread has asked for between ncclGroupStart() and the outermost ncclGroupEnd(). A call outside a group
// is a group of one. Each thread has its own.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bindings/nccl/call_batch.h"
#include "bindings/nccl/entry/outcome.h"
#include "bindings/nccl/phased_work.h"

namespace r2ccl::bindings {

// Runs `body` within the group of this thread, or as one of its own. A failure fails the whole group: nothing of it
// begins, and its end answers with the first failure.
Outcome in_group(const std::function<Outcome()>& body);

bool is_grouped();  // this thread is between a start and its end

// Both are called from inside in_group().
void add_operation(QueuedCall operation);
void add_job(std::unique_ptr<Job> job);

Outcome group_start();
Outcome group_end();
// Ends the group without beginning anything. `dropped` gets what would have begun, where the group was the outermost.
Outcome group_cancel(std::optional<std::vector<QueuedCall>>& dropped);

}  // namespace r2ccl::bindings
