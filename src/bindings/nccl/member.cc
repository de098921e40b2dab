#include "bindings/nccl/member.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

namespace r2ccl::bindings {
namespace {

std::atomic<int> next_op = ncclNumOps;

r2cclNicState_t to_nic_state(std::string_view state) {
  if (state == "up") return r2cclNicUp;
  if (state == "suspect") return r2cclNicSuspect;
  if (state == "probation") return r2cclNicProbation;
  if (state == "drained") return r2cclNicDrained;
  return r2cclNicDown;
}

}  // namespace

r2cclNicInfo_t to_nic_info(const NicView& nic) {
  r2cclNicInfo_t info = R2CCL_NIC_INFO_INITIALIZER;
  info.id = nic.id.value;
  info.state = to_nic_state(nic.state);
  info.bytesPerSecond = nic.rate_bytes_s;
  nic.name.copy(info.name, sizeof(info.name) - 1);
  return info;
}

std::shared_ptr<Comm> Member::comm() {
  const std::lock_guard lock(mutex_);
  return comm_;
}

void Member::set_comm(const std::shared_ptr<Comm>& comm) {
  bool too_late = false;
  {
    const std::lock_guard lock(mutex_);
    comm_ = comm;
    too_late = aborted_;
  }
  if (too_late) comm->abort("aborted before it had joined");
}

bool Member::has_identity() {
  const std::lock_guard lock(mutex_);
  return comm_ != nullptr;
}

ncclResult_t Member::state() {
  std::shared_ptr<Comm> comm;
  {
    const std::lock_guard lock(mutex_);
    if (pending_ > 0) return ncclInProgress;
    if (revoked_) return ncclSuccess;
    if (!failure_.ok()) return failure_.code;
    comm = comm_;
  }
  // Not under the lock: it may wait for whoever drives.
  if (comm == nullptr) return ncclInProgress;
  if (comm->state() == CommState::kJoining) return ncclInProgress;
  if (comm->state() != CommState::kFailed) return ncclSuccess;
  const Outcome failure = judge(std::unexpected(comm->error()));
  note(failure);
  return failure.code;
}

Outcome Member::ready(const char* name, MayHave also) {
  {
    const std::lock_guard lock(mutex_);
    if (revoked_ && also == MayHave::kNothing) {
      return invalid_usage(fmt::format("{}: the communicator was revoked", name));
    }
    if (finalizing_) return invalid_usage(fmt::format("{}: the communicator was finalized", name));
    if (pending_ > 0 || comm_ == nullptr) {
      return invalid_argument(
          fmt::format("{}: an earlier call on this communicator is still in progress; poll ncclCommGetAsyncError until "
                      "it says ncclSuccess",
                      name));
    }
    if (!failure_.ok() && !revoked_ && also != MayHave::kFailed) return failure_;
  }
  return {};
}

void Member::begin_pending() {
  const std::lock_guard lock(mutex_);
  ++pending_;
}

void Member::end_pending(const Outcome& outcome) {
  if (!outcome.ok()) note(outcome);
  const std::lock_guard lock(mutex_);
  --pending_;
  settled_.notify_all();
}

void Member::wait_pending() {
  std::unique_lock lock(mutex_);
  settled_.wait(lock, [&] { return pending_ == 0; });
}

void Member::abort(const std::string& why) {
  std::shared_ptr<Comm> comm;
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    comm = comm_;
  }
  if (comm != nullptr) comm->abort(why);
}

void Member::revoke() {
  abort(fmt::format("rank {} revoked the communicator", rank));
  const std::lock_guard lock(mutex_);
  revoked_ = true;
}

bool Member::begin_finalize() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(finalizing_, true);
}

bool Member::finalizing() {
  const std::lock_guard lock(mutex_);
  return finalizing_;
}

bool Member::revoked() {
  const std::lock_guard lock(mutex_);
  return revoked_;
}

Outcome Member::judge(const Status& status) {
  if (status) return {};
  const std::lock_guard lock(mutex_);
  if (status.error().fault == Fault::kAborted && aborted_) return invalid_usage(status.error().what);
  return to_outcome(status);
}

void Member::note(const Outcome& outcome) {
  const std::lock_guard lock(mutex_);
  last_error_ = outcome.what;
  ++failures_;
  if (failure_.ok()) failure_ = outcome;
}

std::string Member::last_error() {
  const std::lock_guard lock(mutex_);
  return last_error_;
}

ncclRedOp_t Member::add_op(DataType type, std::uint64_t scalar) {
  const int op = next_op.fetch_add(1);
  const std::lock_guard lock(mutex_);
  ops_[op] = {type, scalar};
  return static_cast<ncclRedOp_t>(op);
}

bool Member::remove_op(int op) {
  const std::lock_guard lock(mutex_);
  return ops_.erase(op) == 1;
}

std::optional<Member::PreMulSum> Member::find_op(int op) {
  const std::lock_guard lock(mutex_);
  const auto found = ops_.find(op);
  if (found == ops_.end()) return std::nullopt;
  return found->second;
}

void* Member::add_buffer(void* buffer, std::size_t bytes) {
  auto record = std::make_unique<Buffer>(Buffer{buffer, bytes});
  void* handle = record.get();
  const std::lock_guard lock(mutex_);
  buffers_[handle] = std::move(record);
  return handle;
}

bool Member::remove_buffer(void* handle) {
  const std::lock_guard lock(mutex_);
  return buffers_.erase(handle) == 1;
}

Comm& Member::begin_call(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  ++calls_;
  bytes_ += bytes;
  return *comm_;
}

void Member::look_at_nics() {
  if (!watched_) return;
  auto now = comm()->nics();
  std::vector<r2cclNicInfo_t> changed;
  r2cclFailoverCallback_t callback = nullptr;
  void* context = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& nic : now) {
      for (const auto& before : nics_) {
        if (before.id == nic.id && before.state != nic.state) changed.push_back(to_nic_info(nic));
      }
    }
    nics_ = std::move(now);
    callback = callback_;
    context = context_;
  }
  if (callback == nullptr) return;
  for (const auto& nic : changed) callback(&nic, context);
}

void Member::on_failover(r2cclFailoverCallback_t callback, void* context) {
  auto now = comm()->nics();
  const std::lock_guard lock(mutex_);
  nics_ = std::move(now);
  callback_ = callback;
  context_ = context;
  watched_ = callback != nullptr;
}

void Member::fill(r2cclStats_t& stats) {
  const auto plan = comm()->plan_in_use();
  const std::lock_guard lock(mutex_);
  stats.calls = calls_;
  stats.bytes = bytes_;
  stats.failures = failures_;
  stats.operation = plan.operation;
  stats.healthVersion = plan.health_version;
  stats.algorithm[plan.algorithm.copy(stats.algorithm, sizeof(stats.algorithm) - 1)] = 0;
}

}  // namespace r2ccl::bindings
