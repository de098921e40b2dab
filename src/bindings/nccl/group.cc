#include "bindings/nccl/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bindings/nccl/entry/entry.h"

namespace r2ccl::bindings {
namespace {

struct Group {
  int depth = 0;
  Outcome failure;
  std::vector<QueuedCall> operations;
  std::vector<std::unique_ptr<Job>> jobs;
};

Group& group() {
  thread_local Group mine;
  return mine;
}

// A message to oneself needs both halves in one group; alone it would wait for ever.
Outcome check_self_messages(const std::vector<QueuedCall>& operations) {
  std::map<Member*, std::int64_t> open;
  for (const auto& [member, stream, call] : operations) {
    if (!is_point_to_point(call.kind) || call.peer != member->rank) continue;
    open[member.get()] += call.kind == CallKind::kSend ? 1 : -1;
  }
  for (const auto& [member, sends] : open) {
    if (sends == 0) continue;
    return invalid_usage(fmt::format("rank {} {} itself without the other half in the same group", member->rank,
                                     sends > 0 ? "sends to" : "receives from"));
  }
  return {};
}

// The time that a group takes: that of the communicator that takes longest, because communicators run side by side.
Outcome estimate(const std::vector<QueuedCall>& operations, double& seconds) {
  std::map<MemberPtr, std::vector<Call>> calls;
  for (const QueuedCall& one : operations) calls[one.member].push_back(one.call);
  for (const auto& [member, its] : calls) {
    const auto estimated = member->comm()->estimate(its);
    if (!estimated) return member->judge(std::unexpected(estimated.error()));
    seconds = std::max(seconds, *estimated);
  }
  return {};
}

Outcome run_group(Group done) {
  if (done.failure.ok()) done.failure = check_self_messages(done.operations);
  if (!done.failure.ok()) {
    for (const auto& job : done.jobs) job->cancel();
    return done.failure;
  }
  Outcome jobs = run_jobs(std::move(done.jobs));
  if (!jobs.ok() && jobs.code != ncclInProgress) return jobs;
  Outcome operations = done.operations.empty() ? Outcome{} : issue(std::move(done.operations));
  return operations.ok() ? jobs : operations;
}

}  // namespace

Outcome group_start() {
  ++group().depth;
  return {};
}

Outcome group_end() {
  if (group().depth == 0) return invalid_usage("ncclGroupEnd without ncclGroupStart");
  if (--group().depth > 0) return {};
  return run_group(std::exchange(group(), {}));
}

Outcome group_cancel(std::optional<std::vector<QueuedCall>>& dropped) {
  if (group().depth == 0) return invalid_usage("ncclGroupSimulateEnd without ncclGroupStart");
  if (--group().depth > 0) return {};
  Group cancelled = std::exchange(group(), {});
  for (const auto& job : cancelled.jobs) job->cancel();
  if (cancelled.failure.ok()) cancelled.failure = check_self_messages(cancelled.operations);
  if (cancelled.failure.ok()) dropped = std::move(cancelled.operations);
  return cancelled.failure;
}

Outcome in_group(const std::function<Outcome()>& body) {
  ++group().depth;
  Outcome outcome;
  try {
    outcome = body();
  } catch (...) {
    if (--group().depth == 0) group() = {};
    throw;
  }
  if (!outcome.ok() && group().failure.ok()) group().failure = outcome;
  const Outcome end = group_end();
  return outcome.ok() ? end : outcome;
}

bool is_grouped() {
  return group().depth > 0;
}

void add_operation(QueuedCall operation) {
  group().operations.push_back(std::move(operation));
}

void add_job(std::unique_ptr<Job> job) {
  group().jobs.push_back(std::move(job));
}

}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

R2CCL_ENTRY(ncclResult_t, ncclGroupStart, void) {
  return guarded([] { return group_start(); });
}

R2CCL_ENTRY(ncclResult_t, ncclGroupEnd, void) {
  return guarded([] { return group_end(); });
}

R2CCL_ENTRY(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t* sim_info) {
  return guarded([&]() -> Outcome {
    const ncclSimInfo_t known = NCCL_SIM_INFO_INITIALIZER;
    std::optional<std::vector<QueuedCall>> dropped;
    if (auto bad = group_cancel(dropped); !bad.ok()) return bad;
    if (sim_info == nullptr) return invalid_argument("ncclGroupSimulateEnd: simInfo is null");
    if (sim_info->magic != known.magic || sim_info->size < known.size) {
      return invalid_argument("ncclGroupSimulateEnd: simInfo was not made with NCCL_SIM_INFO_INITIALIZER");
    }
    double seconds = 0;
    if (dropped) {
      if (auto bad = estimate(*dropped, seconds); !bad.ok()) return bad;
      sim_info->estimatedTime = static_cast<float>(seconds * 1e6);
    }
    return {};
  });
}
