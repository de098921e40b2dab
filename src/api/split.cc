// Communicators from a communicator: split and shrink.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "api/arguments.h"
#include "api/entry.h"
#include "api/group.h"
#include "api/join.h"
#include "api/launch.h"
#include "api/partition.h"
#include "api/process.h"

namespace r2ccl::api {

namespace {

// An id on its way to those who wait for it; made = 0: it could not be made, so that nobody waits for one in vain.
struct IdSlip {
  std::uint8_t made = 0;
  std::array<std::byte, UniqueId::kWireSize> id{};
};
static_assert(sizeof(IdSlip) == 1 + UniqueId::kWireSize);

IdSlip make_slip() {
  IdSlip slip;
  const auto in = world();
  if (!in) return slip;
  const auto id = (*in)->make_id();
  if (!id) return slip;
  slip.made = 1;
  slip.id = id->pack();
  return slip;
}

Outcome read_slip(const IdSlip& slip, std::uint32_t from, UniqueId& id) {
  auto unpacked = slip.made == 1 ? UniqueId::unpack(slip.id) : fail(Fault::kPathDown, "");
  if (!unpacked) return {ncclSystemError, fmt::format("rank {} could not open a root for the new communicator", from)};
  id = std::move(*unpacked);
  return {};
}

Call bytes_call(CallKind kind, const void* input, void* output, std::uint64_t bytes, std::uint32_t peer = 0) {
  return {kind, input, output, bytes, DataType::kUint8, {}, peer};
}

// Colours first, so that only the first rank of each opens a root; then its id; then everybody joins.
class SplitJob final : public MakingJob {
 public:
  SplitJob(MemberPtr parent, int color, int key, ncclComm_t* out, MemberConfig config)
      : MakingJob(color == NCCL_SPLIT_NOCOLOR ? nullptr : out, std::move(config)),
        parent_(std::move(parent)),
        mine_{color, key},
        all_(parent_->size),
        slips_(parent_->size) {}

  int phases() const override { return mine_.color == NCCL_SPLIT_NOCOLOR ? 2 : 3; }
  std::vector<MemberPtr> members() const override {
    if (mine_.color == NCCL_SPLIT_NOCOLOR) return {parent_};
    return {member_, parent_};
  }

  Outcome begin(int phase) override {
    switch (phase) {
      case 0:
        launch_ = api::begin(parent_, {bytes_call(CallKind::kAllGather, &mine_, all_.data(), sizeof(mine_))});
        return {};
      case 1:
        place_ = place_in_split(all_, parent_->rank);
        if (mine_.color != NCCL_SPLIT_NOCOLOR && place_.first == parent_->rank) slip_ = make_slip();
        launch_ = api::begin(parent_, {bytes_call(CallKind::kAllGather, &slip_, slips_.data(), sizeof(slip_))});
        return {};
      default:
        UniqueId id;
        if (auto bad = read_slip(slips_[place_.first], place_.first, id); !bad.ok()) return bad;
        return begin_join(member_, id, place_.rank, place_.size);
    }
  }
  Outcome finish(int phase) override { return phase < 2 ? api::finish(launch_) : finish_join(member_); }

 private:
  const MemberPtr parent_;
  const ColorKey mine_;
  std::vector<ColorKey> all_;
  Place place_;
  IdSlip slip_;
  std::vector<IdSlip> slips_;
  std::shared_ptr<Launch> launch_;
};

// Those who go may be gone already, so only those who stay talk to each other: the first of them sends the id to the rest.
class ShrinkJob final : public MakingJob {
 public:
  ShrinkJob(MemberPtr parent, std::vector<std::uint32_t> stay, ncclComm_t* out, MemberConfig config)
      : MakingJob(out, std::move(config)), parent_(std::move(parent)), stay_(std::move(stay)) {}

  int phases() const override { return 2; }
  std::vector<MemberPtr> members() const override { return {member_, parent_}; }

