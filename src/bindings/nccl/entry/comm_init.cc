#include <fmt/format.h>
#include <r2ccl.h>

#include <cstring>
#include <set>

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/entry/entry.h"
#include "bindings/nccl/group.h"
#include "bindings/nccl/join.h"
#include "bindings/nccl/process_world.h"

namespace r2ccl::bindings {

namespace {

// Rank 0 of a communicator at a fixed place hosts it.
Status host_if_fixed(World& in, const UniqueId& id, std::uint32_t rank) {
  if (!has_fixed_root() || rank != 0) return {};
  const auto fixed = in.fixed_id(false);
  if (!fixed) return std::unexpected(fixed.error());
  if (fixed->secret != id.secret) return {};
  const auto hosted = in.fixed_id(true);
  if (!hosted) return std::unexpected(hosted.error());
  return {};
}

}  // namespace

Outcome begin_join(const MemberPtr& member, const UniqueId& id, std::uint32_t rank, std::uint32_t size) {
  const auto in = world();
  if (!in) return to_outcome(in.error());
  const auto bytes = id.pack();
  member->rank = rank;
  member->size = size;
  member->key.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto hosted = host_if_fixed(**in, id, rank); !hosted) return to_outcome(hosted);
  auto comm = (*in)->join(id, rank, size, member->config.comm);
  if (!comm) return to_outcome(comm.error());
  member->set_comm(*comm);
  return {};
}

Outcome finish_join(const MemberPtr& member) {
  return member->judge(member->comm()->wait_joined());
}

MakingJob::MakingJob(ncclComm_t* out, MemberConfig config)
    : member_(std::make_shared<Member>(std::move(config))), out_(out) {
  if (out_ != nullptr) *out_ = add_member(member_);
}

void MakingJob::cancel() {
  if (out_ == nullptr) return;
  take_member(*out_);
  *out_ = nullptr;
  member_->abort("the communicator could not be made");
}

namespace {

class JoinJob final : public MakingJob {
 public:
  JoinJob(ncclComm_t* out, MemberConfig config, UniqueId id, std::uint32_t rank, std::uint32_t size)
      : MakingJob(out, std::move(config)), id_(std::move(id)), rank_(rank), size_(size) {}

  int phases() const override { return 1; }
  Outcome begin(int) override { return begin_join(member_, id_, rank_, size_); }
  Outcome finish(int) override { return finish_join(member_); }
  std::vector<MemberPtr> members() const override { return {member_}; }

