// How communicators are made from a communicator: split and shrink.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/background.h"
#include "bindings/nccl/call_batch.h"
#include "bindings/nccl/entry/entry.h"
#include "bindings/nccl/group.h"
#include "bindings/nccl/join.h"
#include "bindings/nccl/partition.h"
#include "bindings/nccl/process_world.h"

namespace r2ccl::bindings {

namespace {

Result<UniqueId> open_root() {
  const auto in = world();
  if (!in) return std::unexpected(in.error());
  return (*in)->make_id();
}

// An id on its way to those who wait for it; made = 0: it could not be made, so that nobody waits for one in vain.
struct IdSlip {
  std::uint8_t made = 0;
  std::array<std::byte, UniqueId::kWireSize> id{};
};
static_assert(sizeof(IdSlip) == 1 + UniqueId::kWireSize);

IdSlip make_slip() {
  IdSlip slip;
  const auto id = open_root();
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

Call gather_bytes(const void* input, void* output, std::uint64_t bytes) {
  return {CallKind::kAllGather, input, output, bytes, DataType::kUint8, {}, 0};
}

// Everybody who stays meets again under an id that the first of them makes. No call of the parent's is needed for it,
// so it may have failed.
class Regroup final {
 public:
  Regroup(MemberPtr parent, std::vector<std::uint32_t> stay) : parent_(std::move(parent)), stay_(std::move(stay)) {}
  ~Regroup() {
    if (begun_) parent_->comm()->end_invitation();
  }
  Regroup(const Regroup&) = delete;
  Regroup& operator=(const Regroup&) = delete;

  Outcome invite() {
    std::optional<UniqueId> id;
    if (stay_.front() == parent_->rank) {
      auto made = open_root();
      if (!made) return to_outcome(made.error());
      id = std::move(*made);
    }
    const Status status = parent_->comm()->invite(stay_, std::move(id));
    begun_ = status.has_value();
    return to_outcome(status);
  }
  Outcome hear() {
    auto id = parent_->comm()->invited();
    if (!id) return to_outcome(id.error());
    id_ = std::move(*id);
    return {};
  }
  Outcome join(const MemberPtr& member) const {
    const auto mine = std::find(stay_.begin(), stay_.end(), parent_->rank) - stay_.begin();
    return begin_join(member, id_, static_cast<std::uint32_t>(mine), static_cast<std::uint32_t>(stay_.size()));
  }

 private:
  const MemberPtr parent_;
  const std::vector<std::uint32_t> stay_;
  bool begun_ = false;
  UniqueId id_;
};

// Colours first, so that only the first rank of each opens a root; then its id; then everybody joins. The ranks of a
// parent that was revoked can not tell each other their colours there: they do it in a communicator for that alone.
class SplitJob final : public MakingJob {
 public:
  SplitJob(MemberPtr parent, int color, int key, ncclComm_t* out, MemberConfig config)
      : MakingJob(color == NCCL_SPLIT_NOCOLOR ? nullptr : out, std::move(config)),
        parent_(std::move(parent)),
        mine_{color, key},
        all_(parent_->size),
        slips_(parent_->size) {
    if (!parent_->revoked()) return;
    std::vector<std::uint32_t> everybody(parent_->size);
    std::iota(everybody.begin(), everybody.end(), 0U);
    regroup_ = std::make_unique<Regroup>(parent_, std::move(everybody));
    talk_ = std::make_shared<Member>(parent_->config);
  }
  ~SplitJob() override {
    if (regroup_ == nullptr) return;
    if (all_told_) {
      in_background([talk = talk_] { say_farewell(talk); });
    } else {
      talk_->abort("the split that it was made for has failed");
    }
  }

  int phases() const override { return first_phase() + (mine_.color == NCCL_SPLIT_NOCOLOR ? 2 : 3); }
  std::vector<MemberPtr> members() const override {
    if (mine_.color == NCCL_SPLIT_NOCOLOR) return {parent_};
    return {member_, parent_};
  }

  Outcome begin(int phase) override {
    switch (phase - first_phase()) {
      case -2:
        return regroup_->invite();
      case -1:
        return regroup_->join(talk_);
      case 0:
        launch_ = bindings::begin(talk_, {gather_bytes(&mine_, all_.data(), sizeof(mine_))});
        return {};
      case 1:
        place_ = place_in_split(all_, parent_->rank);
        if (mine_.color != NCCL_SPLIT_NOCOLOR && place_.first == parent_->rank) slip_ = make_slip();
        launch_ = bindings::begin(talk_, {gather_bytes(&slip_, slips_.data(), sizeof(slip_))});
        return {};
      default:
        UniqueId id;
        if (auto bad = read_slip(slips_[place_.first], place_.first, id); !bad.ok()) return bad;
        return begin_join(member_, id, place_.rank, place_.size);
    }
  }
  Outcome finish(int phase) override {
    switch (phase - first_phase()) {
      case -2:
        return regroup_->hear();
      case -1:
        return finish_join(talk_);
      case 0:
        return bindings::finish(launch_);
      case 1: {
        Outcome told = bindings::finish(launch_);
        all_told_ = told.ok();
        return told;
      }
      default:
        return finish_join(member_);
    }
  }

 private:
  int first_phase() const { return regroup_ == nullptr ? 0 : 2; }  // of the split itself

  const MemberPtr parent_;
  std::unique_ptr<Regroup> regroup_;  // none: the parent works
  MemberPtr talk_ = parent_;          // where colours and ids are told
  bool all_told_ = false;
  const ColorKey mine_;
  std::vector<ColorKey> all_;
  SplitPlace place_;
  IdSlip slip_;
  std::vector<IdSlip> slips_;
  std::shared_ptr<Launch> launch_;
};

// Those who go may be gone already, so only those who stay take part.
class ShrinkJob final : public MakingJob {
 public:
  ShrinkJob(MemberPtr parent, std::vector<std::uint32_t> stay, ncclComm_t* out, MemberConfig config, bool abort_parent)
      : MakingJob(out, std::move(config)),
        parent_(std::move(parent)),
        regroup_(parent_, std::move(stay)),
        abort_parent_(abort_parent) {}

  int phases() const override { return 2; }
  std::vector<MemberPtr> members() const override { return {member_, parent_}; }

  Outcome begin(int phase) override {
    if (phase == 1) return regroup_.join(member_);
    if (abort_parent_) parent_->abort(fmt::format("rank {} shrinks the communicator", parent_->rank));
    return regroup_.invite();
  }
  Outcome finish(int phase) override { return phase == 1 ? finish_join(member_) : regroup_.hear(); }

 private:
  const MemberPtr parent_;
  Regroup regroup_;
  const bool abort_parent_;
};

// What a child takes over from its parent: everything. Where a config is given, all but its name and whether it blocks,
// and then what the config says.
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
  if (auto bad = parent->ready(kName, MayHave::kBeenRevoked); !bad.ok()) return bad;
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
  if (flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT) {
    return invalid_argument(fmt::format("ncclCommShrink: there is no flag {}", flags));
  }
  const bool abort_parent = flags == NCCL_SHRINK_ABORT;
  MemberPtr parent;
  MemberConfig child;
  std::vector<std::uint32_t> stay;
  if (auto bad = check_comm(kName, comm, parent); !bad.ok()) return bad;
  if (auto bad = parent->ready(kName, abort_parent ? MayHave::kFailed : MayHave::kBeenRevoked); !bad.ok()) return bad;
  if (auto bad = ranks_that_stay(exclude, parent->rank, parent->size, stay); !bad.ok()) return bad;
  if (auto bad = child_config(kName, *parent, config, child); !bad.ok()) return bad;
  add_job(std::make_unique<ShrinkJob>(std::move(parent), std::move(stay), out, std::move(child), abort_parent));
  return {};
}

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

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
