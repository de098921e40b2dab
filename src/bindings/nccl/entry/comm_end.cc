// The calls that end a communicator: finalize, destroy, abort, revoke.

#include <fmt/format.h>

#include <algorithm>

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/background.h"
#include "bindings/nccl/call_batch.h"
#include "bindings/nccl/entry/entry.h"
#include "bindings/nccl/group.h"
#include "bindings/nccl/join.h"

namespace r2ccl::bindings {

// The handle is gone at once; the farewell to the other ranks, who may not have come here yet, is said in the
// background.
void say_farewell(const MemberPtr& member) {
  member->wait_pending();
  const auto comm = member->comm();
  if (comm == nullptr || member->revoked()) return;
  wait_for_launches(member);
  if (member->begin_finalize() && comm->state() != CommState::kFailed) {
    if (const auto status = comm->finalize(); !status) comm->abort(status.error().what);
  }
}

namespace {

void finalize(const MemberPtr& member) {
  wait_for_launches(member);
  member->end_pending(member->judge(member->comm()->finalize()));
}

// All ranks must finalize before one is through. A thread that holds several ranks and finalizes them one by one would
// wait for itself, so a call waits only if all ranks of this process are on their way.
class FinalizeJob final : public Job {
 public:
  explicit FinalizeJob(MemberPtr member) : member_(std::move(member)) {}

  int phases() const override { return 1; }
  std::vector<MemberPtr> members() const override { return {}; }  // begin() keeps it pending by itself
  bool blocking() const override { return member_->config.blocking; }

  Outcome begin(int) override {
    member_->begin_pending();
    in_background([member = member_] { finalize(member); });
    return {};
  }
  Outcome finish(int) override {
    if (!blocking()) return {};
    const auto local = local_members(member_->key);
    if (!std::all_of(local.begin(), local.end(), [](const auto& member) { return member->finalizing(); })) return {};
    member_->wait_pending();
    const ncclResult_t state = member_->state();
    return {state, state == ncclSuccess ? "" : member_->last_error()};
  }

 private:
  const MemberPtr member_;
};

Outcome add_finalize(ncclComm_t comm) {
  MemberPtr member;
  if (auto bad = check_comm("ncclCommFinalize", comm, member); !bad.ok()) return bad;
  if (auto bad = member->ready("ncclCommFinalize"); !bad.ok()) return bad;
  if (!member->begin_finalize()) return invalid_usage("ncclCommFinalize: the communicator was finalized already");
  add_job(std::make_unique<FinalizeJob>(std::move(member)));
  return {};
}

// Null is no error for the calls that end something.
Outcome take(const char* name, ncclComm_t comm, MemberPtr& member) {
  if (comm == nullptr) return {};
  member = take_member(comm);
  if (member == nullptr) {
    return invalid_argument(fmt::format("{}: comm is not a communicator, or was destroyed", name));
  }
  return {};
}

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

R2CCL_ENTRY(ncclResult_t, ncclCommFinalize, ncclComm_t comm) {
  return guarded([&] { return in_group([&] { return add_finalize(comm); }); });
}

R2CCL_ENTRY(ncclResult_t, ncclCommDestroy, ncclComm_t comm) {
  return guarded([&] {
    MemberPtr member;
    Outcome outcome = take("ncclCommDestroy", comm, member);
    if (member != nullptr) in_background([member] { say_farewell(member); });
    return outcome;
  });
}

R2CCL_ENTRY(ncclResult_t, ncclCommAbort, ncclComm_t comm) {
  return guarded([&] {
    MemberPtr member;
    Outcome outcome = take("ncclCommAbort", comm, member);
    if (member != nullptr) member->abort(fmt::format("rank {} called ncclCommAbort", member->rank));
    return outcome;
  });
}

R2CCL_ENTRY(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int flags) {
  return guarded([&]() -> Outcome {
    MemberPtr member;
    if (auto bad = check_comm("ncclCommRevoke", comm, member); !bad.ok()) return bad;
    if (flags != NCCL_REVOKE_DEFAULT) {
      return invalid_argument(fmt::format("ncclCommRevoke: there is no flag {}", flags));
    }
    if (member->finalizing()) return invalid_usage("ncclCommRevoke: the communicator was finalized");
    member->revoke();
    return {};
  });
}