 private:
  const UniqueId id_;
  const std::uint32_t rank_;
  const std::uint32_t size_;
};

struct InitRequest {
  const char* name;
  ncclComm_t* out;
  int ranks;
  const ncclUniqueId& id;
  int rank;
  const ncclConfig_t* config = nullptr;
  const r2cclPolicy_t* policy = nullptr;
  int device = -1;
};

Outcome check_policy(const InitRequest& asked, MemberConfig& config) {
  const r2cclPolicy_t* policy = asked.policy;
  if (policy == nullptr) return {};
  if (policy->size != sizeof(r2cclPolicy_t)) {
    return invalid_argument(fmt::format("{}: policy was not made with R2CCL_POLICY_INITIALIZER", asked.name));
  }
  if (policy->peerTimeoutMs != 0) {
    return invalid_usage(fmt::format(
        "{}: communicators share sessions, so a peer time-out is the process's; set R2CCL_PEER_TIMEOUT", asked.name));
  }
  if (policy->mode != nullptr) config.comm.mode = policy->mode;
  if (policy->algorithm != nullptr) config.comm.algorithm = policy->algorithm;
  return {};
}

Outcome add_join(const InitRequest& asked) {
  if (asked.out == nullptr) return invalid_argument(fmt::format("{}: comm is null", asked.name));
  *asked.out = nullptr;
  if (asked.ranks < 1) return invalid_argument(fmt::format("{}: {} ranks are too few", asked.name, asked.ranks));
  const auto size = static_cast<std::uint32_t>(asked.ranks);
  std::uint32_t rank = 0;
  if (auto bad = check_rank(asked.name, "rank", asked.rank, size, rank); !bad.ok()) return bad;
  MemberConfig config;
  config.device = asked.device;
  if (auto bad = check_config(asked.name, asked.config, config); !bad.ok()) return bad;
  if (auto bad = check_policy(asked, config); !bad.ok()) return bad;
  auto id = UniqueId::unpack(std::as_bytes(std::span(asked.id.internal)));
  if (!id) return invalid_argument(fmt::format("{}: the id is not one of ncclGetUniqueId", asked.name));
  add_job(std::make_unique<JoinJob>(asked.out, std::move(config), std::move(*id), rank, size));
  return {};
}

ncclResult_t init(const InitRequest& asked) {
  return guarded([&] { return in_group([&] { return add_join(asked); }); });
}

Result<ncclUniqueId> make_id() {
  const auto in = world();
  if (!in) return std::unexpected(in.error());
  const auto id = has_fixed_root() ? (*in)->fixed_id(false) : (*in)->make_id();
  if (!id) return std::unexpected(id.error());
  ncclUniqueId packed;
  static_assert(sizeof(packed.internal) == UniqueId::kWireSize);
  const auto bytes = id->pack();
  std::memcpy(packed.internal, bytes.data(), bytes.size());
  return packed;
}

Outcome add_all(ncclComm_t* comms, int ranks, const int* devices) {
  if (comms == nullptr) return invalid_argument("ncclCommInitAll: comm is null");
  if (ranks < 1) return invalid_argument(fmt::format("ncclCommInitAll: {} ranks are too few", ranks));
  std::set<int> seen;
  for (int i = 0; devices != nullptr && i < ranks; ++i) {
    if (devices[i] < 0) return invalid_argument(fmt::format("ncclCommInitAll: there is no device {}", devices[i]));
    if (!seen.insert(devices[i]).second) {
      return invalid_usage(fmt::format("ncclCommInitAll: device {} is named twice", devices[i]));
    }
  }
  const auto id = make_id();
  if (!id) return to_outcome(id.error());
  for (int i = 0; i < ranks; ++i) {
    const int device = devices == nullptr ? i : devices[i];
    if (auto bad = add_join({"ncclCommInitAll", &comms[i], ranks, *id, i, nullptr, nullptr, device}); !bad.ok())
      return bad;
  }
  return {};
}

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

R2CCL_ENTRY(ncclResult_t, ncclGetUniqueId, ncclUniqueId* unique_id) {
  return guarded([&]() -> Outcome {
    if (unique_id == nullptr) return invalid_argument("ncclGetUniqueId: uniqueId is null");
    const auto id = make_id();
    if (!id) return to_outcome(id.error());
    *unique_id = *id;
    return {};
  });
}

R2CCL_ENTRY(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return init({"ncclCommInitRank", comm, nranks, id, rank});
}

R2CCL_ENTRY(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
            ncclConfig_t* config) {
  return init({"ncclCommInitRankConfig", comm, nranks, id, rank, config});
}

// One root is enough here; the first id is it.
R2CCL_ENTRY(ncclResult_t, ncclCommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank, int id_count,
            ncclUniqueId* ids, ncclConfig_t* config) {
  if (ids == nullptr || id_count < 1 || id_count > nranks) {
    return guarded(
        [] { return invalid_argument("ncclCommInitRankScalable: give between one id and one for each rank"); });
  }
  return init({"ncclCommInitRankScalable", newcomm, nranks, ids[0], myrank, config});
}

R2CCL_ENTRY(ncclResult_t, ncclCommInitAll, ncclComm_t* comm, int ndev, const int* devlist) {
  return guarded([&] { return in_group([&] { return add_all(comm, ndev, devlist); }); });
}

extern "C" ncclResult_t r2cclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config,
                                          const r2cclPolicy_t* policy) {
  return init({"r2cclCommInitRank", comm, nranks, id, rank, config, policy});
}