  Outcome begin(int phase) override {
    const auto mine = std::find(stay_.begin(), stay_.end(), parent_->rank);
    const auto size = static_cast<std::uint32_t>(stay_.size());
    if (phase == 1) {
      UniqueId id;
      if (auto bad = read_slip(slip_, stay_.front(), id); !bad.ok()) return bad;
      return begin_join(member_, id, static_cast<std::uint32_t>(mine - stay_.begin()), size);
    }
    std::vector<Call> calls;
    if (mine == stay_.begin()) {
      slip_ = make_slip();
      for (const std::uint32_t to : std::span(stay_).subspan(1)) {
        calls.push_back(bytes_call(CallKind::kSend, &slip_, nullptr, sizeof(slip_), to));
      }
    } else {
      calls.push_back(bytes_call(CallKind::kRecv, nullptr, &slip_, sizeof(slip_), stay_.front()));
    }
    if (!calls.empty()) launch_ = api::begin(parent_, std::move(calls));
    return {};
  }
  Outcome finish(int phase) override {
    if (phase == 1) return finish_join(member_);
    return launch_ == nullptr ? Outcome{} : api::finish(launch_);
  }

 private:
  const MemberPtr parent_;
  const std::vector<std::uint32_t> stay_;
  IdSlip slip_;
  std::shared_ptr<Launch> launch_;
};

// What a child takes over: everything without a config, the policy with one.
Outcome child_config(const char* name, const Member& parent, const ncclConfig_t* config, MemberConfig& out) {
  out = parent.config;
  if (config == nullptr) return {};
  out.blocking = true;
  out.name.clear();
  return check_config(name, config, out);
}

Outcome add_split(ncclComm_t comm, int color, int key, ncclComm_t* out, const ncclConfig_t* config) {
  constexpr const char* kName = "ncclCommSplit";
  if (out == nullptr) return invalid_argument("ncclCommSplit: newcomm is null");
  *out = nullptr;
  MemberPtr parent;
  MemberConfig child;
  if (auto bad = check_comm(kName, comm, parent); !bad.ok()) return bad;
  if (auto bad = parent->ready(kName); !bad.ok()) return bad;
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    return invalid_argument(fmt::format("ncclCommSplit: colour {} is negative", color));
  }
  if (auto bad = child_config(kName, *parent, config, child); !bad.ok()) return bad;
  add_job(std::make_unique<SplitJob>(std::move(parent), color, key, out, std::move(child)));
  return {};
}

Outcome add_shrink(ncclComm_t comm, std::span<const int> exclude, ncclComm_t* out, const ncclConfig_t* config,
                   int flags) {
  constexpr const char* kName = "ncclCommShrink";
  if (out == nullptr) return invalid_argument("ncclCommShrink: newcomm is null");
  *out = nullptr;
  if (flags == NCCL_SHRINK_ABORT) {
    return invalid_usage(
        "ncclCommShrink: NCCL_SHRINK_ABORT is not possible yet, because the ranks of a failed communicator can not "
        "talk to "
        "each other; make a new one from a new id");
  }
  if (flags != NCCL_SHRINK_DEFAULT) return invalid_argument(fmt::format("ncclCommShrink: there is no flag {}", flags));
  MemberPtr parent;
  MemberConfig child;
  std::vector<std::uint32_t> stay;
  if (auto bad = check_comm(kName, comm, parent); !bad.ok()) return bad;
  if (auto bad = parent->ready(kName); !bad.ok()) return bad;
  if (auto bad = ranks_that_stay(exclude, parent->rank, parent->size, stay); !bad.ok()) return bad;
  if (auto bad = child_config(kName, *parent, config, child); !bad.ok()) return bad;
  add_job(std::make_unique<ShrinkJob>(std::move(parent), std::move(stay), out, std::move(child)));
  return {};
}

}  // namespace
}  // namespace r2ccl::api

using namespace r2ccl::api;

R2CCL_ENTRY(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
            ncclConfig_t* config) {
  return guarded([&] { return in_group([&] { return add_split(comm, color, key, newcomm, config); }); });
}

R2CCL_ENTRY(ncclResult_t, ncclCommShrink, ncclComm_t comm, int* exclude_list, int exclude_count, ncclComm_t* newcomm,
            ncclConfig_t* config, int flags) {
  return guarded([&] {
    return in_group([&]() -> Outcome {
      if (exclude_list == nullptr || exclude_count < 1) {
        return invalid_argument("ncclCommShrink: there are no ranks to exclude");
      }
      const std::span<const int> exclude(exclude_list, static_cast<std::size_t>(exclude_count));
      return add_shrink(comm, exclude, newcomm, config, flags);
    });
  });
}
